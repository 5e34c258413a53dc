"""The memory provider with middleware around its publishers, judged in virtual time: what it promises still holds."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import EncodeError, Outgoing, Publish, PublisherProvider, Receipt
from messagequeue.middleware import (
    default_attributes,
    publish_logging,
    publish_retry,
    publish_timeout,
    with_middleware,
)
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
        return with_middleware(
            await super().publisher_provider(),
            publish_logging(),
            publish_retry(),
            publish_timeout(3600),
            default_attributes(dict),
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
