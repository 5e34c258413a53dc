"""Publishes to one topic with PublishBatch; it neither gathers messages nor repeats calls (the runtime does)."""

from __future__ import annotations

from collections.abc import Sequence

from messagequeue._errors import ErrorCode, PublishError
from messagequeue._message import Receipt
from messagequeue.driver import Capabilities, EncodedMessage, Limits

from .. import _limits
from .._api import BatchAnswer, BatchFailure, BatchSuccess
from .._faults import CallError, fault_of_entry
from .._sender import ENTRY_IDS, reconcile
from . import _wire
from ._api import PublishEntry, SnsApi
from ._topic import Topic

_FIFO = Capabilities(ordering=True, ordering_key="required", deduplication=True)
# An ordering key on a standard topic is the tenant of fair queues, passed on to standard queues; and no order.
_STANDARD = Capabilities(ordering_key="accepted")

#: Characters of the service's own words in an error text at most.
_WORDS = 300
_HINT = (
    " — without ContentBasedDeduplication on the topic, every publish needs deduplication_key=...; pass it, or switch "
    "that on"
)


class SNSSender:
    """
    The `messagequeue.driver.Sender` of one topic.

    Args:
        limit: Bytes of one message, and of all messages in one call together.
    """

    def __init__(self, api: SnsApi, topic: Topic, *, limit: int = _limits.TOPIC_MESSAGE_BYTES) -> None:
        self._api = api
        self._topic = topic
        self._fifo = topic.is_fifo
        self._limit = limit
        self._limits = Limits(batch_entries=_limits.BATCH_ENTRIES, batch_bytes=limit)

    @property
    def capabilities(self) -> Capabilities:
        return _FIFO if self._fifo else _STANDARD

    @property
    def limits(self) -> Limits:
        return self._limits

    def measure(self, message: EncodedMessage, /) -> int:
        return _wire.measure(message, fifo=self._fifo, limit=self._limit)

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        """
        Publish 1 to 10 messages, a lone one too, as one batch.

        SNS answers with no checksums, so there are none to compare.  Where it refuses a whole FIFO batch and only some
        of it have a deduplication key, those are sent once more alone: the others are what is wrong with it.
        """
        entries = [_wire.build_entry(message, ENTRY_IDS[place]) for place, message in enumerate(messages)]
        try:
            answer = await self._api.publish_batch(self._topic.arn, entries)
        except CallError as error:
            keyed = [entry for entry in entries if "MessageDeduplicationId" in entry]
            if not keyed or not self._lacks_deduplication(error, entries):
                raise self._refusal(error, entries) from error.origin
            return await self._send_keyed(entries, keyed, error)
        return self._results(entries, answer)

    async def close(self) -> None:
        """Nothing belongs to the topic alone: the client is the provider's."""

    async def _send_keyed(
        self, entries: Sequence[PublishEntry], keyed: Sequence[PublishEntry], first: CallError
    ) -> Sequence[Receipt | PublishError]:
        try:
            results = iter(self._results(keyed, await self._api.publish_batch(self._topic.arn, keyed)))
        except CallError as error:
            raise self._refusal(error, keyed) from error.origin
        return [
            next(results) if "MessageDeduplicationId" in entry else self._refusal(first, [entry]) for entry in entries
        ]

    def _lacks_deduplication(self, error: CallError, entries: Sequence[PublishEntry]) -> bool:
        lacking = any("MessageDeduplicationId" not in entry for entry in entries)
        return self._fifo and error.fault.code is ErrorCode.INVALID and lacking

    def _refusal(self, error: CallError, entries: Sequence[PublishEntry]) -> PublishError:
        hint = _HINT if self._lacks_deduplication(error, entries) else ""
        fault = error.fault
        refusal = PublishError(f"{error}{hint}", topic=self._topic.arn, code=fault.code, retryable=fault.retryable)
        refusal.__cause__ = error.origin
        return refusal

    def _results(self, entries: Sequence[PublishEntry], answer: BatchAnswer) -> list[Receipt | PublishError]:
        stored, failed = reconcile(entries, answer, self._topic.arn)
        return [self._result(entry, stored.get(entry["Id"]), failed.get(entry["Id"])) for entry in entries]

    def _result(
        self, entry: PublishEntry, stored: BatchSuccess | None, failed: BatchFailure | None
    ) -> Receipt | PublishError:
        if failed is not None:
            return self._entry_error(entry, failed)
        message_id = stored.get("MessageId") if stored is not None else None
        if stored is None or not message_id:
            return PublishError(
                f"{self._api.endpoint} answered, but said nothing of this message: it may be published or not",
                topic=self._topic.arn,
                code=ErrorCode.NOT_CONFIRMED,
            )
        return Receipt(message_id, stored.get("SequenceNumber"))

    def _entry_error(self, entry: PublishEntry, failed: BatchFailure) -> PublishError:
        name = failed.get("Code", "?")
        fault = fault_of_entry(name, sender_fault=failed.get("SenderFault", False))
        lacking = self._fifo and "MessageDeduplicationId" not in entry
        return PublishError(
            f"SNS refused this message of the batch: {name}: {failed.get('Message', '')[:_WORDS]}"
            f"{_HINT if lacking and fault.code is ErrorCode.INVALID else ''}",
            topic=self._topic.arn,
            code=fault.code,
            retryable=fault.retryable,
        )
