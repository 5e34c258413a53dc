"""The consumer provider whose messages come from the test."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import (
    ClosedError,
    ConsumeError,
    ConsumerProvider,
    ErrConsumerAlreadyRegistered,
    ErrEmptyTopicName,
    HandlerError,
    Message,
)
from messagequeue.testing import RecordingConsumerProvider, run_virtual


async def accept(message: Message) -> None:
    """A handler that succeeds."""


async def fail(message: Message) -> None:
    raise KeyError("x")


def test_deliver_runs_the_registered_handler() -> None:
    """With its middleware, and says what became of the message."""
    seen: list[Message] = []

    async def handler(message: Message) -> None:
        seen.append(message)

    async def main() -> None:
        async with RecordingConsumerProvider() as provider:
            assert isinstance(provider, ConsumerProvider)
            await provider.new_consumer("orders", handler)
            result = await provider.deliver("orders", {"n": 1}, ordering_key="k")
            assert result.settled
            assert provider.outcomes == [result]

    run_virtual(main())

    assert [(item.topic, item.json(), item.ordering_key) for item in seen] == [("orders", {"n": 1}, "k")]


def test_deliver_tells_on_error_of_a_failure() -> None:
    """As a consumer does: a HandlerError with the message and the cause."""
    told: list[ConsumeError] = []

    async def main() -> None:
        async with RecordingConsumerProvider() as provider:
            await provider.new_consumer("orders", fail, on_error=told.append, retry_delay=7)
            result = await provider.deliver("orders", "x")
            assert result.after == 7
            assert told[0].message is result.message

    run_virtual(main())

    assert isinstance(told[0], HandlerError)
    assert isinstance(told[0].__cause__, KeyError)


def test_deliver_to_a_topic_without_consumer_names_those_that_have_one() -> None:
    """A wrong topic in a test shows at once."""

    async def main() -> None:
        async with RecordingConsumerProvider() as provider:
            await provider.new_consumer("orders", accept)
            with pytest.raises(LookupError, match="orders"):
                await provider.deliver("order", "x")

    run_virtual(main())


def test_registration_has_the_errors_of_the_real_providers() -> None:
    """Empty topics, second consumers, unknown options, closed providers; what was asked for can be looked at."""

    async def main() -> None:
        provider = RecordingConsumerProvider()
        with pytest.raises(ErrEmptyTopicName):
            await provider.new_consumer(" ", accept)
        consumer = await provider.new_consumer("orders", accept, concurrency=3)
        with pytest.raises(ErrConsumerAlreadyRegistered):
            await provider.new_consumer("orders", fail)
        with pytest.raises(TypeError):
            await provider.new_consumer("others", accept, concurency=1)  # type: ignore[call-arg]
        assert provider.registered["orders"].handler is accept
        assert provider.registered["orders"].options.concurrency == 3
        await consumer.close()
        assert provider.registered == {}
        await provider.new_consumer("orders", fail)
        await provider.close()
        with pytest.raises(ClosedError):
            await provider.new_consumer("orders", accept)

    run_virtual(main())


def test_consume_waits_until_stop() -> None:
    """So that an application's own lifespan code runs unchanged in a test."""

    async def main() -> None:
        async with RecordingConsumerProvider() as provider:
            consumer = await provider.new_consumer("orders", accept)
            running = asyncio.create_task(consumer.consume(), name="consume")
            await asyncio.sleep(1000)
            assert not running.done()
            consumer.stop()
            async with asyncio.timeout(1):
                await running

    run_virtual(main())
