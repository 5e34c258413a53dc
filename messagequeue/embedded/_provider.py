"""The two halves of the providers `memory` and `embedded`."""

from __future__ import annotations

import asyncio

from .._errors import ClosedError
from .._message import Message
from .._options import ConsumeOptions
from ..driver import LeaseSource, Sender
from ..runtime import RuntimeConsumerProvider, RuntimePublisherProvider
from ..runtime.sink import logger
from ..runtime.tasks import OwnedTasks, outcome
from ..telemetry import Telemetry
from ._config import EmbeddedConfig, MemoryConfig
from ._durable import DurableHub
from ._folders import close_hub, open_hub
from ._hub import hub
from ._sender import MemorySender
from ._source import MemorySource, carried_traceparent


class MemoryPublisherProvider(RuntimePublisherProvider):
    """Publishes to topics of the broker `config.name` of this process; they come into being on first use."""

    messaging_system = "messagequeue_memory"

    def __init__(self, config: MemoryConfig | None = None, *, telemetry: Telemetry | None = None) -> None:
        self._config = config or MemoryConfig()
        super().__init__("memory", self._config.publish, telemetry=telemetry)
        self._hub = hub(self._config.name)

    async def _open_sender(self, topic: str) -> Sender:
        return MemorySender(self._hub, self._hub.queue(topic, self._config), self._config)

    async def _ping(self) -> None:
        """It is there as long as the process is."""

    async def _release(self) -> None:
        """The broker outlives its providers: the other half may still be open."""


class MemoryConsumerProvider(RuntimeConsumerProvider):
    """Consumes topics of the broker `config.name` of this process; they come into being on first use."""

    messaging_system = "messagequeue_memory"

    def __init__(self, config: MemoryConfig | None = None, *, telemetry: Telemetry | None = None) -> None:
        self._config = config or MemoryConfig()
        super().__init__("memory", self._config.consume, telemetry=telemetry)
        self._hub = hub(self._config.name)

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        return MemorySource(self._hub, self._hub.queue(topic, self._config), topic, self._config, options)

    def _carried(self, message: Message) -> str | None:
        return carried_traceparent(message)

    async def _ping(self) -> None:
        """It is there as long as the process is."""

    async def _release(self) -> None:
        """The broker outlives its providers: the other half may still be open."""


class _Folder:
    """One half's share of its data folder: opened when it is needed first, given back once."""

    def __init__(self, config: EmbeddedConfig) -> None:
        self._config = config
        self._opening: asyncio.Task[DurableHub] | None = None
        self._hub: DurableHub | None = None
        self._released = False
        self._tasks = OwnedTasks(logger)

    async def hub(self) -> DurableHub:
        """Raises `ConfigurationError`, after which the next call tries again, or `ClosedError`."""
        if self._hub is None:
            if self._opening is None:
                self._opening = self._tasks.share(self._open(), name=f"messagequeue open {self._config.path}")
            await outcome(self._opening)
        if self._hub is None or self._released:
            raise ClosedError("the embedded provider is closed: make a new one")
        return self._hub

    async def _open(self) -> DurableHub:
        try:
            hub = self._hub = await open_hub(self._config.path, fsync=self._config.fsync)
            return hub
        finally:
            self._opening = None

    async def release(self) -> None:
        self._released = True
        await self._tasks.join()
        hub, self._hub = self._hub, None
        if hub is not None:
            await close_hub(hub)


class EmbeddedPublisherProvider(RuntimePublisherProvider):
    """Publishes to topics of the data folder `config.path`; they come into being on first use."""

    messaging_system = "messagequeue_embedded"

    def __init__(self, config: EmbeddedConfig, *, telemetry: Telemetry | None = None) -> None:
        self._config = config
        super().__init__("embedded", config.publish, telemetry=telemetry)
        self._folder = _Folder(config)

    async def _open_sender(self, topic: str) -> Sender:
        hub = await self._folder.hub()
        return MemorySender(hub, hub.queue(topic, self._config), self._config)

    async def _ping(self) -> None:
        await self._folder.hub()

    async def _release(self) -> None:
        await self._folder.release()


class EmbeddedConsumerProvider(RuntimeConsumerProvider):
    """Consumes topics of the data folder `config.path`; they come into being on first use."""

    messaging_system = "messagequeue_embedded"

    def __init__(self, config: EmbeddedConfig, *, telemetry: Telemetry | None = None) -> None:
        self._config = config
        super().__init__("embedded", config.consume, telemetry=telemetry)
        self._folder = _Folder(config)

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        hub = await self._folder.hub()
        return MemorySource(hub, hub.queue(topic, self._config), topic, self._config, options)

    def _carried(self, message: Message) -> str | None:
        return carried_traceparent(message)

    async def _ping(self) -> None:
        await self._folder.hub()

    async def _release(self) -> None:
        await self._folder.release()
