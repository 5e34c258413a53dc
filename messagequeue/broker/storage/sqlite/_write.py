"""The statements that bring the tables up to date; the commit is not here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ._changes import PLAIN, Changes
from ._form import SEQUENCE_MASK, place_of

_PLACES = "BETWEEN ? AND ?"
_QUEUE = (
    "INSERT INTO queues VALUES (?, ?, ?, ?) "
    "ON CONFLICT (serial) DO UPDATE SET settings = excluded.settings, last = max(last, excluded.last)"
)
_PLAIN = "INSERT INTO messages (place, id, sent_at, envelope, body) VALUES (?, ?, ?, ?, ?)"
_MESSAGE = (
    "INSERT INTO messages (place, id, sent_at, envelope, body, key, dedup_id, due, carried, first_received, source) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# A lease that is only prolonged (receives as before) keeps the time of its receive.
_LEASE = (
    "INSERT INTO leases VALUES (?, ?, ?, ?, ?) ON CONFLICT (place) DO UPDATE SET due = excluded.due, "
    "received_at = iif(excluded.receives > receives, excluded.received_at, received_at), receives = excluded.receives"
)
_IDENTITY = "INSERT INTO identities VALUES (?, ?, ?, ?, ?, ?, ?)"
_NOTE = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET text = excluded.text"


def execute(connection: sqlite3.Connection, changes: Changes, now: float) -> None:
    """
    Begin a transaction and make *changes* in it.

    Raises:
        sqlite3.Error: the transaction must be rolled back.
    """
    connection.execute("BEGIN IMMEDIATE")
    if changes.deleted or changes.purged:
        _empty(connection, changes.deleted | changes.purged)
        connection.executemany("DELETE FROM queues WHERE serial = ?", [(serial,) for serial in changes.deleted])
    if changes.queues:
        connection.executemany(_QUEUE, changes.queues.values())
    if changes.messages:
        rows = changes.messages.values()
        connection.executemany(_PLAIN, [row for row in rows if len(row) == PLAIN])
        connection.executemany(_MESSAGE, [row for row in rows if len(row) != PLAIN])
    if changes.leases:
        connection.executemany(_LEASE, changes.leases.values())
    if changes.removed:
        places = [(place,) for place in changes.removed]
        connection.executemany("DELETE FROM messages WHERE place = ?", places)
        connection.executemany("DELETE FROM leases WHERE place = ?", places)
    if changes.last:
        last = [(number, serial) for serial, number in changes.last.items()]
        connection.executemany("UPDATE queues SET last = max(last, ?) WHERE serial = ?", last)
    if changes.stale:
        _deduplication(connection, changes, now)
    if changes.notes:
        _notes(connection, changes.notes)
    connection.execute("UPDATE engine SET clock = max(clock, ?), serial = max(serial, ?)", (now, changes.serial))


def _empty(connection: sqlite3.Connection, serials: Iterable[int]) -> None:
    for serial in serials:
        places = place_of(serial, 0), place_of(serial, SEQUENCE_MASK)
        connection.execute(f"DELETE FROM messages WHERE place {_PLACES}", places)
        connection.execute(f"DELETE FROM leases WHERE place {_PLACES}", places)
        connection.execute("DELETE FROM identities WHERE serial = ?", (serial,))


def _deduplication(connection: sqlite3.Connection, changes: Changes, now: float) -> None:
    ends = [(serial, now - window) for serial, window in changes.stale.items()]
    connection.executemany("DELETE FROM identities WHERE serial = ? AND at <= ?", ends)
    connection.executemany(_IDENTITY, changes.window)


def _notes(connection: sqlite3.Connection, notes: dict[str, str | None]) -> None:
    for key, text in notes.items():
        if text is None:
            connection.execute("DELETE FROM notes WHERE key = ?", (key,))
        else:
            connection.execute(_NOTE, (key, text))
