"""Order per key while consuming: one at a time, in order, and never past a failure."""

from __future__ import annotations

import asyncio
import random

import pytest

from messagequeue import LeaseLostError, RetryLater, SettleError
from messagequeue.driver import Delivery
from messagequeue.runtime.dispatch import Held, Lanes
from messagequeue.runtime.polling import terms
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def test_ordering_hands_back_the_later_messages_of_a_failed_one():
    """First pass 1, 2, 3 (fails); 4 to 6 are not handled and come after 3 (FIFO-01)."""

    async def main():
        source = FakeSource(lease=2, ordered=True)
        source.put(*"123456", key="g")
        seen = []

        async def handler(message):
            seen.append(message.text)
            if message.text == "3" and message.delivery_attempt == 1:
                raise ValueError

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        assert seen == ["1", "2", "3"]
        await asyncio.sleep(3)

        assert seen == ["1", "2", "3", "3", "4", "5", "6"]
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_ordering_releases_skipped_messages_at_once():
    """4 to 10 are not held until the lease ends: seconds, not a minute; attempts rise by one at most (FIFO-03)."""

    async def main():
        source = FakeSource(lease=60, ordered=True)
        source.put(*(str(n) for n in range(1, 11)), key="g")
        seen, attempts = [], {}

        async def handler(message):
            seen.append(message.text)
            attempts[message.text] = message.delivery_attempt
            if message.text == "3" and message.delivery_attempt == 1:
                raise ValueError

        b = bench(source, handler, retry_delay=1.0)
        b.start()
        await asyncio.sleep(3)

        assert seen == ["1", "2", "3", "3", "4", "5", "6", "7", "8", "9", "10"]
        assert max(attempts.values()) == 2
        await b.stop()

    run_virtual(main())


def test_ordering_runs_one_message_of_a_key_at_a_time_and_keys_in_parallel():
    """Within a key run intervals never overlap and are in order; keys overlap (FIFO-04)."""

    async def main():
        source = FakeSource(ordered=True)
        for n in range(5):
            source.put(f"A{n}", key="A")
            source.put(f"B{n}", key="B")
        dice = random.Random(1)
        running, done, overlaps = set(), {"A": [], "B": []}, 0

        async def handler(message):
            nonlocal overlaps
            key = message.ordering_key
            assert key not in running
            running.add(key)
            overlaps += len(running) == 2
            await asyncio.sleep(dice.uniform(0.05, 0.2))
            running.discard(key)
            done[key].append(message.text)

        first, second = bench(source, handler), bench(source, handler)
        first.start()
        second.start()
        await asyncio.sleep(10)

        assert done == {key: [f"{key}{n}" for n in range(5)] for key in "AB"}
        assert overlaps
        await first.stop()
        await second.stop()

    run_virtual(main())


def test_ordering_starts_the_next_only_after_the_delete_is_confirmed():
    """On an ordered topic the delete is confirmed before the next message of the key starts."""

    async def main():
        source = FakeSource(ordered=True, latency={"settle": 1.0})
        source.put("1", "2", key="g")
        starts = []

        async def handler(message):
            starts.append(source.now())

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(5)

        assert starts == [0, 1]
        await b.stop()

    run_virtual(main())


def test_ordering_does_not_pass_a_message_whose_delete_failed():
    """Handled but not deleted, it will come again: later ones of its key are handed back, not run before it."""

    async def main():
        source = FakeSource(lease=5, ordered=True)
        source.put("1", "2", "3", key="g")
        source.script["settle"].append(SettleError("denied", retryable=False))
        seen = []

        async def handler(message):
            seen.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(20)

        assert seen == ["1", "1", "2", "3"]
        await b.stop()

    run_virtual(main())


def test_ordering_does_not_serialise_messages_without_a_key():
    """An absent key is no key: 20 messages of 0.2 s run side by side (FIFO-06)."""

    async def main():
        source = FakeSource(ordered=True)
        source.put(*["x"] * 20)

        async def handler(message):
            await asyncio.sleep(0.2)

        b = bench(source, handler, concurrency=20)
        b.start()
        await asyncio.sleep(0.5)

        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_ordering_ignores_keys_where_the_topic_keeps_no_order():
    """On a standard queue a key is a tenant's tag: its messages run side by side (PUB-03)."""

    async def main():
        source = FakeSource(ordered=False)
        source.put(*["x"] * 10, key="tenant-1")

        async def handler(message):
            await asyncio.sleep(1)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1.1)

        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_ordering_refuses_what_a_broker_delivers_past_a_failed_message():
    """A broker that hands out 2 while 1 is hidden after its failure does not make 2 overtake 1."""

    async def main():
        source = FakeSource(lease=10, ordered=True)
        source.put("1", key="g")
        seen = []

        async def handler(message):
            seen.append((message.text, source.now()))
            if message.delivery_attempt == 1 and message.text == "1":
                raise ValueError

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        source.ordered = False  # the broker forgets its lock
        source.put("2", key="g")
        await asyncio.sleep(30)

        assert [text for text, _ in seen] == ["1", "2"] or [text for text, _ in seen] == ["1", "1", "2"]
        assert [text for text, _ in seen] == ["1", "1", "2"]
        await b.stop()

    run_virtual(main())


