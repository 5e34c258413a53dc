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


def test_each_handler_has_a_context_and_a_task_of_its_own():
    """What one sets is not seen by the next, also where neither waits."""
    seen = []

    async def handler(message):
        seen.append((mark.get(), asyncio.current_task()))
        mark.set(message.id)

    source, _ = handle_two(handler)

    assert [value for value, _ in seen] == [None, None]
    assert len({id(task) for _, task in seen}) == 2
    assert all("handler" in task.get_name() for _, task in seen)
    assert source.stored == []


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
    """It never enters the set of tasks, and costs no turn of the loop."""

    async def main():
        tasks, done = OwnedTasks(logging.getLogger("t")), []

        async def work():
            done.append(asyncio.current_task().get_name())

        task = tasks.begin(work(), name="w")
        assert task.done()
        assert (done, len(tasks)) == (["w"], 0)

    run_virtual(main())


def test_what_begun_work_raises_is_logged(caplog):
    """Before its first wait and after it."""

    async def main():
        tasks = OwnedTasks(logging.getLogger("t"))

        async def work(wait):
            if wait:
                await asyncio.sleep(1)
            raise ValueError

        for wait in (False, True):
            tasks.begin(work(wait), name=f"w{wait}")
        await asyncio.sleep(2)
        assert len(tasks) == 0

    run_virtual(main())
    assert [record.getMessage() for record in caplog.records] == ["task wFalse failed", "task wTrue failed"]
