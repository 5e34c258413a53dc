"""
One run of a consumer, from `consume()` to its end: joins polling, dispatch, leases and settling, and drains them.

Reads top-down: `run`, what arrives, what is handled, what follows, what is lost, the end.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from types import CoroutineType

from .._errors import (
    ConfigurationError,
    DecodeError,
    HandlerError,
    LeaseLostError,
    MessageQueueError,
    SettleError,
)
from .._options import ConsumeOptions
from .._protocols import Handler
from ..driver import Delivery, LeaseSource
from .ahead import Ahead
from .dispatch import Cancelled, Held, Lanes, State
from .heartbeat import Heart
from .leases import LeaseBook, LeaseTerms, return_delay
from .outcome import Bury, GiveBack, NotAsyncError, Settle, describe, outcome
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
        step = min(options.batch_size, source.limits.receive_messages)
        self._ahead = Ahead(step, step * (source.limits.max_receives - 1) if options.adaptive else 0)
        self._idle_since: float | None = self._loop.time()
        self._waiting_since: float | None = None
        self._book = LeaseBook(LeaseTerms(lease=1.0, interval=None))
        self._settling = Settling(
            source, faults, stats, topic, on_settled=self._lanes.advance, on_kept=self._on_kept, on_progress=self._pump
        )
        self._polling = Polling(
            source,
            options,
            faults,
            stats,
            topic,
            room=self._room,
            on_deliveries=self._on_deliveries,
            on_received=self._on_received,
        )
        self._heart: Heart | None = None

    def stop(self) -> None:
        """Begin no more receives and start no more handlers; `run()` drains and returns."""
        self._stopping = True
        self._polling.stop()

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
        self._book = LeaseBook(self._terms(lease))
        self._heart = Heart(self._source, self._book, self._stats, self._topic, on_lost=self._on_lost)
        async with asyncio.TaskGroup() as services:
            beats = services.create_task(self._heart.run(), name=f"messagequeue heartbeats {self._topic}")
            polls = services.create_task(self._polling.run(), name=f"messagequeue polling {self._topic}")
            try:
                fatal = await polls
                await self._drain(self._options.drain_timeout)
            except BaseException:
                await self._drain(0.0)
                raise
            finally:
                beats.cancel()
        if fatal is not None:
            raise fatal

    def _terms(self, lease: float) -> LeaseTerms:
        options = self._options
        interval = None
        if options.heartbeat:
            interval = lease / 3 if options.heartbeat_interval is None else options.heartbeat_interval
            if interval >= lease:
                raise ConfigurationError(
                    f"heartbeat_interval={interval:g} is not below the lease of topic {self._topic} ({lease:g} s): "
                    "every lease would end before its first prolongation; give half the lease or less"
                )
        return LeaseTerms(lease=lease, interval=interval, longest=self._source.capabilities.max_lease)

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

    def _on_received(self, full: bool, flight: float) -> None:
        now = self._loop.time()
        idle = 0.0 if self._idle_since is None else now - self._idle_since
        waiting = 0.0 if self._waiting_since is None else now - self._waiting_since
        self._ahead.received(full=full, flight=flight, idle=idle, waiting=waiting)

    def _on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        now = self._loop.time()
        deadline = now + self._book.terms.lease
        batch = [Held(delivery, self._lanes.key_of(delivery), now, deadline) for delivery in deliveries]
        if self._stopping:
            logger.debug("topic %s: %d messages came after stop and are handed back", self._topic, len(batch))
            self._settling.give_back(batch, 0.0)
            return
        self._idle_since = None
        admitted = [held for held in batch if not self._renewed(held.delivery, now) and self._admit(held, now)]
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
            self._settling.give_back([held], self._allowed(held, wait))
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
                self._running += 1
                held.state = State.RUNNING
                held.task = self._handlers.begin(
                    self._handle(held), name=f"messagequeue handler {self._topic} {held.id}"
                )
        finally:
            self._pumping = False
        self._stats.running = self._running
        if not self._lanes.ready:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = self._loop.time()
        if self._running or self._lanes.ready:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = self._loop.time()
        self._polling.wake()

    async def _handle(self, held: Held) -> None:
        timeout = self._options.handler_timeout
        timer = None if timeout is None else self._loop.call_later(timeout, self._time_out, held)
        try:
            raised = await self._call(held)
        finally:
            self._running -= 1
            self._handled(held)
            if timer is not None:
                timer.cancel()
        self._follow(held, raised)
        self._pump()

    def _handled(self, held: Held) -> None:
        held.state = State.FINISHING
        self._book.remove(held)
        if self._held.get(held.id) is held:
            del self._held[held.id]

    async def _call(self, held: Held) -> BaseException | None:
        """Run the handler and return what it raised.  Only a cancellation that is not this session's passes through."""
        if held.delivery.fault is not None:
            return held.delivery.fault
        try:
            work = self._handler(held.delivery.message)
            if type(work) is not CoroutineType and not inspect.isawaitable(work):
                return NotAsyncError()
            await work
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > (held.cancelled is not None):
                raise
            return TimeoutError() if held.cancelled is Cancelled.TIMEOUT else error
        except Exception as error:
            return error
        return None

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
            self._tell(HandlerError, f"the handler of message {held.id} ignores its cancellation and still runs", held)

    # -- what follows

    def _follow(self, held: Held, raised: BaseException | None) -> None:
        """Do what the end of the handler asks for."""
        if raised is None and held.cancelled is None:
            self._stats.handled += 1
            self._settling.settle(held)
            return
        if held.cancelled is Cancelled.LOST:
            self._fall_back(held, back_at=None)
            return
        if held.cancelled is Cancelled.DRAIN and isinstance(raised, asyncio.CancelledError):
            logger.warning(
                "topic %s: the handler of message %s was cancelled by the shutdown; the message is handed back",
                self._topic,
                held.id,
                extra={"topic": self._topic, "message_id": held.id},
            )
            self._retry(held, 0.0)
            return
        what = outcome(raised, self._options.retry_delay)
        match what:
            case Settle():
                self._count_settled(held, what)
                self._settling.settle(held)
            case Bury() if self._source.capabilities.dead_letters:
                self._settling.bury(held, what.reason)
            case Bury():
                text = (
                    f"the handler dead-lettered message {held.id}, but the provider has no dead-letter queue for this "
                    "topic: the message stays and comes back"
                )
                self._tell(SettleError, text, held, raised)
                self._retry(held, self._options.retry_delay)
            case GiveBack():
                if what.failed and raised is not None:
                    self._report(held, raised)
                self._retry(held, what.after)

    def _count_settled(self, held: Held, what: Settle) -> None:
        if what.discarded is None:
            self._stats.handled += 1
        else:
            self._stats.discarded += 1
            logger.info("topic %s: message %s discarded: %s", self._topic, held.id, what.discarded)

    def _report(self, held: Held, raised: BaseException) -> None:
        if isinstance(raised, DecodeError):
            self._stats.undecodable += 1
            raised.topic, raised.message = self._topic, held.delivery.message
            self._faults.tell(raised, self._loop.time())
            return
        self._stats.failed += 1
        text = f"message {held.id} is not done: {describe(raised, self._options.handler_timeout)}"
        self._tell(HandlerError, text, held, raised)

    def _retry(self, held: Held, after: float | None) -> None:
        """Let the message come back, and hand back what is held of its key."""
        now = self._loop.time()
        if after is None:
            self._fall_back(held, back_at=held.deadline)
            return
        after = self._allowed(held, after)
        rest = self._lanes.retreat(held, now, back_at=now + after)
        if after == 0 and rest:
            self._hand_back([held, *rest])
        else:
            self._settling.give_back([held], after)
            self._hand_back(rest)

    def _fall_back(self, held: Held, *, back_at: float | None) -> None:
        """The message is left to come back by itself: hand back what is held of its key."""
        self._hand_back(self._lanes.retreat(held, self._loop.time(), back_at=back_at))

    def _hand_back(self, batch: list[Held]) -> None:
        """Let messages that were not handled be delivered again, at once."""
        for held in batch:
            self._handled(held)
        if batch:
            self._settling.give_back(batch, 0.0)

    def _allowed(self, held: Held, after: float) -> float:
        return return_delay(after, self._loop.time() - held.received_at, self._book.terms.longest)

    def _on_kept(self, held: Held, back_at: float | None) -> None:
        self._fall_back(held, back_at=back_at)

    # -- what is lost

    def _on_lost(self, held: Held, error: MessageQueueError | None) -> None:
        """The lease of a message that waits or runs is over: stop working on it."""
        self._stats.leases_lost += 1
        doing = "its handler is cancelled" if held.state is State.RUNNING else "it had not started"
        self._tell(LeaseLostError, f"the lease of message {held.id} is lost; {doing}", held, error)
        if held.state is State.RUNNING:
            if held.task is not None and held.cancelled is None:
                held.cancelled = Cancelled.LOST
                held.task.cancel()
                self._loop.call_later(STUBBORN_AFTER, self._stubborn, held)
            return
        self._handled(held)
        if self._lanes.unready(held):
            self._fall_back(held, back_at=None)
        else:
            self._lanes.remove(held)
        self._pump()

    # -- the end

    async def _drain(self, timeout: float) -> None:
        """
        Hand back what has not started, wait for what runs, and send what was earned.

        Args:
            timeout: Seconds for running handlers and parked receives.  0 ends both at once; a receive that is torn
                down may strand a message until its lease ends, where the source's receives are not cancellable.
        """
        self.stop()
        self._hand_back(self._lanes.drain())
        if self._polling.cancellable or timeout == 0:
            await self._polling.close()
        work = self._polling.parked | set(self._handlers)
        if work and timeout:
            await asyncio.wait(work, timeout=timeout)
        await self._polling.close()
        await self._cancel_handlers()
        try:
            async with asyncio.timeout(SETTLE_GRACE if timeout else ABORT_GRACE):
                await self._settling.idle()
        except TimeoutError:
            logger.error("topic %s: %d messages could not be settled in time", self._topic, self._settling.pending)
        finally:
            await self._settling.close()

    async def _cancel_handlers(self) -> None:
        running = [held for held in self._held.values() if held.state is State.RUNNING]
        for held in running:
            if held.cancelled is None and held.task is not None:
                held.cancelled = Cancelled.DRAIN
                held.task.cancel()
        tasks = set(self._handlers)
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_GRACE)
        for held in running:
            if held.state is State.RUNNING:
                self._book.remove(held)
                self._tell(
                    HandlerError,
                    f"the handler of message {held.id} ignores its cancellation and was given up at shutdown; the "
                    "message comes back when its lease ends",
                    held,
                )

    def _tell(
        self,
        kind: type[HandlerError] | type[SettleError] | type[LeaseLostError],
        text: str,
        held: Held,
        cause: BaseException | None = None,
    ) -> None:
        code = cause.code if kind is SettleError and isinstance(cause, MessageQueueError) else None
        error = kind(text, topic=self._topic, about=held.delivery.message, code=code)
        error.__cause__ = cause
        self._faults.tell(error, self._loop.time())
