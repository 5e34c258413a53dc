"""The circuit breaker: opens when too much fails, lets one through, closes; and costs no delivery meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import DecodeError, RetryLater
from messagequeue.runtime.breaker import Breaker, Circuit
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def breaker(failures=3, ratio=0.5, window=10.0, pause=30.0) -> Breaker:
    return Breaker(failures, ratio, window, pause)


def fail(what: Breaker, *times: float) -> list[bool]:
    return [what.saw(at, at, failed=True) for at in times]


def test_breaker_opens_at_so_many_failures_in_the_window() -> None:
    """Not before, and not of failures that are older."""
    what = breaker()
    assert fail(what, 0, 5, 16, 17) == [False] * 4
    assert fail(what, 18) == [True]
    assert what.state is Circuit.OPEN


def test_breaker_stays_closed_while_most_succeed() -> None:
    """Some failures are daily business: the ratio must be reached, too."""
    what = breaker(failures=3, ratio=0.5)
    for n in range(100):
        assert not what.saw(n / 100, 0, failed=n % 4 == 0)


def test_breaker_receives_nothing_while_open_then_one_message_at_a_time() -> None:
    """Then everything again, or nothing again, by what became of that one."""
    what = breaker(failures=1)
    assert what.room(0, 10, []) == 10
    fail(what, 1)
    assert what.room(30.9, 10, []) == 0
    assert what.room(31, 10, [5]) == 1
    assert what.room(31, 10, [31]) <= 0

    assert what.saw(32, 31.5, failed=True)
    assert what.room(61.9, 10, []) == 0
    assert what.room(62, 10, []) == 1

    assert what.saw(63, 62.5, failed=False)
    assert (what.state, what.room(63, 10, [63] * 4)) == (Circuit.CLOSED, 10)


def test_breaker_is_not_told_by_messages_from_before() -> None:
    """A handler that began before it opened, and ends in the trial, proves nothing."""
    what = breaker(failures=1)
    fail(what, 1)
    what.room(31, 10, [])

    assert not what.saw(32, 0.5, failed=False)
    assert not what.saw(32, 0.5, failed=True)
    assert what.state is Circuit.TRIAL


class Outage:
    """A handler whose need is down until *ends*."""

    def __init__(self, ends):
        self.ends, self.at = ends, []

    async def __call__(self, message):
        now = asyncio.get_running_loop().time()
        self.at.append(now)
        if now < self.ends:
            raise ConnectionError


def test_consumer_burns_few_deliveries_in_an_outage_and_goes_on_after_it() -> None:
    """Ten minutes: without a breaker each of fifty messages would be received six hundred times."""

    async def main():
        loop = asyncio.get_running_loop()
        source = FakeSource(lease=300)
        source.put(*(str(n) for n in range(50)))
        handler = Outage(ends=loop.time() + 600)
        b = bench(source, handler, retry_delay=1, breaker_failures=5, breaker_pause=60.0, concurrency=5)
        b.start()
        await asyncio.sleep(599)
        attempts = [item.attempts for item in source.stored]
        assert len(handler.at) <= 5 + 5 + 11
        assert sum(attempts) <= 40
        assert b.consumer.stats.breaker_open
        assert source.hidden() == []  # nothing is held back from other consumers

        await asyncio.sleep(200)
        assert source.stored == []
        assert not b.consumer.stats.breaker_open
        assert b.consumer.stats.breaker_opened == 1 + 9
        await b.stop()

    run_virtual(main())


def test_consumer_hands_back_what_it_holds_when_the_breaker_opens() -> None:
    """And what a receive brings that was out already."""

    async def main():
        source = FakeSource(lease=300, max_receives=2)
        source.put(*(str(n) for n in range(10)))

        async def handler(message):
            await asyncio.sleep(1)
            raise ConnectionError

        b = bench(source, handler, breaker_failures=2, concurrency=2, prefetch=8, retry_delay=100)
        b.start()
        await asyncio.sleep(4)
        begun = len(b.kinds())
        assert begun in (2, 3)  # two failed, and one more had begun perhaps
        assert b.kinds() == ["HandlerError"] * begun
        assert len(source.hidden()) == begun  # they wait for their retry
        source.put("late")
        await asyncio.sleep(5)
        assert len(source.hidden()) == begun
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("error", [RetryLater(5), DecodeError("unreadable"), KeyError("permanent")])
def test_what_is_no_outage_does_not_open_it(error: Exception) -> None:
    """A signal, an unreadable body and a permanent error say nothing about the next message."""

    async def main():
        source = FakeSource(lease=300, dead_letters=True)
        source.put(*(str(n) for n in range(20)))

        async def handler(message):
            raise error

        b = bench(source, handler, breaker_failures=1, permanent=(KeyError,), retry_delay=500)
        b.start()
        await asyncio.sleep(5)

        assert not b.consumer.stats.breaker_open
        assert b.consumer.stats.received >= 20
        await b.stop()

    run_virtual(main())


def test_a_stop_while_open_ends_at_once() -> None:
    """There is nothing to wait for."""

    async def main():
        source = FakeSource(lease=300, cancellable=True)
        source.put("a")
        b = bench(source, Outage(ends=1e12), breaker_failures=1, breaker_pause=3_600)
        b.start()
        await asyncio.sleep(5)
        before = asyncio.get_running_loop().time()
        await b.stop()

        assert asyncio.get_running_loop().time() - before < 1

    run_virtual(main())
