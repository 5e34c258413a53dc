"""Deletes messages and changes their visibility, in batches with one result per message; it retries nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from messagequeue._errors import ConsumeError, ErrorCode, LeaseLostError, SettleError

from . import _limits
from ._api import BatchAnswer, BatchFailure, BatchSuccess, HandleEntry, ReceivedMessage, SqsApi
from ._faults import CallError, fault_of_entry, normal_code
from ._queue import Queue
from ._sender import ENTRY_IDS, all_done, reconcile

#: One receive of one message is what came with it: its `ReceiptHandle` settles it.
Lease = ReceivedMessage

# Calls hand their coroutine on where they have nothing to add: each one more costs what a message's bookkeeping does.
Results = Coroutine[Any, Any, list[ConsumeError | None]]


class Settler:
    """What can be done with the leases of one queue, in calls of at most 10."""

    def __init__(self, api: SqsApi, queue: Queue) -> None:
        self._api = api
        self._queue = queue

    def delete(self, leases: Sequence[Lease]) -> Results:
        """
        Delete the messages.  Deleting one again does no harm, so an unconfirmed entry may be tried again.

        Raises:
            SettleError: the only call failed as a whole.
        """
        return self._in_batches(leases, self._api.delete_message_batch, None)

    def change(self, leases: Sequence[Lease], seconds: int) -> Results:
        """
        Make the messages visible in *seconds* from now, at most 43 200; 0 is at once.

        Raises:
            SettleError: the only call failed as a whole.
        """
        visibility = min(max(0, seconds), _limits.VISIBILITY_MAX)
        return self._in_batches(leases, self._api.change_message_visibility_batch, visibility)

    async def _in_batches(
        self,
        leases: Sequence[Lease],
        call: Callable[[str, Sequence[HandleEntry]], Awaitable[BatchAnswer]],
        visibility: int | None,
    ) -> list[ConsumeError | None]:
        results: list[ConsumeError | None] = []
        for start in range(0, len(leases), _limits.BATCH_ENTRIES):
            batch = leases[start : start + _limits.BATCH_ENTRIES]
            entries = _entries(batch, visibility)
            try:
                answer = await call(self._queue.url, entries)
            except CallError as error:
                if len(leases) <= _limits.BATCH_ENTRIES:
                    raise settle_error(error, self._queue) from error.origin
                # Other batches of these leases may have gone through: "failed as a whole" would be wrong.
                results += [settle_error(error, self._queue) for _ in batch]
                continue
            if all_done(entries, answer):
                results += [None] * len(entries)
            else:
                done, failed = reconcile(entries, answer, self._queue.url)
                results += [self._result(entry, done, failed) for entry in entries]
        return results

    def _result(
        self, entry: HandleEntry, done: dict[str, BatchSuccess], failed: dict[str, BatchFailure]
    ) -> ConsumeError | None:
        failure = failed.get(entry["Id"])
        if failure is not None:
            return self._entry_error(failure)
        if entry["Id"] in done:
            return None
        return SettleError(
            f"{self._api.endpoint} answered, but said nothing of this message",
            topic=self._queue.url,
            code=ErrorCode.NOT_CONFIRMED,
            retryable=True,
        )

    def _entry_error(self, failure: BatchFailure) -> ConsumeError:
        name = failure.get("Code", "?")
        if _is_lost(name, failure.get("Message", "")):
            return LeaseLostError(
                f"the lease of this message is over ({name}): another consumer has it, or will", topic=self._queue.url
            )
        fault = fault_of_entry(name, sender_fault=failure.get("SenderFault", False))
        return SettleError(
            f"SQS refused this message's entry of the batch: {name}",
            topic=self._queue.url,
            code=fault.code,
            retryable=fault.retryable,
        )


def settle_error(error: CallError, queue: Queue) -> SettleError:
    """Return what a failed call means for the messages it was about."""
    translated = SettleError(str(error), topic=queue.url, code=error.fault.code, retryable=error.fault.retryable)
    translated.__cause__ = error.origin
    return translated


def _entries(batch: Sequence[Lease], visibility: int | None) -> list[HandleEntry]:
    entries: list[HandleEntry] = [
        {"Id": entry_id, "ReceiptHandle": lease.get("ReceiptHandle", "")}
        for entry_id, lease in zip(ENTRY_IDS, batch, strict=False)
    ]
    if visibility is not None:
        for entry in entries:
            entry["VisibilityTimeout"] = visibility
    return entries


def _is_lost(code: str, words: str) -> bool:
    normal = normal_code(code)
    if normal in ("ReceiptHandleIsInvalid", "MessageNotInflight"):
        return True
    # An expired handle has no code of its own.  The only other parameter that the code can be about is the timeout,
    # where it would pass 12 h since the receive; then the lease still stands.
    return normal == "InvalidParameterValue" and "parameter VisibilityTimeout" not in words
