"""Facts about making and ending consumers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ..._errors import (
    ClosedError,
    ConfigurationError,
    ErrConsumerAlreadyRegistered,
    ErrEmptyTopicName,
    MessageQueueError,
)
from ..._message import Message
from ._bench import Bench
from ._facts import fact, standard_fact


async def _accept(_: Message) -> None:
    """A handler that succeeds."""


class RegisteringFacts:
    """What holds for every consumer, whatever it consumes."""

    @standard_fact()
    async def test_new_consumer_refuses_what_is_wrong(self, bench: Bench) -> None:
        """Empty topics, unknown options, options out of bounds, handlers that are none; each with its own error."""
        provider: Any = await bench.consumers()
        topic = await bench.new_topic()
        for empty in ("", "  "):
            with pytest.raises(ErrEmptyTopicName):
                await provider.new_consumer(empty, _accept)
        with pytest.raises(TypeError, match="concurrency"):
            await provider.new_consumer(topic, _accept, concurency=3)
        with pytest.raises(ConfigurationError, match="concurrency"):
            await provider.new_consumer(topic, _accept, concurrency=0)
        with pytest.raises(ConfigurationError, match="heartbeat_interval"):
            await provider.new_consumer(topic, _accept, visibility_timeout=30, heartbeat_interval=30)
        with pytest.raises(TypeError, match="handler"):
            await provider.new_consumer(topic, "not a handler")
        await provider.new_consumer(topic, _accept)  # Nothing of the above took the topic.

    @fact()
    async def test_a_second_consumer_of_a_topic_is_refused(self, bench: Bench) -> None:
        """The first one keeps its handler; after its close() the topic is free again (CON-22)."""
        topic = await bench.new_topic()
        provider = await bench.consumers()
        first = await bench.consume(topic, provider=provider)
        with pytest.raises(ErrConsumerAlreadyRegistered) as caught:
            await provider.new_consumer(topic, _accept)
        assert caught.value.topic == topic
        await bench.publish(topic, "a")
        await first.until_done(1)

        await first.consumer.close()
        second = await bench.consume(topic, provider=provider)
        await bench.publish(topic, "b")
        await second.until_done(1)
        assert (first.begun, second.begun) == (["a"], ["b"])

    @standard_fact()
    async def test_of_two_at_the_same_time_one_is_refused(self, bench: Bench) -> None:
        """Registration has no gap in which both get through."""
        topic = await bench.new_topic()
        provider = await bench.consumers()
        results = await asyncio.gather(
            *(provider.new_consumer(topic, _accept) for _ in range(2)), return_exceptions=True
        )
        assert sorted(isinstance(result, ErrConsumerAlreadyRegistered) for result in results) == [False, True]

    @standard_fact()
    async def test_providers_are_independent(self, bench: Bench) -> None:
        """Two providers may each have a consumer of one topic; one of them gets each message."""
        topic = await bench.new_topic()
        workers = [await bench.consume(topic, provider=await bench.consumers()) for _ in range(2)]
        await bench.publish(topic, *"abcdefgh")
        await bench.until(lambda: sum(len(worker.done) for worker in workers) == 8, "all are handled")
        assert sorted(workers[0].done + workers[1].done) == list("abcdefgh")

    @standard_fact()
    async def test_nothing_is_received_before_consume(self, bench: Bench) -> None:
        """Registering alone takes no message."""
        topic = await bench.new_topic()
        await bench.publish(topic, "a")
        await (await bench.consumers()).new_consumer(topic, _accept)
        (message,) = await bench.receive(topic)
        assert message.delivery_attempt in (1, None)

    @standard_fact()
    async def test_a_consumer_consumes_once_at_a_time(self, bench: Bench) -> None:
        """A second consume() beside the first is refused, and the first goes on (CON-22)."""
        topic = await bench.new_topic()
        worker = await bench.consume(topic)
        await bench.publish(topic, "a")
        await worker.until_done(1)
        with pytest.raises(MessageQueueError):
            await worker.consumer.consume()
        await bench.publish(topic, "b")
        await worker.until_done(2)

    @standard_fact()
    async def test_a_closed_consumer_does_not_consume(self, bench: Bench) -> None:
        """consume() after close() is a ClosedError; closing again does nothing."""
        topic = await bench.new_topic()
        consumer = await (await bench.consumers()).new_consumer(topic, _accept)
        await consumer.close()
        await consumer.close()
        with pytest.raises(ClosedError):
            await consumer.consume()

    @standard_fact()
    async def test_a_closed_provider_makes_no_consumers(self, bench: Bench) -> None:
        """new_consumer() after close() is a ClosedError; a second close, also at the same time, does nothing."""
        topic = await bench.new_topic()
        async with await bench.consumers() as provider:
            consumer = await provider.new_consumer(topic, _accept)
        with pytest.raises(ClosedError):
            await provider.new_consumer(topic, _accept)
        with pytest.raises(ClosedError):
            await consumer.consume()
        await asyncio.gather(provider.close(), provider.close())

    @fact()
    async def test_a_topic_can_be_consumed_again_after_a_stop(self, bench: Bench) -> None:
        """Stop, close, consume anew: nothing is lost, and nothing of the first one goes on (CON-22)."""
        topic = await bench.new_topic()
        first = await bench.consume(topic)
        await bench.publish(topic, "a")
        await first.until_done(1)
        await first.stop()
        await first.consumer.close()
        await bench.publish(topic, "b", "c")
        second = await bench.consume(topic)
        await second.until_done(2)
        assert first.begun == ["a"]
        assert sorted(second.begun) == ["b", "c"]
