"""The store itself: records, loads, writes, and keeps its file short; not on which thread, and not when."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
from enum import StrEnum

from ...._errors import ConfigurationError
from ..._broker import Broker
from .._journal import Event, QueueConfigured, StorageError
from ._changes import Changes
from ._folder import Folder
from ._load import events_of
from ._schema import connect, damaged
from ._write import execute

#: Bytes of the write-ahead log above which it is written back into the file and begun anew.
LOG_BYTES = 16 * 1024 * 1024


class Fsync(StrEnum):
    """When what was committed is forced from the system's memory to the disk.  The process may die at any time."""

    ALWAYS = "always"
    """With each commit: what was answered survives a power cut, too."""
    SECOND = "second"
    """Within a second: a power cut may undo the last commits before it, from some commit on; the file stays sound."""


class SqliteStore:
    """
    A `Journal` that outlives its process; `open()` makes it.

    `record()` only remembers.  `begin()` gives the changes to SQLite, `commit()` makes them last; `write()` does both.
    Where that fails, nothing is forgotten: the next `begin()` does it first.

    *Threads:* `commit()`, `sync()` and `checkpoint()` wait for the disk and may run on another thread.  Meanwhile only
    `record()` may be called.

    Attributes:
        fsync: As given.
        clock: The broker's seconds at the last commit before this store was opened: they must not go back.
        failed: The last write failed.
    """

    def __init__(self, folder: Folder, connection: sqlite3.Connection, fsync: Fsync) -> None:
        self.fsync = fsync
        self.failed = False
        self._folder = folder
        self._connection = connection
        self._process = os.getpid()
        clock, serial = connection.execute("SELECT clock, serial FROM engine").fetchone()
        self.clock: float = clock
        self._serial: int = serial
        serials: dict[str, int] = {}
        windows: dict[int, float] = {}
        self._collecting, self._spare = Changes(serials, windows), Changes(serials, windows)
        self._writing: Changes | None = None
        # Never locked by SQLite, so that closing it gives no lock of the file away.
        self._log = os.open(f"{folder.database}-wal", os.O_RDONLY | os.O_CLOEXEC | os.O_CREAT, 0o644)
        self._open = True

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, fsync: Fsync | str = Fsync.SECOND) -> SqliteStore:
        """
        Own the folder *path*, made where it is missing, and open its store.

        Raises:
            FolderInUseError: another process has it, or this one already.
            ConfigurationError: it cannot be used, or its file is damaged, or not ours, or newer; says what to do.
        """
        mode = Fsync(fsync)
        folder = Folder(path)
        try:
            connection = connect(folder.database, full=mode is Fsync.ALWAYS)
            try:
                store = cls(folder, connection, mode)
            except BaseException:
                connection.close()
                raise
            folder.sync()
        except (sqlite3.DatabaseError, TypeError) as error:
            folder.close()
            raise damaged(folder.database, error) from error
        except BaseException:
            folder.close()
            raise
        return store

    @property
    def path(self) -> str:
        """The folder, absolute."""
        return str(self._folder.path)

    def load(self, broker: Broker) -> None:
        """
        Give an empty *broker* the state of the file, and be its journal from then on.

        Raises:
            ConfigurationError: the broker is not empty, or the file does not make sense.
        """
        if any(True for _ in broker):
            raise ConfigurationError("a store can only be loaded into a broker without queues")
        broker.serial = self._serial
        try:
            self._replay(broker)
        except (sqlite3.DatabaseError, LookupError, TypeError, ValueError) as error:
            raise damaged(self._folder.database, error) from error
        broker.drain_ready()
        broker.journal = self

    def _replay(self, broker: Broker) -> None:
        # Nothing of it becomes garbage; a collector that looks through it again and again doubles the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            for event in events_of(self._connection):
                broker.apply(event)
                if isinstance(event, QueueConfigured):
                    self._collecting.learn(event)
        finally:
            if collects:
                gc.enable()

    def record(self, event: Event, /) -> None:
        self._collecting.add(event)

    @property
    def pending(self) -> bool:
        """Something was recorded that no commit holds."""
        return self._writing is not None or not self._collecting.empty

    def write(self, now: float) -> None:
        """`begin()`, then `commit()`."""
        self.begin(now)
        self.commit()

    def begin(self, now: float) -> None:
        """
        Give what was recorded to SQLite.  `commit()` must follow.

        Args:
            now: The broker's seconds; the clock goes on from there when the store is opened again.

        Raises:
            StorageError: it could not be written; it is kept.
        """
        if self._writing is not None:  # what failed before comes first, in a commit of its own
            self._give(self._writing, now)
            self.commit()
        if not self._collecting.empty:
            self._writing, self._collecting = self._collecting, self._spare
            self._give(self._writing, now)

    def _give(self, changes: Changes, now: float) -> None:
        if os.getpid() != self._process:
            raise StorageError(f"{self.path!r} belongs to process {self._process}: open it after the fork, not before")
        try:
            execute(self._connection, changes, now)
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise self._failure(error) from error

    def commit(self) -> None:
        """
        Make what `begin()` gave last; with `Fsync.ALWAYS` return when it is on the disk.

        Raises:
            StorageError: it could not be written; it is kept.
        """
        changes = self._writing
        if changes is None:
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failure(error) from error
        changes.clear()
        self._writing, self._spare = None, changes
        self.failed = False

    def _failure(self, error: Exception) -> StorageError:
        self.failed = True
        if self._open and self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        return StorageError(f"the data folder {self.path!r} cannot be written ({error}): look at its disk")

    # --- upkeep

    @property
    def log_full(self) -> bool:
        """It is time for `checkpoint()`."""
        return os.fstat(self._log).st_size > LOG_BYTES

    def checkpoint(self) -> None:
        """Write the log back into the file and begin it anew.  Raises `StorageError`; nothing is lost by that."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def sync(self) -> None:
        """Force to the disk what is committed; `record()`, `begin()` and `commit()` may go on.  Raises OSError."""
        os.fdatasync(self._log)

    def close(self) -> None:
        """
        Leave one file without a log, and give the folder free.  What was recorded and not written is dropped.

        A second call does nothing.
        """
        if not self._open:
            return
        self._open = False
        os.close(self._log)
        try:
            self._connection.close()  # SQLite writes the log back
        finally:
            self._folder.close()
