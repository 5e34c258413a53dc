"""A broker of its own for every test of the `memory` provider."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from messagequeue import ConsumeOptions
from messagequeue.broker import Counts
from messagequeue.driver import LeaseSource, Sender
from messagequeue.embedded import (
    MemoryConfig,
    MemoryConsumerProvider,
    MemoryPublisherProvider,
    forget,
    memory_broker,
    memory_now,
)


class Memory:
    """The seams of one topic `orders` and of its broker."""

    def __init__(self) -> None:
        self.config = MemoryConfig(name=str(uuid.uuid4()), visibility_timeout=10.0)

    async def sender(self, topic: str = "orders", config: MemoryConfig | None = None) -> Sender:
        return await MemoryPublisherProvider(config or self.config)._open_sender(topic)

    async def source(
        self, topic: str = "orders", config: MemoryConfig | None = None, options: ConsumeOptions | None = None
    ) -> LeaseSource:
        provider = MemoryConsumerProvider(config or self.config)
        return await provider._open_source(topic, options or ConsumeOptions())

    def counts(self, topic: str = "orders") -> Counts:
        name = self.config.name
        return memory_broker(name).queue(topic).counts(memory_now(name))


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory()
    yield made
    forget(made.config.name)
