"""What is the memory provider's own: who is woken, whose clock it is, and what it refuses."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from messagequeue import (
    ConfigurationError,
    ConsumeOptions,
    DeadLetter,
    InvalidMessageError,
    MessageTooLargeError,
    open_consumers,
    open_publishers,
)
from messagequeue.embedded import MemoryConfig, MemoryConsumerProvider, MemoryPublisherProvider, forget, memory_broker
from messagequeue.embedded._hub import hub
from messagequeue.embedded._sender import Envelope
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


def test_one_message_wakes_one_of_many_parked_receives(config):
    """The others keep waiting for their full time, and a later message wakes the next in line."""

    async def main():
        loop = asyncio.get_running_loop()
        source = source_of(config)
        polls = [asyncio.create_task(source.receive(10, wait=20)) for _ in range(5)]
        provider = MemoryPublisherProvider(config)
        publisher = await provider.new_publisher("t")
        await asyncio.sleep(1)
        await publisher.publish("a")
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert [poll.done() for poll in polls] == [True, False, False, False, False]
        await publisher.publish("b")
        await asyncio.sleep(1)
        assert [poll.done() for poll in polls] == [True, True, False, False, False]
        assert await polls[4] == []
        assert loop.time() == 20
        await asyncio.gather(*polls)
        await provider.close()

    run_virtual(main())


def test_many_messages_at_once_wake_as_many_receives(config):
    """A receive that is woken and leaves messages behind wakes the next."""

    async def main():
        source = source_of(config)
        polls = [asyncio.create_task(source.receive(1, wait=20)) for _ in range(3)]
        provider = MemoryPublisherProvider(config)
        publisher = await provider.new_publisher("t")
        await asyncio.sleep(1)
        await publisher.publish_many(["a", "b", "c"])
        await asyncio.sleep(0.001)

        assert all(poll.done() for poll in polls)
        assert sorted(poll.result()[0].message.text for poll in polls) == ["a", "b", "c"]
        await provider.close()

    run_virtual(main())


@pytest.mark.parametrize("when", ["before", "with"])
def test_a_cancelled_receive_swallows_nothing(config, when):
    """Cancelled before the message comes, or in the very turn in which it was woken: another receive gets it."""

    async def main():
        source = source_of(config)
        gone = asyncio.create_task(source.receive(1, wait=20))
        other = asyncio.create_task(source.receive(1, wait=20))
        home = hub(config.name)
        await asyncio.sleep(1)
        if when == "before":
            gone.cancel()
            await asyncio.sleep(0)
        home.queue("t", config).put(home.now(), b"x", attributes=Envelope(0.0, None))
        home.announce()
        gone.cancel()
        (delivery,) = await other

        assert delivery.message.text == "x"
        assert delivery.message.delivery_attempt == 1
        assert home._waiters == {}
        with pytest.raises(asyncio.CancelledError):
            await gone

    run_virtual(main())


@pytest.mark.parametrize(
    ("event", "at"),
    [("delay", 3.0), ("lease", 30.0), ("release", 5.0)],
)
def test_a_parked_receive_returns_when_time_or_a_release_brings_a_message(config, event, at):
    """The end of a delay, the end of a lease and a release wake a parked receive in that moment."""

    async def main():
        loop = asyncio.get_running_loop()
        source = source_of(config)
        provider = MemoryPublisherProvider(config)
        publisher = await provider.new_publisher("t")
        await publisher.publish("x", **({"delay": 3} if event == "delay" else {}))
        if event != "delay":
            (held,) = await source.receive(1, wait=0)
            if event == "release":
                loop.call_later(5, lambda: tasks.append(asyncio.create_task(source.release([held.lease], after=0))))
        tasks = []
        (again,) = await source.receive(1, wait=1_000)

        assert loop.time() == at
        assert again.message.text == "x"
        await provider.close()
        await asyncio.gather(*tasks)

    run_virtual(main())


def test_a_broker_outlives_event_loops_and_its_clock_never_runs_back(config):
    """What one asyncio.run() published, the next consumes; leases of the first are over in the second's time."""

    async def first():
        await asyncio.sleep(100)
        async with MemoryPublisherProvider(config) as provider:
            await (await provider.new_publisher("t")).publish("x")
        await source_of(config).receive(1, wait=0)

    async def second():
        (delivery,) = await source_of(config).receive(1, wait=60)
        assert asyncio.get_running_loop().time() == 30
        assert delivery.message.delivery_attempt == 2

    run_virtual(first())
    run_virtual(second())


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


def test_options_are_checked():
    """A lease of 0, or an empty name, is refused when the configuration is made."""
    for options in ({"visibility_timeout": 0}, {"name": " "}, {"max_receives": 0}, {"dead_letter_suffix": ""}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            MemoryConfig(**options)
