"""
One queue of the broker: put, take, settle, and what they may do; no clock, no waiting, no randomness.

Every call takes `now` in seconds of one clock that does not run backwards, and first lets everything happen that is
due by then.  A call costs O(log n) amortised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from .._errors import ConfigurationError, InvalidMessageError
from ._core import QueueCore
from ._dedup import identity_of
from ._groups import Record
from ._settings import Ordering, QueueSettings
from ._store import Fields
from ._values import Counts, Draft, Lease, Outcome, Peek, PutResult, State, StoredMessage
from .storage import QueueConfigured, QueuePurged

#: Three numbers above zero, each written in one way, and short enough that reading them costs nothing.
_HANDLE = re.compile(r"([1-9]\d{0,25})\.([1-9]\d{0,25})\.([1-9]\d{0,25})", re.ASCII)
#: Messages that a shuffled take draws from, beyond those that it returns.
_DISORDER = 16


class Queue(QueueCore):
    """
    A queue; `Broker.create()` makes it.

    Attributes:
        name: Its name in the broker.
        serial: Tells it from queues of the same name before and after it.
    """

    __slots__ = ()

    def configure(self, settings: QueueSettings) -> None:
        """
        Change the settings; messages and leases stay as they are, retention counts anew from each message's put.

        Raises:
            ConfigurationError: the ordering would change.
        """
        if settings.ordering is not self._settings.ordering:
            raise ConfigurationError(
                f"queue {self.name!r} is {self._settings.ordering}: its ordering cannot become {settings.ordering}"
            )
        self._settings = settings
        self._advanced_to = None
        self._record(QueueConfigured(self.name, self.serial, settings, self._store.last))

    # --- in

    def put(
        self,
        now: float,
        body: bytes | str,
        *,
        key: str | None = None,
        dedup_id: str | None = None,
        delay: float | None = None,
        attributes: object = None,
        id: str | None = None,  # noqa: A002 - the word of every other value here
    ) -> PutResult:
        """
        Store a message.

        Args:
            key: The sequence it belongs to; FIFO needs one.
            dedup_id: Where the deduplication window holds it, nothing is stored and the first put's answer is given.
            delay: Seconds before it can be taken; None: the queue's.  What follows in its sequence waits, too.
            attributes: Kept as they are.
            id: None: one is drawn.

        Raises:
            InvalidMessageError: FIFO and no key.
        """
        self.advance(now)
        if key is None:
            self._check_keys((Draft(body),))
        result = self._put(now, body, key, dedup_id, delay, attributes, id)
        self._changed()
        return result

    def put_many(self, now: float, drafts: Sequence[Draft]) -> list[PutResult]:
        """
        Store messages in order, as `put()` does each; all of them or, where one is refused, none.

        Raises:
            InvalidMessageError: FIFO, and one has no key.
        """
        self.advance(now)
        settings = self._settings
        if settings.ordering is Ordering.FIFO:
            self._check_keys(drafts)
        results = None if settings.delay > 0 else self._put_plain(now, drafts)
        if results is None:
            put = self._put
            results = [put(now, *draft) for draft in drafts]
        self._changed()
        return results

    def _put_plain(self, now: float, drafts: Sequence[Draft]) -> list[PutResult] | None:
        """Store messages that nothing orders, delays or deduplicates; None, and nothing stored: one of them is not."""
        sequence, new_id = self._store.last, self._broker.new_id
        arrivals: list[Fields] = []
        results: list[PutResult] = []
        for body, key, dedup_id, delay, attributes in drafts:
            if key is not None or dedup_id is not None or delay is not None:
                return None
            sequence += 1
            message_id = new_id()
            arrivals.append((sequence, message_id, body, None, None, attributes, now))
            results.append(PutResult(message_id, sequence))
        if arrivals:
            self._arrive(arrivals)
        return results

    def _check_keys(self, drafts: Sequence[Draft]) -> None:
        if self._settings.ordering is Ordering.FIFO and any(draft.key is None for draft in drafts):
            raise InvalidMessageError(f"queue {self.name!r} is FIFO: pass ordering_key=… on every publish")

    def _put(
        self,
        now: float,
        body: bytes | str,
        key: str | None,
        dedup_id: str | None,
        delay: float | None,
        attributes: object,
        id: str | None = None,  # noqa: A002 - as above
    ) -> PutResult:
        settings = self._settings
        if dedup_id is not None:
            first = self._dedup.find(identity_of(settings.dedup_scope, key, dedup_id))
            if first is not None:
                return first
        wait = settings.delay if delay is None else delay
        sequence, message_id = self._store.last + 1, id or self._broker.new_id()
        if key is None and dedup_id is None and wait <= 0:
            self._arrive(((sequence, message_id, body, None, None, attributes, now),))
        else:
            message = StoredMessage(sequence, message_id, body, key, dedup_id, attributes, now)
            self._admit(message, now + wait if wait > 0 else None)
        return PutResult(message_id, sequence)

    # --- out

    def take(
        self,
        now: float,
        limit: int = 1,
        *,
        visibility: float | None = None,
        shuffle: Callable[[list[Record]], None] | None = None,
    ) -> list[Lease]:
        """
        Take up to *limit* messages; each counts as received and stays hidden for *visibility* seconds.

        The oldest visible message comes first; of ordered messages the key that has waited longest gives all that it
        can. Messages that were received as often as the dead-letter policy allows are moved instead of returned.

        Args:
            limit: 1 or more.
            visibility: Seconds; None: the queue's.  0: counted as received, and visible all the same.
            shuffle: Changes the order of those that are first in line, for tests of who relies on it.
        """
        self.advance(now)
        settings, store = self._settings, self._store
        hold = settings.visibility_timeout if visibility is None else visibility
        room = min(limit, settings.max_in_flight - store.in_flight)
        if room < 1:
            self._full = True
            return []
        bound, target = self._dead_letter_bound()
        leases: list[Lease] = []
        out: list[Record] = []
        dead: list[Record] = []
        line = store.takeable()
        if shuffle is not None:
            window = list(islice(line, room + _DISORDER))
            shuffle(window)
            line = iter(window)
        for record in line:
            if bound is not None and record.receives - record.carried >= bound:
                dead.append(record)
                continue
            leases.append(self._lease(record, now, now + hold))
            out.append(record)
            if len(leases) == room:
                break
        if target is not None:
            for record in dead:  # afterwards: a queue that is its own target must not meet them in the same take
                self._move(now, record, target)
        if shuffle is not None:
            out.extend(line)
        for record in out:
            store.requeue(record)
        self._changed()
        return leases

    def _dead_letter_bound(self) -> tuple[int | None, QueueCore | None]:
        policy = self._settings.dead_letters
        if policy is None or policy.max_receives is None:
            return None, None
        target = self._broker.get(policy.target)
        return (None, None) if target is None else (policy.max_receives, target)

    def _lease(self, record: Record, now: float, until: float) -> Lease:
        record.receives += 1
        record.received_at = now
        if record.first_received is None:
            record.first_received = now
        self._hold(record, now, until)
        return self._lease_of(record)

    def _lease_of(self, record: Record) -> Lease:
        sequence, receives, at = record.message.sequence, record.receives, record.received_at
        first = at if record.first_received is None else record.first_received
        return Lease(f"{self.serial}.{sequence}.{receives}", record.message, receives, first, at, record.due)

    # --- leases

    def settle(self, now: float, handle: str) -> Outcome:
        """
        Take the message off the queue.

        Returns:
            DONE, GONE, STALE, UNKNOWN; EXPIRED on FIFO once the lease has ended.  Elsewhere the latest handle of a
            visible message still settles it.
        """
        self.advance(now)
        found = self._find(handle)
        if isinstance(found, Outcome):
            return found
        self._remove(found)
        self._changed()
        return Outcome.DONE

    def extend(self, now: float, handle: str, by: float) -> Outcome:
        """
        Move the end of the lease to *by* seconds from now; 0 makes the message visible at once, in its place.

        Except on FIFO the latest handle of a visible message hides it again.

        Returns:
            DONE, GONE, STALE, UNKNOWN, EXPIRED (as `settle()`), BEYOND_LIMIT.
        """
        self.advance(now)
        found = self._find(handle)
        if isinstance(found, Outcome):
            return found
        if by > 0 and now + by > found.received_at + self._settings.max_lease:
            return Outcome.BEYOND_LIMIT
        self._hold(found, now, now + by)
        if by <= 0:
            self._store.show(found, now)
        self._changed()
        return Outcome.DONE

    def release(self, now: float, handle: str, *, after: float = 0.0) -> Outcome:
        """Give the message back, visible in *after* seconds; the same as `extend()`, which see."""
        return self.extend(now, handle, after)

    def dead_letter(self, now: float, handle: str, *, attributes: object = None) -> Outcome:
        """
        Move the message to the dead-letter target at once, whatever its receives.

        Args:
            attributes: Take the place of the message's own; None keeps those.

        Returns:
            DONE, GONE, STALE, UNKNOWN, EXPIRED (as `settle()`), NO_TARGET.
        """
        self.advance(now)
        found = self._find(handle)
        if isinstance(found, Outcome):
            return found
        policy = self._settings.dead_letters
        target = None if policy is None else self._broker.get(policy.target)
        if target is None:
            return Outcome.NO_TARGET
        self._move(now, found, target, attributes)
        self._changed()
        return Outcome.DONE

    def first(self, now: float) -> StoredMessage | None:
        """Return the message that the next take would meet first, without taking it; a key's turn goes on by it."""
        self.advance(now)
        for record in self._store.takeable():
            self._store.requeue(record)
            return record.message
        return None

    def hand_over(self, now: float, sequence: int, target: Queue, *, id: str | None = None) -> bool:  # noqa: A002
        """
        Put a visible message into *target* as a new one: new place, age and id, no receives, no source.

        On FIFO its old id becomes its deduplication id, and its key where it has none.  Source: SQS Developer Guide,
        "Configure a dead-letter queue redrive".

        Returns:
            Whether there was such a message here.
        """
        self.advance(now)
        target.advance(now)
        record = self._store.find(sequence)
        if record is None or record.state is not State.VISIBLE:
            return False
        message, fifo = record.message, target.settings.ordering is Ordering.FIFO
        moved = StoredMessage(
            target._store.last + 1,
            id or self._broker.new_id(),
            message.body,
            message.key or (message.id if fifo else None),
            message.id if fifo else message.dedup_id,
            message.attributes,
            now,
        )
        target._admit(moved, None)
        target._changed()
        self._remove(record)
        self._changed()
        return True

    def held(self, now: float, handle: str) -> Lease | Outcome:
        """Return the lease that *handle* names while it lasts; else GONE, STALE, UNKNOWN, or EXPIRED."""
        self.advance(now)
        found = self._find(handle)
        if isinstance(found, Outcome):
            return found
        return self._lease_of(found) if found.state is State.IN_FLIGHT else Outcome.EXPIRED

    def _find(self, handle: str) -> Record | Outcome:
        numbers = _HANDLE.fullmatch(handle)
        if numbers is None or int(numbers[1]) != self.serial:
            return Outcome.UNKNOWN
        sequence, receive = int(numbers[2]), int(numbers[3])
        if sequence > self._store.last:
            return Outcome.UNKNOWN
        record = self._store.find(sequence)
        if record is None:
            return Outcome.GONE
        if not record.carried < receive <= record.receives:
            return Outcome.UNKNOWN
        if receive < record.receives:
            return Outcome.STALE
        if record.state is State.VISIBLE and self._settings.ordering is Ordering.FIFO:
            return Outcome.EXPIRED
        return record

    # --- the whole queue

    def purge(self, now: float) -> int:
        """
        Drop every message, in flight and delayed ones too, free every key, and forget the deduplication window.

        *SQS does not say whether the window survives a purge; recorded answers say that it does not.*

        Returns:
            How many messages there were.
        """
        self.advance(now)
        number = len(self._store)
        self._clear()
        self._record(QueuePurged(self.name))
        return number

    def counts(self, now: float) -> Counts:
        self.advance(now)
        return Counts(self._store.visible, self._store.in_flight, self._store.delayed)

    def peek(self, now: float) -> Iterator[Peek]:
        """Yield every message in sequence, without receiving any; the queue may change meanwhile."""
        self.advance(now)
        return map(_peek, self._store.messages())

    def oldest(self, now: float) -> float | None:
        """Return when the retention of the oldest message began; None where there is none."""
        self.advance(now)
        return self._store.oldest_at()

    def has_takeable(self, now: float) -> bool:
        """Whether a take could find something: a message to return, or one to move to the dead letters."""
        self.advance(now)
        return self._store.in_flight < self._settings.max_in_flight and self._store.has_takeable()

    def next_change(self, now: float) -> float | None:
        """Return the earliest time at which something may become takeable by time alone; None: never."""
        self.advance(now)
        due, oldest_at, retention = self._store.next_due(), self._store.oldest_at(), self._settings.retention
        if oldest_at is None or retention is None:
            return due
        end = oldest_at + retention
        return end if due is None else min(due, end)


def _peek(record: Record) -> Peek:
    until = None if record.state is State.VISIBLE else record.due
    return Peek(record.message, record.state, record.receives, until)
