"""The state in the tables, told as the events that make it; applied in order they rebuild the broker."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from ..._values import StoredMessage
from .._journal import Deduplicated, Enqueued, Event, Leased, QueueConfigured, Remembered
from ._form import SEQUENCE_BITS, SEQUENCE_MASK, envelope_from, settings_from, text_from

_MESSAGES = (
    "SELECT m.*, l.receives, l.received_at, l.due, l.first_received "
    "FROM messages m LEFT JOIN leases l USING (place) ORDER BY place"
)


def events_of(connection: sqlite3.Connection) -> Iterator[Event]:
    """
    Yield every event that makes the state: queues, messages, the deduplication window, notes.

    The numbers that are used up come last: while messages are put in, the waiting keys must get their turns in order.

    Raises:
        sqlite3.DatabaseError, LookupError, TypeError, ValueError: the tables do not make sense.
    """
    queues = list(connection.execute("SELECT serial, name, settings, last FROM queues ORDER BY serial"))
    names: dict[int, str] = {serial: text_from(name) for serial, name, _, _ in queues}
    for serial, _, settings, _ in queues:
        yield QueueConfigured(names[serial], serial, settings_from(settings))
    yield from _messages(connection, names)
    for serial, *row in connection.execute("SELECT * FROM identities ORDER BY serial, at, sequence"):
        yield _identity(names[serial], row)
    for serial, _, settings, last in queues:
        yield QueueConfigured(names[serial], serial, settings_from(settings), last)
    for key, text in connection.execute("SELECT key, text FROM notes"):
        yield Remembered(key, text)


def _messages(connection: sqlite3.Connection, names: dict[int, str]) -> Iterator[Event]:
    """A million of them is many: this loop is what opening a folder takes."""
    for place, id_, key, dedup_id, sent_at, due, carried, first, source, envelope, body, *lease in connection.execute(
        _MESSAGES
    ):
        queue, sequence = names[place >> SEQUENCE_BITS], place & SEQUENCE_MASK
        message = StoredMessage(
            sequence,
            id_ if type(id_) is str else text_from(id_),
            body,
            key if key is None else text_from(key),
            dedup_id if dedup_id is None else text_from(dedup_id),
            envelope if envelope is None else envelope_from(envelope),
            sent_at,
            source if source is None else text_from(source),
        )
        receives, received_at, until, first_here = lease
        if receives is None:
            yield Enqueued(queue, message, due, carried or 0, first)
            continue
        # Its delay is over, or it could not have been taken; whether its lease is over, the broker's clock will tell.
        yield Enqueued(queue, message, None, carried or 0, first_here if first is None else first)
        yield Leased(queue, sequence, receives, received_at, until)


def _identity(queue: str, row: Any) -> Event:
    at, sequence, message_id, grouped, key, dedup_id = row
    known = text_from(dedup_id)
    identity = (text_from(key), known) if grouped else known
    return Deduplicated(queue, identity, at, text_from(message_id), sequence)
