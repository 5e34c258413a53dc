"""Facts about order per key; for topics that promise it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from ..._errors import HandlerError, RetryLater
from ..._message import Message, Outgoing
from ._bench import Bench, Worker, fail, fail_once, numbers
from ._facts import ordered_fact


class OrderingFacts:
    """What holds for messages that share an ordering key."""

    @ordered_fact()
    async def test_a_key_is_handled_in_order_one_at_a_time(self, bench: Bench) -> None:
        """With slots to spare; keys run beside each other (FIFO-04, FIFO-06)."""
        topic = await bench.new_topic()
        await _publish_keys(bench, topic, "ab", 5)
        both = asyncio.Barrier(2)

        async def behaviour(message: Message) -> None:
            if message.text.endswith("1"):
                await both.wait()  # Only passes while one of each key runs.
            await asyncio.sleep(0.01 * bench.unit)

        worker = await bench.consume(topic, behaviour, concurrency=10)
        await worker.until_done(10)
        _in_order([worker], "ab", 5)

    @ordered_fact()
    async def test_order_holds_across_consumers(self, bench: Bench) -> None:
        """While one consumer works on a key, no other gets a later message of it (FIFO-04)."""
        topic = await bench.new_topic()

        async def behaviour(_: Message) -> None:
            await asyncio.sleep(0.01 * bench.unit)

        workers = [await bench.consume(topic, behaviour, provider=await bench.consumers()) for _ in range(3)]
        await _publish_keys(bench, topic, "abcd", 6)
        await bench.until(lambda: sum(len(worker.done) for worker in workers) == 24, "all are handled")
        _in_order(workers, "abcd", 6)

    @ordered_fact()
    async def test_a_large_publish_keeps_order(self, bench: Bench) -> None:
        """More messages of a key than one call carries, over one key and over two (FIFO-07)."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        await publisher.publish_many([f"a{number}" for number in range(1, 36)], ordering_key="a")
        items = [Outgoing(f"{key}{number}", ordering_key=key) for number in range(1, 21) for key in "bc"]
        await publisher.publish_many(items)
        worker = await bench.consume(topic)
        await worker.until_done(75)
        _in_order([worker], "a", 35)
        _in_order([worker], "bc", 20)

    @ordered_fact()
    async def test_publishes_of_a_key_keep_the_order_of_their_calls(self, bench: Bench) -> None:
        """Handed over without waiting, they do not overtake each other; sequence numbers rise."""
        topic = await bench.new_topic()
        publisher = await bench.publisher(topic)
        futures = [publisher.publish_nowait(f"a{number}", ordering_key="a") for number in range(1, 31)]
        receipts = [await future for future in futures]
        worker = await bench.consume(topic)
        await worker.until_done(30)
        _in_order([worker], "a", 30)
        sequence = [int(receipt.sequence_number) for receipt in receipts if receipt.sequence_number is not None]
        assert sequence == sorted(set(sequence))

    @ordered_fact()
    async def test_later_messages_of_a_key_never_overtake_a_failed_one(self, bench: Bench) -> None:
        """Those already received are handed back unhandled, and come after it (FIFO-01)."""
        topic = await bench.new_topic(lease=1)
        await _publish_keys(bench, topic, "a", 6)
        failing = fail_once()

        async def behaviour(message: Message) -> None:
            if message.text == "a3":
                await failing(message)

        worker = await bench.consume(topic, behaviour)
        await worker.until_done(6)
        worker.expect(HandlerError)
        assert worker.begun == ["a1", "a2", "a3", "a3", "a4", "a5", "a6"]
        assert worker.handlings[3].began - worker.handlings[2].began >= 0.8 * bench.unit

    @ordered_fact()
    async def test_a_failure_holds_its_key_no_longer_than_its_delay(self, bench: Bench) -> None:
        """However long the lease is; the messages behind it are received once more at most (FIFO-03)."""
        topic = await bench.new_topic()
        await _publish_keys(bench, topic, "a", 10)

        async def behaviour(message: Message) -> None:
            if message.text == "a3" and message.delivery_attempt in (1, None) and "a3" not in worker.begun[:-1]:
                raise RetryLater(bench.unit)

        worker = await bench.consume(topic, behaviour)
        await worker.until_done(10)
        assert worker.done == [f"a{number}" for number in range(1, 11)]
        assert worker.handlings[-1].began - worker.handlings[0].began <= 4 * bench.unit + bench.slack
        if bench.features.counts_deliveries and bench.features.held_keys_wait:
            assert all(handling.message.delivery_attempt in (1, 2) for handling in worker.handlings)

    @ordered_fact()
    async def test_a_failing_key_holds_up_no_other(self, bench: Bench) -> None:
        """The keys beside it go on at once."""
        topic = await bench.new_topic()
        await _publish_keys(bench, topic, "abc", 4)

        async def behaviour(message: Message) -> None:
            if message.ordering_key == "a":
                await fail(message)

        worker = await bench.consume(topic, behaviour)
        await worker.until_done(8)
        worker.expect(HandlerError)
        assert [text for text in worker.begun if text.startswith("a")] == ["a1"]
        _in_order([worker], "bc", 4)

    @ordered_fact()
    async def test_a_slow_key_holds_up_no_other(self, bench: Bench) -> None:
        """Also where many of its messages are waiting in front of theirs."""
        topic = await bench.new_topic()
        await _publish_keys(bench, topic, "a", 15)
        release = asyncio.Event()

        async def behaviour(message: Message) -> None:
            if message.text == "a1":
                await release.wait()

        worker = await bench.consume(topic, behaviour, concurrency=4)
        await worker.until_begun(1)
        await _publish_keys(bench, topic, "bcd", 3)
        await worker.until_done(9)
        assert [text for text in worker.begun if text.startswith("a")] == ["a1"]
        release.set()
        await worker.until_done(24)
        _in_order([worker], "a", 15)

    @ordered_fact()
    async def test_what_is_held_of_a_key_at_stop_goes_on_elsewhere_in_order(self, bench: Bench) -> None:
        """The running one is finished, the rest handed back: another consumer continues without a gap or a wait."""
        topic = await bench.new_topic()
        await _publish_keys(bench, topic, "a", 8)
        release = asyncio.Event()

        async def behaviour(message: Message) -> None:
            if message.text == "a3":
                await release.wait()

        first = await bench.consume(topic, behaviour)
        await first.until_begun(3)
        first.consumer.stop()
        release.set()
        await first.end()
        began = bench.now()
        second = await bench.consume(topic, provider=await bench.consumers())
        await second.until_done(5)
        assert first.done + second.done == [f"a{number}" for number in range(1, 9)]
        assert bench.now() - began <= bench.features.wait + bench.slack

    @ordered_fact("dead_letters")
    async def test_a_dead_letter_frees_its_key(self, bench: Bench) -> None:
        """
        Once it is moved, the messages behind it are handled, in order (SRV-11).

        Received one by one: what is received together with a failing message counts its deliveries too, and may follow
        it into the dead-letter queue.
        """
        topic = await bench.new_topic(max_receives=2)
        await _publish_keys(bench, topic, "a", 4)

        async def behaviour(message: Message) -> None:
            if message.text == "a2":
                await fail(message)

        worker = await bench.consume(topic, behaviour, retry_delay=0, batch_size=1)
        await worker.until_done(3)
        worker.expect(HandlerError)
        assert worker.done == ["a1", "a3", "a4"]
        assert await bench.harness.dead_letters(topic) == [b"a2"]


async def _publish_keys(bench: Bench, topic: str, keys: str, count: int) -> None:
    """Publish a1, b1, a2, b2, ... under the keys a, b, ..."""
    publisher = await bench.publisher(topic)
    items = [Outgoing(f"{key}{number}", ordering_key=key) for number in numbers(count) for key in keys]
    await publisher.publish_many(items)


def _in_order(workers: Sequence[Worker], keys: str, count: int) -> None:
    """Each key was handled in order, each message once, and no two handlers of a key ran at the same time."""
    by_key = defaultdict(list)
    for handling in sorted((item for worker in workers for item in worker.handlings), key=lambda item: item.began):
        by_key[handling.message.ordering_key].append(handling)
    for key in keys:
        handlings = by_key[key]
        assert [handling.text for handling in handlings] == [f"{key}{number}" for number in numbers(count)]
        for earlier, later in pairwise(handlings):
            assert earlier.ended is not None
            assert earlier.ended <= later.began, f"{earlier.text} and {later.text} ran at the same time"
