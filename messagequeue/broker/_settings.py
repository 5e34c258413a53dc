"""What one queue of the broker does with its messages; not what a provider's configuration looks like."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from .._errors import ConfigurationError

#: Seconds.  SQS Developer Guide, "Exactly-once processing": the deduplication interval is five minutes.
DEDUP_WINDOW = 300.0
#: Seconds from a receive.  SQS API Reference, ChangeMessageVisibility: 12 hours in total.
MAX_LEASE = 43_200.0
#: Messages.  SQS Developer Guide, message quotas: 120,000 in flight, standard and FIFO.
MAX_IN_FLIGHT = 120_000


class Ordering(StrEnum):
    """How a queue orders its messages.  It is fixed when the queue is made."""

    STANDARD = "standard"
    """Keys are tags only; the oldest visible message is taken first."""
    KEYED = "keyed"
    """Messages with a key are ordered by it; those without are not serialised."""
    FIFO = "fifo"
    """As KEYED, but every message has a key, and a lease that ended can no longer be settled or extended."""


class DedupScope(StrEnum):
    """Within what a deduplication id is unique."""

    QUEUE = "queue"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """
    Where messages go that no receive could bring to an end.

    Attributes:
        target: Name of the queue they go to.  While no such queue exists they stay where they are.
        max_receives: Receives in this queue after which the next take moves the message, 1 or more; None: only
            `Queue.dead_letter()` moves it.
    """

    target: str
    max_receives: int | None = None

    def __post_init__(self) -> None:
        if not self.target:
            raise ConfigurationError("the dead-letter target is empty: give the name of a queue")
        if self.max_receives is not None and self.max_receives < 1:
            raise ConfigurationError(f"max_receives={self.max_receives!r}: give 1 or more, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """
    Every setting of a queue; all but `ordering` can change while it holds messages.

    Attributes:
        ordering: See `Ordering`.
        visibility_timeout: Seconds a taken message stays hidden unless the take says otherwise.
        delay: Seconds before a message can be taken, unless its put says otherwise.
        retention: Seconds, from the put, after which a message vanishes, taken or not; None: never.
        dedup_window: Seconds, from the first put, in which a repeated deduplication id stores nothing.
        dedup_scope: See `DedupScope`.  A change counts for ids that come after it.
        dead_letters: See `DeadLetterPolicy`; None: messages come back for ever.  What is in force at a take decides.
        max_in_flight: Messages in flight at most; a take above it gets nothing.
        max_lease: Seconds, from the receive, that a message can be held.

    Raises:
        ConfigurationError: a number is out of range.
    """

    ordering: Ordering = Ordering.STANDARD
    visibility_timeout: float = 30.0
    delay: float = 0.0
    retention: float | None = 345_600.0
    dedup_window: float = DEDUP_WINDOW
    dedup_scope: DedupScope = DedupScope.QUEUE
    dead_letters: DeadLetterPolicy | None = None
    max_in_flight: int = MAX_IN_FLIGHT
    max_lease: float = MAX_LEASE

    def __post_init__(self) -> None:
        for name in ("visibility_timeout", "delay", "dedup_window", "max_lease"):
            _check_seconds(name, getattr(self, name))
        if self.retention is not None:
            _check_seconds("retention", self.retention)
        if self.visibility_timeout > self.max_lease:
            raise ConfigurationError(
                f"visibility_timeout={self.visibility_timeout!r} is above max_lease={self.max_lease!r} seconds"
            )
        if self.max_in_flight < 1:
            raise ConfigurationError(f"max_in_flight={self.max_in_flight!r}: give 1 or more")


def _check_seconds(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ConfigurationError(f"{name}={value!r}: give seconds, 0 or more and finite")
