"""
Which received message may start now: pure bookkeeping of ordering keys, without clock and without waiting.

Not concerned with how long a message may be held (`leases`) or what becomes of it afterwards (`session`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..driver import Delivery
from .leases import Lease

#: Seconds after which a message that was expected back is taken to be somebody else's.
LATE = 5.0


class State(Enum):
    """Where a held message is; it only ever moves downwards."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHING = "finishing"
    """The handler is over; its settlement or release is on its way."""


class Cancelled(Enum):
    """Why this consumer cancelled a handler."""

    LOST = "lost"
    TIMEOUT = "timeout"
    DRAIN = "drain"


class Held(Lease):
    """One delivery from its receipt to its settlement or release."""

    __slots__ = (
        "attempts",
        "beat",
        "cancelled",
        "company",
        "fault",
        "handle",
        "id",
        "key",
        "message",
        "returned",
        "state",
        "task",
    )

    def __init__(self, delivery: Delivery, key: str | None, received_at: float, deadline: float | None = None) -> None:
        super().__init__(received_at, deadline)
        self.message = message = (
            delivery.message
        )  # not the delivery: the fewer objects live, the less there is to collect
        self.handle = delivery.lease
        self.fault = delivery.fault
        self.id = message.id
        self.key = key
        self.state = State.WAITING
        self.attempts = 0  # settlements tried
        self.task: asyncio.Task[Any] | None = None  # its handler
        self.beat: asyncio.Task[None] | None = None  # the last prolongation
        self.cancelled: Cancelled | None = None
        self.company: Sequence[Held] = ()  # all that its handler got with it, itself included; () where it is alone
        self.returned = False  # it failed here before

    def renew(self, delivery: Delivery) -> None:
        """Go on with a later delivery of the same message."""
        self.message = message = delivery.message
        self.handle = delivery.lease
        self.fault = delivery.fault
        self.id = message.id

    def cancel(self, why: Cancelled) -> bool:
        """
        Have its handler cancelled, for a message that runs.

        Returns:
            False where that was done before, for whatever reason and for whichever message the handler has: it is
            unwinding, and a second cancellation would cut its cleaning up short.
        """
        before = self.cancelled is not None or any(each.cancelled is not None for each in self.company)
        self.cancelled = why
        if before or self.task is None:
            return False
        self.task.cancel()
        return True


@dataclass(frozen=True, slots=True)
class _Block:
    """A key whose message failed: nothing later may run before that message is back, or *until* has passed."""

    message_id: str
    until: float


class Lanes:
    """
    Messages that were received and have not started, one lane per ordering key.

    Of a lane one message at a time is ready or running; the others wait in order.  Messages without a key, and all
    messages where the topic keeps no order, are ready at once.
    """

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._ready: deque[Held] = deque()
        self._lanes: dict[str, deque[Held]] = {}
        self._blocks: dict[str, _Block] = {}
        self._prune_at = 64
        self._returned = 0
        self._behind = 0

    @property
    def ready(self) -> int:
        """Messages that can start as soon as there is a slot."""
        return len(self._ready)

    @property
    def behind(self) -> int:
        """Messages that wait for an earlier one of their key."""
        return self._behind

    def key_of(self, delivery: Delivery) -> str | None:
        """The key that *delivery* is serialised by; an absent key is no key (it never equals another absent one)."""
        return delivery.message.ordering_key if self._ordered else None

    def admit(self, held: Held, now: float) -> float | None:
        """
        Take in a received message.

        Returns:
            None, or the seconds after which the message must be delivered again: an earlier message of its key failed
            and is not back, so that this one would overtake it.
        """
        key = held.key
        if key is None:
            self._ready.append(held)
            return None
        wait = self._blocked_for(key, held, now)
        if wait is not None:
            return wait
        lane = self._lanes.get(key)
        if lane is None:
            self._lanes[key] = deque()
            self._ready.append(held)
        else:
            lane.append(held)
            self._behind += 1
        return None

    def _blocked_for(self, key: str, held: Held, now: float) -> float | None:
        block = self._blocks.get(key)
        if block is None:
            return None
        if block.message_id == held.id:
            del self._blocks[key]
            held.returned = True
            self._returned += 1
            return None
        return block.until - now if now < block.until else None

    def awaited(self, now: float) -> float | None:
        """
        When a message that failed is expected back; *now* while one that came back is held; None where none is.

        Whoever receives then should ask for that message alone: what is received with it and handed back after its
        next failure counts one more receive each time, and would follow it into the dead-letter queue unhandled.
        """
        if self._returned:
            return now
        return min((block.until for block in self._blocks.values() if now < block.until + LATE), default=None)

    def blocked(self, now: float) -> int:
        """Keys of which a message failed that is not back; may be called from any thread."""
        return sum(now < block.until for block in list(self._blocks.values()))

    def _over(self, held: Held) -> None:
        if held.returned:
            held.returned = False
            self._returned -= 1

    def take(self) -> Held | None:
        """The next message to start, or None."""
        return self._ready.popleft() if self._ready else None

    def advance(self, held: Held) -> None:
        """The message is off the queue: the next one of its key is ready."""
        key = held.key
        if key is None:
            return
        self._over(held)
        lane = self._lanes[key]
        if lane:
            self._behind -= 1
            self._ready.append(lane.popleft())
        else:
            del self._lanes[key]

    def retreat(self, held: Held, now: float, *, back_at: float | None) -> list[Held]:
        """
        The message, which was ready or running, is not off the queue: nothing later of its key may run before it.

        Args:
            held: The message.
            now: Seconds.
            back_at: When it will be delivered again; None where it will not come back to the queue's order (somebody
                else has it), so that later messages may come at any time.

        Returns:
            The later messages of its key that are held; the caller hands them back.
        """
        key = held.key
        if key is None:
            return []
        rest = list(self._lanes.pop(key))
        self._behind -= len(rest)
        for each in (held, *rest):
            self._over(each)
        if back_at is not None:
            self._block(key, _Block(held.id, back_at), now)
        return rest

    def _block(self, key: str, block: _Block, now: float) -> None:
        self._blocks[key] = block
        if len(self._blocks) >= self._prune_at:  # keys of messages that never came back; amortised O(1)
            self._blocks = {k: b for k, b in self._blocks.items() if now < b.until + LATE}
            self._prune_at = max(64, 2 * len(self._blocks))

    def cut(self, held: Held) -> list[Held]:
        """
        Forget a message that waits behind another of its key (its lease was lost).

        Returns:
            The later messages of its key that are held; the caller hands them back, for none may run before it.
        """
        lane = self._lanes[held.key] if held.key is not None else deque()
        at = lane.index(held)
        later = [lane.pop() for _ in range(len(lane) - at)][-2::-1]
        self._behind -= len(later) + 1
        for each in (held, *later):
            self._over(each)
        return later

    def unready(self, held: Held) -> bool:
        """Take a ready message out of the ready ones, its key still held by it; False where it was not among them."""
        try:
            self._ready.remove(held)
        except ValueError:
            return False
        return True

    def drain(self) -> list[Held]:
        """Take out everything that has not started, in order per key; keys of running messages stay theirs."""
        out = list(self._ready)
        self._ready.clear()
        for held in tuple(out):
            if held.key is not None:
                out.extend(self._lanes.pop(held.key))
        for lane in self._lanes.values():
            out.extend(lane)
            lane.clear()
        self._behind = 0
        for held in out:
            self._over(held)
        return out

    def __iter__(self) -> Iterator[Held]:
        yield from self._ready
        for lane in self._lanes.values():
            yield from lane
