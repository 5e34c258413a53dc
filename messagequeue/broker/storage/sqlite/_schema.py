"""The tables of a store's file, how they are made, and whether a file is one that can be read; not what is in them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ...._errors import ConfigurationError

#: Raised with every change of the tables; a newer file is refused, an older one will be brought up to date here.
VERSION = 1
#: "mque" as a number; so that no other program's file is taken for ours.
APPLICATION = 0x6D717565

#: `place` is a message's queue and sequence in one number, so that a queue is a range and a message one look-up.
#: What changes often (leases) stands apart from what never does: a lease must not copy a body of a megabyte.
_TABLES = """
CREATE TABLE engine (one INTEGER PRIMARY KEY CHECK (one = 1), clock REAL NOT NULL, serial INTEGER NOT NULL);
INSERT INTO engine VALUES (1, 0.0, 0);
CREATE TABLE queues (serial INTEGER PRIMARY KEY, name UNIQUE NOT NULL, settings TEXT NOT NULL, last INTEGER NOT NULL);
CREATE TABLE messages (place INTEGER PRIMARY KEY, id, key, dedup_id, sent_at REAL, due REAL, carried INTEGER,
    first_received REAL, source, envelope, body);
CREATE TABLE leases (place INTEGER PRIMARY KEY, receives INTEGER, received_at REAL, due REAL, first_received REAL);
CREATE TABLE identities (serial INTEGER, at REAL, sequence INTEGER, message_id, grouped INTEGER, key, dedup_id,
    PRIMARY KEY (serial, at, sequence)) WITHOUT ROWID;
CREATE TABLE notes (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
"""


def connect(database: Path, *, full: bool) -> sqlite3.Connection:
    """
    Open the file, made where it is missing.

    Args:
        full: Every commit waits for the disk.

    Raises:
        ConfigurationError: it is another program's, a newer version's, or damaged.
    """
    try:
        connection = sqlite3.connect(database, isolation_level=None, check_same_thread=False, timeout=0.0)
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"{str(database)!r} cannot be opened ({error}): give a folder that is yours"
        ) from error
    try:
        # Set first, before the log is touched: its index is then kept in this process's memory, not in a shared file.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        _prepare(connection, database)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise damaged(database, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, database: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not version:
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; {_TABLES} COMMIT;"
        )
    elif application != APPLICATION:
        raise ConfigurationError(
            f"{str(database)!r} is a database of another program: give a folder of its own to messagequeue"
        )
    elif version != VERSION:
        raise ConfigurationError(
            f"{str(database)!r} was written by a newer messagequeue (form {version}; this one reads {VERSION}): "
            "upgrade messagequeue, or give another folder"
        )


def damaged(database: Path, error: Exception) -> ConfigurationError:
    """What to say of a file that cannot be read, or does not make sense."""
    return ConfigurationError(
        f"{str(database)!r} is damaged or not a database ({type(error).__name__}: {error}): "
        "restore the folder from a copy, or move it away to begin with empty queues"
    )
