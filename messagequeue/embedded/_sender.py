"""Puts encoded messages into a queue of the broker; their checks are as strict as a real broker's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._errors import InvalidMessageError, MessageTooLargeError, PublishError
from .._message import AttributeValue, Receipt
from ..broker import Queue
from ..driver import Capabilities, EncodedMessage, Limits
from ._config import MemoryConfig
from ._hub import Hub

#: Messages per call.  There is no call; it bounds how long the loop is kept.
BATCH = 100


@dataclass(frozen=True, slots=True)
class Envelope:
    """
    What the broker keeps beside a body.

    Attributes:
        published_at: Seconds since the epoch.
        attributes: As a handler gets them; None where there are none.
    """

    published_at: float
    attributes: Mapping[str, str | bytes] | None


def capabilities_of(config: MemoryConfig) -> Capabilities:
    """What any topic of this broker can do."""
    return Capabilities(
        ordering=True,
        ordering_key="accepted",
        deduplication=True,
        max_delay=config.max_delay,
        max_lease=43_200.0,
        dead_letters=True,
        receive_cancellable=True,
    )


class MemorySender:
    """The `Sender` of one topic."""

    def __init__(self, hub: Hub, queue: Queue, config: MemoryConfig) -> None:
        self._hub = hub
        self._queue = queue
        self._config = config
        self._capabilities = capabilities_of(config)
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
        size = _length(message.body)
        for name, value in (message.attributes or {}).items():
            size += len(name.encode()) + len(_type(value)) + _length(_wire(value))
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
        receipts = [self._put(message, now, at) for message in messages]
        self._hub.announce()
        return receipts

    def _put(self, message: EncodedMessage, now: float, at: float) -> Receipt:
        given = message.attributes
        result = self._queue.put(
            now,
            message.body if isinstance(message.body, bytes) else message.body.encode(),
            key=message.ordering_key,
            dedup_id=message.deduplication_key,
            delay=message.delay,
            attributes=Envelope(at, {name: _wire(value) for name, value in given.items()} if given else None),
        )
        return Receipt(result.id, None if message.ordering_key is None else str(result.sequence))

    async def close(self) -> None:
        """Nothing belongs to the publisher alone."""


def _wire(value: AttributeValue) -> str | bytes:
    return value if isinstance(value, str | bytes) else str(value)


def _type(value: AttributeValue) -> str:
    return "String" if isinstance(value, str) else "Binary" if isinstance(value, bytes) else "Number"


def _length(value: str | bytes) -> int:
    return len(value) if isinstance(value, bytes) or value.isascii() else len(value.encode())
