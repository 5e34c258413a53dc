"""
Slots that several consumers share, and which of them gets the next: pure, on times that the caller gives.

Not concerned with what runs in a slot, nor with how a message gets there (`session`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

#: Seconds that a receive is out without an answer until its topic counts as looked at and empty.  A long poll asks
#: every server of a queue and answers at once where there is a message (SQS Developer Guide, long polling).
QUIET_AFTER = 0.25


@dataclass(slots=True)
class Look:
    """What is known of a topic from its receives."""

    empty: bool = False
    since: float | None = None

    def launched(self, now: float) -> None:
        """A receive is out."""
        if self.since is None:
            self.since = now

    def answered(self, brought: int) -> None:
        """A receive came back with *brought* messages, or failed with none."""
        self.empty = not brought
        self.since = None

    def quiet(self, now: float) -> bool:
        """Whether the topic was looked at and had nothing, so far as one can know."""
        return self.empty or (self.since is not None and now - self.since >= QUIET_AFTER)


class Member(Protocol):
    """One consumer's part: what `SharedSlots` asks of it."""

    @property
    def ready(self) -> int:
        """Messages that it could start now."""
        ...

    @property
    def receives(self) -> bool:
        """Whether it may receive, its share of the slots aside; else what its topic has is out of reach."""
        ...

    def start_next(self) -> None:
        """Start one.  Called only while `ready`."""
        ...

    def turned(self) -> None:
        """Slots may have changed hands: it may be time to receive."""
        ...


class Order(Protocol):
    """Who comes first."""

    def pick(self, shares: Sequence[Share]) -> Share | None:
        """The one that gets a free slot, of those with a message ready; None where none has."""
        ...

    def may_receive(self, share: Share, shares: Sequence[Share], now: float) -> bool: ...

    def ahead(self, share: Share, shares: Sequence[Share], slots: int) -> int:
        """Messages that *share* may hold ready beyond the free slots, so that one is at hand when a slot is free."""
        ...


class StrictOrder:
    """The first with a message ready; the later ones receive only while the topics before them are found empty."""

    def pick(self, shares: Sequence[Share]) -> Share | None:
        return next((share for share in shares if share.ready), None)

    def may_receive(self, share: Share, shares: Sequence[Share], now: float) -> bool:
        before = shares[: shares.index(share)]
        return all(not other.ready and (other.look.quiet(now) or not other.receives) for other in before)

    def ahead(self, share: Share, shares: Sequence[Share], slots: int) -> int:
        return 0 if share is shares[-1] else 1


class WeightedOrder:
    """
    Slots in proportion to the weights of those with a message ready, evenly interleaved.

    Each start gives every one of them credit by its weight, and takes the sum from the one that starts, which is the
    one with the most: the smooth weighted round robin of nginx.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        largest = max(weights)  # proportions alone count, and sums must not leave what a float can hold
        self._weights = [weight / largest for weight in weights]
        self._credit = [0.0] * len(weights)

    def pick(self, shares: Sequence[Share]) -> Share | None:
        running = [index for index, share in enumerate(shares) if share.ready]
        if not running:
            return None
        for index in running:
            self._credit[index] += self._weights[index]
        best = max(running, key=self._credit.__getitem__)
        self._credit[best] -= sum(self._weights[index] for index in running)
        return shares[best]

    def may_receive(self, share: Share, shares: Sequence[Share], now: float) -> bool:
        return True

    def ahead(self, share: Share, shares: Sequence[Share], slots: int) -> int:
        return max(1, round(slots * self._weights[shares.index(share)] / sum(self._weights)))


class Share:
    """The place of one consumer among those that share slots."""

    def __init__(self, pool: SharedSlots) -> None:
        self._pool = pool
        self._member: Member | None = None
        self.look = Look()

    @property
    def ready(self) -> int:
        return self._member.ready if self._member is not None else 0

    @property
    def receives(self) -> bool:
        return self._member is not None and self._member.receives

    def join(self, member: Member) -> None:
        """Begin to count: *member* consumes now."""
        self._member, self.look = member, Look()

    def leave(self) -> None:
        """Count no longer, and let the others go on."""
        self._member = None
        self.look.answered(0)
        self._pool.turn()

    def start_next(self) -> None:
        assert self._member is not None
        self._member.start_next()

    def turned(self) -> None:
        if self._member is not None:
            self._member.turned()

    def ended(self) -> None:
        """A handler is over: its slot is free."""
        self._pool.used -= 1

    def turn(self) -> None:
        """See `SharedSlots.turn()`."""
        self._pool.turn()

    def room(self, now: float, prefetch: int = 0) -> int:
        """See `SharedSlots.room()`."""
        return self._pool.room(self, now, prefetch)


class SharedSlots:
    """
    The slots.

    Args:
        slots: Handlers at once.
        count: Consumers that share them, the one that comes first first.
        order: Who gets the next.
    """

    def __init__(self, slots: int, count: int, order: Order) -> None:
        self.slots = slots
        self.used = 0
        self.shares = tuple(Share(self) for _ in range(count))
        self._order = order
        self._turning = False

    def turn(self) -> None:
        """Fill the free slots, then let everybody look whether there is something to receive for."""
        if self._turning:
            return
        self._turning = True
        try:
            while self.used < self.slots and (share := self._order.pick(self.shares)) is not None:
                self.used += 1
                share.start_next()
        finally:
            self._turning = False
        for share in self.shares:
            share.turned()

    def room(self, share: Share, now: float, prefetch: int = 0) -> int:
        """
        Messages that *share* may receive now, those asked for already not counted.

        What is ready elsewhere takes free slots first; a few beyond them, *prefetch* where that is more, keep a message
        at hand for the next free one.
        """
        if not self._order.may_receive(share, self.shares, now):
            return 0
        free = self.slots - self.used - sum(each.ready for each in self.shares)
        ahead = max(prefetch, self._order.ahead(share, self.shares, self.slots))
        return max(0, free, ahead - share.ready)
