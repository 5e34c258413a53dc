"""Sends to one queue with SendMessageBatch; it neither gathers messages nor repeats calls (the runtime does)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import md5

from messagequeue import _log_events as events
from messagequeue._errors import ErrorCode, PublishError
from messagequeue._message import Receipt
from messagequeue.driver import Capabilities, EncodedMessage, Limits

from . import _limits, _wire
from ._api import BatchAnswer, BatchFailure, BatchSuccess, SendEntry, SqsApi
from ._faults import CallError, fault_of_entry
from ._md5 import attributes_md5, body_md5
from ._queue import Queue

#: An entry's id is its place in the batch: never something of the caller's, which may repeat or be no id at all.
ENTRY_IDS = tuple(str(place) for place in range(_limits.BATCH_ENTRIES))

_FIFO = Capabilities(
    ordering=True,
    ordering_key="required",
    deduplication=True,
    max_delay=0,
    max_lease=_limits.VISIBILITY_MAX,
    dead_letters=True,
)
# An ordering key on a standard queue is the tenant of fair queues (since July 2025): passed on, and no order.
_STANDARD = Capabilities(
    ordering_key="accepted",
    max_delay=_limits.DELAY_MAX,
    delay_resolution=1,
    max_lease=_limits.VISIBILITY_MAX,
    dead_letters=True,
)


def capabilities_of(queue: Queue) -> Capabilities:
    """Return what a queue of that kind can do."""
    return _FIFO if queue.is_fifo else _STANDARD


class SQSSender:
    """The `messagequeue.driver.Sender` of one queue."""

    def __init__(self, api: SqsApi, queue: Queue, *, verify_checksums: bool = True) -> None:
        self._api = api
        self._queue = queue
        self._verify = verify_checksums
        self._fifo = queue.is_fifo
        self._capabilities = capabilities_of(queue)
        self._limits = Limits(batch_entries=_limits.BATCH_ENTRIES, batch_bytes=_limits.BATCH_BYTES)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def limits(self) -> Limits:
        return self._limits

    def measure(self, message: EncodedMessage, /) -> int:
        return _wire.measure(message, fifo=self._fifo)

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        """
        Send 1 to 10 messages, a lone one too, as one batch.

        SQS refuses a whole FIFO batch for one entry without a deduplication id where the queue needs one.  A batch in
        which only some have one is then sent once more without the others; nothing of the first was stored.
        """
        entries = [
            _wire.build_entry(message, ENTRY_IDS[place], fifo=self._fifo) for place, message in enumerate(messages)
        ]
        try:
            answer = await self._api.send_message_batch(self._queue.url, entries)
        except CallError as error:
            keyed = [entry for entry in entries if "MessageDeduplicationId" in entry]
            if not keyed or not self._lacks_deduplication(error, entries):
                raise self._refusal(error, entries) from error.origin
            return await self._send_keyed(entries, keyed, error)
        return self._results(entries, answer)

    async def close(self) -> None:
        """Nothing belongs to the topic alone: the client is the provider's."""

    async def _send_keyed(
        self, entries: Sequence[SendEntry], keyed: Sequence[SendEntry], first: CallError
    ) -> Sequence[Receipt | PublishError]:
        try:
            results = iter(self._results(keyed, await self._api.send_message_batch(self._queue.url, keyed)))
        except CallError as error:
            raise self._refusal(error, keyed) from error.origin
        return [
            next(results) if "MessageDeduplicationId" in entry else self._refusal(first, [entry]) for entry in entries
        ]

    def _lacks_deduplication(self, error: CallError, entries: Sequence[SendEntry]) -> bool:
        lacking = any("MessageDeduplicationId" not in entry for entry in entries)
        return self._queue.is_fifo and error.fault.code is ErrorCode.INVALID and lacking

    def _refusal(self, error: CallError, entries: Sequence[SendEntry]) -> PublishError:
        hint = _DEDUPLICATION_HINT if self._lacks_deduplication(error, entries) else ""
        fault = error.fault
        refusal = PublishError(f"{error}{hint}", topic=self._queue.url, code=fault.code, retryable=fault.retryable)
        refusal.__cause__ = error.origin
        return refusal

    def _results(self, entries: Sequence[SendEntry], answer: BatchAnswer) -> list[Receipt | PublishError]:
        if all_done(entries, answer):
            quick = self._quick_result
            return [quick(entry, stored) for entry, stored in zip(entries, answer.get("Successful", ()), strict=True)]
        stored, failed = reconcile(entries, answer, self._queue.url)
        get_stored, get_failed = stored.get, failed.get
        return [self._result(entry, get_stored(entry["Id"]), get_failed(entry["Id"])) for entry in entries]

    def _quick_result(self, entry: SendEntry, stored: BatchSuccess) -> Receipt | PublishError:
        """As `_result()`, for what most results are: an id and the right checksum of a body."""
        if len(stored) == _BARE and self._verify:
            theirs, message_id = stored.get("MD5OfMessageBody"), stored.get("MessageId")
            mine = md5(entry["MessageBody"].encode(), usedforsecurity=False).hexdigest()
            if message_id and theirs == mine:
                return Receipt(message_id)
        return self._result(entry, stored, None)

    def _result(
        self, entry: SendEntry, stored: BatchSuccess | None, failed: BatchFailure | None
    ) -> Receipt | PublishError:
        if failed is not None:
            return self._entry_error(entry, failed)
        message_id = stored.get("MessageId") if stored is not None else None
        if stored is None or not message_id:
            return PublishError(
                f"{self._api.endpoint} answered, but said nothing of this message: it may be stored or not",
                topic=self._queue.url,
                code=ErrorCode.NOT_CONFIRMED,
            )
        wrong = checksum_problem(entry, stored) if self._verify else ""
        if wrong:
            return PublishError(
                f"message {message_id} is stored, but not as it was sent: {wrong}; sending again would make "
                "a second one, so look at that one first",
                topic=self._queue.url,
                code=ErrorCode.CHECKSUM,
            )
        return Receipt(message_id, stored.get("SequenceNumber"))

    def _entry_error(self, entry: SendEntry, failed: BatchFailure) -> PublishError:
        name = failed.get("Code", "?")
        fault = fault_of_entry(name, sender_fault=failed.get("SenderFault", False))
        lacking = self._queue.is_fifo and "MessageDeduplicationId" not in entry
        hint = ""
        if fault.code is ErrorCode.INVALID:
            hint = _DEDUPLICATION_HINT if lacking else _size_hint(entry)
        return PublishError(
            f"SQS refused this message of the batch: {name}: {failed.get('Message', '')[:_WORDS]}{hint}",
            topic=self._queue.url,
            code=fault.code,
            retryable=fault.retryable,
        )


