"""The two halves of the provider `memory`."""

from __future__ import annotations

from .._options import ConsumeOptions
from ..driver import LeaseSource, Sender
from ..runtime import RuntimeConsumerProvider, RuntimePublisherProvider
from ._config import MemoryConfig
from ._hub import hub
from ._sender import MemorySender
from ._source import MemorySource


class MemoryPublisherProvider(RuntimePublisherProvider):
    """Publishes to topics of the broker `config.name` of this process; they come into being on first use."""

    def __init__(self, config: MemoryConfig | None = None) -> None:
        self._config = config or MemoryConfig()
        super().__init__("memory", self._config.publish)
        self._hub = hub(self._config.name)

    async def _open_sender(self, topic: str) -> Sender:
        return MemorySender(self._hub, self._hub.queue(topic, self._config), self._config)

    async def _ping(self) -> None:
        """It is there as long as the process is."""

    async def _release(self) -> None:
        """The broker outlives its providers: the other half may still be open."""


class MemoryConsumerProvider(RuntimeConsumerProvider):
    """Consumes topics of the broker `config.name` of this process; they come into being on first use."""

    def __init__(self, config: MemoryConfig | None = None) -> None:
        self._config = config or MemoryConfig()
        super().__init__("memory", self._config.consume)
        self._hub = hub(self._config.name)

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        return MemorySource(self._hub, self._hub.queue(topic, self._config), topic, self._config, options)

    async def _ping(self) -> None:
        """It is there as long as the process is."""

    async def _release(self) -> None:
        """The broker outlives its providers: the other half may still be open."""
