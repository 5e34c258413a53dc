"""What time it is for the server, and who is called when; the real one, and one that tests move by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol


class Alarm(Protocol):
    """A call to come."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Seconds since the epoch that never run backwards."""

    def now(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> Alarm:
        """Call back at *when*, or a little earlier or later; at once where that is over."""
        ...


class RealClock:
    """The machine's clock as it was at the start, carried on by the one that nobody sets."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def call_at(self, when: float, callback: Callable[[], None], /) -> Alarm:
        return asyncio.get_running_loop().call_later(max(0.0, when - self.now()), callback)


class ManualClock:
    """
    Stands still until it is moved.

    Args:
        start: Seconds since the epoch.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._calls: list[tuple[float, int, _Call]] = []
        self._count = 0

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None], /) -> Alarm:
        call = _Call(callback)
        self._count += 1
        heappush(self._calls, (when, self._count, call))
        return call

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass: everything that is due by then happens, in order, at its moment."""
        end = self._now + seconds
        while self._calls and self._calls[0][0] <= end:
            when, _, call = heappop(self._calls)
            if call.callback is not None:
                self._now = max(self._now, when)
                call.callback()
        self._now = end


class _Call:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None
