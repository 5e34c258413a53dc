"""
Tasks that belong to a long-lived object rather than to a block of code; where a `TaskGroup` fits, use that.

A publisher is made in one task and used from many, so no block of code encloses its work.  Its tasks are started here,
and only here: they are held, named, awaited, and what they raise is never lost.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, TypeVar

from .. import _log_events as events

T = TypeVar("T")

#: Tasks can begin at once.
EAGER = sys.version_info >= (3, 12)
_EAGERLY: dict[str, Any] = {"eager_start": True} if EAGER else {}


class OwnedTasks:
    """
    The tasks of one object.

    Args:
        logger: Where a task's unexpected exception is written.
    """

    __slots__ = ("_beginning", "_logger", "_tasks")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._tasks: set[asyncio.Task[Any]] = set()
        self._beginning = False

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task: object) -> bool:
        return task in self._tasks or (self._beginning and task is asyncio.current_task())

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start *work*, which nobody waits for: what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._hold(task)
        return task

    def begin(
        self,
        work: Coroutine[Any, Any, T],
        *,
        name: str,
        ended: Callable[[asyncio.Task[T]], None],
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """
        Start *work* and call *ended* with its task when it is over; what it raises is for that to read.

        Where this Python can (3.12 and newer), *work* runs up to its first wait at once: work that never waits is over,
        and *ended* was called, when this returns, and has cost the loop nothing.  It is a task like any other: with a
        context of its own (*context*, else a copy of the current one), and the current task while it runs.
        """
        loop = asyncio.get_running_loop()
        task: asyncio.Task[T]
        if EAGER and loop.get_task_factory() is None:
            self._beginning = True
            try:
                task = asyncio.Task(work, loop=loop, name=name, context=context, **_EAGERLY)
            finally:
                self._beginning = False
            if task.done():
                ended(task)
                return task
        else:
            task = loop.create_task(work, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(ended)
        return task

    def share(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start *work*, whose outcome its callers get from `outcome()`: what it raises is theirs and not logged."""
        task = self._start(work, name)
        task.add_done_callback(_mark_read)
        return task

    async def join(self) -> None:
        """Wait until no task is left but the one that calls."""
        current = asyncio.current_task()
        while others := self._tasks - {current}:
            await asyncio.wait(others)

    async def cancel_all(self) -> None:
        """Cancel every task but the one that calls, and wait until they have ended."""
        current = asyncio.current_task()
        for task in self._tasks - {current}:
            task.cancel()
        await self.join()

    def _start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _hold(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self.report(task)

    def report(self, task: asyncio.Task[Any]) -> None:
        """Log what *task*, which is over, raised."""
        if not task.cancelled() and (error := task.exception()) is not None:
            name = task.get_name()
            events.TASK_FAILED.log("task %s failed", name, exc_info=error, to=self._logger, task=name)


def own_cancellation(error: BaseException) -> bool:
    """
    Whether *error* is there because somebody cancelled the task that runs.

    A `CancelledError` may also come out of what was awaited (a shared task that ended, a connection that was closed).
    Then nobody wants this task to end, and it is a fault like any other.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def outcome(task: asyncio.Task[T]) -> T:
    """
    Wait for a task that others wait for too, and return what it returned or raise what it raised.

    Cancelling the one who waits leaves the task running.  (`asyncio.shield()` would do, but reports to the loop what a
    task raises after a waiter was cancelled.)

    Raises:
        RuntimeError: it runs in another event loop, which would never wake this one.
    """
    if not task.done():
        if task.get_loop() is not asyncio.get_running_loop():
            raise foreign_loop(f"task {task.get_name()!r}")
        await asyncio.wait((task,))
    return task.result()


def foreign_loop(what: str) -> RuntimeError:
    """Return what to raise where *what* is used in an event loop that is not its own."""
    return RuntimeError(
        f"{what} belongs to another event loop: use it there (from another thread, by "
        "asyncio.run_coroutine_threadsafe()), or make one of this loop's own"
    )


def _mark_read(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
