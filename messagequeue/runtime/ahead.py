"""
How far to receive ahead of free slots: pure, on times that the caller gives.

A consumer with quick handlers is idle for most of each receive, however many messages it could handle: what it lacks is
receives under way.  One with slow handlers must not hold messages that it cannot start, which others could.
"""

from __future__ import annotations


class Ahead:
    """
    The messages that may be asked for beyond the free slots.

    Args:
        step: Messages in one receive.
        most: Of them at most; 0: never ahead.
    """

    __slots__ = ("_most", "_step", "messages")

    def __init__(self, step: int, most: int) -> None:
        self._step = step
        self._most = most
        self.messages = 0

    def received(self, *, full: bool, flight: float, idle: float, waiting: float = 0.0) -> None:
        """
        Take note of a receive.

        Args:
            full: It brought what it asked for.
            flight: Seconds that it took.
            idle: Seconds for which nothing had been running or ready when it came.
            waiting: Seconds for which messages had been waiting for a slot.
        """
        if not full:
            self.messages = 0
        elif waiting and waiting * 2 >= flight:
            self.messages //= 2
        elif flight > 0 and idle * 2 >= flight:
            self.messages = min(self._most, self.messages + self._step)
