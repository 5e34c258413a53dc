"""
A circuit breaker for a consumer: when to stop receiving because everything fails, and when to try again; pure.

What a handler needs may be down.  Then every message that is received fails, counts a delivery, and ends in the
dead-letter queue for nothing that it did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from .._options import ConsumeOptions

#: The window is counted in so many parts: an outcome counts for the window, and up to a tenth less.
PARTS = 10


class Circuit(Enum):
    """States of a breaker."""

    CLOSED = "closed"
    """Receiving."""
    OPEN = "open"
    """Not receiving."""
    TRIAL = "trial"
    """One message at a time, to see whether it works again."""


class Breaker:
    """
    Closed until too much fails.

    Args:
        failures: So many in *window*, and
        ratio: so large a part of all outcomes in it, open the breaker.
        window: Seconds.
        pause: Seconds that it stays open.
    """

    def __init__(self, failures: int, ratio: float, window: float, pause: float) -> None:
        self._failures = failures
        self._ratio = ratio
        self._window = window
        self.pause = pause
        self.state = Circuit.CLOSED
        self._since = 0.0  # of the state
        self._counts: deque[list[float]] = deque()  # begin of a part, outcomes, failures

    @classmethod
    def of(cls, options: ConsumeOptions) -> Breaker | None:
        """Return what *options* ask for."""
        failures = options.breaker_failures
        if failures is None:
            return None
        return cls(failures, options.breaker_ratio, options.breaker_window, options.breaker_pause)

    def saw(self, now: float, received_at: float, *, failed: bool) -> bool:
        """
        Take note of how a handler ended.

        Args:
            received_at: When its message came: what came before the state changed says nothing about it now.

        Returns:
            Whether the state changed.
        """
        match self.state:
            case Circuit.CLOSED:
                self._count(now, failed)
                return failed and self._too_many(now) and self._turn(Circuit.OPEN, now)
            case Circuit.TRIAL if received_at >= self._since:
                return self._turn(Circuit.OPEN if failed else Circuit.CLOSED, now)
        return False

    def room(self, now: float, room: int, held_since: Iterable[float]) -> int:
        """
        How many messages may be received.

        Args:
            room: What there is room for.
            held_since: When those came that wait or run.  What came before the trial may run for hours and is none.
        """
        if self.state is Circuit.OPEN and now >= self._since + self.pause:
            self._turn(Circuit.TRIAL, now)
        match self.state:
            case Circuit.CLOSED:
                return room
            case Circuit.OPEN:
                return 0
            case Circuit.TRIAL:
                return min(room, 1 - sum(came >= self._since for came in held_since))

    def _turn(self, state: Circuit, now: float) -> bool:
        self.state, self._since = state, now
        self._counts.clear()
        return True

    def _count(self, now: float, failed: bool) -> None:
        counts = self._counts
        if not counts or now >= counts[-1][0] + self._window / PARTS:
            counts.append([now, 0, 0])
            while counts[0][0] <= now - self._window:
                counts.popleft()
        counts[-1][1] += 1
        counts[-1][2] += failed

    def _too_many(self, now: float) -> bool:
        recent = [part for part in self._counts if part[0] > now - self._window]
        failures = sum(part[2] for part in recent)
        return failures >= self._failures and failures >= self._ratio * sum(part[1] for part in recent)
