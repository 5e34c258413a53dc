"""A consumer's circuit breaker at work: what it is told, and who hears of it; when it opens is `breaker`'s to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .. import _log_events as events
from .._options import ConsumeOptions
from .breaker import Breaker, Circuit
from .dispatch import Cancelled, Held
from .outcome import breaks
from .stats import ConsumerStats


class Guard:
    """
    Keeps a consumer from receiving what it cannot handle.

    Args:
        on_opened: Called when it opens, with the seconds until one message is tried.
    """

    def __init__(
        self,
        breaker: Breaker,
        options: ConsumeOptions,
        stats: ConsumerStats,
        topic: str,
        *,
        on_opened: Callable[[float], None],
    ) -> None:
        self._breaker = breaker
        self._options = options
        self._stats = stats
        self._topic = topic
        self._on_opened = on_opened

    @classmethod
    def of(
        cls, options: ConsumeOptions, stats: ConsumerStats, topic: str, *, on_opened: Callable[[float], None]
    ) -> Guard | None:
        """Return what *options* ask for."""
        breaker = Breaker.of(options)
        return None if breaker is None else cls(breaker, options, stats, topic, on_opened=on_opened)

    def admits(self, held: Mapping[str, Held]) -> bool:
        """Whether a message that came may be handled; not all that a receive from before it opened brings may."""
        match self._breaker.state:
            case Circuit.CLOSED:
                return True
            case Circuit.OPEN:
                return False
            case Circuit.TRIAL:
                return self.room(0.0, 1, held) > 0

    def room(self, now: float, room: int, held: Mapping[str, Held]) -> int:
        """See `Breaker.room()`; *held* wait or run."""
        return self._breaker.room(now, room, (each.received_at for each in held.values()))

    def judge(self, now: float, held: Held, raised: BaseException | None) -> None:
        """Take note of how a handler ended, and open or close where that decides it."""
        failed = breaks(raised, self._options) and held.cancelled in (None, Cancelled.TIMEOUT)
        if raised is not None and not failed:
            return
        breaker = self._breaker
        if not breaker.saw(now, held.received_at, failed=failed):
            return
        self._stats.breaker_open = breaker.state is not Circuit.CLOSED
        if breaker.state is Circuit.CLOSED:
            text = "topic %s: handlers work again; receiving goes on"
            events.BREAKER_CLOSED.log(text, self._topic, topic=self._topic)
            return
        events.BREAKER_OPENED.log(
            "topic %s: too many handlers fail; nothing is received for %g s, then one message is tried",
            self._topic,
            breaker.pause,
            topic=self._topic,
            pause=breaker.pause,
        )
        self._stats.breaker_opened += 1
        self._on_opened(breaker.pause)
