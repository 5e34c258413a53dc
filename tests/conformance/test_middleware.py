"""The memory provider with middleware around publishers or handlers, in virtual time: what it promises still holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messagequeue import (
    BatchHandler,
    ConsumerProvider,
    Discard,
    EncodeError,
    Outgoing,
    Publish,
    PublisherProvider,
    Receipt,
)
from messagequeue import middleware as mw
from messagequeue.embedded import MemoryConsumerProvider
from messagequeue.runtime import RuntimeConsumer
from messagequeue.testing.conformance import Bench, ConformanceSuite, fact
from tests.conformance.test_memory import MemoryHarness


def turns(publish: Publish) -> Publish:
    """Waits for a turn of the loop, more or less of them from message to message."""
    count = 0

    async def waited(item: Outgoing) -> Receipt:
        nonlocal count
        count += 1
        for _ in range(count * 7 % 5):
            await asyncio.sleep(0)
        return await publish(item)

    return waited


class Wrapped(MemoryHarness):
    """Everything that is shipped, and a middleware that waits."""

    async def publisher_provider(self) -> PublisherProvider:
        return mw.with_middleware(
            await super().publisher_provider(),
            mw.publish_logging(),
            mw.publish_retry(),
            mw.publish_timeout(3600),
            mw.default_attributes(dict),
            turns,
        )


class TestMemoryBehindMiddleware(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return Wrapped()

    @fact()
    async def test_publish_nowait_gives_a_future_of_the_receipt(self, bench: Bench) -> None:
        """It returns without waiting; unlike without middleware, what is wrong with the data comes by the future."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        future = publisher.publish_nowait("a", **bench.key())
        with pytest.raises(EncodeError):
            await publisher.publish_nowait(object(), **bench.key())
        receipt = await future
        assert [message.id for message in await bench.receive(topic)] == [receipt.message_id]


class Consumers(MemoryConsumerProvider):
    """Puts middleware around every handler of one message."""

    async def new_consumer(self, topic: str, handler: Any, /, **options: Any) -> RuntimeConsumer:  # type: ignore[override]
        if not isinstance(handler, BatchHandler):
            options["middleware"] = [*AROUND_HANDLERS, *options.pop("middleware", ())]
        return await super().new_consumer(topic, handler, **options)


AROUND_HANDLERS = (
    mw.logging(),
    mw.deadline(1e6, then=Discard),
    mw.rate_limit(1e6, burst=1000),
    mw.concurrency(1000),
    mw.retry(FileNotFoundError),
    mw.timeout(1e6),
)


class WrappedHandlers(MemoryHarness):
    """Everything that is shipped, with limits that are never reached."""

    async def consumer_provider(self) -> ConsumerProvider:
        return Consumers(self._config)


class TestMemoryWithMiddlewareAroundHandlers(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return WrappedHandlers()
