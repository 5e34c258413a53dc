"""The memory provider, judged in virtual time."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace

import pytest

from messagequeue import ConsumerProvider, Message, PublisherProvider
from messagequeue.broker import Lease, Outcome
from messagequeue.embedded import MemoryConfig, MemoryConsumerProvider, MemoryPublisherProvider, forget
from messagequeue.embedded._hub import hub
from messagequeue.testing.conformance import BaseHarness, ConformanceSuite, Features, Main, run_in_virtual_time


class MemoryHarness(BaseHarness):
    """A broker of its own for each fact."""

    features = Features(
        unit=30.0,
        patience=600.0,
        slack=0.001,
        wait=20.0,
        ordered_topics=True,
        keys_always_order=True,
        delays=True,
        deduplication=True,
        dead_letters=True,
    )

    def __init__(self) -> None:
        self._config = MemoryConfig(name=str(uuid.uuid4()))
        self._hub = hub(self._config.name)
        self._topics = (f"topic-{n}" for n in itertools.count())

    def run(self, main: Main, /) -> None:
        run_in_virtual_time(main)

    async def publisher_provider(self) -> PublisherProvider:
        return MemoryPublisherProvider(self._config)

    async def consumer_provider(self) -> ConsumerProvider:
        return MemoryConsumerProvider(self._config)

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        topic = next(self._topics) + (".fifo" if ordered else "")
        settings = replace(self._config, visibility_timeout=visibility_timeout, max_receives=max_receives)
        return self._hub.queue(topic, settings).name

    async def dead_letters(self, topic: str) -> list[bytes]:
        queue = self._hub.broker.queue(topic + self._config.dead_letter_suffix)
        return [bytes(seen.message.body) for seen in queue.peek(self._hub.now())]  # type: ignore[arg-type]

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        counts = self._hub.broker.queue(topic).counts(self._hub.now())
        return counts.visible, counts.in_flight, counts.delayed

    async def steal(self, topic: str, message: Message) -> bool:
        """Another receive gets the message: made visible, and taken under another handle."""
        assert isinstance(message.raw, Lease)
        queue, now = self._hub.broker.queue(topic), self._hub.now()
        if queue.release(now, message.raw.handle) is not Outcome.DONE:
            return False
        queue.take(now, 100)
        return True

    async def aclose(self) -> None:
        forget(self._config.name)


class TestMemory(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness()
