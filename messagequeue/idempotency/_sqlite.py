"""Claims in a file, for the processes of one machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from .._errors import ClosedError, ConfigurationError
from . import _records
from ._records import MAX_RESULT, Record
from ._sqlite_file import PURGE_ROWS, RecordFile
from ._store import ClaimOutcome

T = TypeVar("T")

#: Claims between two looks for records to forget.
PURGE_EVERY = 64
#: Seconds to wait for another process's transaction; they take less than a millisecond each.
BUSY = 5.0


class SqliteStore:
    """
    Keeps records in one SQLite file, for every process of a machine that opens it.

    The file is opened, and made where it is missing, at the first call.  All of its work is done on one thread, so the
    event loop never waits for the disk.  Records that have ended are removed along the way.

    Args:
        path: A file of its own, on a disk of this machine: SQLite's locks do not work over most network file systems.
        fsync: Every call waits for the disk, so that no record is lost with a power cut either; some milliseconds each.
            Without it what was recorded survives the end of the process, `kill -9` included.
        clock: Seconds, the same for all processes; the machine's own time where none is given.

    Raises:
        ConfigurationError: *path* is empty, or a database in memory.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fsync: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = os.fspath(path)
        if not isinstance(self._path, str) or not self._path or self._path == ":memory:":
            raise ConfigurationError(f"path={self._path!r}: give the path of a file; MemoryStore keeps none")
        self._fsync = fsync
        self._clock = clock
        self._thread: ThreadPoolExecutor | None = None
        self._file: RecordFile | None = None  # the thread's alone
        self._process = 0
        self._claims = 0
        self._closed = False

    @property
    def max_result(self) -> int:
        """1 MiB."""
        return MAX_RESULT

    async def claim(self, key: str, /, *, owner: str, fingerprint: str, lease: float) -> ClaimOutcome:
        def decide(record: Record | None) -> tuple[ClaimOutcome, Record | None]:
            return _records.claim(record, self._clock(), owner=owner, fingerprint=fingerprint, lease=lease)

        def work(file: RecordFile) -> ClaimOutcome:
            self._claims += 1
            if self._claims % PURGE_EVERY == 0:
                file.purge(self._clock())
            return file.read_and_write(key, decide)

        return await self._run(work)

    async def renew(self, key: str, /, *, owner: str, lease: float) -> bool:
        return await self._change(key, lambda record: _records.renewed(record, self._clock(), owner=owner, lease=lease))

    async def complete(self, key: str, /, *, owner: str, ttl: float, result: bytes | None) -> bool:
        return await self._change(
            key, lambda record: _records.completed(record, self._clock(), owner=owner, ttl=ttl, result=result)
        )

    async def release(self, key: str, /, *, owner: str) -> bool:
        return await self._run(lambda file: file.remove(key, lambda record: _records.may_release(record, owner=owner)))

    async def purge(self) -> int:
        """Remove every record that has ended, and return their number.  Nobody need call it."""
        removed, more = 0, PURGE_ROWS
        while more == PURGE_ROWS:
            more = await self._run(lambda file: file.purge(self._clock()))
            removed += more
        return removed

    async def close(self) -> None:
        """Close the file when the calls under way have ended.  Later calls raise `ClosedError`; idempotent."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is None or os.getpid() != self._process:  # that thread is another process's to end
            return
        last = asyncio.get_running_loop().run_in_executor(thread, self._close_file)
        thread.shutdown(wait=False)
        await asyncio.shield(last)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _change(self, key: str, decide: Callable[[Record | None], Record | None]) -> bool:
        def both(record: Record | None) -> tuple[bool, Record | None]:
            changed = decide(record)
            return changed is not None, changed

        return await self._run(lambda file: file.read_and_write(key, both))

    async def _run(self, work: Callable[[RecordFile], T]) -> T:
        if self._closed:
            raise ClosedError("the SqliteStore is closed: close it after the consumers that use it")
        if self._thread is None:
            self._thread, self._process = ThreadPoolExecutor(1, "messagequeue-idempotency"), os.getpid()
        if os.getpid() != self._process:  # its thread is not in this one, and would never answer
            raise ConfigurationError(
                f"{self._path!r} was opened by process {self._process}: make the SqliteStore after the fork"
            )
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._with_file, work)

    def _with_file(self, work: Callable[[RecordFile], T]) -> T:
        if self._file is None:
            self._file = RecordFile(self._path, busy=BUSY, fsync=self._fsync)
        return work(self._file)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
