"""
Receives that wait: at which queue, until when, and what wakes them; what they take is the engine's business.

Nothing is looked at again and again.  Each change of a queue (`Broker.watchers`) is followed by one look at whether
somebody waiting there has something now, and one alarm stands for everything that time alone will bring.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from messagequeue.broker import Broker, Queue

from ._clock import Alarm, Clock
from .engine import Engine, Poll, Result, SqsError
from .engine._errors import no_queue

#: Entries of the schedule that may be over before it is rebuilt, beside as many as there are live ones.
_SLACK = 64


class Waiter(Protocol):
    """Whose receive it is."""

    def is_gone(self) -> bool:
        """Whether nobody would get the answer."""
        ...

    def resume(self, outcome: Result | SqsError, /) -> None:
        """Take the answer of the receive; it is no longer parked."""
        ...


class Ticket:
    """A parked receive."""

    __slots__ = ("poll", "waiter")

    def __init__(self, poll: Poll, waiter: Waiter) -> None:
        self.poll = poll
        self.waiter: Waiter | None = waiter


class Parking:
    """
    Args:
        broker, engine: What the receives wait for.
        clock: Says when.
        call_soon: Calls back once the current change is over, for those that others made to the broker.
        places: Receives that can wait.

    Attributes:
        inside: A request is being served that ends with `run()`; there is no need to call back for its changes.
    """

    def __init__(
        self,
        broker: Broker,
        engine: Engine,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        places: int,
    ) -> None:
        self._broker = broker
        self._engine = engine
        self._clock = clock
        self._call_soon = call_soon
        self._places = places
        self._lines: dict[str, dict[Ticket, None]] = {}
        self._parked = 0
        self._touched: set[str] = set()
        self._changes: dict[str, float] = {}  # when time alone brings something, by topic
        self._schedule: list[tuple[float, int, Ticket | str]] = []
        self._serial = 0
        self._alarm: Alarm | None = None
        self._alarm_at = 0.0
        self._running = False
        self.inside = False
        broker.watchers.append(self._touch)

    def __len__(self) -> int:
        return self._parked

    @property
    def full(self) -> bool:
        return self._parked >= self._places

    def close(self) -> None:
        """Answer everybody with nothing, and wake nobody any more."""
        self._broker.watchers.remove(self._touch)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for ticket in [ticket for line in self._lines.values() for ticket in line]:
            self._finish(ticket, ticket.poll.nothing)

    def park(self, poll: Poll, waiter: Waiter) -> Ticket:
        """Have *waiter* resumed with what `poll` takes, or at its end; not before this has returned."""
        ticket = Ticket(poll, waiter)
        self._lines.setdefault(poll.topic, {})[ticket] = None
        self._parked += 1
        self._plan(poll.until, ticket)
        self._touched.add(poll.topic)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Take a receive out of the line whose client has gone; it takes nothing."""
        if ticket.waiter is not None:
            ticket.waiter = None
            self._parked -= 1
            line = self._lines[ticket.poll.topic]
            del line[ticket]
            if not line:
                del self._lines[ticket.poll.topic]
                self._changes.pop(ticket.poll.topic, None)

    def run(self) -> None:
        """Serve whom the last changes brought something, and set the alarm anew; call it after every request."""
        if self._running:
            return
        if self._touched:
            self._running = True
            try:
                while self._touched:
                    topic = self._touched.pop()
                    if topic in self._lines:
                        self._serve(topic)
            finally:
                self._running = False
        self._arm()

    def _touch(self, topic: str) -> None:
        if topic not in self._lines or topic in self._touched:
            return
        if not self._touched and not self._running and not self.inside:
            self._call_soon(self.run)
        self._touched.add(topic)

    def _serve(self, topic: str) -> None:
        queue, now = self._broker.get(topic), self._clock.now()
        line = self._lines[topic]
        while line and (queue is None or queue.has_takeable(now)):
            ticket = next(iter(line))
            if ticket.waiter is None or ticket.waiter.is_gone():
                self.leave(ticket)
                continue
            outcome = self._attempt(ticket, now)
            if outcome is None:
                break
            self._finish(ticket, outcome)
        if line and queue is not None:
            self._expect(queue, now)

    def _attempt(self, ticket: Ticket, now: float) -> Result | SqsError | None:
        try:
            return ticket.poll.attempt(now)
        except SqsError as error:
            return error

    def _finish(self, ticket: Ticket, outcome: Result | SqsError) -> None:
        waiter = ticket.waiter
        self.leave(ticket)
        if waiter is not None:
            waiter.resume(outcome)

    # --- what time brings

    def _expect(self, queue: Queue, now: float) -> None:
        change = queue.next_change(now)
        if change is not None and self._changes.get(queue.name) != change:
            self._changes[queue.name] = change
            self._plan(change, queue.name)

    def _plan(self, when: float, what: Ticket | str) -> None:
        self._serial += 1
        heappush(self._schedule, (when, self._serial, what))
        if len(self._schedule) > 2 * (self._parked + len(self._changes)) + _SLACK:
            self._schedule = [entry for entry in self._schedule if self._is_live(entry[0], entry[2])]
            heapify(self._schedule)

    def _is_live(self, when: float, what: Ticket | str) -> bool:
        return self._changes.get(what) == when if isinstance(what, str) else what.waiter is not None

    def _next(self) -> float | None:
        while self._schedule:
            when, _, what = self._schedule[0]
            if self._is_live(when, what):
                break
            heappop(self._schedule)
        background = self._engine.next_due()
        if not self._schedule:
            return background
        planned = self._schedule[0][0]
        return planned if background is None else min(planned, background)

    def _arm(self) -> None:
        when = self._next()
        if self._alarm is not None:
            if when == self._alarm_at:
                return
            self._alarm.cancel()
            self._alarm = None
        if when is not None:
            self._alarm_at = when
            self._alarm = self._clock.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock.now()
        while self._schedule and self._schedule[0][0] <= now:
            when, _, what = heappop(self._schedule)
            if not self._is_live(when, what):
                continue
            if isinstance(what, str):
                del self._changes[what]
                self._touched.add(what)
            else:
                self._last_look(what, now)
        due = self._engine.next_due()
        if due is not None and due <= now:
            self._engine.step(now)
        self.run()

    def _last_look(self, ticket: Ticket, now: float) -> None:
        """What became visible at the very end of the wait is still taken."""
        waiter = ticket.waiter
        if waiter is None or waiter.is_gone():
            self.leave(ticket)
            return
        outcome = no_queue() if ticket.poll.topic not in self._broker else self._attempt(ticket, now)
        self._finish(ticket, ticket.poll.nothing if outcome is None else outcome)
