"""The embedded provider with its file, judged in virtual time: both ways to force commits to the disk."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from messagequeue import ConsumerProvider, Message, PublisherProvider
from messagequeue.broker import Broker, Lease, Outcome
from messagequeue.embedded import (
    EmbeddedConfig,
    EmbeddedConsumerProvider,
    EmbeddedPublisherProvider,
    close_hub,
    embedded_broker,
    embedded_now,
    open_hub,
)
from messagequeue.embedded._durable import DurableHub
from messagequeue.testing.conformance import BaseHarness, ConformanceSuite, Features, Main, run_in_virtual_time


class EmbeddedHarness(BaseHarness):
    """A folder of its own for each fact."""

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

    def __init__(self, path: Path, fsync: Literal["second", "always"]) -> None:
        self._config = EmbeddedConfig(path=path, fsync=fsync)
        self._hub: DurableHub | None = None
        self._topics = (f"topic-{n}" for n in itertools.count())

    def run(self, main: Main, /) -> None:
        run_in_virtual_time(main)

    @property
    def _broker(self) -> Broker:
        return embedded_broker(self._config.path)

    def _now(self) -> float:
        return embedded_now(self._config.path)

    async def publisher_provider(self) -> PublisherProvider:
        return EmbeddedPublisherProvider(self._config)

    async def consumer_provider(self) -> ConsumerProvider:
        return EmbeddedConsumerProvider(self._config)

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        if self._hub is None:
            self._hub = await open_hub(self._config.path, fsync=self._config.fsync)
        topic = next(self._topics) + (".fifo" if ordered else "")
        settings = replace(self._config, visibility_timeout=visibility_timeout, max_receives=max_receives)
        return self._hub.queue(topic, settings).name

    async def dead_letters(self, topic: str) -> list[bytes]:
        queue = self._broker.queue(topic + self._config.dead_letter_suffix)
        return [bytes(seen.message.body) for seen in queue.peek(self._now())]  # type: ignore[arg-type]

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        counts = self._broker.queue(topic).counts(self._now())
        return counts.visible, counts.in_flight, counts.delayed

    async def steal(self, topic: str, message: Message) -> bool:
        """Another receive gets the message: made visible, and taken under another handle."""
        assert isinstance(message.raw, Lease)
        queue, now = self._broker.queue(topic), self._now()
        if queue.release(now, message.raw.handle) is not Outcome.DONE:
            return False
        queue.take(now, 100)
        return True

    async def aclose(self) -> None:
        if self._hub is not None:
            await close_hub(self._hub)


class TestEmbedded(ConformanceSuite):
    """What was answered survives the end of the process."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> EmbeddedHarness:
        return EmbeddedHarness(tmp_path, "second")


class TestEmbeddedForcedToDisk(ConformanceSuite):
    """What was answered survives a power cut; every commit is a thread's work."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> EmbeddedHarness:
        return EmbeddedHarness(tmp_path, "always")
