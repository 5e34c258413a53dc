"""
The end of a session: what has not started is handed back, what runs is waited for or cancelled, what is earned is sent.

Not concerned with why a session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from .. import _log_events as events
from .._errors import HandlerError
from .._options import ConsumeOptions
from .dispatch import Cancelled, Held, Lanes, State
from .following import Following
from .leases import LeaseBook
from .polling import Polling
from .settling import Settling
from .tasks import OwnedTasks

#: Seconds that a cancelled handler has to unwind before it is given up.
UNWIND_GRACE = 5.0

#: Seconds that deletes and releases have once nothing is handled any more, and after a cancellation.
SETTLE_GRACE, ABORT_GRACE = 15.0, 5.0


class Ending:
    """
    Ends what one session began.

    Args:
        stop: Lets the session begin nothing more.
        held: Its messages that wait or run.
        handlers: Their tasks.
    """

    def __init__(
        self,
        topic: str,
        options: ConsumeOptions,
        *,
        stop: Callable[[], None],
        held: Mapping[str, Held],
        handlers: OwnedTasks,
        book: LeaseBook,
        lanes: Lanes,
        polling: Polling,
        settling: Settling,
        following: Following,
    ) -> None:
        self._topic = topic
        self._options = options
        self._stop = stop
        self._held = held
        self._handlers = handlers
        self._book = book
        self._lanes = lanes
        self._polling = polling
        self._settling = settling
        self._following = following

    async def drain(self) -> None:
        """
        Hand back what has not started, wait for what runs, and send what was earned.

        Handlers have `drain_timeout`; parked receives end by themselves, whatever that is.
        """
        self._stop()
        self._following.hand_back(self._lanes.drain())
        async with asyncio.TaskGroup() as ends:
            ends.create_task(self._polling.finish(), name=f"messagequeue last receives {self._topic}")
            ends.create_task(self._drain_handlers(), name=f"messagequeue drain {self._topic}")
        await self._settle_rest(SETTLE_GRACE)

    async def _drain_handlers(self) -> None:
        if tasks := set(self._handlers):
            await asyncio.wait(tasks, timeout=self._options.drain_timeout)
        await self._cancel_handlers()

    async def abort(self) -> None:
        """The same at once.  A receive that is torn down may strand a message until its lease ends."""
        self._stop()
        self._following.hand_back(self._lanes.drain())
        await self._polling.close()
        await self._cancel_handlers()
        await self._settle_rest(ABORT_GRACE)

    async def _settle_rest(self, grace: float) -> None:
        try:
            async with asyncio.timeout(grace):
                await self._settling.idle()
        except TimeoutError:
            text, count = "topic %s: %d messages could not be settled in time", self._settling.pending
            events.SETTLE_UNFINISHED.log(text, self._topic, count, topic=self._topic, count=count)

    async def close(self) -> None:
        """End every task of the session, also where a second cancellation cut the drain short."""
        self._cancel_running()
        try:
            await self._polling.close()
        finally:
            await self._settling.close()

    def _cancel_running(self) -> list[Held]:
        running = [held for held in self._held.values() if held.state is State.RUNNING]
        for held in running:
            if held.cancelled is None:
                held.cancel(Cancelled.DRAIN)
        return running

    async def _cancel_handlers(self) -> None:
        running = self._cancel_running()
        tasks = set(self._handlers)
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_GRACE)
        for held in running:
            if held.state is State.RUNNING:
                self._book.remove(held)
                self._following.tell(
                    HandlerError,
                    f"the handler of message {held.id} ignores its cancellation and was given up at shutdown; the "
                    "message comes back when its lease ends",
                    held,
                )
