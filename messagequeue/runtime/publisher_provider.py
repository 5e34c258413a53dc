"""The publishing half of a provider: one publisher per topic, one end for all; not how a sender is opened."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from types import TracebackType
from typing import ClassVar, Self

from .. import _log_events as events
from .._codec import Codec
from .._compression import require_compression
from .._errors import ClosedError
from .._options import PublishOptions
from ..driver import Sender
from ..telemetry import Destination, Telemetry
from .answers import logger
from .observed_publisher import ObservedPublisher
from .publisher import RuntimePublisher
from .readings import Watches, publisher_readings
from .tasks import OwnedTasks, outcome
from .topics import check_topic


class RuntimePublisherProvider(ABC):
    """
    Base of a `PublisherProvider`.

    Args:
        name: The provider's name, for error texts.
        options: How every publisher gathers and sends.
        codec: Encodes the data; `JSONCodec` where None.
        telemetry: Is told of what is published; None for nobody.

    Raises:
        ConfigurationError: the compression that *options* ask for is not installed.
    """

    #: What telemetry calls the kind of broker, OpenTelemetry's `messaging.system`; the provider's name where empty.
    messaging_system: ClassVar[str] = ""

    def __init__(
        self,
        name: str,
        options: PublishOptions | None = None,
        *,
        codec: Codec | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.name = name
        self.options = options or PublishOptions()
        require_compression(self.options.compression)
        self._codec = codec
        self._watches = Watches(telemetry)
        self._publishers: dict[str, RuntimePublisher] = {}
        self._opening: dict[str, asyncio.Task[RuntimePublisher]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks(logger)

    @abstractmethod
    async def _open_sender(self, topic: str) -> Sender:
        """Make the sender of *topic*.  Raises `ConfigurationError` where the topic's name cannot be one."""

    @abstractmethod
    async def _ping(self) -> None:
        """Ask the broker whether it answers."""

    @abstractmethod
    async def _release(self) -> None:
        """Free the connection.  Called once, when every publisher has stopped."""

    def _topic_key(self, topic: str) -> str:
        """What makes two topics the same one.  Raises `ConfigurationError` where *topic* cannot be one."""
        return topic

    def _destination(self, topic: str) -> Destination:
        """Return how telemetry names *topic*; "" is the provider as a whole."""
        return Destination(system=self.messaging_system or self.name, name=topic)

    async def new_publisher(self, topic: str) -> RuntimePublisher:
        """
        See `PublisherProvider.new_publisher()`.

        A publisher that was stopped is replaced, once all that it had has been sent: the new one cannot overtake it.
        """
        check_topic(topic)
        self._refuse_closed()
        key = self._topic_key(topic)
        publisher = self._publishers.get(key)
        if publisher is not None and not publisher.stopped:
            return publisher
        opening = self._opening.get(key)
        if opening is None:
            opening = self._tasks.share(self._open(key, topic), name=f"messagequeue open {topic}")
            self._opening[key] = opening
        return await outcome(opening)

    async def _open(self, key: str, topic: str) -> RuntimePublisher:
        try:
            if (previous := self._publishers.pop(key, None)) is not None:
                await _stop_quietly(previous)
            publisher = self._publishers[key] = self._make(key, topic, await self._open_sender(topic))
            return publisher
        finally:
            del self._opening[key]

    def _make(self, key: str, topic: str, sender: Sender) -> RuntimePublisher:
        telemetry = self._watches.telemetry
        if telemetry is None:
            return RuntimePublisher(topic, sender, self.options, self._codec)
        where = self._destination(topic)
        publisher = ObservedPublisher(topic, sender, telemetry.publisher(where), self.options, self._codec)
        self._watches.add(key, where, partial(publisher_readings, publisher.stats))
        return publisher

    def _refuse_closed(self) -> None:
        if self._closing is not None:
            raise ClosedError(f"the {self.name} publisher provider is closed: make a new one")

    async def ping(self) -> None:
        """See `PublisherProvider.ping()`."""
        self._refuse_closed()
        await self._ping()

    async def close(self) -> None:
        """Stop every publisher, all at the same time, then free the connection.  Every call returns at the end."""
        if self._closing is None:
            self._closing = self._tasks.share(self._close(), name=f"messagequeue close {self.name}")
        await outcome(self._closing)

    async def _close(self) -> None:
        results: list[BaseException | None] = []
        try:
            await self._tasks.join()  # publishers that are being opened
            stops = (publisher.stop() for publisher in self._publishers.values())
            results = await asyncio.gather(*stops, return_exceptions=True)
        finally:
            self._watches.end_all()
            await self._release()
        for result in results:
            if result is not None:
                raise result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        await self.close()


async def _stop_quietly(publisher: RuntimePublisher) -> None:
    """Wait for the end of a publisher that its user stopped.  What that raises was raised to the user."""
    try:
        await publisher.stop()
    except Exception:
        text, topic = "publisher of %r did not stop cleanly; a new one replaces it", publisher.topic
        events.PUBLISHER_UNCLEAN.log(text, topic, exc_info=True, topic=topic)
