"""
Virtual time: an event loop whose clock jumps to the next timer when nothing else can run; not for code with sockets.

A test of a 20 s long poll, a 12 h lease or a back-off of minutes then takes microseconds and always the same course.
What the clock does:

* While a callback is ready, it stands still.
* When nothing is ready, it jumps to the next timer.
* While work runs in an executor (`asyncio.to_thread`) or inside `AutojumpLoop.hold()`, it stands still and the loop
  waits for that work in real time.
* When nothing is ready, no timer is set and nothing runs elsewhere, no task can ever go on: `DeadlockError`.

What it cannot do: sockets and pipes are refused, and `time.time()`, `time.monotonic()` and `time.sleep()` stay real.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import IO, Any, TypeVar, TypeVarTuple
from weakref import WeakSet

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Turns of the loop without any time passing above which a task is taken to spin.  A test of 200 000 messages needs
#: about as many.
MAX_IDLE_TURNS = 2_000_000


class VirtualRunError(AssertionError):
    """A run of an event loop was at fault itself: it left tasks, or an error that nobody looked at."""


class DeadlockError(VirtualRunError):
    """No task can ever go on: all wait for something that only another of them could do."""


class _VirtualSelector(selectors.BaseSelector):
    """Answers `select()` from a real selector; where that would wait, moves the clock instead."""

    def __init__(self, start: float) -> None:
        self._inner = selectors.DefaultSelector()
        self.now = start
        self.limit = math.inf
        self.holds = 0
        self.turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.holds and timeout != 0:
            return self._inner.select(None)
        events = self._inner.select(0)
        if events or timeout == 0:
            self._count_turn()
            return events
        if timeout is None:
            raise DeadlockError("nothing is ready and no timer is set, so no task can ever go on")
        self._jump(timeout)
        return events

    def _count_turn(self) -> None:
        self.turns += 1
        if self.turns > MAX_IDLE_TURNS:
            self.turns = 0
            raise VirtualRunError(f"the loop turned {MAX_IDLE_TURNS} times at {self.now:g} s: a task spins")

    def _jump(self, timeout: float) -> None:
        self.turns = 0
        if self.now + timeout > self.limit:
            self.now, self.limit = self.limit, math.inf
            raise TimeoutError(f"the run is not over at {self.now:g} s of virtual time")
        self.now += timeout

    def register(self, fileobj: int | IO[Any] | Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._inner.get_map():  # The first is the loop's own pipe, by which threads wake it.
            raise RuntimeError("AutojumpLoop has no sockets or pipes: run this code with asyncio.run() instead")
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: int | IO[Any] | Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class AutojumpLoop(asyncio.SelectorEventLoop):
    """
    An asyncio event loop in virtual time.

    Args:
        start: What `time()` returns at first, in seconds.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._virtual = _VirtualSelector(start)
        self._made: WeakSet[asyncio.Future[Any]] = WeakSet()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds of virtual time."""
        now = self._virtual.now
        # asyncio runs timers up to one resolution ahead.  Where the resolution is lost in the rounding of a large
        # clock (seconds since 1970), a timer that is due would never run.
        self._clock_resolution = max(1e-9, 2 * math.ulp(now))
        return now

    def cpu_time(self) -> float:
        """Seconds of virtual time spent computing: none."""
        return 0.0

    def limit(self, seconds: float) -> None:
        """Raise `TimeoutError` out of the loop, once, where the clock would jump past *seconds* from now."""
        self._virtual.limit = self._virtual.now + seconds

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Stop the clock, and wait in real time, while something outside of the loop (a thread) is at work."""
        self._virtual.holds += 1
        try:
            yield
        finally:
            self._virtual.holds -= 1

    def create_future(self) -> asyncio.Future[Any]:
        future = super().create_future()
        self._made.add(future)
        return future

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self._made.add(task)
        return task

    def unseen_errors(self) -> list[BaseException]:
        """Return the exceptions of finished tasks and futures which nobody has looked at, and count them as seen."""
        # `_log_traceback` is what asyncio goes by when it reports "exception was never retrieved", which it does only
        # once the object is freed.
        unseen = [item for item in self._made if item.done() and getattr(item, "_log_traceback", False)]
        return [error for error in (item.exception() for item in unseen if not item.cancelled()) if error is not None]

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._virtual.holds += 1
        future.add_done_callback(self._executor_done)
        return future

    def _executor_done(self, _: asyncio.Future[Any]) -> None:
        self._virtual.holds -= 1

    async def shutdown_default_executor(self, *args: Any) -> None:
        with self.hold():
            await super().shutdown_default_executor(*args)


def run_virtual(main: Coroutine[Any, Any, T], *, start: float = 0.0, timeout: float = 3600.0) -> T:
    """
    Run *main* as `asyncio.run()` does, but in virtual time, and hold it to leaving nothing behind.

    Args:
        main: A coroutine.
        start: What the loop's clock shows at first, in seconds.
        timeout: Seconds of virtual time that *main* may take.

    Raises:
        VirtualRunError: *main* returned and left tasks running, or an error that nobody looked at.
        DeadlockError: *main* waits for something that cannot happen.
        TimeoutError: virtual time is up.
        Whatever *main* raises.  Notes on it say which tasks were waiting.
    """
    loop = AutojumpLoop(start)
    faults: list[Mapping[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    loop.limit(timeout)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            result = runner.run(main)
            leftover_tasks(loop)
        except BaseException as error:
            _note_tasks(error, loop)
            raise
        finally:
            loop.limit(math.inf)
    unseen_faults(faults, loop.unseen_errors())
    return result


def leftover_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Raise `VirtualRunError` where tasks of *loop* run."""
    left = sorted(task.get_name() for task in asyncio.all_tasks(loop))
    if left:
        raise VirtualRunError(f"{len(left)} tasks left running, now cancelled: {', '.join(left)}")


def unseen_faults(faults: Sequence[Mapping[str, Any]], errors: Sequence[BaseException]) -> None:
    """Raise `VirtualRunError` where the loop reported *faults*, or *errors* were left."""
    told = [error for error in (fault.get("exception") for fault in faults) if error is not None]
    left = [error for error in errors if error not in told]
    if not faults and not left:
        return
    lines = [f"{fault['message']}: {fault.get('exception')!r}" for fault in faults]
    lines += [f"exception was never looked at: {error!r}" for error in left]
    raise VirtualRunError("; ".join(lines)) from next(iter(told + left), None)


def _note_tasks(error: BaseException, loop: AutojumpLoop) -> None:
    for task in sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name):
        stack = task.get_stack(limit=1)
        where = f"{stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else "nowhere"
        error.add_note(f"task {task.get_name()!r} waits at {where}")
