"""Puts encoded messages into a queue of the broker; their checks are as strict as a real broker's."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .._errors import ErrorCode, InvalidMessageError, MessageTooLargeError, PublishError
from .._message import AttributeValue, Receipt
from .._trace_header import xray_of
from ..broker import MAX_LEASE, Envelope, Ordering, Queue, UnknownQueueError
from ..broker.storage import StorageError
from ..driver import Capabilities, EncodedMessage, Limits
from ._config import TopicOptions
from ._hub import Hub

#: Messages per call.  There is no call; it bounds how long the loop is kept.
BATCH = 100


def capabilities_of(queue: Queue, config: TopicOptions) -> Capabilities:
    """
    What a topic can do: keep order per key; one named as a FIFO queue is as strict, a dead-letter topic has none.

    A standard queue that the SQS server made keeps no order: there a key is the tenant of fair queues.
    """
    fifo = queue.settings.ordering is Ordering.FIFO
    return Capabilities(
        ordering=queue.settings.ordering is not Ordering.STANDARD,
        ordering_key="required" if fifo else "accepted",
        deduplication=True,
        max_delay=0.0 if fifo else config.max_delay,
        max_lease=MAX_LEASE,
        dead_letters=queue.settings.dead_letters is not None,
        receive_cancellable=True,
    )


class MemorySender:
    """The `Sender` of one topic."""

    def __init__(self, hub: Hub, queue: Queue, config: TopicOptions) -> None:
        self._hub = hub
        self._queue = queue
        self._config = config
        self._capabilities = capabilities_of(queue, config)
        self._limits = Limits(batch_entries=BATCH)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def limits(self) -> Limits:
        return self._limits

    def measure(self, message: EncodedMessage, /) -> int:
        """Bytes of body and attributes, as SQS counts them: an application that fits here fits there."""
        if not message.body:
            raise InvalidMessageError("the body is empty: brokers refuse that; publish what says 'nothing' instead")
        size = _length(message.body, "the body")
        for name, value in (message.attributes or {}).items():
            what = f"attribute {name!r}"
            size += _length(name, what) + len(_type(value)) + _length(_wire(value), what)
        if size > self._config.max_message_size:
            raise MessageTooLargeError(
                f"the message has {size} bytes with its attributes; max_message_size is "
                f"{self._config.max_message_size}: publish less, or a reference to it",
                size=size,
                limit=self._config.max_message_size,
            )
        return size

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        now, at = self._hub.now(), time.time()
        try:
            receipts = [self._put(message, now, at) for message in messages]
            self._hub.announce(self._queue)
        except UnknownQueueError as error:
            name = self._queue.name
            text = f"topic {name!r} was deleted: make a new publisher"
            raise PublishError(text, topic=name, code=ErrorCode.NOT_FOUND) from error
        await self._committed()
        return receipts

    async def _committed(self) -> None:
        try:
            await self._hub.committed()
        except StorageError as error:
            text = f"the message may or may not be stored: {error}"
            raise PublishError(text, topic=self._queue.name, code=ErrorCode.NOT_CONFIRMED) from error

    def _put(self, message: EncodedMessage, now: float, at: float) -> Receipt:
        result = self._queue.put(
            now,
            message.body if isinstance(message.body, bytes) else message.body.encode(),
            key=message.ordering_key,
            dedup_id=message.deduplication_key,
            delay=message.delay,
            attributes=_envelope(at, message),
        )
        return Receipt(result.id, None if message.ordering_key is None else sequence_text(result.sequence))

    async def close(self) -> None:
        """Nothing belongs to the publisher alone."""


def sequence_text(sequence: int) -> str:
    """As SQS writes it, so that numbers compare as text, too."""
    return f"{sequence:020d}"


def _envelope(at: float, message: EncodedMessage) -> Envelope:
    """A handler gets numbers as text; that they were numbers is for faces that can say so."""
    given, trace = message.attributes, message.traceparent
    if not given and trace is None:
        return Envelope(at)
    given = given or {}
    types = {name: "Number" for name, value in given.items() if not isinstance(value, str | bytes)}
    values = {name: _wire(value) for name, value in given.items()}
    return Envelope(at, values or None, types or None, None if trace is None else xray_of(trace))


def _wire(value: AttributeValue) -> str | bytes:
    return value if isinstance(value, str | bytes) else str(value)


def _type(value: AttributeValue) -> str:
    return "String" if isinstance(value, str) else "Binary" if isinstance(value, bytes) else "Number"


def _length(value: str | bytes, what: str) -> int:
    if isinstance(value, bytes) or value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise InvalidMessageError(f"{what} holds half of a surrogate pair: that has no form in UTF-8") from None
