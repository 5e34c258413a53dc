"""
One run of a consumer, from `consume()` to its end: joins polling, dispatch, leases and settling, and drains them.

Reads top-down: `run`, what arrives, what is handled, what follows, what is lost.  The end is `ending`'s.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Coroutine, Sequence
from types import CoroutineType
from typing import Any

from .. import _log_events as events
from .._errors import HandlerError, LeaseLostError, MessageQueueError
from .._message import Message
from .._options import ConsumeOptions
from .._protocols import Handler
from ..driver import Delivery, LeaseSource
from ..telemetry import ConsumerTelemetry
from .ahead import Ahead
from .backoff import CLOCK_TICK
from .dispatch import Cancelled, Held, Lanes, State
from .ending import Ending
from .following import Following
from .guard import Guard
from .heartbeat import Heart
from .leases import LeaseBook, LeaseTerms, terms_of
from .observed_handling import observed
from .outcome import NotAsyncError
from .polling import Polling
from .runner import Runner
from .settling import Settling
from .sink import Faults, logger
from .stats import ConsumerStats
from .tasks import EAGER, OwnedTasks

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
        telemetry: ConsumerTelemetry | None = None,
    ) -> None:
        self._topic = topic
        self._source = source
        self._handler = handler
        self._options = options
        self._faults = faults
        self._stats = stats
        self._telemetry = telemetry
        self._loop = asyncio.get_running_loop()
        self._cpu_time = getattr(self._loop, "cpu_time", time.thread_time)  # where time is virtual, so is this
        self._lanes = self._new_lanes(ordered=source.capabilities.ordering)
        self._held: dict[str, Held] = {}
        self._handlers = OwnedTasks(logger)
        self._running = 0
        self._stopping = False
        self._timed = options.handler_timeout is not None
        self._guard = Guard.of(options, stats, topic, on_opened=self._on_opened)
        self._slots = options.concurrency + options.prefetch
        self._book = LeaseBook(LeaseTerms(lease=1.0, interval=None))
        self._settling = Settling(
            source,
            faults,
            stats,
            topic,
            on_settled=self._lanes.advance,
            on_kept=self._on_kept,
            on_progress=self._pump,
            on_put_aside=self._on_put_aside,
            discards=options.no_dead_letter_queue == "discard",
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
        self._runner = self._new_runner()
        self._ahead = Ahead.of(options, source.limits)
        self._polling = self._new_polling()
        self._heart: Heart | None = None

    def _new_lanes(self, *, ordered: bool) -> Lanes:
        return Lanes(ordered=ordered)

    def _new_runner(self) -> Runner:
        return Runner(
            self._handlers,
            f"messagequeue handler {self._topic}",
            free=self._free,
            take=self._take,
            work=self._work,
            ended=self._ended,
            turned=self._pump,
        )

    def _new_polling(self) -> Polling:
        return Polling(
            self._source,
            self._options,
            self._faults,
            self._stats,
            self._topic,
            room=self._room,
            awaited=self._lanes.awaited,
            on_deliveries=self._on_deliveries,
            on_received=self._on_received,
            on_launched=self._on_launched,
            on_answered=self._on_answered,
        )

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
            held.message = message

    @property
    def in_flight(self) -> int:
        """Messages that were received and are neither settled nor handed back."""
        return len(self._held) + self._settling.pending

    @property
    def blocked_keys(self) -> int:
        """Ordering keys whose messages wait for one that failed; may be read from any thread."""
        return self._lanes.blocked(self._loop.time())

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
        ending = self._ending()
        async with asyncio.TaskGroup() as services:
            beats = services.create_task(self._heart.run(), name=f"messagequeue heartbeats {self._topic}")
            polls = services.create_task(self._polling.run(), name=f"messagequeue polling {self._topic}")
            try:
                fatal = await polls
                await ending.drain()
            except BaseException:
                await ending.abort()
                raise
            finally:
                self._stats.breaker_open = False  # of this run alone
                beats.cancel()
                await ending.close()
        if fatal is not None:
            raise fatal

    def _ending(self) -> Ending:
        return Ending(
            self._topic,
            self._options,
            stop=self.stop,
            held=self._held,
            handlers=self._handlers,
            book=self._book,
            lanes=self._lanes,
            polling=self._polling,
            settling=self._settling,
            following=self._following,
        )

    # -- what arrives

    def _room(self) -> int:
        """Messages that may be received now."""
        room = self._space()
        if self._guard is not None:
            room = self._guard.room(self._loop.time(), room, self._held)
        return room

    def _space(self) -> int:
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
            if self._stopping or (self._guard is not None and not self._guard.admits(self._held)):
                late.append(held)
            elif self._admit(held, now):
                admitted.append(held)
        if late:
            text = "topic %s: %d messages came too late and are handed back"
            events.RECEIVE_LATE.log(text, self._topic, len(late), topic=self._topic, count=len(late))
            self._settling.give_back(late, 0.0)
        self._pump()
        if EAGER:
            self._keep(admitted)
        else:
            self._loop.call_soon(self._keep, admitted)

    def _keep(self, admitted: Sequence[Held]) -> None:
        """
        Keep the leases of messages that have come.

        Not before the first handlers have begun, in the same turn of the loop or the next: what is over by then needs
        none.
        """
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

    def _on_received(self, now: float, full: bool, flight: float) -> None:
        if self._ahead.wants_to_know(now):
            self._ahead.computed(now, self._cpu_time())
        self._ahead.received(now, full, flight)

    def _on_launched(self, now: float) -> None:
        """A receive is out."""

    def _on_answered(self, brought: int) -> None:
        """One came back with *brought* messages; 0 also where it failed."""

    # -- what is handled

    def _pump(self) -> None:
        """Start what has a slot."""
        if not self._runner.going:
            self._runner.start()
            self._pumped()

    def _pumped(self) -> None:
        """What could start has started: perhaps there is room for more."""
        self._stats.running = self._running
        self._ahead.note(self._loop.time(), self._running, self._lanes.ready)
        self._polling.wake()

    def _free(self) -> int:
        """Messages that could start now."""
        return 0 if self._stopping else min(self._lanes.ready, self._options.concurrency - self._running)

    def _take(self) -> Held | None:
        """Return the next message that has a slot: its handler begins."""
        if self._stopping or self._running >= self._options.concurrency:
            return None
        held = self._lanes.take()
        if held is not None:
            self._stats.running = self._running = self._running + 1
            held.state = State.RUNNING
        return held

    def _work(self, held: Held) -> Coroutine[Any, Any, None]:
        """Return what is to be run for a message."""
        if self._telemetry is not None:
            return observed(self._telemetry, held, self._handle)
        if self._timed or self._following.skipping or held.fault is not None:
            return self._handle(held)
        # Nothing else to do: the handler itself.
        try:
            work = self._handler(held.message)
        except StopIteration as error:  # which the end of a coroutine is told from
            raise RuntimeError("the handler raised StopIteration") from error
        return work if type(work) is CoroutineType else _awaited(work)

    async def _handle(self, held: Held) -> None:
        if held.fault is not None:
            raise held.fault
        if self._following.skipping and (skipped := self._following.skipped(held)) is not None:
            raise skipped
        timeout = self._options.handler_timeout
        timer = None if timeout is None else self._loop.call_later(timeout, self._time_out, held)
        try:
            await _awaited(self._handler(held.message))
        finally:
            if timer is not None:
                timer.cancel()

    def _ended(self, held: Held, raised: BaseException | None) -> None:
        """The handler is over, in whatever way."""
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
            self._cancel(held, Cancelled.TIMEOUT)

    def _cancel(self, held: Held, why: Cancelled) -> None:
        if held.cancel(why):
            self._loop.call_later(STUBBORN_AFTER, self._stubborn, held.company or (held,))

    def _stubborn(self, members: Sequence[Held]) -> None:
        """The handler keeps its slot, for it still runs; what it has is left to come back."""
        for held in members:
            if held.state is State.RUNNING:
                self._book.remove(held)
                text = f"the handler of message {held.id} ignores its cancellation and still runs"
                self._following.tell(HandlerError, text, held)

    # -- what follows

    def _follow(self, held: Held, raised: BaseException | None) -> None:
        """Do what the end of the handler asks for."""
        if self._guard is not None:
            self._guard.judge(self._loop.time(), held, raised)
        if raised is None and held.cancelled is None:
            self._stats.handled += 1
            self._settling.settle(held)
        else:
            self._following.follow(held, raised)

    def _on_opened(self, pause: float) -> None:
        """Too much fails: hand back what has not started, and receive again after *pause* seconds."""
        self._loop.call_later(pause + CLOCK_TICK, self._polling.wake)
        self._following.hand_back(self._lanes.drain())

    def _on_kept(self, held: Held, back_at: float | None) -> None:
        self._following.fall_back(held, back_at=back_at)

    def _on_put_aside(self, held: Held) -> None:
        self._following.put_aside(held)

    # -- what is lost

    def _on_lost(self, held: Held, error: MessageQueueError | None) -> None:
        """The lease of a message that waits or runs is over: stop working on it."""
        self._stats.leases_lost += 1
        doing = "its handler is cancelled" if held.state is State.RUNNING else "it had not started"
        self._following.tell(LeaseLostError, f"the lease of message {held.id} is lost; {doing}", held, error)
        match held.state:
            case State.RUNNING:
                self._cancel(held, Cancelled.LOST)  # whatever else it was cancelled for
            case State.WAITING:
                self._handled(held)
                if self._lanes.unready(held):
                    self._following.fall_back(held, back_at=None)
                else:
                    self._following.hand_back(self._lanes.cut(held))
                self._pump()
            case State.FINISHING:
                pass  # lost together with an earlier one of its key, which took it along


async def _awaited(work: Awaitable[None]) -> None:
    """
    Wait for what a handler returned.

    Raises:
        NotAsyncError: nobody can.
    """
    if type(work) is not CoroutineType and not inspect.isawaitable(work):
        raise NotAsyncError
    await work
