"""Slots: one per running handler, free again whatever the outcome, and never more received than there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from messagequeue import DeadLetter, Discard, LeaseLostError, Message, RetryLater, SettleError
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


async def fails(_message: Message) -> None:
    raise RuntimeError


async def hangs(_message: Message) -> None:
    await asyncio.sleep(1000)


async def retries(_message: Message) -> None:
    raise RetryLater(50)


async def discards(_message: Message) -> None:
    raise Discard("of no use")


async def buries(_message: Message) -> None:
    raise DeadLetter("hopeless")


async def cancels_itself(_message: Message) -> None:
    raise asyncio.CancelledError


async def succeeds(_message: Message) -> None: ...


def refuse_deletes(source: FakeSource) -> None:
    source.script["settle"].append(SettleError("denied", retryable=False))


def lose_deletes(source: FakeSource) -> None:
    source.script["settle"].append(lambda: [LeaseLostError("stale") for _ in range(4)])


def refuse_releases(source: FakeSource) -> None:
    source.script["release"].extend(SettleError("denied", retryable=False) for _ in range(4))


def make_unreadable(source: FakeSource) -> None:
    for item in source.stored[:4]:
        item.fault = True


def nothing(_source: FakeSource) -> None: ...


@pytest.mark.parametrize(
    ("handle", "arrange"),
    [
        (succeeds, nothing),
        (fails, nothing),
        (hangs, nothing),
        (retries, nothing),
        (retries, refuse_releases),
        (discards, nothing),
        (buries, nothing),
        (cancels_itself, nothing),
        (succeeds, make_unreadable),
        (succeeds, refuse_deletes),
        (succeeds, lose_deletes),
    ],
    ids=lambda value: value.__name__,
)
def test_slots_are_free_again_after_every_outcome(
    handle: Callable[[Message], asyncio.Future[None]], arrange: Callable[[FakeSource], None]
) -> None:
    """Success, exception, time limit, retry, unreadable body, refused delete: 20 more go through 4 slots (CON-06)."""

    async def main() -> None:
        source = FakeSource(lease=60)
        source.put(*["first"] * 4, *["good"] * 20)
        arrange(source)
        done = []

        async def handler(message: Message) -> None:
            if message.text == "first":
                await handle(message)
            else:
                done.append(message.id)

        b = bench(source, handler, concurrency=4, handler_timeout=1.0)
        b.start()
        await asyncio.sleep(2)

        assert len(done) == 20
        assert b.consumer.stats.running == 0
        await b.stop()

    run_virtual(main())


def test_slots_bound_what_two_consumers_hold_and_each_message_is_handled_once() -> None:
    """
    3 slots each, 50 messages of 5 s, a lease of 8 s, no heartbeat: every receive asks for the free slots at most,
    none runs while there are none, and nothing ages in memory until it is delivered twice (CON-09).
    """

    async def main() -> None:
        source = FakeSource(lease=8)
        ids = source.put(*["x"] * 50)
        running = 0
        handled: list[str] = []

        async def handler(message: Message) -> None:
            nonlocal running
            running += 1
            assert len(source.hidden()) <= 6
            await asyncio.sleep(5)
            running -= 1
            handled.append(message.id)

        free_at_receive: list[tuple[object, int]] = []
        receive = source.receive

        async def watched(most: int, /, *, wait: float) -> object:
            free_at_receive.append((most, 6 - running))
            return await receive(most, wait=wait)

        source.receive = watched  # type: ignore[assignment,method-assign]
        first, second = (bench(source, handler, concurrency=3, heartbeat=False) for _ in range(2))
        first.start()
        second.start()
        await asyncio.sleep(100)

        assert sorted(handled) == sorted(ids)
        assert first.errors == second.errors == []
        assert all(1 <= most <= 3 and most <= free for most, free in free_at_receive)
        await first.stop()
        await second.stop()

    run_virtual(main())


def test_slots_of_200_handlers_over_their_time_limit_leave_no_task_and_no_heartbeat() -> None:
    """Each is cancelled, awaited and forgotten: the tasks are as many as before, no lease is prolonged (CON-25)."""

    async def main() -> None:
        source = FakeSource(lease=60)
        b = bench(source, hangs, concurrency=200, handler_timeout=1.0, heartbeat_interval=2.0)
        b.start()
        await asyncio.sleep(0.5)
        before = len(asyncio.all_tasks())
        source.put(*["x"] * 200)
        await asyncio.sleep(0.5)
        assert len(asyncio.all_tasks()) >= 200
        await asyncio.sleep(10)

        assert b.consumer.stats.timed_out == 200
        assert len(asyncio.all_tasks()) == before
        assert source.ops("extend") == []
        assert source.settled_ids == []
        await b.stop()

    run_virtual(main())


def test_slot_of_a_stubborn_handler_is_kept_while_its_message_comes_back() -> None:
    """What ignores its cancellation runs on in its slot without heartbeats, so that its message comes back (CON-25)."""

    async def main() -> None:
        source = FakeSource(lease=10)
        source.put("x")
        release = asyncio.Event()
        most = 0

        async def handler(_message: Message) -> None:
            nonlocal most
            most = max(most, b.consumer.stats.running)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        b = bench(source, handler, concurrency=1, handler_timeout=1.0, heartbeat_interval=2.0)
        b.start()
        await asyncio.sleep(60)

        assert most == 1
        assert max(at for at, _ in source.ops("extend")) <= 6 + 2
        assert source.hidden() == []
        release.set()
        await asyncio.sleep(0)
        await b.stop()

    run_virtual(main())
