"""
Runs handlers: those that never wait in one task, each that waits in a task of its own.

A task costs as much as all else that is done around a quick handler, and gives nothing to one that is over at its first
step.  So a handler takes its first step in a task that may have run others before; where it waits, that task is its own
from then on, and another goes on with what is ready.  What handlers may rely on is the same: a current task, whose
cancellation is theirs alone, and context variables that no other handler has set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from typing import Any

from .dispatch import Held, State
from .tasks import EAGER, OwnedTasks

#: What ends the event loop out of any task.
_FATAL = (KeyboardInterrupt, SystemExit)


class Runner:
    """
    The handlers of one session.

    Args:
        tasks: Holds the tasks.
        name: Begins their names.
        free: Messages that could be taken now.
        take: Returns the next message, `RUNNING` from then on, or None.
        work: Makes the coroutine of its handler; what it raises itself is taken to be raised by the handler.
        ended: Called when a handler is over, with what it raised.
        turned: Called when what could be taken is, and after handlers that ended without waiting.
    """

    def __init__(
        self,
        tasks: OwnedTasks,
        name: str,
        *,
        free: Callable[[], int],
        take: Callable[[], Held | None],
        work: Callable[[Held], Coroutine[Any, Any, None]],
        ended: Callable[[Held, BaseException | None], None],
        turned: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._name = name
        self._free = free
        self._take = take
        self._work = work
        self._ended = ended
        self._turned = turned
        self._context = copy_context()
        self._fresh: set[asyncio.Task[None]] = set()
        self._going = False
        self._waits = True

    @property
    def going(self) -> bool:
        """Messages are being taken: whoever does so takes what else is ready."""
        return self._going

    def start(self) -> None:
        """See to it that what may be taken is, in this turn of the loop or, before Python 3.12, the next."""
        if self._going:
            return
        if EAGER:
            self._going = True
            try:
                while self._free() > 0:
                    self._begin(None)
            finally:
                self._going = False
            return
        # Of handlers that wait, all begin in the next turn.
        wanted = self._free() if self._waits else min(1, self._free())
        while len(self._fresh) < wanted:
            self._fresh.add(self._begin(None))

    def start_one(self, held: Held) -> None:
        """Run the handler of *held*, which is `RUNNING` already."""
        task = self._begin(held)
        if held.state is State.RUNNING:
            held.task = task

    def _begin(self, held: Held | None) -> asyncio.Task[None]:
        """Each in a context of its own, not in that of the handler whose wait or end lets it begin."""
        work, ended = self._run(held), partial(self._over, held)
        return self._tasks.begin(work, name=self._name, ended=ended, context=self._context.copy())

    async def _run(self, given: Held | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        leads = given is None and not self._going
        if given is None:
            self._fresh.discard(task)
            self._going = True
        try:
            waiting = self._run_quick(task, given)
        finally:
            if leads:
                self._going = False
                self._in_context(self._turned)
        if waiting is not None:
            await self._wait(task, *waiting)

    def _run_quick(self, task: asyncio.Task[None], given: Held | None) -> tuple[Held, _Rest] | None:
        """Run handlers until there are no more, or one waits: return that one and the rest of its work."""
        while (held := given or self._take()) is not None:
            raised: BaseException | None = None
            try:
                work = self._work(held)
                waits_for = work.send(None)
            except StopIteration:
                if task.cancelling():  # it asked for that itself, and would have met it where it waits
                    raised = asyncio.CancelledError()
            except BaseException as error:
                raised = error
            else:
                self._waits = True
                return held, _Rest(work, waits_for)
            self._waits = False
            clean = self._end(held, raised)
            if isinstance(raised, _FATAL):
                raise raised
            if raised is not None:
                del raised  # else it, its frames and this one were a cycle
            if given is not None or not clean or task.cancelling():
                break
        return None

    async def _wait(self, task: asyncio.Task[None], held: Held, rest: _Rest) -> None:
        held.task = task
        task.set_name(f"{self._name} {held.id}")
        raised: BaseException | None = None
        try:
            await rest
        except BaseException as error:
            raised = error
        self._end(held, raised)
        if isinstance(raised, _FATAL):
            raise raised
        del raised  # as above

    def _end(self, held: Held, raised: BaseException | None) -> bool:
        """Tell that it is over; return whether the context is as it was."""
        return self._in_context(self._ended, held, raised)

    def _in_context(self, call: Callable[..., None], *args: object) -> bool:
        """Do what is not the handler's without the handler's context; return whether there was anything in it."""
        try:
            clean = copy_context() == self._context  # as a rule they share all they have, and this costs nothing
        except Exception:  # values that do not even compare
            clean = False
        if clean:
            call(*args)
        else:
            self._context.copy().run(call, *args)
        return clean

    def _over(self, given: Held | None, task: asyncio.Task[None]) -> None:
        """A task is over.  One that was cancelled before its first step has run nothing, not even a `finally`."""
        self._fresh.discard(task)
        if given is not None and given.task is task and given.state is State.RUNNING:
            self._ended(given, asyncio.CancelledError())
        if not task.cancelled() and not isinstance(task.exception(), _FATAL):
            self._tasks.report(task)


class _Rest:
    """What is left of a coroutine that waits for something: to be awaited in the task that it came to wait in."""

    __slots__ = ("_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, None, None]:
        work, waits_for = self._work, self._waits_for
        while True:
            try:
                yield waits_for
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                try:
                    waits_for = work.throw(error)
                except StopIteration:
                    return
            else:
                yield from work.__await__()
                return
