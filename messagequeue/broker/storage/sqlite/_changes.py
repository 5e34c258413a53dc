"""
What must change in the tables for a run of events, each row touched once; not how it is written.

A message that came and went between two commits touches no table.  Queues are known by their serials, which are never
used twice, so that a queue that was deleted and made again within one run is no special case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._journal import (
    Deduplicated,
    Enqueued,
    Event,
    Identity,
    Leased,
    QueueConfigured,
    QueueDeleted,
    QueuePurged,
    Remembered,
    Removed,
)
from ._form import SEQUENCE_BITS, Column, envelope_column, place_of, settings_text, text_column

Row = tuple[Column, ...]

#: Columns of a message without key, delay or past.  Each column of a row takes as long as a twelfth of the row: most
#: messages are such, and the other columns are left out for them.
PLAIN = 5


class Changes:
    """
    Args:
        serials: Serials of the existing queues by name; kept up to date.
        windows: Their deduplication windows in seconds by serial; kept up to date.

    Attributes:
        empty: Nothing was added since `clear()`.
        deleted, purged: Serials of queues that lost all that the file holds.
        queues: Rows of queues made or configured.
        last: The last sequence number by serial.
        messages, leases: Rows by place; a message of which there is no more to say has a row of `PLAIN` columns.
        removed: Places to delete.
        window: Rows of the deduplication window.
        stale: By serial, the seconds after which identities of that queue are forgotten.
        notes: The faces' notes; None: deleted.
        serial: The serial of the youngest queue made.
    """

    def __init__(self, serials: dict[str, int], windows: dict[int, float]) -> None:
        self._serials = serials
        self._windows = windows
        self._how: dict[type, Callable[[Any], None]] = {
            Enqueued: self._enqueued,
            Leased: self._leased,
            Removed: self._removed,
            Deduplicated: self._deduplicated,
            QueueConfigured: self._configured,
            QueuePurged: self._purged,
            QueueDeleted: self._deleted,
            Remembered: self._remembered,
        }
        self.clear()

    def clear(self) -> None:
        self.empty = True
        self.serial = 0
        self.deleted: set[int] = set()
        self.purged: set[int] = set()
        self.queues: dict[int, Row] = {}
        self.last: dict[int, int] = {}
        self.messages: dict[int, Row] = {}
        self.leases: dict[int, Row] = {}
        self.removed: list[int] = []
        self.window: list[Row] = []
        self.stale: dict[int, float] = {}
        self.notes: dict[str, str | None] = {}

    def add(self, event: Event) -> None:
        """Raises TypeError where beside a message's body there is something that has no form in the file."""
        self._how[type(event)](event)
        self.empty = False

    def learn(self, event: QueueConfigured) -> None:
        """Note a queue that the file has already."""
        self._serials[event.queue] = event.serial
        self._windows[event.serial] = event.settings.dedup_window

    def _enqueued(self, event: Enqueued) -> None:
        message, serial = event.message, self._serials[event.queue]
        sequence = message.sequence
        place = place_of(serial, sequence)
        body = message.body if isinstance(message.body, bytes) else text_column(message.body)
        id_ = message.id if message.id.isascii() else text_column(message.id)
        envelope = message.attributes if message.attributes is None else envelope_column(message.attributes)
        if (
            message.key is None
            and message.dedup_id is None
            and message.source is None
            and event.due is None
            and event.first_received is None
            and not event.receives
        ):
            self.messages[place] = (place, id_, message.sent_at, envelope, body)
        else:
            self.messages[place] = (
                place,
                id_,
                message.sent_at,
                envelope,
                body,
                text_column(message.key),
                text_column(message.dedup_id),
                event.due,
                event.receives,
                event.first_received,
                text_column(message.source),
            )
        self.last[serial] = sequence
        if event.identity is not None:
            self._know(serial, event.identity, message.sent_at, message.id, sequence)

    def _leased(self, event: Leased) -> None:
        place = place_of(self._serials[event.queue], event.sequence)
        received_at = first = event.at
        before = self.leases.get(place)
        if before is not None:
            _, receives, before_at, _, first = before  # type: ignore[assignment]
            if event.receives == receives:
                received_at = before_at  # type: ignore[assignment]
        until = event.until if event.until > event.at else event.at
        self.leases[place] = (place, event.receives, received_at, until, first)

    def _removed(self, event: Removed) -> None:
        place = place_of(self._serials[event.queue], event.sequence)
        self.leases.pop(place, None)
        if self.messages.pop(place, None) is None:
            self.removed.append(place)

    def _deduplicated(self, event: Deduplicated) -> None:
        self._know(self._serials[event.queue], event.identity, event.at, event.message_id, event.sequence)

    def _know(self, serial: int, identity: Identity, at: float, message_id: str, sequence: int) -> None:
        grouped = not isinstance(identity, str)
        key, dedup_id = identity if not isinstance(identity, str) else (None, identity)
        self.window.append(
            (serial, at, sequence, text_column(message_id), grouped, text_column(key), text_column(dedup_id))
        )
        self.stale.setdefault(serial, self._windows[serial])

    def _configured(self, event: QueueConfigured) -> None:
        serial, window = event.serial, event.settings.dedup_window
        before = self._windows.get(serial, window)
        if window != before:
            self.stale.setdefault(serial, before)  # a longer window does not bring back what a shorter one forgot
        self._serials[event.queue] = serial
        self._windows[serial] = window
        self.serial = max(self.serial, serial)
        last = max(event.last, self.last.get(serial, 0))
        self.queues[serial] = (serial, text_column(event.queue), settings_text(event.settings), last)

    def _purged(self, event: QueuePurged) -> None:
        serial = self._serials[event.queue]
        self._drop(serial)
        self.purged.add(serial)

    def _deleted(self, event: QueueDeleted) -> None:
        serial = self._serials.pop(event.queue)
        self._drop(serial)
        self._windows.pop(serial, None)
        self.queues.pop(serial, None)
        self.last.pop(serial, None)
        self.purged.discard(serial)
        self.deleted.add(serial)

    def _drop(self, serial: int) -> None:
        self.messages = {place: row for place, row in self.messages.items() if place >> SEQUENCE_BITS != serial}
        self.leases = {place: row for place, row in self.leases.items() if place >> SEQUENCE_BITS != serial}
        self.removed = [place for place in self.removed if place >> SEQUENCE_BITS != serial]
        self.window = [row for row in self.window if row[0] != serial]
        self.stale.pop(serial, None)

    def _remembered(self, event: Remembered) -> None:
        self.notes[event.key] = event.text
