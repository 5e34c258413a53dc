"""One consumer over several topics: the urgent ones first, and none of them left out of what consumers promise."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from messagequeue import (
    BatchHandler,
    ConfigurationError,
    ConsumeOptions,
    ErrConsumerAlreadyRegistered,
    ErrorCode,
    MessageQueueError,
    ReceiveError,
    UnsupportedOptionError,
    open_consumers,
    open_publishers,
)
from messagequeue.priority import PriorityConsumer, new_priority_consumer
from messagequeue.runtime import RuntimeConsumer
from messagequeue.runtime.sharing import SharedSlots, StrictOrder, WeightedOrder
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource


class Several:
    """A priority consumer over fake sources, the most urgent first."""

    def __init__(self, order, count, handler, **source):
        self.sources = [FakeSource(**source) for _ in range(count)]
        self.handler = handler
        options = ConsumeOptions(**order[1])
        slots = SharedSlots(options.concurrency, count, order[0])
        self.consumer = PriorityConsumer(
            [
                RuntimeConsumer(f"t{rank}", source, handler, options, share=share)
                for rank, (source, share) in enumerate(zip(self.sources, slots.shares, strict=True))
            ]
        )

    def start(self):
        self.task = asyncio.get_running_loop().create_task(self.consumer.consume())

    async def stop(self):
        self.consumer.stop()
        await self.task


def strict(**options):
    return StrictOrder(), options


def weighted(*weights, **options):
    return WeightedOrder(weights), options


class Recorder:
    """A handler that takes its time and remembers when what began."""

    def __init__(self, takes=1.0):
        self.takes, self.begun, self.running, self.most = takes, [], 0, 0

    async def __call__(self, message):
        self.begun.append((asyncio.get_running_loop().time(), message.text))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.running -= 1

    def texts(self):
        return [text for _, text in self.begun]


def test_strict_priority_handles_every_urgent_message_first() -> None:
    """With both topics full, the less urgent waits until the other is empty."""

    async def main():
        handler = Recorder()
        several = Several(strict(concurrency=2), 2, handler, lease=300)
        urgent, bulk = several.sources
        bulk.put(*(f"bulk{n}" for n in range(10)))
        urgent.put(*(f"urgent{n}" for n in range(10)))
        several.start()
        await asyncio.sleep(60)

        assert handler.texts() == [f"urgent{n}" for n in range(10)] + [f"bulk{n}" for n in range(10)]
        assert (urgent.stored, bulk.stored, handler.most) == ([], [], 2)
        await several.stop()

    run_virtual(main())


def test_an_urgent_message_waits_for_one_handler_and_not_for_a_poll() -> None:
    """Every slot is taken by bulk work of 10 s: it starts when the first of them ends."""

    async def main():
        handler = Recorder(takes=10)
        several = Several(strict(concurrency=3), 2, handler, lease=300)
        urgent, bulk = several.sources
        bulk.put(*(f"bulk{n}" for n in range(30)))
        several.start()
        await asyncio.sleep(33)
        urgent.put("urgent")
        put_at = asyncio.get_running_loop().time()
        await asyncio.sleep(20)

        begun = next(at for at, text in handler.begun if text == "urgent")
        assert begun - put_at <= 10
        ended = sorted({at + 10 for at, text in handler.begun if at + 10 >= put_at})
        assert begun == pytest.approx(ended[0], abs=0.01)
        await several.stop()

    run_virtual(main())


def test_an_idle_consumer_gets_an_urgent_message_at_once_while_the_other_poll_is_out() -> None:
    """Both long polls are parked; neither waits for the other."""

    async def main():
        handler = Recorder()
        several = Several(strict(concurrency=1), 3, handler)
        several.start()
        await asyncio.sleep(5)
        for rank, source in enumerate(several.sources):
            at = asyncio.get_running_loop().time()
            source.put(f"at {rank}")
            await asyncio.sleep(2)
            assert handler.begun[-1][0] - at < 0.1
        await several.stop()

    run_virtual(main())


def test_a_topic_that_cannot_be_received_from_does_not_stop_the_others() -> None:
    """Its outage is reported and waited out; less urgent work goes on."""

    async def main():
        handler = Recorder()
        several = Several(strict(concurrency=1), 2, handler)
        urgent, bulk = several.sources
        for _ in range(5):
            urgent.script["receive"].append(ReceiveError("broken", code=ErrorCode.OTHER, retryable=True))
        bulk.put("bulk")
        several.start()
        await asyncio.sleep(3)
        assert handler.texts() == ["bulk"]
        await asyncio.sleep(60)
        urgent.put("urgent")
        await asyncio.sleep(1)

        assert handler.texts() == ["bulk", "urgent"]
        await several.stop()

    run_virtual(main())


def test_weights_share_the_slots_while_both_have_messages() -> None:
    """Three to one, and all of them for the one that is left."""

    async def main():
        handler = Recorder()
        several = Several(weighted(3, 1, concurrency=4), 2, handler, lease=300)
        for source, name in zip(several.sources, ("often", "seldom"), strict=True):
            source.put(*(f"{name}{n}" for n in range(60)))
        several.start()
        await asyncio.sleep(40)

        first = Counter(text.rstrip("0123456789") for text in handler.texts()[:60])
        assert 42 <= first["often"] <= 48
        assert handler.most == 4
        assert [source.stored for source in several.sources] == [[], []]
        await several.stop()

    run_virtual(main())


def test_little_is_held_beyond_the_slots() -> None:
    """A message held is one that no other consumer can work on (CON-09)."""

    async def main():
        handler = Recorder(takes=50)
        several = Several(weighted(1, 1, 1, concurrency=3), 3, handler, lease=300, max_receives=4)
        for source in several.sources:
            source.put(*(str(n) for n in range(50)))
        several.start()
        await asyncio.sleep(30)

        assert handler.running == 3
        assert sum(len(source.hidden()) for source in several.sources) <= 3 + 3 * 3
        several.handler.takes = 0
        await several.stop()

    run_virtual(main())


def test_a_fatal_fault_of_one_topic_ends_all_gracefully_and_is_raised() -> None:
    """What runs is finished and settled."""

    async def main():
        handler = Recorder(takes=5)
        several = Several(strict(concurrency=1, fatal_grace=0), 2, handler)
        urgent, bulk = several.sources
        bulk.put("bulk")
        several.start()
        await asyncio.sleep(3)
        urgent.script["receive"].append(ReceiveError("gone", code=ErrorCode.NOT_FOUND, fatal=True))
        with pytest.raises(ReceiveError, match="gone"):
            await several.task

        assert bulk.settled_ids == ["m1"]

    run_virtual(main())


def test_order_per_key_holds_within_each_topic() -> None:
    """One at a time per key, keys of two topics apart."""

    async def main():
        handler = Recorder()
        several = Several(strict(concurrency=4), 2, handler, ordered=True, lease=300)
        for name, source in zip("ab", several.sources, strict=True):
            source.put(*(f"{name}{n}" for n in range(5)), key="same")
        several.start()
        await asyncio.sleep(30)

        for name in "ab":
            assert [text for text in handler.texts() if text[0] == name] == [f"{name}{n}" for n in range(5)]
        await several.stop()

    run_virtual(main())


def test_it_can_consume_again_after_a_stop() -> None:
    """And a stop before it makes the next call return."""

    async def main():
        handler = Recorder(takes=0)
        several = Several(strict(), 2, handler, cancellable=True)
        for text in ("one", "two"):
            several.start()
            several.sources[1].put(text)
            await asyncio.sleep(2)
            await several.stop()
        assert handler.texts() == ["one", "two"]

        several.consumer.stop()
        await several.consumer.consume()

    run_virtual(main())


def test_it_works_over_a_provider_and_gives_its_topics_free() -> None:
    """Opened by `new_priority_consumer()`; the message says which topic it is of."""

    async def main():
        async with (
            open_publishers("memory://?name=prio") as publishers,
            open_consumers("memory://?name=prio") as consumers,
        ):
            seen = []

            async def handler(message):
                seen.append(message.topic)

            consumer = await new_priority_consumer(consumers, ["urgent", "bulk"], handler, wait_time=1)
            with pytest.raises(ErrConsumerAlreadyRegistered):
                await consumers.new_consumer("bulk", handler)
            running = asyncio.create_task(consumer.consume())
            for topic in ("bulk", "urgent"):
                await (await publishers.new_publisher(topic)).publish("x")
            await asyncio.sleep(3)
            with pytest.raises(MessageQueueError, match="runs already"):
                await consumer.consume()
            await consumer.close()
            await running

            assert sorted(seen) == ["bulk", "urgent"]
            await consumers.new_consumer("bulk", handler)

    run_virtual(main())


def test_where_a_topic_is_taken_none_is() -> None:
    """The others are free again."""

    async def main():
        async with open_consumers("memory://?name=taken") as consumers:

            async def handler(message): ...

            await consumers.new_consumer("bulk", handler)
            with pytest.raises(ErrConsumerAlreadyRegistered):
                await new_priority_consumer(consumers, ["urgent", "bulk"], handler)
            await consumers.new_consumer("urgent", handler)

    run_virtual(main())


@pytest.mark.parametrize(
    ("topics", "says"),
    [
        ("urgent", "give a list"),
        (["urgent"], "two or more"),
        (["a", "a"], "two or more"),
        ({"a": 1, "b": 0}, "above 0"),
        ({"a": 1, "b": True}, "above 0"),
        ({"a": 1, "b": float("nan")}, "above 0"),
    ],
)
def test_topics_that_make_no_ranking_are_refused(topics: object, says: str) -> None:
    """Before anything is opened."""

    async def main():
        async with open_consumers("memory://") as consumers:
            with pytest.raises(ConfigurationError, match=says):
                await new_priority_consumer(consumers, topics, print)  # type: ignore[arg-type]

    run_virtual(main())


def test_what_cannot_share_slots_is_refused() -> None:
    """A provider that is not built on the runtime, and a handler of lists."""

    async def main():
        async def handler(message): ...

        with pytest.raises(UnsupportedOptionError, match="share slots"):
            await new_priority_consumer(object(), ["a", "b"], handler)  # type: ignore[arg-type]
        async with open_consumers("memory://") as consumers:
            with pytest.raises(ConfigurationError, match="BatchHandler"):
                await new_priority_consumer(consumers, ["a", "b"], BatchHandler(handler))  # type: ignore[arg-type]

    run_virtual(main())


async def failing_start():
    raise ReceiveError("down", retryable=True)


def test_a_less_urgent_topic_is_received_while_the_urgent_one_cannot_start() -> None:
    """It is not found empty by a receive, but there is nothing to be had from it."""

    async def main():
        handler = Recorder(takes=0)
        several = Several(strict(concurrency=2), 2, handler, lease=300)
        urgent, bulk = several.sources
        urgent.script["start"].extend([failing_start] * 1000)
        urgent.latency["start"] = 3
        bulk.put("bulk")
        several.start()
        await asyncio.sleep(20)

        assert handler.texts() == ["bulk"]
        await several.stop()

    run_virtual(main())


def test_an_open_breaker_of_the_urgent_topic_does_not_starve_the_others() -> None:
    """It receives nothing: whether it has messages says nothing."""

    async def main():
        handled = []

        async def handler(message):
            if message.text.startswith("urgent"):
                raise ConnectionError
            handled.append(message.text)

        several = Several(
            strict(concurrency=2, breaker_failures=2, breaker_pause=3_600.0, retry_delay=10), 2, handler, lease=300
        )
        urgent, bulk = several.sources
        urgent.put(*(f"urgent{n}" for n in range(20)))
        bulk.put(*(f"bulk{n}" for n in range(20)))
        several.start()
        await asyncio.sleep(100)

        assert len(handled) == 20
        await several.stop()

    run_virtual(main())


def test_a_busy_key_of_the_urgent_topic_does_not_starve_the_others() -> None:
    """It holds all that it may, and none of it can start: the free slot is anybody's."""

    async def main():
        handler = Recorder(takes=10)
        several = Several(strict(concurrency=2), 2, handler, lease=300, ordered=True)
        urgent, bulk = several.sources
        urgent.put(*(f"urgent{n}" for n in range(200)), key="k")
        bulk.put("bulk")
        several.start()
        await asyncio.sleep(60)

        assert "bulk" in handler.texts()
        await several.stop()

    run_virtual(main())