def _size_hint(entry: SendEntry) -> str:
    """Return what to do where the entry may be too large for the queue, though not for SQS; "" where it is small."""
    size = _wire.entry_size(entry)
    if size <= _limits.OLDER_QUEUE_MESSAGE_BYTES:
        return ""
    return (
        f" — the message has {size} bytes; where the queue's MaximumMessageSize is lower, raise that, or let "
        "payloads.threshold be no higher"
    )


#: Members of a result with `Id`, `MessageId` and `MD5OfMessageBody` alone.
_BARE = 3
#: Characters of the service's own words in an error text at most.
_WORDS = 300
_DEDUPLICATION_HINT = (
    " — without ContentBasedDeduplication on the queue, every publish needs deduplication_key=...; "
    "pass it, or switch that on"
)


def all_done(entries: Sequence[Mapping[str, object]], answer: BatchAnswer) -> bool:
    """Whether the answer has a success for every entry, in their order, and nothing else: the rule."""
    if answer.get("Failed"):
        return False
    done = answer.get("Successful", ())
    return [item.get("Id") for item in done] == [entry["Id"] for entry in entries]


def reconcile(
    entries: Sequence[Mapping[str, object]], answer: BatchAnswer, topic: str
) -> tuple[dict[str, BatchSuccess], dict[str, BatchFailure]]:
    """Return the answer's two lists by entry id; ids that were not sent are logged and left out."""
    sent = {entry["Id"] for entry in entries}
    stored = {item.get("Id", ""): item for item in answer.get("Successful", ())}
    failed = {item.get("Id", ""): item for item in answer.get("Failed", ())}
    if stored.keys() <= sent and failed.keys() <= sent:
        return stored, failed
    strange = (stored.keys() | failed.keys()) - sent
    if strange:
        text = "the answer names entries that were not sent: %s"
        events.SQS_STRANGE_ENTRIES.log(text, sorted(strange), topic=topic)
    return stored, failed


def checksum_problem(entry: SendEntry, stored: BatchSuccess) -> str:
    """Return which checksum of the answer differs from what was sent, or "".  One that is absent does not differ."""
    theirs = stored.get("MD5OfMessageBody")
    if theirs and theirs != body_md5(entry["MessageBody"]):
        return "the MD5 of the body differs"
    theirs = stored.get("MD5OfMessageAttributes")
    if theirs and theirs != attributes_md5(entry.get("MessageAttributes", {})):
        return "the MD5 of the attributes differs"
    theirs = stored.get("MD5OfMessageSystemAttributes")
    if theirs and theirs != attributes_md5(entry.get("MessageSystemAttributes", {})):
        return "the MD5 of the system attributes differs"
    return ""
