"""Provider `noop`: everything is checked, nothing is sent, nothing comes."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import (
    ClosedError,
    ConfigurationError,
    EncodeError,
    ErrConsumerAlreadyRegistered,
    ErrEmptyTopicName,
    InvalidMessageError,
    Message,
    MessageTooLargeError,
    Outgoing,
    Receipt,
    open_consumers,
    open_publishers,
)
from messagequeue.testing import run_virtual


async def unreachable(message: Message) -> None:
    """No message ever comes."""
    raise AssertionError(message.id)


def test_every_message_is_confirmed_with_an_id_of_its_own() -> None:
    """An application that keeps receipts sees what it would see with a broker."""

    async def program() -> list[Receipt]:
        async with open_publishers("noop://") as publishers:
            publisher = await publishers.new_publisher("orders")
            one = await publisher.publish(
                {"id": 1}, ordering_key="a", deduplication_key="b", delay=5, attributes={"n": 1}
            )
            many = await publisher.publish_many([b"x", Outgoing("y", delay=1)])
            soon = await publisher.publish_nowait("z")
            return [one, soon, *(result for result in many if isinstance(result, Receipt))]

    receipts = run_virtual(program())

    assert len({receipt.message_id for receipt in receipts}) == len(receipts) == 4


def test_faults_of_the_caller_are_told_as_by_a_broker() -> None:
    """Switching messaging off must not hide what fails when it is on."""

    async def program() -> None:
        async with open_publishers({"provider": "noop", "noop": {"max_message_size": 16}}) as publishers:
            with pytest.raises(ErrEmptyTopicName):
                await publishers.new_publisher(" ")
            publisher = await publishers.new_publisher("orders")
            with pytest.raises(EncodeError):
                await publisher.publish(object())
            with pytest.raises(MessageTooLargeError) as caught:
                await publisher.publish("12345678", attributes={"k": b"12"})
            assert (caught.value.size, caught.value.limit) == (17, 16)
            with pytest.raises(InvalidMessageError):
                await publisher.publish("x", ordering_key="")
            with pytest.raises(InvalidMessageError):
                await publisher.publish("x", delay=901)
            with pytest.raises(TypeError):
                await publisher.publish("x", delai=1)  # type: ignore[call-arg]
            await publisher.stop()
            with pytest.raises(ClosedError):
                await publisher.publish("x")

    run_virtual(program())


def test_a_consumer_waits_until_it_is_stopped() -> None:
    """An hour of nothing, then a graceful end; the topic is guarded as with a broker."""

    async def program() -> float:
        loop = asyncio.get_running_loop()
        async with open_consumers("noop://") as consumers:
            consumer = await consumers.new_consumer("orders", unreachable)
            with pytest.raises(ErrConsumerAlreadyRegistered):
                await consumers.new_consumer("orders", unreachable)
            with pytest.raises(ConfigurationError):
                await consumers.new_consumer("others", unreachable, concurrency=0)
            loop.call_later(3600, consumer.stop)
            started = loop.time()
            await consumer.consume()
            return loop.time() - started

    assert 3600 <= run_virtual(program()) <= 3620


def test_a_waiting_consumer_can_be_cancelled() -> None:
    """Cancellation ends it at once and leaves nothing running (SHUT-06)."""

    async def program() -> float:
        loop = asyncio.get_running_loop()
        async with open_consumers("noop://") as consumers:
            consumer = await consumers.new_consumer("orders", unreachable)
            started = loop.time()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.consume(), 1)
            return loop.time() - started

    assert run_virtual(program()) == 1.0


def test_both_halves_answer_a_ping() -> None:
    """There is nothing that could be down."""

    async def program() -> None:
        async with open_publishers("noop://") as publishers, open_consumers("noop://") as consumers:
            await publishers.ping()
            await consumers.ping()

    run_virtual(program())
