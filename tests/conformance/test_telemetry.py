"""The memory provider with telemetry on, in virtual time: what it promises still holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from messagequeue import BatchHandler, ConsumerProvider, Message, PublisherProvider
from messagequeue.embedded import MemoryConsumerProvider, MemoryPublisherProvider
from messagequeue.testing.conformance import ConformanceSuite, Main
from tests.conformance.test_memory import MemoryHarness
from tests.unit.telemetry.recording import Recording


def without_context(message: Message) -> Message:
    """As the kit published it: the attributes of the trace are not among what it compares."""
    kept = {name: value for name, value in message.attributes.items() if name != "traceparent"}
    return replace(message, attributes=kept)


class Observed(MemoryHarness):
    """Both halves tell OpenTelemetry of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.recording = Recording()

    def run(self, main: Main, /) -> None:
        super().run(main)
        assert all(span.end_time is not None for span in self.recording.spans())

    async def publisher_provider(self) -> PublisherProvider:
        return MemoryPublisherProvider(self._config, telemetry=self.recording.telemetry)

    async def consumer_provider(self) -> ConsumerProvider:
        return _Stripping(self._config, telemetry=self.recording.telemetry)


class _Stripping(MemoryConsumerProvider):
    async def new_consumer(self, topic, handler, /, **options):  # type: ignore[no-untyped-def]
        plain = callable(handler) and not isinstance(handler, BatchHandler)
        return await super().new_consumer(topic, _stripped(handler) if plain else handler, **options)


def _stripped(handler: Callable[[Message], object]) -> Callable[[Message], object]:
    return lambda message: handler(without_context(message))


class TestMemoryWithTelemetry(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> Observed:
        return Observed()
