"""What became of the calls of a transport: plain counters, always on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class TransportStats:
    """
    Read it at any time; only the transport writes it.

    Attributes:
        short: Calls answered on the short path.
        errors: Calls that the service answered with an error of its own; the SDK judged it, and retried where it does.
        fallbacks: Calls that the short path could not bring to an answer, and the SDK had to: connections lost, answers
            that are none.  In a healthy system this is 0.
        sdk: Calls that went to the SDK from the start: `transport="sdk"`, an obstacle, or too many fallbacks in a row.
        pauses: How often too many fallbacks in a row made the SDK take all calls for a while.
        reasons: Why there were fallbacks, and what the obstacles are, with their counts.
    """

    short: int = 0
    errors: int = 0
    fallbacks: int = 0
    sdk: int = 0
    pauses: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: TransportStats) -> TransportStats:
        return TransportStats(
            self.short + other.short,
            self.errors + other.errors,
            self.fallbacks + other.fallbacks,
            self.sdk + other.sdk,
            self.pauses + other.pauses,
            self.reasons + other.reasons,
        )
