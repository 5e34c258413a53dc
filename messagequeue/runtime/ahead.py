"""
How far to receive ahead of free slots: pure, on times that the caller gives.

A consumer with quick handlers is idle for most of each receive, however many messages it could handle: what it lacks is
receives under way.  One with slow handlers must not hold messages that it cannot start, which others could.  And one
whose CPU is busy is not made faster by more of them: what they bring only lies there, for the garbage collector to look
at again and again.
"""

from __future__ import annotations

from .._options import ConsumeOptions
from ..driver import Limits

#: Seconds of which the CPU time is measured at a time.
WINDOW = 0.02

#: Shares of a window spent computing: from the first on no more is received ahead, from the second on less.
BUSY, FULL = 0.85, 0.95

#: Receives that are ahead whatever the CPU does: what comes together is handled together, which costs less.
FEW = 10


class Ahead:
    """
    The messages that may be asked for beyond the free slots.

    Args:
        step: Messages in one receive.
        most: Of them at most; 0: never ahead.
    """

    __slots__ = (
        "_busy",
        "_busy_since",
        "_computes",
        "_idle_since",
        "_most",
        "_step",
        "_waiting_since",
        "_window",
        "messages",
    )

    def __init__(self, step: int, most: int) -> None:
        self._step = step
        self._most = most
        self.messages = 0
        self._idle_since: float | None = None
        self._busy_since: float | None = None
        self._busy = 0.0  # how long the last work took
        self._waiting_since: float | None = None
        self._window: tuple[float, float] | None = None
        self._computes = False

    @classmethod
    def of(cls, options: ConsumeOptions, limits: Limits) -> Ahead:
        """Return what *options* ask for and *limits* allow."""
        step = min(options.batch_size, limits.receive_messages)
        return cls(step, step * (limits.max_receives - 1) if options.adaptive else 0)

    def note(self, now: float, running: int, ready: int) -> None:
        """Take note of how many messages run, and how many wait for a slot."""
        if running or ready:
            self._idle_since = None
            if self._busy_since is None:
                self._busy_since = now
        elif self._idle_since is None:
            self._idle_since = now
            self._busy = 0.0 if self._busy_since is None else now - self._busy_since
            self._busy_since = None
        if not ready:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now

    def wants_to_know(self, now: float) -> bool:
        """Whether `computed()` should be called: asking for the time spent costs more than all else here."""
        return self._most > 0 and (self._window is None or now - self._window[0] >= WINDOW)

    def computed(self, now: float, cpu: float) -> None:
        """
        Take note of the time spent computing, where a window is over.

        Args:
            cpu: Seconds of CPU that the thread has had.
        """
        if self._window is None:
            self._window = now, cpu
            return
        began, had = self._window
        if now - began < WINDOW:
            return
        share = (cpu - had) / (now - began)
        self._window = now, cpu
        self._computes = share >= BUSY
        if share >= FULL and self.messages > FEW * self._step:
            self.messages -= self._step

    def received(self, now: float, full: bool, flight: float) -> None:
        """
        Take note of a receive.

        Args:
            full: It brought what it asked for.
            flight: Seconds that it took.
        """
        idle = 0.0 if self._idle_since is None else now - self._idle_since
        waiting = 0.0 if self._waiting_since is None else now - self._waiting_since
        if not full:
            self.messages = 0
        elif waiting and waiting * 2 >= flight:
            self.messages //= 2
        elif flight > 0 and idle * 2 >= flight and self._busy <= flight:
            most = min(self._most, FEW * self._step) if self._computes else self._most
            self.messages = max(self.messages, min(most, self.messages + self._step))
            self._idle_since = None  # until what came now is over
