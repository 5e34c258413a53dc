"""
Consumers as a program: run until a signal, then end gracefully; not how one consumer ends (that is its own `stop()`).

The only place of the library that touches signal handlers, and only while `run()` runs.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from . import _log_events as events
from ._errors import MessageQueueError
from ._protocols import Consumer

#: What shells add to the number of a signal that ended a program.
_SIGNAL_EXIT = 128


async def run(*consumers: Consumer, signals: Iterable[signal.Signals] = (signal.SIGINT, signal.SIGTERM)) -> None:
    """
    Consume with all *consumers* until each has ended; the first signal stops them gracefully, the second at once.

    Returns normally after a graceful stop, so that the process exits with 0.  When one consumer ends with an error, the
    others are stopped gracefully and then the error is raised.  Cancelling `run()` cancels every consumer.

    Signal handlers are installed on the main thread only, in place of the ones that were there, and put back before
    `run()` returns.  `signals=()` installs none: then call `Consumer.stop()` yourself.

    Raises:
        SystemExit: a second signal came: 130 for SIGINT, 143 for SIGTERM (128 and its number, as shells report it).
            Handlers were cancelled and their messages come back.
        ExceptionGroup: more than one consumer failed; a single error is raised as it is.
        ValueError: there is no consumer.
    """
    if not consumers:
        raise ValueError("run() got no consumer: give one or more, made by ConsumerProvider.new_consumer()")
    crew = _Crew(consumers)
    with _handled(signals, crew.on_signal):
        await crew.work()
    crew.conclude()


class _Crew:
    """The consumers of one `run()`, their tasks, and what became of them."""

    def __init__(self, consumers: tuple[Consumer, ...]) -> None:
        self._consumers = consumers
        self._tasks: list[asyncio.Task[None]] = []
        self._signalled = False
        self._hurried_by: int | None = None
        self._errors: list[Exception] = []

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for consumer in self._consumers:
                name = f"messagequeue.run:{consumer.topic}"
                self._tasks.append(group.create_task(self._consume(consumer), name=name))

    async def _consume(self, consumer: Consumer) -> None:
        try:
            await consumer.consume()
        except Exception as exc:
            # Kept until all have ended: raised here, it would cancel the others in the middle of their handlers.
            self._errors.append(exc)
            events.CONSUMER_ENDED.log(
                "consumer of %s failed: %s; stopping the others",
                consumer.topic,
                exc,
                topic=consumer.topic,
                error_code=str(exc.code) if isinstance(exc, MessageQueueError) else None,
            )
            self._stop()

    def _stop(self) -> None:
        for consumer in self._consumers:
            consumer.stop()

    def on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if not self._signalled:
            self._signalled = True
            events.RUN_STOPPING.log("%s: stopping; a second signal stops at once", name, signal=name)
            self._stop()
            return
        events.RUN_HURRIED.log("%s: stopping at once", name, signal=name)
        self._hurried_by = number
        for task in self._tasks:
            task.cancel()

    def conclude(self) -> None:
        if self._hurried_by is not None:
            raise SystemExit(_SIGNAL_EXIT + self._hurried_by)
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ExceptionGroup(f"{len(self._errors)} consumers failed", self._errors)


@contextmanager
def _handled(signals: Iterable[signal.Signals], on_signal: Callable[[int], None]) -> Iterator[None]:
    """
    Call *on_signal* in the running loop for each of *signals* until the block ends; then put back what was there.

    `signal.signal()` and not `loop.add_signal_handler()`: the latter cannot say what it replaced (asyncio's own SIGINT
    handler, the application's), does not exist on every loop, and its removal installs the default instead.
    """
    loop = asyncio.get_running_loop()

    def wake(number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(on_signal, number)

    previous: dict[signal.Signals, Callable[[int, FrameType | None], object] | int] = {}
    try:
        # Elsewhere than on the main thread Python refuses handlers; the main thread's program decides there.
        if threading.current_thread() is threading.main_thread():
            for number in signals:
                before = signal.getsignal(number)
                if before is not None:  # None: not installed from Python, so that it could not be put back
                    signal.signal(number, wake)
                    previous[number] = before
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
