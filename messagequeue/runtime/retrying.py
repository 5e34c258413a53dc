"""When a failed message comes back, and which keys are skipped for one: pure."""

from __future__ import annotations

import math

from .._options import ConsumeOptions


def retry_after(options: ConsumeOptions, attempt: int | None, dice: float) -> float | None:
    """
    Return the seconds after which a failed message comes back; None: when its lease ends.

    Args:
        options: `retry_delay` and what is beside it.
        attempt: The delivery that failed, 1 = the first; None where the broker does not count: as the first.
        dice: A random number, 0 to 1.
    """
    delay = options.retry_delay
    if delay is None:
        return None
    steps = (delay,) if isinstance(delay, int | float) else tuple(delay)
    at = max(1, attempt or 1) - 1
    base = steps[min(at, len(steps) - 1)]
    whole = _grown(base, options.retry_factor, at - (len(steps) - 1), options.retry_longest)
    return whole * (1 - options.retry_jitter * dice)


def _grown(base: float, factor: float, times: int, longest: float) -> float:
    """*base* multiplied by *factor* for so many *times*, up to *longest* where that is above *base*."""
    if times <= 0 or base <= 0 or factor <= 1 or base >= longest:
        return base
    # Attempts may be many, and a power of them more than a float can hold.
    if times >= math.log(longest / base) / math.log(factor):
        return longest
    return min(longest, base * factor**times)


class Skips:
    """
    Keys whose messages are not handled, for an earlier one of them failed.

    Args:
        time: Seconds after the last message of a key until it is handled again.
    """

    def __init__(self, time: float) -> None:
        self._time = time
        self._until: dict[str, float] = {}
        self._prune_at = 64

    def note(self, key: str, now: float) -> None:
        """A message of *key* failed, or was skipped."""
        self._until[key] = now + self._time
        if len(self._until) >= self._prune_at:  # amortised O(1)
            self._until = {key: until for key, until in self._until.items() if now < until}
            self._prune_at = max(64, 2 * len(self._until))

    def skipped(self, key: str | None, now: float) -> bool:
        """Whether a message of *key* that would start now is skipped; if so, its key goes on being skipped."""
        until = None if key is None else self._until.get(key)
        if key is None or until is None:
            return False
        if now >= until:
            del self._until[key]
            return False
        self.note(key, now)
        return True
