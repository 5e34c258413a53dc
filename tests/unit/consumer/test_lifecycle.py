"""Starting, stopping and starting again: one receive at a time, nothing stranded, nothing left running."""

from __future__ import annotations

import asyncio
import random

import pytest

from messagequeue import Message, MessageQueueError
from messagequeue.embedded import MemoryConsumerProvider
from messagequeue.middleware import timeout
from messagequeue.testing import deliver, run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


async def nothing(_message: Message) -> None: ...


def test_start_while_the_last_run_drains_is_refused_and_makes_no_second_poller() -> None:
    """Stop and start within a second: one receive is out, and what repr says is what runs (CON-22)."""

    async def main() -> None:
        source = FakeSource()
        b = bench(source, nothing)
        assert "idle" in repr(b.consumer)
        b.start()
        await asyncio.sleep(0.3)
        assert "consuming" in repr(b.consumer)
        b.consumer.stop()
        await asyncio.sleep(0.3)
        assert b.task is not None
        assert not b.task.done()  # its receive is out and may capture a message
        with pytest.raises(MessageQueueError, match="runs already"):
            await b.consumer.consume()
        assert source.parked == 1
        await b.task
        assert "idle" in repr(b.consumer)
        assert source.parked == 0
        b.start()
        await asyncio.sleep(30)

        assert (source.parked, source.most_parked) == (1, 1)
        await b.consumer.close()
        assert "closed" in repr(b.consumer)
        assert source.parked == 0

    run_virtual(main())


def test_stop_strands_nothing_in_a_hundred_rounds() -> None:
    """
    A message sent up to 50 ms before or after close() is with a second consumer within a poll, after at most two
    deliveries: never hidden for its lease, never a step nearer to the dead letters than that (SHUT-01).
    """

    async def round_of(offset: float) -> None:
        source = FakeSource(lease=300, latency={"release": 0.02, "settle": 0.02})
        handled: list[tuple[float, int | None]] = []

        async def handler(message: Message) -> None:
            handled.append((source.now(), message.delivery_attempt))

        first, second = bench(source, handler), bench(source, handler)
        first.start()
        await asyncio.sleep(5)
        loop = asyncio.get_running_loop()
        loop.call_later(1 + offset, source.put, "x")
        await asyncio.sleep(1)
        closing = loop.create_task(first.consumer.close())
        second.start()
        await asyncio.sleep(25)

        [(at, attempt)] = handled
        assert at <= 6 + offset + 1
        assert attempt is not None
        assert attempt <= 2
        assert source.stored == []
        await closing
        await second.stop()

    dice = random.Random(72)
    for _ in range(100):
        run_virtual(round_of(dice.uniform(-0.05, 0.05)))


def test_close_leaves_no_task_of_its_own() -> None:
    """Two callers at once return at the same end: handlers, receives, heartbeats and deletes are over (SHUT-06)."""

    async def main() -> None:
        source = FakeSource(lease=3, latency={"settle": 0.5})
        source.put(*["x"] * 3)
        b = bench(source, lambda _message: asyncio.sleep(2), concurrency=2, prefetch=1)
        b.start()
        await asyncio.sleep(1)
        ends: list[float] = []

        async def close() -> None:
            await b.consumer.close()
            ends.append(source.now())

        await asyncio.gather(close(), close())
        assert b.task is not None
        await b.task

        assert ends[0] == ends[1]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert len(source.settled_ids) == 2
        assert source.hidden() == []
        calls = len(source.calls)
        await asyncio.sleep(100)
        assert len(source.calls) == calls

    run_virtual(main())


def test_one_middleware_instead_of_a_list_is_refused() -> None:
    """With what to write; by `deliver()`, too."""

    async def main() -> None:
        async with MemoryConsumerProvider() as provider:
            with pytest.raises(TypeError, match=r"middleware is a function: give a list, .* such as \[timeout\(5\)\]"):
                await provider.new_consumer("t", nothing, middleware=timeout(5))  # type: ignore[arg-type]
            await provider.new_consumer("t", nothing, middleware=iter([timeout(5)]))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="middleware is a function"):
            await deliver(nothing, "x", middleware=timeout(5))  # type: ignore[arg-type]

    run_virtual(main())
