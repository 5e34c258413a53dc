"""How long to wait between failing calls; not whether to try again (the callers know)."""

from __future__ import annotations

from tenacity import RetryCallState, wait_exponential, wait_random_exponential
from tenacity.wait import wait_base

#: Seconds: the first pause of a failing receive, and the longest.
RECEIVE_FIRST, RECEIVE_LONGEST = 0.1, 30.0

#: Seconds: the first pause before a failed settlement is tried again, and the longest.
SETTLE_FIRST, SETTLE_LONGEST = 0.2, 5.0

#: Seconds by which a timer may fire before its time, for a clock may tick as seldom (Windows: 16 ms).  A timer that
#: wakes somebody who looks at the clock and is not set again is set later by it.
CLOCK_TICK = 0.02


def equal_jitter(first: float, longest: float) -> wait_base:
    """
    Pauses that double from *first* to *longest* seconds, of which half is fixed and half random.

    Source: *Exponential Backoff And Jitter*, AWS Architecture Blog: the fixed half keeps a floor under the pause, the
    random half keeps many consumers from asking in step.
    """
    half, top = first / 2, longest / 2
    return wait_exponential(multiplier=half, max=top) + wait_random_exponential(multiplier=half, max=top)


class Backoff:
    """Counts failures in a row and says how long to pause; one success forgets them."""

    def __init__(self, first: float, longest: float) -> None:
        self._wait = equal_jitter(first, longest)
        self.failures = 0

    def failed(self) -> float:
        """Note one more failure and return the pause in seconds."""
        self.failures += 1
        return pause(self._wait, self.failures)

    def succeeded(self) -> None:
        self.failures = 0


def pause(wait: wait_base, failures: int) -> float:
    """Seconds that *wait* (a strategy of tenacity) gives after *failures* failures."""
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
    state.attempt_number = failures
    return float(wait(state))
