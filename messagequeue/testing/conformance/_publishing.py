"""Facts about publishing: receipts, results, options, the end."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from ..._errors import ClosedError, EncodeError, ErrEmptyTopicName, InvalidMessageError, UnsupportedOptionError
from ..._message import Outgoing, Receipt
from ._bench import Bench, numbers
from ._facts import fact, ordered_fact, standard_fact


class PublishingFacts:
    """What holds for every publisher."""

    @fact()
    async def test_publish_returns_the_receipt_of_the_message_that_arrives(self, bench: Bench) -> None:
        """The receipt's id is the id under which the message is delivered."""
        topic = await bench.new_topic()
        receipt = await (await bench.publisher(topic)).publish("a", **bench.key())
        assert receipt.message_id
        (message,) = await bench.receive(topic)
        assert message.id == receipt.message_id
        assert message.sequence_number == receipt.sequence_number

    @fact()
    async def test_publishers_keep_their_topic(self, bench: Bench) -> None:
        """`topic` is what was given; the same topic has the same publisher."""
        provider = await bench.publishers()
        one, other = await bench.new_topic(), await bench.new_topic()
        publisher = await provider.new_publisher(one)
        assert publisher.topic == one
        assert await provider.new_publisher(one) is publisher
        assert await provider.new_publisher(other) is not publisher

    @fact()
    async def test_the_broker_answers_a_ping(self, bench: Bench) -> None:
        """Both halves can ask whether it is there."""
        await (await bench.publishers()).ping()
        await (await bench.consumers()).ping()

    @standard_fact()
    async def test_an_empty_topic_is_refused(self, bench: Bench) -> None:
        """Empty and blank topics are an ErrEmptyTopicName, which is a ValueError."""
        provider = await bench.publishers()
        for topic in ("", "  ", "\t\n"):
            with pytest.raises(ErrEmptyTopicName):
                await provider.new_publisher(topic)

    @fact()
    async def test_publish_many_gives_one_result_per_item(self, bench: Bench) -> None:
        """In the order of the items, more than fit into one call; each arrives."""
        topic = await bench.new_topic()
        texts = numbers(35)
        receipts = await bench.publish(topic, *texts)
        messages = await bench.receive(topic, 35)
        assert {message.id: message.text for message in messages} == {
            receipt.message_id: text for receipt, text in zip(receipts, texts, strict=True)
        }

    @fact()
    async def test_a_bad_item_fails_alone(self, bench: Bench) -> None:
        """What cannot be encoded is an EncodeError in its place, and every other item is published."""
        topic = await bench.new_topic()
        items: list[object] = [Outgoing(text, **bench.key()) for text in numbers(12)]
        items[5] = Outgoing(object(), **bench.key())
        results = await (await bench.publisher(topic)).publish_many(items)
        assert [type(result) for result in results] == [Receipt] * 5 + [EncodeError] + [Receipt] * 6
        messages = await bench.receive(topic, 11)
        assert sorted(message.text for message in messages) == sorted(set(numbers(12)) - {"6"})

    @fact()
    async def test_publish_many_of_nothing_does_nothing(self, bench: Bench) -> None:
        """No items, no results, no error (BAT-09)."""
        topic = await bench.new_topic()
        assert await (await bench.publisher(topic)).publish_many([]) == []

    @fact()
    async def test_concurrent_publishes_all_arrive(self, bench: Bench) -> None:
        """Each caller gets the receipt of its own message."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        texts = numbers(100)
        receipts = await asyncio.gather(*(publisher.publish(text, **bench.key()) for text in texts))
        messages = await bench.receive(topic, 100)
        sent = {receipt.message_id: text for receipt, text in zip(receipts, texts, strict=True)}
        assert {message.id: message.text for message in messages} == sent

    @fact()
    async def test_publish_nowait_gives_a_future_of_the_receipt(self, bench: Bench) -> None:
        """It returns without waiting; what can be told beforehand is raised at once."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        future = publisher.publish_nowait("a", **bench.key())
        with pytest.raises(EncodeError):
            publisher.publish_nowait(object(), **bench.key())
        receipt = await future
        assert [message.id for message in await bench.receive(topic)] == [receipt.message_id]

    @fact()
    async def test_unknown_options_are_refused(self, bench: Bench) -> None:
        """A misspelt option is a TypeError that names the right one; nothing is published."""
        topic = await bench.new_topic()
        publisher: Any = await bench.publisher(topic)
        with pytest.raises(TypeError, match="ordering_key"):
            await publisher.publish("a", ordring_key="k")
        with pytest.raises(TypeError, match="ordering_key"):
            await publisher.publish_many(["a"], ordring_key="k")
        with pytest.raises(TypeError, match="ordering_key"):
            publisher.publish_nowait("a", ordring_key="k")
        await bench.until_counts(topic, (0, 0, 0))

    @fact()
    async def test_empty_keys_are_refused(self, bench: Bench) -> None:
        """An empty ordering or deduplication key is refused and named, neither sent nor dropped (PUB-01)."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        with pytest.raises((InvalidMessageError, UnsupportedOptionError), match="ordering_key"):
            await publisher.publish("a", ordering_key="")
        with pytest.raises((InvalidMessageError, UnsupportedOptionError), match="deduplication_key"):
            await publisher.publish("a", deduplication_key="", **bench.key())
        await bench.until_counts(topic, (0, 0, 0))

    @fact()
    async def test_options_that_are_absent_or_none_are_not_sent(self, bench: Bench) -> None:
        """No attributes, empty attributes and attributes of None all arrive as none (PUB-01, PUB-08)."""
        topic = await bench.new_topic()
        publisher: Any = await bench.publisher(topic)
        await publisher.publish("1", **bench.key())
        await publisher.publish("2", attributes={}, **bench.key())
        await publisher.publish("3", attributes={"gone": None}, delay=None, deduplication_key=None, **bench.key())
        assert [dict(message.attributes) for message in await bench.receive(topic, 3)] == [{}, {}, {}]

    @standard_fact()
    async def test_a_delay_that_makes_no_sense_is_refused(self, bench: Bench) -> None:
        """Negative, not a number, not finite, text, a truth value: an error, not a guess (PUB-04)."""
        topic = await bench.new_topic()
        publisher: Any = await bench.publisher(topic)
        for delay in (-1, -0.5, math.nan, math.inf, "2", True, timedelta(seconds=-1)):
            with pytest.raises((InvalidMessageError, UnsupportedOptionError)):
                await publisher.publish("a", delay=delay)
        await bench.until_counts(topic, (0, 0, 0))

    @fact()
    async def test_a_delay_is_honoured_or_refused(self, bench: Bench) -> None:
        """A delayed message arrives after the delay, not before; a topic that cannot delay says so."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        delay = float(max(1, math.ceil(bench.unit / 2)))
        worker = await bench.consume(topic)
        sent = bench.now()
        try:
            await publisher.publish("later", delay=timedelta(seconds=delay), **bench.key())
        except UnsupportedOptionError as error:
            assert "delay" in str(error)  # noqa: PT017 (either course is right)
            assert bench.ordered or not bench.features.delays
            return
        await publisher.publish("now", delay=0, **bench.key())
        await worker.until_done(2)
        assert worker.begun == ["now", "later"]
        assert worker.handlings[1].began >= sent + 0.9 * delay

    @standard_fact()
    async def test_an_ordering_key_on_a_standard_topic_is_carried_or_refused(self, bench: Bench) -> None:
        """Never dropped silently; where it orders nothing, two of one key run at the same time (PUB-03)."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        try:
            await publisher.publish("1", ordering_key="tenant")
        except UnsupportedOptionError:
            return
        await publisher.publish("2", ordering_key="tenant")
        await publisher.publish("3")
        if bench.features.keys_always_order:
            worker = await bench.consume(topic)
        else:
            every = asyncio.Barrier(3)
            worker = await bench.consume(topic, lambda _: every.wait())
        await worker.until_done(3)
        keys = {handling.text: handling.message.ordering_key for handling in worker.handlings}
        assert keys == {"1": "tenant", "2": "tenant", "3": None}

    @ordered_fact()
    async def test_an_ordered_topic_refuses_a_message_without_key(self, bench: Bench) -> None:
        """Where a key is required, a publish without one is an error that names the option (FIFO-10)."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        try:
            await publisher.publish("a")
        except InvalidMessageError as error:
            assert "ordering_key" in str(error)  # noqa: PT017 (either course is right)
        else:
            (message,) = await bench.receive(topic)
            assert message.ordering_key is None

    @ordered_fact("deduplication")
    async def test_a_repeated_deduplication_key_is_delivered_once(self, bench: Bench) -> None:
        """Also after the first was taken off the queue; another key is another message (FIFO-12)."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        worker = await bench.consume(topic)
        first = await publisher.publish("1", ordering_key="k", deduplication_key="once")
        await worker.until_done(1)
        await bench.gone(topic)
        again = await publisher.publish("2", ordering_key="k", deduplication_key="once")
        await publisher.publish("3", ordering_key="k", deduplication_key="other")
        await worker.until_done(2)
        assert worker.begun == ["1", "3"]
        assert again.message_id == first.message_id

    @standard_fact()
    async def test_a_deduplication_key_on_a_standard_topic_is_not_dropped(self, bench: Bench) -> None:
        """It is refused, or it deduplicates."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        try:
            first = await publisher.publish("1", deduplication_key="once")
        except UnsupportedOptionError:
            return
        assert (await publisher.publish("2", deduplication_key="once")).message_id == first.message_id

    @fact()
    async def test_publishing_after_stop_is_refused(self, bench: Bench) -> None:
        """Every way to publish raises ClosedError, and stop() can be called again."""
        topic = await bench.new_topic()
        publisher = await (await bench.publishers()).new_publisher(topic)
        await publisher.publish("a", **bench.key())
        await publisher.stop()
        await publisher.stop()
        with pytest.raises(ClosedError):
            await publisher.publish("b", **bench.key())
        with pytest.raises(ClosedError):
            await publisher.publish_many(["b"], **bench.key())
        with pytest.raises(ClosedError):
            publisher.publish_nowait("b", **bench.key())
        assert [message.text for message in await bench.receive(topic)] == ["a"]

    @fact()
    async def test_close_flushes_what_waits(self, bench: Bench) -> None:
        """What was handed over before close() has its receipt after it, and arrives once (BAT-07)."""
        topic = await bench.new_topic()
        provider = await bench.publishers()
        publisher = await provider.new_publisher(topic)
        futures = [publisher.publish_nowait(text, **bench.key()) for text in numbers(25)]
        await provider.close()
        receipts = [await future for future in futures]
        messages = await bench.receive(topic, 25)
        assert {message.id for message in messages} == {receipt.message_id for receipt in receipts}

    @fact()
    async def test_a_closed_provider_refuses_and_closes_again(self, bench: Bench) -> None:
        """Its publishers and new ones raise ClosedError; a second close, also at the same time, does nothing."""
        topic = await bench.new_topic()
        async with await bench.publishers() as provider:
            publisher = await provider.new_publisher(topic)
        with pytest.raises(ClosedError):
            await publisher.publish("a", **bench.key())
        with pytest.raises(ClosedError):
            await provider.new_publisher(topic)
        await asyncio.gather(provider.close(), provider.close())
