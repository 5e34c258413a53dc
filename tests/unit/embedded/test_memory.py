"""The memory provider through the runtime: names, dead letters and sizes, as an application meets them."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from messagequeue import (
    ConsumeOptions,
    DeadLetter,
    InvalidMessageError,
    MessageTooLargeError,
    open_consumers,
    open_publishers,
)
from messagequeue.embedded import MemoryConfig, MemoryConsumerProvider, MemoryPublisherProvider, forget, memory_broker
from messagequeue.embedded._hub import hub
from messagequeue.embedded._source import MemorySource
from messagequeue.testing import run_virtual


@pytest.fixture
def config():
    config = MemoryConfig(name=str(uuid.uuid4()))
    yield config
    forget(config.name)


def source_of(config, topic="t"):
    home = hub(config.name)
    return MemorySource(home, home.queue(topic, config), topic, config, ConsumeOptions())


def test_halves_meet_by_name_and_only_by_name():
    """Equal names are one broker; other names are others."""

    async def main():
        names = [str(uuid.uuid4()) for _ in range(2)]
        async with open_publishers(f"memory://?name={names[0]}") as publishers:
            await (await publishers.new_publisher("t")).publish("x")
        async with open_consumers(f"memory://?name={names[0]}") as consumers:
            seen = []

            async def handler(message):
                seen.append(message.text)

            consumer = await consumers.new_consumer("t", handler)
            task = asyncio.create_task(consumer.consume())
            await asyncio.sleep(1)
            consumer.stop()
            await task
        assert seen == ["x"]
        assert "t" not in memory_broker(names[1])
        for name in names:
            forget(name)

    run_virtual(main())


def test_a_dead_lettered_message_says_why_and_whence(config):
    """DeadLetter moves the message to `<topic>.dead` with reason and source as attributes."""

    async def main():
        async with MemoryPublisherProvider(config) as publishers, MemoryConsumerProvider(config) as consumers:
            await (await publishers.new_publisher("t")).publish("x", attributes={"n": 1})

            async def handler(message):
                raise DeadLetter("hopeless")

            consumer = await consumers.new_consumer("t", handler)
            task = asyncio.create_task(consumer.consume())
            await asyncio.sleep(1)
            consumer.stop()
            await task
            (dead,) = await source_of(config, "t.dead").receive(1, wait=0)

        assert dict(dead.message.attributes) == {
            "n": "1",
            "messagequeue.dead_letter_reason": "hopeless",
            "messagequeue.dead_letter_source": "t",
        }

    run_virtual(main())


def test_messages_too_large_or_empty_are_refused(config):
    """The size counts as SQS counts: body, and name, type and value of each attribute (PUB-07, PUB-08)."""

    async def main():
        async with MemoryPublisherProvider(config) as provider:
            publisher = await provider.new_publisher("t")
            await publisher.publish("x" * (1_048_576 - 8), attributes={"k": "v"})
            with pytest.raises(MessageTooLargeError) as caught:
                await publisher.publish("x" * (1_048_576 - 7), attributes={"k": "v"})
            assert (caught.value.size, caught.value.limit) == (1_048_577, 1_048_576)
            with pytest.raises(MessageTooLargeError):
                await publisher.publish("é" * 600_000)
            with pytest.raises(InvalidMessageError, match="empty"):
                await publisher.publish(b"")

    run_virtual(main())