def test_ordering_one_busy_key_does_not_keep_others_out():
    """Messages that wait behind their key take no slot: other keys are received and run meanwhile."""

    async def main():
        source = FakeSource(ordered=True, lease=60)
        source.put(*["slow"] * 10, key="busy")
        source.put("other", key="b")
        done = []

        async def handler(message):
            await asyncio.sleep(10 if message.text == "slow" else 0.1)
            done.append(message.text)

        b = bench(source, handler, concurrency=10)
        b.start()
        await asyncio.sleep(1)

        assert done == ["other"]
        await b.stop()

    run_virtual(main())


def test_ordering_holds_with_random_failures():
    """Whatever fails, each key's successes are in order, and all messages succeed once in the end."""

    async def main(seed):
        dice = random.Random(seed)
        source = FakeSource(lease=5, ordered=True, latency={"settle": 0.05, "receive": 0.02, "release": 0.01})
        for n in range(60):
            source.put(str(n), key=dice.choice("abcd"))
        expected = {}
        for item in source.stored:
            expected.setdefault(item.key, []).append(item.body.decode())
        done = {}

        async def handler(message):
            await asyncio.sleep(dice.uniform(0, 0.3))
            roll = dice.random()
            if roll < 0.1:
                raise ValueError
            if roll < 0.2:
                raise RetryLater(dice.choice([0, 1]))
            done.setdefault(message.ordering_key, []).append(message.text)

        b = bench(source, handler, concurrency=dice.choice([1, 3, 10]))
        b.start()
        async with asyncio.timeout(3000):
            while source.stored:
                await asyncio.sleep(1)

        assert done == expected
        await b.stop()

    for seed in range(20):
        run_virtual(main(seed))


def test_lanes_forget_blocks_of_messages_that_never_came_back():
    """What is kept of failed keys is bounded by the failures that are still awaited."""
    lanes = Lanes(ordered=True)
    for n in range(10_000):
        held = held_of(f"m{n}", f"k{n}")
        lanes.admit(held, n)
        assert lanes.take() is held
        lanes.retreat(held, n, back_at=n + 5)

    assert len(lanes._blocks) <= 64


def held_of(message_id, key):
    from messagequeue import Message

    return Held(Delivery(Message("t", message_id, b"x", ordering_key=key), object()), key, 0.0)


@pytest.mark.parametrize(("retry_delay", "seconds"), [(None, 400), (0.0, 5), (1.0, 20), (25.0, 400)])
def test_ordering_receives_a_failing_message_alone(retry_delay, seconds):
    """What waits behind a poison message is not received with each of its failures: its receives stay at two."""

    async def main():
        source = FakeSource(lease=30, ordered=True, latency={"receive": 0.05})
        source.put(*"123456789", key="g")

        async def handler(message):
            raise ValueError

        b = bench(source, handler, retry_delay=retry_delay)
        b.start()
        await asyncio.sleep(seconds)
        receives = {item.body.decode(): item.attempts for item in source.stored}

        assert receives.pop("1") >= 10
        assert max(receives.values()) <= 2
        await b.stop()

    run_virtual(main())


def test_ordering_receives_in_full_again_once_the_failed_message_is_through():
    """Asking for one message at a time lasts as long as the failed one is away or at work."""

    async def main():
        source = FakeSource(lease=30, ordered=True)
        source.put(*"12345", key="g")
        seen = []

        async def handler(message):
            seen.append(message.text)
            if message.text == "1" and len(seen) < 4:
                raise RetryLater(1)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(10)
        source.put(*"abcdefghij", key="h")
        await asyncio.sleep(60)

        assert seen == ["1", "1", "1", "1", *"2345", *"abcdefghij"]
        assert source.ops("receive")[-1][1][0] == 10
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize(
    ("due_in", "expected"),
    [(None, (10, 20)), (30, (10, 20)), (21, (10, 20)), (12.5, (10, 11)), (2, (10, 1)), (1.9, (1, 20)), (-3, (1, 20))],
)
def test_receive_terms_end_before_a_failed_message_is_due(due_in, expected):
    """Full receives until it is due, single ones from then on."""
    assert terms(10, 20, due_in) == expected


def test_ordering_does_not_pass_a_waiting_message_whose_lease_is_lost():
    """2 is lost while it waits behind 1: 3, held as well, is handed back and does not run before 2."""

    async def main():
        source = FakeSource(lease=9, ordered=True)
        source.put("1", "2", "3", key="k")
        source.script["extend"].append(lambda: [None, LeaseLostError("gone"), None])
        done = []

        async def handler(message):
            await asyncio.sleep(4)
            done.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(60)

        assert done == ["1", "2", "3"]
        assert b.consumer.stats.leases_lost == 1
        await b.stop()

    run_virtual(main())


def test_ordering_survives_the_loss_of_all_that_is_held_of_a_key():
    """Every lease ends in the same moment: each is told of once, and all of them are handled later, in order."""

    async def main():
        source = FakeSource(lease=9, ordered=True)
        source.put("1", "2", "3", key="k")
        down = SettleError("down", retryable=True)
        source.script["extend"].extend([lambda: [down] * 3] * 8)
        done = []

        async def handler(message):
            await asyncio.sleep(4 if message.delivery_attempt > 1 else 20)
            done.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(8.9)
        for message_id in ("m1", "m2", "m3"):
            source.steal(message_id)
        source.script["extend"].clear()
        await asyncio.sleep(1)
        lost = b.consumer.stats.leases_lost
        await asyncio.sleep(60)

        assert lost == 3
        assert done == ["1", "2", "3"]
        await b.stop()

    run_virtual(main())
