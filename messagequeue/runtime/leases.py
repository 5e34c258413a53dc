"""
When a lease must be prolonged, by how much, and when it is lost: pure, on a `now` that the caller gives.

Not concerned with the calls that prolong it; those are `session`'s.  Source of the bounds: SQS Developer Guide,
*visibility timeout*: it counts from the moment of the call, and the total since the receive is at most 12 hours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .._errors import ConfigurationError
from .._options import ConsumeOptions

#: Kept free at the end of the longest lease, so that clocks that differ a little do not ask for too much.
LIMIT_MARGIN = 1.0

#: A lease is never prolonged by less; the broker counts whole seconds.
SHORTEST_EXTENSION = 1.0


class Lease:
    """What the book knows of one held message.  A base class, so that one object per message is enough."""

    __slots__ = ("beating", "deadline", "due", "received_at")

    def __init__(self, received_at: float, deadline: float | None = None) -> None:
        self.received_at = received_at
        self.deadline = received_at if deadline is None else deadline
        """When the broker gives the message to somebody else, as far as its last answer goes."""
        self.due = math.inf
        self.beating = False
        """A prolongation is on its way."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """
    Attributes:
        lease: Seconds that a received or prolonged lease lasts.
        interval: Seconds between two prolongations; None: leases are not prolonged.
        longest: Seconds from the receive to the last possible end; None: no limit.
    """

    lease: float
    interval: float | None
    longest: float | None = None


@dataclass(slots=True)
class Due:
    """
    What is to be done now.

    Attributes:
        extend: Leases to prolong, in groups of equal seconds.
        lost: Leases that ended.
    """

    extend: dict[float, list[Lease]] = field(default_factory=dict)
    lost: list[Lease] = field(default_factory=list)


class LeaseBook:
    """
    Every lease that must be kept alive.

    Regular beats have one interval, so that insertion order is due order: `due()` looks at the front of a dict
    and a settled message leaves it in O(1), without the garbage a heap would keep.  Leases with another next date
    (an interval that does not fit, the last seconds before the limit) are few and looked through.
    """

    def __init__(self, terms: LeaseTerms) -> None:
        self.terms = terms
        self._regular: dict[int, Lease] = {}
        self._odd: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._regular) + len(self._odd)

    def __contains__(self, lease: Lease) -> bool:
        return id(lease) in self._regular or id(lease) in self._odd

    def add(self, lease: Lease) -> None:
        """Keep a lease that was received just now (`received_at`)."""
        lease.deadline = lease.received_at + self.terms.lease
        self._schedule(lease, lease.received_at)

    def remove(self, lease: Lease) -> None:
        """No beat is due for it any more.  Unknown ones are ignored."""
        if self._regular.pop(id(lease), None) is None:
            self._odd.pop(id(lease), None)

    def next_due(self) -> float | None:
        """When `due()` has something to say next; None while nothing is held."""
        first = next(iter(self._regular.values())).due if self._regular else math.inf
        odd = min((lease.due for lease in self._odd.values()), default=math.inf)
        at = min(first, odd)
        return None if at == math.inf else at

    def due(self, now: float) -> Due:
        """Take out what must be prolonged now (answered by `extended()` or `failed()`), and what is lost."""
        found = Due()
        ripe = [lease for lease in self._odd.values() if lease.due <= now]
        for lease in self._regular.values():
            if lease.due > now:
                break
            ripe.append(lease)
        for lease in ripe:
            self._judge(lease, now, found)
        return found

    def _judge(self, lease: Lease, now: float, found: Due) -> None:
        if now >= lease.deadline:
            self.remove(lease)
            found.lost.append(lease)
            return
        by = self._extension(lease, now)
        self.remove(lease)
        if by is None:
            self._schedule_odd(lease)
            return
        self._schedule(lease, now)
        if not lease.beating:
            lease.beating = True
            found.extend.setdefault(by, []).append(lease)

    def _extension(self, lease: Lease, now: float) -> float | None:
        """Seconds to ask for, or None where no prolongation is wanted or none can lengthen the lease."""
        if self.terms.interval is None:
            return None
        by = extension(self.terms.lease, now - lease.received_at, self.terms.longest)
        return None if by is None or now + by <= lease.deadline else by

    def extended(self, lease: Lease, asked_at: float, by: float) -> None:
        """The broker agreed to *by* seconds from *asked_at* (when the call started: the answer may have taken long)."""
        lease.beating = False
        lease.deadline = max(lease.deadline, asked_at + by)
        if id(lease) in self._odd:
            self.remove(lease)
            self._schedule(lease, asked_at)

    def failed(self, lease: Lease, now: float) -> None:
        """The prolongation did not land: the lease lives on to its deadline, and is tried again halfway there."""
        lease.beating = False
        soon = now + max(SHORTEST_EXTENSION, (lease.deadline - now) / 2)
        if lease in self and soon < lease.due:
            self.remove(lease)
            self._schedule_odd(lease, soon)

    def _schedule(self, lease: Lease, now: float) -> None:
        """Due one interval from *now*, or at the deadline where that comes first (or there are no beats)."""
        interval = self.terms.interval
        if interval is None or now + interval > lease.deadline:
            self._schedule_odd(lease)
            return
        due = now + interval
        last = next(reversed(self._regular.values()), None)
        if last is not None and due < last.due:  # *now* lies back, where a prolongation was answered late
            self._schedule_odd(lease, due)
        else:
            lease.due = due
            self._regular[id(lease)] = lease

    def _schedule_odd(self, lease: Lease, due: float = math.inf) -> None:
        lease.due = min(due, lease.deadline)
        self._odd[id(lease)] = lease


def terms_of(options: ConsumeOptions, lease: float, topic: str, longest: float | None) -> LeaseTerms:
    """
    Return the terms of a topic whose messages are leased for *lease* seconds, at most *longest* in all.

    Raises:
        ConfigurationError: no prolongation could come in time.
    """
    interval = None
    if options.heartbeat:
        interval = lease / 3 if options.heartbeat_interval is None else options.heartbeat_interval
        if interval >= lease:
            raise ConfigurationError(
                f"heartbeat_interval={interval:g} is not below the lease of topic {topic} ({lease:g} s): "
                "every lease would end before its first prolongation; give half the lease or less"
            )
    return LeaseTerms(lease=lease, interval=interval, longest=longest)


def extension(lease: float, held_for: float, longest: float | None) -> float | None:
    """
    Seconds by which to prolong a lease that has been held for *held_for* seconds; None where none are left.

    Source: ChangeMessageVisibility refuses a total above 12 h since the receive instead of cutting it (SQS API
    Reference), so what is asked for shrinks towards the limit.
    """
    if longest is None:
        return lease
    left = math.floor(longest - held_for - LIMIT_MARGIN)
    return None if left < SHORTEST_EXTENSION else min(lease, float(left))


def return_delay(after: float, held_for: float, longest: float | None) -> float:
    """Seconds after which a released message may come back: *after*, cut to what the 12 h leave; never negative."""
    if longest is None:
        return max(0.0, after)
    return max(0.0, min(after, math.floor(longest - held_for - LIMIT_MARGIN)))
