"""When the short path is left alone for a while; pure, on a `now` that the caller gives."""

from __future__ import annotations

#: Fallbacks in a row after which the SDK takes every call ...
FALLBACKS = 5
#: ... and the seconds for which it does.  Then one call tries the short path.
PAUSE = 30.0


class Breaker:
    """
    Counts fallbacks in a row.

    Attributes:
        opened: How often it opened.
    """

    __slots__ = ("_closed_at", "_in_a_row", "opened")

    def __init__(self) -> None:
        self._in_a_row = 0
        self._closed_at = 0.0
        self.opened = 0

    def allows(self, now: float) -> bool:
        """Return whether a call may take the short path.  After a pause one may; the others wait for its outcome."""
        if self._in_a_row < FALLBACKS:
            return True
        if now < self._closed_at:
            return False
        self._closed_at = now + PAUSE
        return True

    def worked(self) -> None:
        """A call went the short path."""
        self._in_a_row = 0

    def fell_back(self, now: float) -> bool:
        """A call had to be redone or judged by the SDK; return whether that opened the breaker."""
        self._in_a_row += 1
        if self._in_a_row < FALLBACKS:
            return False
        was_open = now < self._closed_at
        self._closed_at = now + PAUSE
        if not was_open:
            self.opened += 1
        return not was_open
