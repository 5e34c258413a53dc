"""
What every operation of a queue is made of: admit, hold, move, remove, and what time does; not when they are allowed.

Here every change is journalled and announced, and here a journal's events are applied again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._dedup import DedupWindow, identity_of
from ._groups import Record
from ._settings import Ordering, QueueSettings
from ._store import Fields, Store
from ._values import StoredMessage
from .storage import Deduplicated, Enqueued, Event, Identity, Leased, QueueEvent, Removed

if TYPE_CHECKING:
    from ._broker import Broker


class UnknownQueueError(LookupError):
    """The broker has no such queue, or this one was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no queue {name!r}")
        self.name = name


class QueueCore:
    """The state of a queue and its transitions; `Queue` decides."""

    __slots__ = (
        "_advanced_to",
        "_broker",
        "_dedup",
        "_deleted",
        "_ends_at",
        "_full",
        "_ordered",
        "_settings",
        "_store",
        "name",
        "serial",
    )

    def __init__(self, broker: Broker, name: str, serial: int, settings: QueueSettings) -> None:
        self.name = name
        self.serial = serial
        self._broker = broker
        self._settings = settings
        self._ordered = settings.ordering is not Ordering.STANDARD
        self._store = Store()
        self._dedup = DedupWindow()
        self._full = False
        self._deleted = False
        # What is due by then has happened; None where something may have come that was due earlier.
        self._advanced_to: float | None = None
        # No retention ends before; it says nothing while `_advanced_to` is None.
        self._ends_at = 0.0

    @property
    def settings(self) -> QueueSettings:
        return self._settings

    def advance(self, now: float) -> None:
        """Let everything happen that is due: delays and leases end, retention ends, deduplication ids are forgotten."""
        if self._deleted:
            raise UnknownQueueError(self.name)
        before = self._advanced_to
        if now == before:
            return
        self._advanced_to = now
        self._store.advance(now)
        self._dedup.expire(now, self._settings.dedup_window)
        if before is None or now >= self._ends_at:
            self._end_retention(now)
        if self._store.woken or self._full:
            self._announce()

    def _end_retention(self, now: float) -> None:
        store, retention = self._store, self._settings.retention
        if retention is None:
            self._ends_at = math.inf
            return
        oldest_at = store.oldest_at()
        while oldest_at is not None and oldest_at + retention <= now:
            oldest = store.oldest()
            assert oldest is not None
            self._remove(oldest)
            oldest_at = store.oldest_at()
        # Who comes later is kept longer, but for dead letters, which set `_advanced_to` to None.
        self._ends_at = (now if oldest_at is None else oldest_at) + retention

    def _arrive(self, arrivals: Sequence[Fields]) -> None:
        """Take in messages that nothing orders, delays or deduplicates; `_changed()` is the caller's to call."""
        self._store.arrive(arrivals)
        journal = self._broker.journal
        if journal is not None:
            for fields in arrivals:
                journal.record(Enqueued(self.name, StoredMessage(*fields), None, 0, None, None))

    def _admit(
        self, message: StoredMessage, due: float | None, receives: int = 0, first_received: float | None = None
    ) -> None:
        """Take a message in; `_changed()` is the caller's to call, once for many."""
        if message.source is not None:
            self._advanced_to = None  # a dead letter may be too old for this queue
        self._store.insert(Record(message, receives, first_received), self._ordered, due)
        identity = None
        if message.dedup_id is not None or message.source is not None:
            identity = self._identity(message)
            if identity is not None and not self._know(identity, message):
                identity = None
        journal = self._broker.journal
        if journal is not None:
            journal.record(Enqueued(self.name, message, due, receives, first_received, identity))

    def _identity(self, message: StoredMessage) -> Identity | None:
        """
        Return what the deduplication window knows *message* by, or None.

        A dead letter is known by its message id: its own id may be in the window already, and that must not stop the
        second failure of the same content.  SQS Developer Guide, "Configure a dead-letter queue redrive".
        """
        settings = self._settings
        if message.source is None:
            dedup_id = message.dedup_id
        else:
            dedup_id = message.id if settings.ordering is Ordering.FIFO else None
        return None if dedup_id is None else identity_of(settings.dedup_scope, message.key, dedup_id)

    def _know(self, identity: Identity, message: StoredMessage) -> bool:
        return self._dedup.remember(identity, message.sent_at, message.id, message.sequence)

    def _hold(self, record: Record, now: float, until: float) -> None:
        if until > now:
            self._store.hide(record, until)
        else:
            record.due = now
        journal = self._broker.journal
        if journal is not None:
            journal.record(Leased(self.name, record.message.sequence, record.receives, now, until))

    def _move(self, now: float, record: Record, target: QueueCore, attributes: object = None) -> None:
        message = record.message
        fifo = target.settings.ordering is Ordering.FIFO
        moved = message._replace(
            sequence=target._store.last + 1,
            key=message.id if fifo and message.key is None else message.key,
            attributes=message.attributes if attributes is None else attributes,
            # SQS Developer Guide, "dead-letter queues": the clock goes on in a standard queue, starts anew in a FIFO
            # one.
            sent_at=now if fifo else message.sent_at,
            source=self.name,
        )
        target._admit(moved, None, record.receives, record.first_received)
        target._changed()
        self._remove(record)

    def _remove(self, record: Record) -> None:
        self._store.remove(record)
        journal = self._broker.journal
        if journal is not None:
            journal.record(Removed(self.name, record.message.sequence))

    def delete(self) -> None:
        """Drop everything; every later call raises `UnknownQueueError`.  The broker's to call."""
        self._clear()
        self._deleted = True

    def resume(self, last: int) -> None:
        """Give out no sequence number up to *last* any more."""
        self._store.last = max(self._store.last, last)

    def apply(self, event: QueueEvent) -> None:
        """Make the change that *event* tells of, without a journal: see `Broker.apply()`."""
        self._advanced_to = None
        if isinstance(event, Enqueued):
            self._restore(event)
            if event.identity is not None:
                self._dedup.expire(event.message.sent_at, self._settings.dedup_window)
                self._know(event.identity, event.message)
            self._changed()
        elif isinstance(event, Deduplicated):
            self._dedup.remember(event.identity, event.at, event.message_id, event.sequence)
        elif isinstance(event, Leased):
            self._apply_lease(self._recorded(event.sequence), event)
        elif isinstance(event, Removed):
            self._remove(self._recorded(event.sequence))
        else:
            self._clear()

    def _restore(self, event: Enqueued) -> None:
        message, store = event.message, self._store
        plain = event.due is None and not event.receives and message[3:5] == (None, None) and message.source is None
        if plain and (not store.arrivals or message.sequence > store.arrivals[-1][0]):
            sequence, message_id, body, _, _, attributes, sent_at, _ = message
            store.arrive(((sequence, message_id, body, None, None, attributes, sent_at),))
        else:
            store.insert(Record(message, event.receives, event.first_received), self._ordered, event.due)

    def _recorded(self, sequence: int) -> Record:
        record = self._store.find(sequence)
        if record is None:
            raise KeyError(sequence)
        return record

    def _apply_lease(self, record: Record, event: Leased) -> None:
        if event.receives > record.receives:
            record.receives = event.receives
            record.received_at = event.at
            if record.first_received is None:
                record.first_received = event.at
        if event.until > event.at:
            self._store.hide(record, event.until)
        else:
            self._store.show(record, event.at)

    def _announce(self) -> None:
        store = self._store
        full = store.in_flight >= self._settings.max_in_flight
        if self._full and not full:
            store.woken = True  # there is room again for what could not be taken
        self._full = full
        if store.woken:
            store.woken = False
            self._broker.ready.add(self.name)

    def _changed(self) -> None:
        self._announce()
        for watcher in self._broker.watchers:
            watcher(self.name)

    def _clear(self) -> None:
        self._store.clear()
        self._dedup.clear()

    def _record(self, event: Event) -> None:
        if self._broker.journal is not None:
            self._broker.journal.record(event)
