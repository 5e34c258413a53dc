"""Handlers begin at once where Python can: each still is a task of its own."""

import asyncio
import contextvars
import logging

import pytest

from messagequeue.runtime.tasks import EAGER, OwnedTasks
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench

mark = contextvars.ContextVar("mark", default=None)


def handle_two(handler, **options):
    async def main():
        source = FakeSource()
        source.put("a", "b")
        b = bench(source, handler, **options)
        b.start()
        await asyncio.sleep(5)
        await b.stop()
        return source, b

    return run_virtual(main())


def test_no_handler_sees_what_another_has_set():
    """Not one that follows it in its task, which ends where it left something in its context."""
    seen = []

    async def handler(message):
        seen.append((mark.get(), asyncio.current_task()))
        mark.set(message.id)

    source, _ = handle_two(handler)

    assert [value for value, _ in seen] == [None, None]
    assert len({id(task) for _, task in seen}) == 2
    assert all("handler" in task.get_name() for _, task in seen)
    assert source.stored == []


def test_nor_what_one_has_set_that_waited():
    """Whose end lets the next begin; settling is done in nobody's context, too."""
    seen, settled = [], []

    async def handler(message):
        seen.append(mark.get())
        mark.set(message.id)
        await asyncio.sleep(1)

    class Source(FakeSource):
        async def settle(self, leases, /):
            settled.append(mark.get())
            return await super().settle(leases)

    async def main():
        source = Source()
        source.put("a", "b", "c")
        b = bench(source, handler, concurrency=1)
        b.start()
        await asyncio.sleep(9)
        await b.stop()

    run_virtual(main())

    assert seen == [None] * 3
    assert settled == [None] * 3


def test_values_that_do_not_compare_are_somebodys_too():
    """A context variable may hold anything: an array that is no truth value, for one."""

    class Array:
        def __eq__(self, other):
            raise ValueError("ambiguous")

        __hash__ = None

    seen = []

    async def handler(message):
        seen.append(mark.get())
        mark.set(Array())
        mark.set(Array())

    _, b = handle_two(handler)

    assert seen == [None, None]
    assert b.consumer.stats.handled == 2


def test_handlers_that_never_wait_share_a_task():
    """A task for each would be most of what handling them costs; where one waits, it shares it no longer."""
    tasks = {}

    async def handler(message):
        tasks[message.id] = asyncio.current_task()
        if message.id == "m2":
            await asyncio.sleep(1)
            assert asyncio.current_task() is tasks["m2"]
            assert asyncio.current_task().get_name().endswith("m2")

    async def main():
        source = FakeSource()
        source.put(*"abcd")
        b = bench(source, handler, concurrency=10)
        b.start()
        await asyncio.sleep(5)
        await b.stop()
        assert b.consumer.stats.handled == 4

    run_virtual(main())

    assert tasks["m1"] is tasks["m2"]
    assert tasks["m3"] is not tasks["m2"]


def test_all_that_wait_begin_in_one_turn():
    """Not one a turn, of which each costs the loop a look at its sockets."""
    turns = []

    async def handler(message):
        turns.append(turn)
        await asyncio.sleep(1)

    async def count():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    turn = 0

    async def main():
        source = FakeSource()
        source.put(*"abcdefgh")
        b = bench(source, handler, concurrency=10)
        counting = asyncio.create_task(count())
        b.start()
        while len(turns) < 8:
            await asyncio.sleep(0)
        counting.cancel()
        await b.stop()

    run_virtual(main())

    assert len(set(turns)) == 1


def test_a_timeout_of_a_handlers_own_cancels_that_handler_only():
    """`asyncio.timeout()` takes the current task: it is the handler's from its first line on."""
    ends = []

    async def handler(message):
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(3)
        except TimeoutError:
            ends.append(message.id)

    source, b = handle_two(handler)

    assert len(ends) == 2
    assert source.stored == []
    assert b.consumer.stats.handled == 2


def test_a_handler_that_cancels_itself_is_not_done():
    """Its message stays; the consumer goes on."""
    starts = []

    async def handler(message):
        starts.append(message.id)
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    source, b = handle_two(handler)

    assert len(starts) >= 2
    assert source.ops("settle") == []
    assert b.consumer.stats.handled == 0


@pytest.mark.skipif(not EAGER, reason="tasks begin at once from Python 3.12 on")
def test_work_that_never_waits_is_over_when_it_has_begun():
    """It never enters the set of tasks, costs no turn of the loop, and its end is told before anything else."""

    async def main():
        tasks, done = OwnedTasks(logging.getLogger("t")), []

        async def work():
            done.append(asyncio.current_task().get_name())

        task = tasks.begin(work(), name="w", ended=lambda task: done.append(task.result()))
        assert task.done()
        assert (done, len(tasks)) == (["w", None], 0)

    run_virtual(main())


def test_end_of_begun_work_is_told_once_however_it_ends():
    """Before its first wait and after it, with an error, or cancelled."""

    async def main():
        tasks, ends = OwnedTasks(logging.getLogger("t")), []

        async def work(wait):
            await asyncio.sleep(wait) if wait else None
            raise ValueError

        def ended(task):
            ends.append("cancelled" if task.cancelled() else type(task.exception()).__name__)

        for wait in (0, 1):
            tasks.begin(work(wait), name="w", ended=ended)
        tasks.begin(work(9), name="w", ended=ended)
        await asyncio.sleep(2)
        await tasks.cancel_all()
        await asyncio.sleep(0)
        assert (ends, len(tasks)) == (["ValueError", "ValueError", "cancelled"], 0)

    run_virtual(main())
