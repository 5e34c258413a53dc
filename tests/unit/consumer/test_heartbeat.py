"""Leases: kept alive while needed, given up when lost, never prolonged past their limit or after the end."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import ErrorCode, LeaseLostError, RetryLater, SettleError
from messagequeue.runtime.leases import Lease, LeaseBook, LeaseTerms, extension, return_delay
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


async def sleeps(seconds):
    await asyncio.sleep(seconds)


def test_heartbeat_lets_a_slow_handler_outlive_its_lease():
    """A handler of 100 s on a lease of 10 s runs once and its message is deleted."""

    async def main():
        source = FakeSource(lease=10)
        source.put("x")
        starts = []

        async def handler(message):
            starts.append(source.now())
            await asyncio.sleep(100)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(120)

        assert starts == [0]
        assert source.stored == []
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_heartbeat_covers_messages_that_wait_for_a_slot():
    """The lease clock starts at the receive: prefetched messages are kept alive too (HB-06)."""

    async def main():
        source = FakeSource(lease=3)
        source.put(*["x"] * 10)
        handled = []

        async def handler(message):
            handled.append(message.id)
            await asyncio.sleep(2)

        first = bench(source, handler, concurrency=1, prefetch=5)
        second = bench(source, handler, concurrency=1, prefetch=5)
        first.start()
        second.start()
        await asyncio.sleep(60)

        assert sorted(handled) == sorted(set(handled))
        assert len(handled) == 10
        await first.stop()
        await second.stop()

    run_virtual(main())


def test_heartbeat_prolongs_in_batches():
    """25 running messages are prolonged in three calls per interval."""

    async def main():
        source = FakeSource(lease=30)
        source.put(*["x"] * 25)
        b = bench(source, lambda message: sleeps(25), concurrency=25)
        b.start()
        await asyncio.sleep(12)

        assert len(source.ops("extend")) == 3
        await b.stop()

    run_virtual(main())


def test_heartbeat_under_way_is_awaited_before_the_delete():
    """No prolongation reaches the broker after the delete, and the others' beats go on (HB-01)."""

    async def main():
        source = FakeSource(lease=3, latency={"extend": 0.5})
        source.put("short", "long")

        async def handler(message):
            await asyncio.sleep(1.1 if message.text == "short" else 4)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(10)

        settled = [at for at, _ in source.ops("settle")]
        assert settled[0] == pytest.approx(1.5)
        assert source.stored == []
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_heartbeat_does_not_undo_a_chosen_delay():
    """A beat on its way when the handler asks for a retry in 1 s is awaited first: it comes at 1 s, not 10 (HB-04)."""

    async def main():
        source = FakeSource(lease=10, latency={"extend": 0.5})
        source.put("x")
        times = []

        async def handler(message):
            times.append(source.now())
            if len(times) == 1:
                await asyncio.sleep(2.1)
                raise RetryLater(1)

        b = bench(source, handler, heartbeat_interval=2.0)
        b.start()
        await asyncio.sleep(30)

        assert times[1] == pytest.approx(3.1, abs=0.5)
        await b.stop()

    run_virtual(main())


def test_heartbeat_failing_once_disturbs_nobody(caplog):
    """One refused connection is a warning; the next beat lands (HB-08 a)."""

    async def main():
        source = FakeSource(lease=10)
        source.put("x")
        source.script["extend"].extend([lambda: None, SettleError("reset", code=ErrorCode.CONNECTION, retryable=True)])
        b = bench(source, lambda message: sleeps(30), heartbeat_interval=3.0)
        b.start()
        await asyncio.sleep(40)

        assert source.stored == []
        assert b.errors == []
        assert caplog.text.count("heartbeat of message") == 1
        await b.stop()

    run_virtual(main())


def test_heartbeat_that_hangs_does_not_suppress_the_next():
    """Each beat has a time limit of its own (HB-08 b)."""

    async def main():
        source = FakeSource(lease=10)
        source.put("x")
        source.script["extend"].extend([lambda: None, lambda: sleeps(10_000)])
        b = bench(source, lambda message: sleeps(30), heartbeat_interval=3.0)
        b.start()
        await asyncio.sleep(40)

        assert source.stored == []
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_lease_is_lost_at_its_real_deadline_when_no_beat_lands():
    """All beats from the second on fail: lost at the last success + 10 s, not earlier; not deleted (HB-08 c)."""

    async def main():
        source = FakeSource(lease=10)
        source.put("x")
        down = SettleError("down", code=ErrorCode.UNAVAILABLE, retryable=True)
        source.script["extend"].extend([lambda: None, *[down] * 100])
        cancelled = []

        async def handler(message):
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(source.now())
                raise

        b = bench(source, handler, concurrency=1, heartbeat_interval=3.0)
        b.start()
        await asyncio.sleep(14)

        assert cancelled == [13]
        assert b.kinds() == ["LeaseLostError"]
        assert source.ops("settle") == []
        await b.stop()

    run_virtual(main())


def test_lease_refused_by_the_broker_is_lost_at_once():
    """The broker says the handle is not valid any more: no more beats, the handler is cancelled (HB-08 d)."""

    async def main():
        source = FakeSource(lease=10)
        (message_id,) = source.put("x")
        ended = []

        async def handler(message):
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(source.now())

        b = bench(source, handler, heartbeat_interval=3.0)
        b.start()
        await asyncio.sleep(1)
        source.steal(message_id)
        await asyncio.sleep(4)

        assert ended == [3]
        assert isinstance(b.errors[0], LeaseLostError)
        assert b.errors[0].message.id == message_id
        assert b.consumer.stats.leases_lost == 1
        await b.stop()

    run_virtual(main())


