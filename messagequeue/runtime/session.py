"""
One run of a consumer, from `consume()` to its end: joins polling, dispatch, leases and settling, and drains them.

Reads top-down: `run`, what arrives, what is handled, what follows, what is lost, the end.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import CoroutineType
from typing import Any

from .._errors import HandlerError, LeaseLostError, MessageQueueError
from .._message import Message
from .._options import ConsumeOptions
from .._protocols import Handler
from ..driver import Delivery, LeaseSource
from .ahead import Ahead
from .dispatch import Cancelled, Held, Lanes, State
from .following import Following
from .heartbeat import Heart
from .leases import LeaseBook, LeaseTerms, terms_of
from .outcome import NotAsyncError
from .polling import Polling
from .settling import Settling
from .sink import Faults, logger
from .stats import ConsumerStats
from .tasks import OwnedTasks

#: Seconds that a cancelled handler has to unwind at shutdown before it is given up.
UNWIND_GRACE = 5.0

#: Seconds that deletes and releases have at shutdown once nothing is handled any more, and after a cancellation.
SETTLE_GRACE, ABORT_GRACE = 15.0, 5.0

#: Seconds after which a handler that ignores its cancellation is reported.
STUBBORN_AFTER = 5.0

#: Messages held per slot at most, those waiting behind their key or for their delete included.
HELD_PER_SLOT = 10


class Session:
    """
    Everything of one `consume()`; made inside it, so that every asyncio object belongs to its loop.

    A message is in one place at a time: in the lanes (not started), running (its handler), or with `Settling`.  The
    lease book and `_held` cover the first two.
    """

    def __init__(
        self,
        topic: str,
        source: LeaseSource,
        handler: Handler,
        options: ConsumeOptions,
        faults: Faults,
        stats: ConsumerStats,
    ) -> None:
        self._topic = topic
        self._source = source
        self._handler = handler
        self._options = options
        self._faults = faults
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._lanes = Lanes(ordered=source.capabilities.ordering)
        self._held: dict[str, Held] = {}
        self._handlers = OwnedTasks(logger)
        self._running = 0
        self._stopping = False
        self._pumping = False
        self._slots = options.concurrency + options.prefetch
        self._book = LeaseBook(LeaseTerms(lease=1.0, interval=None))
        self._settling = Settling(
            source, faults, stats, topic, on_settled=self._lanes.advance, on_kept=self._on_kept, on_progress=self._pump
        )
        self._following = Following(
            topic,
            source.capabilities,
            options,
            faults,
            stats,
            lanes=self._lanes,
            settling=self._settling,
            handled=self._handled,
        )
        self._ahead = Ahead.of(options, source.limits)
        self._polling = Polling(
            source,
            options,
            faults,
            stats,
            topic,
            room=self._room,
            awaited=self._lanes.awaited,
            on_deliveries=self._on_deliveries,
            on_received=self._ahead.received,
        )
        self._heart: Heart | None = None

    def stop(self) -> None:
        """Begin no more receives and start no more handlers; `run()` drains and returns."""
        self._stopping = True
        self._polling.stop()

    def runs(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether *task* is that of a handler."""
        return task in self._handlers

    def note_opened(self, message: Message) -> None:
        """What is said of a message from now on, to error sinks too, is said of this form of it."""
        held = self._held.get(message.id)
        if held is not None:
            held.delivery = replace(held.delivery, message=message)

    async def run(self) -> None:
        """
        Consume until `stop()`.

        Raises:
            ReceiveError: a fatal fault outlasted its grace.
            ConfigurationError: options and topic do not fit.
            asyncio.CancelledError: everything held was handed back, without waiting for handlers.
        """
        lease = await self._polling.start()
        if lease is None:
            return
        self._book = LeaseBook(terms_of(self._options, lease, self._topic, self._source.capabilities.max_lease))
        self._heart = Heart(self._source, self._book, self._stats, self._topic, on_lost=self._on_lost)
        async with asyncio.TaskGroup() as services:
            beats = services.create_task(self._heart.run(), name=f"messagequeue heartbeats {self._topic}")
            polls = services.create_task(self._polling.run(), name=f"messagequeue polling {self._topic}")
            try:
                fatal = await polls
                await self._drain()
            except BaseException:
                await self._abort()
                raise
            finally:
                beats.cancel()
                await self._close()
        if fatal is not None:
            raise fatal

    # -- what arrives

    def _room(self) -> int:
        """
        Messages that may still be taken in.

        Those that wait behind an earlier one of their key fill no slot (or one busy key would keep every other from
        being received), but all that is held is bounded.
        """
        started = self._running + self._lanes.ready
        total = started + self._lanes.behind + self._settling.pending
        slots = self._slots + self._ahead.messages
        return min(slots - started, slots * HELD_PER_SLOT - total)

    def _on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        now = self._loop.time()
        deadline = now + self._book.terms.lease
        late: list[Held] = []
        admitted: list[Held] = []
        for delivery in deliveries:
            if self._renewed(delivery, now):
                continue
            held = Held(delivery, self._lanes.key_of(delivery), now, deadline)
            if self._stopping:
                late.append(held)
            elif self._admit(held, now):
                admitted.append(held)
        if late:
            logger.debug("topic %s: %d messages came after stop and are handed back", self._topic, len(late))
            self._settling.give_back(late, 0.0)
        self._pump()
        # Not before: no time has passed, and what is over by now needs no lease.
        for held in admitted:
            if held.state is not State.FINISHING:
                self._book.add(held)
        if self._heart is not None and len(self._book):
            self._heart.wake()

    def _admit(self, held: Held, now: float) -> bool:
        wait = self._lanes.admit(held, now)
        if wait is not None:
            self._settling.give_back([held], self._following.allowed(held, wait))
            return False
        self._held[held.id] = held
        return True

    def _renewed(self, delivery: Delivery, now: float) -> bool:
        """
        A message that is held already came again: work goes on under the newer lease, which alone still counts.

        Standard queues may deliver twice, even within one answer (SQS Developer Guide, at-least-once delivery).
        """
        held = self._held.get(delivery.message.id)
        if held is None or held.cancelled is not None:
            return False
        self._book.remove(held)
        held.renew(delivery)
        held.received_at = now
        self._book.add(held)
        return True

    # -- what is handled

    def _pump(self) -> None:
        """Start what has a slot.  A handler that never waits is over when it has started, and its slot free again."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while not self._stopping and self._running < self._options.concurrency:
                held = self._lanes.take()
                if held is None:
                    break
                self._start(held)
        finally:
            self._pumping = False
        self._stats.running = self._running
        self._ahead.note(self._loop.time(), self._running, self._lanes.ready)
        self._polling.wake()

    def _start(self, held: Held) -> None:
        self._running += 1
        held.state = State.RUNNING
        name, ended = f"messagequeue handler {self._topic} {held.id}", partial(self._ended, held)
        task = self._handlers.begin(self._work(held), name=name, ended=ended)
        if not task.done():
            held.task = task

    async def _work(self, held: Held) -> None:
        """Run the handler."""
        if held.delivery.fault is not None:
            raise held.delivery.fault
        timeout = self._options.handler_timeout
        timer = None if timeout is None else self._loop.call_later(timeout, self._time_out, held)
        try:
            work = self._handler(held.delivery.message)
            if type(work) is not CoroutineType and not inspect.isawaitable(work):
                raise NotAsyncError
            await work
        finally:
            if timer is not None:
                timer.cancel()

    def _ended(self, held: Held, task: asyncio.Task[None]) -> None:
        """
        The handler is over, in whatever way.

        Called by its task and not part of it: a task that is cancelled before its first step runs nothing of its own,
        not even a `finally`.
        """
        raised = asyncio.CancelledError() if task.cancelled() else task.exception()
        if held.cancelled is Cancelled.TIMEOUT and isinstance(raised, asyncio.CancelledError):
            raised = TimeoutError()
        held.task = None  # else message, task, exception and its frames were a cycle
        self._running -= 1
        self._handled(held)
        self._follow(held, raised)
        self._pump()

    def _handled(self, held: Held) -> None:
        held.state = State.FINISHING
        self._book.remove(held)
        if self._held.get(held.id) is held:
            del self._held[held.id]

    def _time_out(self, held: Held) -> None:
        if held.cancelled is None and held.task is not None and held.state is State.RUNNING:
            self._stats.timed_out += 1
            held.cancelled = Cancelled.TIMEOUT
            held.task.cancel()
            self._loop.call_later(STUBBORN_AFTER, self._stubborn, held)

    def _stubborn(self, held: Held) -> None:
        """It keeps its slot, for it still runs; its message is left to come back."""
        if held.state is State.RUNNING:
            self._book.remove(held)
            text = f"the handler of message {held.id} ignores its cancellation and still runs"
            self._following.tell(HandlerError, text, held)

    # -- what follows

    def _follow(self, held: Held, raised: BaseException | None) -> None:
        """Do what the end of the handler asks for."""
        if raised is None and held.cancelled is None:
            self._stats.handled += 1
            self._settling.settle(held)
        else:
            self._following.follow(held, raised)

    def _on_kept(self, held: Held, back_at: float | None) -> None:
        self._following.fall_back(held, back_at=back_at)

    # -- what is lost

    def _on_lost(self, held: Held, error: MessageQueueError | None) -> None:
        """The lease of a message that waits or runs is over: stop working on it."""
        self._stats.leases_lost += 1
        doing = "its handler is cancelled" if held.state is State.RUNNING else "it had not started"
        self._following.tell(LeaseLostError, f"the lease of message {held.id} is lost; {doing}", held, error)
        match held.state:
            case State.RUNNING:
                if held.cancelled is None and held.task is not None:
                    held.task.cancel()
                    self._loop.call_later(STUBBORN_AFTER, self._stubborn, held)
                held.cancelled = Cancelled.LOST  # whatever else it was cancelled for
            case State.WAITING:
                self._handled(held)
                if self._lanes.unready(held):
                    self._following.fall_back(held, back_at=None)
                else:
                    self._following.hand_back(self._lanes.cut(held))
                self._pump()
            case State.FINISHING:
                pass  # lost together with an earlier one of its key, which took it along

    # -- the end

    async def _drain(self) -> None:
        """
        Hand back what has not started, wait for what runs, and send what was earned.

        Handlers have `drain_timeout`; parked receives end by themselves, whatever that is.
        """
        self.stop()
        self._following.hand_back(self._lanes.drain())
        async with asyncio.TaskGroup() as ends:
            ends.create_task(self._polling.finish(), name=f"messagequeue last receives {self._topic}")
            ends.create_task(self._drain_handlers(), name=f"messagequeue drain {self._topic}")
        await self._settle_rest(SETTLE_GRACE)

    async def _drain_handlers(self) -> None:
        if tasks := set(self._handlers):
            await asyncio.wait(tasks, timeout=self._options.drain_timeout)
        await self._cancel_handlers()

    async def _abort(self) -> None:
        """The same at once.  A receive that is torn down may strand a message until its lease ends."""
        self.stop()
        self._following.hand_back(self._lanes.drain())
        await self._polling.close()
        await self._cancel_handlers()
        await self._settle_rest(ABORT_GRACE)

    async def _settle_rest(self, grace: float) -> None:
        try:
            async with asyncio.timeout(grace):
                await self._settling.idle()
        except TimeoutError:
            logger.error("topic %s: %d messages could not be settled in time", self._topic, self._settling.pending)

    async def _close(self) -> None:
        """End every task of this session, also where a second cancellation cut the drain short."""
        self._cancel_running()
        try:
            await self._polling.close()
        finally:
            await self._settling.close()

    def _cancel_running(self) -> list[Held]:
        running = [held for held in self._held.values() if held.state is State.RUNNING]
        for held in running:
            if held.cancelled is None and held.task is not None:
                held.cancelled = Cancelled.DRAIN
                held.task.cancel()
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
