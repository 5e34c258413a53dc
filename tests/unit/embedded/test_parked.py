"""A receive that is parked at the memory broker returns when time brings it a message, and not at its own end."""

from __future__ import annotations

import asyncio

from messagequeue import Message, RetryLater
from messagequeue.embedded import MemoryConfig, MemoryConsumerProvider, MemoryPublisherProvider, forget
from messagequeue.testing import run_virtual

TOPIC = "parked"


async def first_deliveries(config: MemoryConfig, *, count: int, after: float | None, delay: float = 0.0) -> list[float]:
    """Publish one message, handle it *count* times, slowly enough for a receive to park; return when each began."""
    loop, began = asyncio.get_running_loop(), list[float]()
    async with MemoryPublisherProvider(config) as publishers, MemoryConsumerProvider(config) as consumers:

        async def handle(message: Message) -> None:
            began.append(loop.time())
            await asyncio.sleep(0.5)
            if len(began) < count:
                raise RuntimeError if after is None else RetryLater(after)
            consumer.stop()

        consumer = await consumers.new_consumer(TOPIC, handle, wait_time=20, visibility_timeout=6, drain_timeout=1)
        consuming = asyncio.create_task(consumer.consume(), name="consume")
        await asyncio.sleep(0.25)  # the first receive is parked
        await (await publishers.new_publisher(TOPIC)).publish("a", delay=delay)
        await consuming
    return [round(at, 3) for at in began]


def run(**options: object) -> list[float]:
    forget("parked")
    return run_virtual(first_deliveries(MemoryConfig(name="parked"), **options))  # type: ignore[arg-type]


def test_parked_receive_gets_a_message_that_was_handed_back_for_later() -> None:
    """A receive that parked while the handler ran is woken when the hand-back's delay is over."""
    assert run(count=2, after=2.0) == [0.25, 2.75]


def test_parked_receive_gets_a_delayed_message() -> None:
    """A receive that parked before the publish is woken when the message's delay is over."""
    assert run(count=1, after=0.0, delay=3.0) == [3.25]


def test_parked_receive_gets_a_message_whose_lease_ended() -> None:
    """A receive that parked while the handler ran is woken when the lease of the failed message ends."""
    assert run(count=2, after=None) == [0.25, 6.25]