def test_a_topic_that_stops_does_not_hold_up_the_others() -> None:
    """Its last receive may be out for long, and what that brings is handed back."""

    async def main():
        handler = Recorder(takes=1)
        several = Several(strict(concurrency=2), 2, handler, lease=300)
        urgent, bulk = several.sources
        urgent.put(*(f"urgent{n}" for n in range(4)))
        handler.takes = 20
        bulk.put("bulk")
        several.start()
        await asyncio.sleep(0.1)
        handler.takes = 0
        several.consumer.consumers[0].stop()
        await asyncio.sleep(21)

        assert "bulk" in handler.texts()
        await several.stop()

    run_virtual(main())


def test_two_topics_that_fail_at_once_are_both_consumed_again() -> None:
    """The first to end stops the others, of this call and not of the next."""

    async def main():
        handler = Recorder(takes=0)
        several = Several(strict(concurrency=2, fatal_grace=0.0), 2, handler)
        gone = ReceiveError("gone", code=ErrorCode.NOT_FOUND, fatal=True)
        for source in several.sources:
            source.script["start"].append(gone)
            source.latency["start"] = 1
        with pytest.raises(ReceiveError):
            await several.consumer.consume()

        for source in several.sources:
            source.put("x")
        several.start()
        await asyncio.sleep(5)
        assert handler.texts() == ["x", "x"]
        await several.stop()

    run_virtual(main())