def test_lost_lease_is_not_settled_even_if_the_handler_returns():
    """A handler that swallows its cancellation and returns has not finished a message it no longer holds."""

    async def main():
        source = FakeSource(lease=10)
        (message_id,) = source.put("x")

        async def handler(message):
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                return

        b = bench(source, handler, heartbeat_interval=3.0)
        b.start()
        await asyncio.sleep(1)
        source.steal(message_id)
        await asyncio.sleep(4)

        assert source.ops("settle") == []
        assert len(source.stored) == 1
        await b.stop()

    run_virtual(main())


def test_heartbeat_off_loses_the_lease_at_its_end():
    """Without beats a handler that outlives its lease is cancelled, counted, and the message comes again (CON-15)."""

    async def main():
        source = FakeSource(lease=2)
        source.put("x")
        starts = []

        async def handler(message):
            starts.append(source.now())
            await asyncio.sleep(4)

        b = bench(source, handler, heartbeat=False)
        b.start()
        await asyncio.sleep(5)

        assert starts == [0, 2, 4]
        assert b.consumer.stats.leases_lost == 2
        assert source.ops("extend") == []
        await b.stop()

    run_virtual(main())


def test_lease_is_not_prolonged_past_the_limit():
    """The total since the receive stays under 12 h; then beats stop and the loss is told once (HB-02)."""

    async def main():
        source = FakeSource(lease=1200)
        source.put("x")
        ended = []

        async def handler(message):
            try:
                await asyncio.sleep(100_000)
            finally:
                ended.append(source.now())

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(43_500)

        for at, args in source.ops("extend"):
            assert at + args[0] <= 43_200
        assert 43_190 <= ended[0] <= 43_200
        assert b.kinds() == ["LeaseLostError"]
        await b.stop()

    run_virtual(main(), timeout=100_000)


@pytest.mark.parametrize(
    ("held_for", "expected"),
    [(0, 1200), (42_000 - 1, 1200), (42_600, 599), (43_195, 4), (43_198, 1), (43_199, None), (50_000, None)],
)
def test_extension_shrinks_towards_the_limit(held_for, expected):
    """min(extension, 43200 - elapsed - margin), at least 1 s, else none (HB-02)."""
    assert extension(1200, held_for, 43_200) == expected


@pytest.mark.parametrize(
    ("after", "held_for", "expected"),
    [(5, 0, 5), (2**1000, 0, 43_199), (3600, 42_900, 299), (5, 43_200, 0), (0, 10, 0)],
)
def test_return_delay_stays_within_the_limit(after, held_for, expected):
    """A computed delay is cut to what the 12 h leave, and never overflows (CON-18)."""
    assert return_delay(after, held_for, 43_200) == expected


def test_lease_book_keeps_nothing_of_settled_leases():
    """A settled lease leaves the book in O(1) and leaves no garbage behind."""
    book = LeaseBook(LeaseTerms(lease=30, interval=10))
    for n in range(10_000):
        lease = Lease(n / 1000)
        book.add(lease)
        book.remove(lease)

    assert len(book) == 0
    assert book.next_due() is None


def test_lease_book_beats_in_time_with_an_interval_over_half_the_lease():
    """With 20 s of 30 the beat after an answer is due 20 s later, not at the old deadline."""
    book = LeaseBook(LeaseTerms(lease=30, interval=20))
    lease = Lease(0)
    book.add(lease)

    assert book.next_due() == 20
    assert book.due(20).extend == {30: [lease]}
    book.extended(lease, 20, 30)
    assert book.next_due() == 40
    assert lease.deadline == 50


def test_heartbeat_of_an_older_lease_says_nothing_about_the_newer_one():
    """A message comes again while a beat under its older handle is out: that beat's refusal does not end the work."""

    async def main():
        source = FakeSource(lease=9, max_receives=2, latency={"extend": 1.0})
        source.put("x")
        runs = []

        async def handler(message):
            runs.append(message.delivery_attempt)
            await asyncio.sleep(30)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(3.5)
        source.stored[0].visible_at = 0  # the broker lost the lease before the beat under way arrived
        source._notify()
        await asyncio.sleep(40)

        assert b.kinds() == []
        assert runs == [1]
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_lost_lease_is_told_once_though_the_handler_was_cancelled_before():
    """Timed out, unwinding, its lease lost: when it returns at last its message is not settled or told of again."""

    async def main():
        source = FakeSource(lease=9)
        source.put("x")
        source.script["extend"].append(lambda: [LeaseLostError("gone")])

        async def handler(message):
            if message.delivery_attempt == 1:
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    await asyncio.sleep(2)

        b = bench(source, handler, handler_timeout=2.0)
        b.start()
        await asyncio.sleep(5)

        assert b.kinds() == ["LeaseLostError"]
        assert source.ops("settle") == []
        await b.stop()

    run_virtual(main())


def test_lease_book_keeps_the_next_beat_though_the_last_was_answered_late():
    """A lease whose date lies before that of others that are kept is due at that date, not at theirs."""
    book = LeaseBook(LeaseTerms(lease=10, interval=9))
    first, second = Lease(0), Lease(9.5)
    book.add(first)
    book.due(9)
    book.add(second)
    book.extended(first, 9, 10)

    assert first.due == 18
    assert book.next_due() == 18
