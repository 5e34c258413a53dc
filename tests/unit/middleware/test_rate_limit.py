"""`RateLimit` and `rate_limit()`: so many per second, first come first served, changeable at any time."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messagequeue import ConfigurationError, Message, open_consumers, open_publishers
from messagequeue.middleware import RateLimit, rate_limit
from messagequeue.middleware._rate_limit import Bucket
from messagequeue.testing import deliver, run_virtual


async def passed(limit: RateLimit, count: int) -> list[float]:
    """When each of *count* callers, who come in order and at once, gets through."""
    loop, times = asyncio.get_running_loop(), [0.0] * count

    async def one(number: int) -> None:
        await limit.acquire()
        times[number] = loop.time()

    await asyncio.gather(*map(one, range(count)))
    return times


def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    """Two per second with a burst of three: three now, then one each half second, in the order they came."""
    times = run_virtual(passed(RateLimit(2, burst=3), 7))

    assert times == pytest.approx([0, 0, 0, 0.5, 1, 1.5, 2])


def test_a_quiet_time_fills_the_bucket_to_its_burst_and_no_further() -> None:
    """After half an hour the burst is what it was at first."""

    async def main() -> None:
        limit = RateLimit(10, burst=2)
        await passed(limit, 5)
        await asyncio.sleep(1800)
        times = await passed(limit, 4)

        assert [at - times[0] for at in times] == pytest.approx([0, 0, 0.1, 0.2])

    run_virtual(main())


@settings(max_examples=200, deadline=None)
@given(
    rate=st.floats(0.01, 1000),
    burst=st.integers(1, 20),
    gaps=st.lists(st.floats(0, 10), min_size=1, max_size=100),
)
def test_no_span_of_time_lets_more_through_than_burst_and_rate(rate: float, burst: int, gaps: list[float]) -> None:
    """Whatever the moments at which somebody asks."""
    bucket, now, taken = Bucket(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now) == 0:
            taken.append(now)

    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + (taken[last] - taken[first]) * rate + 1e-6


def test_who_waits_goes_by_a_new_rate_at_once() -> None:
    """Raised from one per hour to one per second while three wait; what the old rate brought counts."""

    async def main() -> None:
        limit = RateLimit(1 / 3600)
        loop = asyncio.get_running_loop()
        loop.call_later(1800, setattr, limit, "rate", 1.0)

        assert await passed(limit, 3) == pytest.approx([0, 1800.5, 1801.5])
        assert limit.rate == 1.0

    run_virtual(main(), timeout=7200)


def test_a_lower_rate_holds_for_who_waits() -> None:
    """The one who would have come next waits for the longer time, less what had come already."""

    async def main() -> None:
        limit = RateLimit(1)
        asyncio.get_running_loop().call_later(0.5, setattr, limit, "rate", 0.1)

        assert await passed(limit, 3) == pytest.approx([0, 5.5, 15.5])

    run_virtual(main())


def test_the_rate_can_be_set_from_another_thread() -> None:
    """An administration thread need not know the loop."""

    async def main() -> None:
        limit = RateLimit(1e-6)
        await limit.acquire()
        waiter = asyncio.create_task(limit.acquire())
        await asyncio.sleep(0)
        thread = threading.Thread(target=setattr, args=(limit, "rate", 1e6))
        thread.start()
        await asyncio.to_thread(thread.join)
        async with asyncio.timeout(10):
            await waiter

    asyncio.run(main())


def test_who_is_cancelled_leaves_the_line_and_takes_nothing() -> None:
    """First, in the middle or last: the others move up and lose no time."""

    async def main() -> None:
        limit = RateLimit(1)
        loop, times = asyncio.get_running_loop(), {}

        async def one(number: int) -> None:
            await limit.acquire()
            times[number] = loop.time()

        tasks = [asyncio.create_task(one(number)) for number in range(6)]
        await asyncio.sleep(0.5)
        assert limit.waiting == 5
        for number in (1, 3, 5):
            tasks[number].cancel()
        await asyncio.wait(tasks)

        assert times == pytest.approx({0: 0, 2: 1, 4: 2})
        assert limit.waiting == 0

    run_virtual(main())


def test_who_comes_later_does_not_pass_who_waits() -> None:
    """Not even in the very moment in which a token comes."""

    async def main() -> None:
        limit = RateLimit(1)
        order: list[str] = []

        async def one(name: str) -> None:
            await limit.acquire()
            order.append(name)

        await limit.acquire()
        async with asyncio.TaskGroup() as tasks:
            for name in "ab":
                tasks.create_task(one(name))
            await asyncio.sleep(1)
            tasks.create_task(one("c"))

        assert order == ["a", "b", "c"]

    run_virtual(main())


def test_one_limit_may_be_used_in_one_loop_after_another_but_not_in_two() -> None:
    """Each `asyncio.run()` of a program starts with a full bucket; two loops at once are told."""
    limit = RateLimit(1, burst=2)

    assert run_virtual(passed(limit, 3)) == pytest.approx([0, 0, 1])
    assert run_virtual(passed(limit, 3)) == pytest.approx([0, 0, 1])

    async def main() -> None:
        async def wait() -> None:
            async with asyncio.timeout(0.2):
                await RateLimit.acquire(limit)

        await passed(limit, 2)
        waiter = asyncio.create_task(limit.acquire())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, wait())
        waiter.cancel()
        await asyncio.wait([waiter])

    asyncio.run(main())


def test_a_consumer_begins_no_more_handlers_than_the_rate() -> None:
    """40 messages at 10 per second take 4 s, with every slot in use; nothing is delivered twice meanwhile."""

    async def main() -> None:
        broker = f"memory://?name={uuid.uuid4()}&visibility_timeout=2"
        began: list[float] = []
        attempts: set[int | None] = set()

        async def handle(message: Message) -> None:
            began.append(asyncio.get_running_loop().time())
            attempts.add(message.delivery_attempt)
            if len(began) == 41:
                consumer.stop()

        async with open_publishers(broker) as publishers, open_consumers(broker) as consumers:
            await (await publishers.new_publisher("t")).publish_many(map(str, range(41)))
            limit = RateLimit(10)
            consumer = await consumers.new_consumer("t", handle, middleware=[rate_limit(limit)], concurrency=41)
            await consumer.consume()

        assert began[-1] - began[0] == pytest.approx(4, abs=0.01)
        assert attempts == {1}

    run_virtual(main())


@pytest.mark.parametrize(
    "make",
    [
        lambda: RateLimit(0),
        lambda: RateLimit(-1),
        lambda: RateLimit(float("inf")),
        lambda: RateLimit("1"),  # type: ignore[arg-type]
        lambda: rate_limit(True),
        lambda: setattr(RateLimit(1), "rate", 0),
    ],
)
def test_a_rate_that_makes_no_sense_is_refused(make: Callable[[], Any]) -> None:
    """Also when it is set later."""
    with pytest.raises(ConfigurationError, match=r"rate=.*: give messages per second"):
        make()


def test_a_burst_that_makes_no_sense_is_refused() -> None:
    """Less than one would let nothing through; beside a `RateLimit` it would be ignored."""
    with pytest.raises(ConfigurationError, match="burst=0"):
        RateLimit(1, burst=0)
    with pytest.raises(TypeError, match="burst of its own"):
        rate_limit(RateLimit(1), burst=2)


def test_the_middleware_passes_everything_else_on() -> None:
    """Return and exception alike."""

    async def fails(_: Message) -> None:
        raise KeyError

    async def main() -> None:
        assert isinstance((await deliver(fails, "x", middleware=[rate_limit(5, burst=2)])).error, KeyError)

    run_virtual(main())
