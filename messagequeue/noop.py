"""
Provider `noop`: publishes to nowhere and consumes nothing; not a broker, and not for tests that look at messages.

It switches messaging off without touching the application: what it is given is encoded and checked as for a real
broker, so that faults of the caller still show, and then dropped.  Tests want `memory` instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from ._errors import ConsumeError, MessageTooLargeError, PublishError
from ._message import Message, Receipt
from ._options import ConsumeOptions, PublishOptions, check_options, option
from .driver import Capabilities, Delivery, EncodedMessage, LeaseSource, Limits, ProviderSpec, Sender
from .runtime import RuntimeConsumerProvider, RuntimePublisherProvider
from .telemetry import Telemetry

#: It can do whatever it is asked, with nothing; the longest delay is SQS's, so that what passes here passes there.
CAPABILITIES = Capabilities(
    ordering=True, ordering_key="accepted", deduplication=True, max_delay=900.0, receive_cancellable=True
)

#: Bytes that SQS counts for an attribute's type: `String`, `Number` or `Binary`.
_TYPE_SIZE = 6

#: Seconds; nothing is ever leased.
_LEASE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoopConfig:
    """The options of provider `noop`."""

    max_message_size: int = option(
        1_048_576, "Body and attributes of a message, counted as SQS counts.", unit="bytes", low=1
    )
    consume: ConsumeOptions = ConsumeOptions()
    publish: PublishOptions = PublishOptions()

    def __post_init__(self) -> None:
        check_options(self)


class NoopPublisherProvider(RuntimePublisherProvider):
    """The publishing half: confirms every valid message, with a fresh id, and drops it."""

    messaging_system = "messagequeue_noop"

    def __init__(self, config: NoopConfig | None = None, /, *, telemetry: Telemetry | None = None) -> None:
        self._config = config or NoopConfig()
        super().__init__("noop", self._config.publish, telemetry=telemetry)

    async def _open_sender(self, topic: str) -> Sender:
        return _Sender(topic, self._config.max_message_size)

    async def _ping(self) -> None:
        return

    async def _release(self) -> None:
        return


class NoopConsumerProvider(RuntimeConsumerProvider):
    """The consuming half: its consumers wait until they are stopped."""

    messaging_system = "messagequeue_noop"

    def __init__(self, config: NoopConfig | None = None, /, *, telemetry: Telemetry | None = None) -> None:
        super().__init__("noop", (config or NoopConfig()).consume, telemetry=telemetry)

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        return _Source(options.visibility_timeout or _LEASE)

    async def _ping(self) -> None:
        return

    async def _release(self) -> None:
        return


class _Sender:
    """Sends to nowhere."""

    capabilities = CAPABILITIES
    limits = Limits()

    def __init__(self, topic: str, max_size: int) -> None:
        self._topic = topic
        self._max_size = max_size

    def measure(self, message: EncodedMessage, /) -> int:
        attributes = message.attributes or {}
        size = _size(message.body)
        size += sum(_size(name) + _TYPE_SIZE + _size(value) for name, value in attributes.items())
        if size > self._max_size:
            raise MessageTooLargeError(size=size, limit=self._max_size, topic=self._topic)
        return size

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        return [Receipt(str(uuid4())) for _ in messages]

    async def close(self) -> None:
        return


class _Source:
    """Has no messages, and so never gets leases to settle."""

    capabilities = CAPABILITIES
    limits = Limits()

    def __init__(self, lease: float) -> None:
        self._lease = lease

    async def start(self) -> float:
        return self._lease

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        await asyncio.sleep(wait)
        return ()

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        return [None for _ in leases]

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        return [None for _ in leases]

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        return [None for _ in leases]

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        return None

    async def close(self) -> None:
        return


def _size(value: str | bytes | float) -> int:
    if isinstance(value, bytes):
        return len(value)
    return len(str(value).encode())


NOOP = ProviderSpec(name="noop", config=NoopConfig, publisher=NoopPublisherProvider, consumer=NoopConsumerProvider)
