"""One SQLite file of claims: how it is made, opened and checked, and its transactions; blocking, for one thread."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .._errors import ConfigurationError, ErrorCode
from ._errors import IdempotencyStoreError
from ._records import Record

T = TypeVar("T")

#: Raised with every change of the table.
VERSION = 1
#: "mqid" as a number; so that no other program's file is taken for ours.
APPLICATION = 0x6D716964

#: Seconds between two looks whether another process has made the file.
LOCK_PAUSE = 0.01

#: Records removed in one transaction at most, so that none takes long.
PURGE_ROWS = 500

_TABLE = """
CREATE TABLE records (key TEXT PRIMARY KEY, owner TEXT NOT NULL, fingerprint TEXT NOT NULL, done INTEGER NOT NULL,
    ends_at REAL NOT NULL, forget_at REAL NOT NULL, result BLOB) WITHOUT ROWID
"""
_INDEX = "CREATE INDEX records_by_end ON records (forget_at)"

#: What a lack of time, room or quiet mends.
_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")


class RecordFile:
    """
    An open file.  Every change is one transaction that no other process interleaves with.

    Args:
        busy: Seconds to wait for another process's transaction.
        fsync: Every commit waits for the disk.

    Raises:
        ConfigurationError: it cannot be opened, is another program's or a newer version's, or is damaged.
        IdempotencyStoreError: others kept it locked for too long.
    """

    def __init__(self, path: str, *, busy: float, fsync: bool) -> None:
        self.path = path
        with self._faults():
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=busy)
        try:
            with self._faults():
                self._keep_log(busy)
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _keep_log(self, busy: float) -> None:
        """Switch to a write-ahead log, in which readers and one writer do not hinder each other."""
        deadline = time.monotonic() + busy
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                # Of several who make the file at once all but one are refused at once: SQLite waits for everything,
                # but not for this, as two of them would wait for each other.
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= deadline:
                    raise
            time.sleep(LOCK_PAUSE)

    def _prepare(self) -> None:
        with self._transaction() as run:
            ((application,),) = run("PRAGMA application_id")
            ((version,),) = run("PRAGMA user_version")
            ((tables,),) = run("SELECT count(*) FROM sqlite_master")
            if not tables and not version:
                for statement in (_TABLE, _INDEX):
                    run(statement)
                run(f"PRAGMA application_id = {APPLICATION}")
                run(f"PRAGMA user_version = {VERSION}")
            elif application != APPLICATION:
                raise ConfigurationError(
                    f"{self.path!r} is a database of another program: give SqliteStore its own file"
                )
            elif version != VERSION:
                raise ConfigurationError(
                    f"{self.path!r} was written by a newer messagequeue (form {version}; this one reads {VERSION}): "
                    "upgrade messagequeue, or give another file"
                )

    def read_and_write(self, key: str, decide: Callable[[Record | None], tuple[T, Record | None]]) -> T:
        """Call *decide* with the record of *key*, write the one it returns, and return its answer."""
        with self._faults(), self._transaction() as run:
            rows = run("SELECT owner, fingerprint, done, ends_at, forget_at, result FROM records WHERE key = ?", key)
            answer, record = decide(_record(*rows[0]) if rows else None)
            if record is not None:
                run(
                    "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
                    key,
                    record.owner,
                    record.fingerprint,
                    record.done,
                    record.ends_at,
                    record.forget_at,
                    record.result,
                )
        return answer

    def remove(self, key: str, decide: Callable[[Record | None], bool]) -> bool:
        """Remove the record of *key* where *decide* says so of it, and return what it said."""

        def removal(record: Record | None) -> tuple[bool, None]:
            allowed = decide(record)
            if allowed:
                self._connection.execute("DELETE FROM records WHERE key = ?", (key,))
            return allowed, None

        return self.read_and_write(key, removal)

    def purge(self, now: float) -> int:
        """Remove up to `PURGE_ROWS` records that are to be forgotten, and return their number."""
        with self._faults(), self._transaction():
            return self._connection.execute(
                "DELETE FROM records WHERE key IN (SELECT key FROM records WHERE forget_at <= ? LIMIT ?)",
                (now, PURGE_ROWS),
            ).rowcount

    def close(self) -> None:
        """Close the file."""
        with self._faults():
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
        """A transaction that has the only right to write from its beginning; yields what runs a statement."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield lambda statement, *values: connection.execute(statement, values).fetchall()
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _fault(self.path, error) from error


def _record(owner: str, fingerprint: str, done: int, ends_at: float, forget_at: float, result: bytes | None) -> Record:
    return Record(owner, fingerprint, bool(done), ends_at, forget_at, result)


def _fault(path: str, error: sqlite3.Error) -> IdempotencyStoreError | ConfigurationError:
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if name.startswith(_PASSING):
        return IdempotencyStoreError(
            f"{path!r} could not be read or written ({name}: {error})", code=ErrorCode.UNAVAILABLE
        )
    return ConfigurationError(
        f"{path!r} cannot be used ({name}: {error}): give the path of a file that this process may read and write, "
        "on a disk of this machine"
    )