def test_a_stop_after_one_topic_ended_is_not_kept_for_the_next_consume() -> None:
    """A stop() while consume() runs is that run's alone; one before it makes the next return at once."""

    async def main():
        handler = Recorder(takes=0)
        several = Several(strict(concurrency=2), 2, handler, cancellable=True)
        several.start()
        await asyncio.sleep(1)
        several.consumer.consumers[0].stop()
        await asyncio.sleep(1)
        await several.stop()

        for source in several.sources:
            source.put("x")
        several.start()
        await asyncio.sleep(5)
        assert handler.texts() == ["x", "x"]
        await several.stop()

        several.consumer.stop()
        await several.consumer.consume()
        several.start()
        await asyncio.sleep(1)
        assert not several.task.done()
        await several.stop()

    run_virtual(main())


@pytest.mark.parametrize("weights", [[1e308, 1e308], [1e-9, 1e9], [5e-324, 1.0], [3, 1e308]])
def test_weights_of_any_size_share_the_slots(weights: list[float]) -> None:
    """Only their proportion counts."""
    order = WeightedOrder(weights)
    slots = SharedSlots(10, 2, order)
    assert [order.ahead(share, slots.shares, 10) >= 1 for share in slots.shares] == [True, True]

    class Ready:
        ready = 1

    for share in slots.shares:
        share.join(Ready())  # type: ignore[arg-type]
    picks = Counter(slots.shares.index(order.pick(slots.shares)) for _ in range(1000))  # type: ignore[arg-type]
    first, second = (weight / max(weights) for weight in weights)
    assert picks[0] == pytest.approx(1000 * first / (first + second), abs=1)


def test_a_weight_that_no_float_can_hold_is_refused() -> None:
    """With the bound."""

    async def main():
        async with open_consumers("memory://") as consumers:
            with pytest.raises(ConfigurationError, match="weight"):
                await new_priority_consumer(consumers, {"a": 10**400, "b": 1}, Recorder())

    run_virtual(main())
