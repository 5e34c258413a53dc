"""Messages per second; not how many run at once (`concurrency`), and not shared between processes."""

from __future__ import annotations

import asyncio

from .._message import Message
from .._protocols import Handler, Middleware
from ._checks import positive, whole


class Bucket:
    """
    A token bucket, pure: callers say what time it is.

    Args:
        rate: Tokens that come per second.
        burst: Tokens it holds at most, and at first.
    """

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    def set_rate(self, rate: float, now: float) -> None:
        """Let tokens come at *rate* from *now* on; what came until now came at the old one."""
        self._fill(now)
        self._rate = rate

    def take(self, now: float) -> float:
        """Take a token and return 0, or take none and return the seconds until there is one."""
        self._fill(now)
        if self._tokens < _WHOLE:
            return (1.0 - self._tokens) / self._rate
        self._tokens = max(0.0, self._tokens - 1.0)
        return 0.0

    def _fill(self, now: float) -> None:
        if self._at is not None and now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(self._at, now)


#: A token is there when rounding alone keeps it from being whole; else a waiter would wake, find 0.9999… and spin.
_WHOLE = 1.0 - 1e-9


class RateLimit:
    """
    So many per second, with bursts: a token bucket with a line in front of it, first come first served.

    One object may be given to several consumers and publishers, which then share the rate.  It belongs to one event
    loop at a time.

    Args:
        rate: How many per second, on average.
        burst: How many may pass at once after a quiet time.

    Raises:
        ConfigurationError: *rate* is not a finite number above 0, or *burst* no whole number of 1 or more.
    """

    def __init__(self, rate: float, burst: int = 1) -> None:
        self._rate = positive("rate", rate, "messages per second")
        self._burst = whole("burst", burst, "how many may pass at once")
        self._bucket = Bucket(self._rate, self._burst)
        self._applied = self._rate
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: asyncio.Lock | None = None  # whoever has it is the first in line
        self._changed: asyncio.Event | None = None
        self._waiting = 0

    def __repr__(self) -> str:
        return f"RateLimit(rate={self._rate:g}, burst={self._burst})"

    @property
    def rate(self) -> float:
        """How many per second.  Set it at any time, from any thread: who waits already goes by the new one at once."""
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self._rate = positive("rate", rate, "messages per second")
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._apply)

    @property
    def burst(self) -> int:
        """How many may pass at once after a quiet time."""
        return self._burst

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return self._waiting

    async def acquire(self) -> None:
        """
        Return when it is the caller's turn.

        Cancelling it gives up the place in the line and takes nothing.

        Raises:
            RuntimeError: others wait in another event loop.
        """
        loop, line, changed = self._enter()
        self._waiting += 1
        try:
            async with line:
                while seconds := self._take(loop):
                    changed.clear()
                    try:
                        async with asyncio.timeout(seconds):
                            await changed.wait()
                    except TimeoutError:
                        pass
        finally:
            self._waiting -= 1

    def _enter(self) -> tuple[asyncio.AbstractEventLoop, asyncio.Lock, asyncio.Event]:
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._line is None or self._changed is None:
            if self._waiting and self._loop is not None and not self._loop.is_closed():
                raise RuntimeError(f"{self!r} is at work in another event loop: give each loop a limit of its own")
            self._loop, self._line, self._changed = loop, asyncio.Lock(), asyncio.Event()
            self._bucket, self._applied, self._waiting = Bucket(self._rate, self._burst), self._rate, 0
        return loop, self._line, self._changed

    def _take(self, loop: asyncio.AbstractEventLoop) -> float:
        self._apply()
        return self._bucket.take(loop.time())

    def _apply(self) -> None:
        """Give the bucket the rate that was set meanwhile, in the loop's own thread."""
        if self._applied != self._rate and self._loop is not None and self._changed is not None:
            self._applied = self._rate
            self._bucket.set_rate(self._applied, self._loop.time())
            self._changed.set()


def rate_limit(limit: RateLimit | float, /, *, burst: int = 1) -> Middleware:
    """
    Begin to handle so many messages per second at most, on average.

    A message that waits has its slot of `concurrency`, and heartbeats keep its lease, so no other process has it
    meanwhile.  Therefore keep what can wait small: a `concurrency` of about rate x seconds per message, `prefetch=0`.
    `handler_timeout` and `drain_timeout` count the wait, too; a `timeout()` inside does not.  Each process has its own
    limit: with four, give each a quarter.  Inside of `retry()`, every attempt counts.

    Args:
        limit: Messages per second, or a `RateLimit` to change it later or to share it.
        burst: As of `RateLimit`; only where *limit* is a number.

    Raises:
        ConfigurationError: as `RateLimit`.
        TypeError: *burst* is given beside a `RateLimit`, which has its own.
    """
    if isinstance(limit, RateLimit):
        if burst != 1:
            raise TypeError("rate_limit(): the RateLimit has a burst of its own; leave burst= out")
        shared = limit
    else:
        shared = RateLimit(limit, burst)

    def wrap(handler: Handler) -> Handler:
        async def paced(message: Message) -> None:
            await shared.acquire()
            await handler(message)

        return paced

    return wrap
