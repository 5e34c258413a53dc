"""
When a durable store is written: group commit for tasks of one event loop; not what is written, and not by whom.

What is recorded in one turn of the loop is committed together at its end.  SQLite's own work is short and stays on the
loop: on a thread it would wait for the interpreter lock row by row.  Whatever waits for the disk runs on a thread of
its own, and meanwhile the next commit gathers.  Measured on one machine: 45 us a commit and 6 us a message on the loop;
3 to 5 ms for the disk.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeAlias

from .. import _log_events as events
from .._errors import MessageQueueError
from ..broker.storage import StorageError

#: Seconds between a commit and the moment it is forced to the disk, where commits do not wait for that themselves.
SYNC_AFTER = 1.0
#: Seconds after which a commit, or a writing back of the log, that failed is tried again.
RETRY_AFTER = 1.0

#: Hears that a commit has been made, or why not.
Told: TypeAlias = Callable[[StorageError | None], None]


class Store(Protocol):
    """What is needed of a durable store; see `broker.storage.sqlite.SqliteStore`."""

    @property
    def pending(self) -> bool: ...
    @property
    def log_full(self) -> bool: ...
    def begin(self, now: float, /) -> None: ...
    def commit(self) -> None: ...
    def checkpoint(self) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class Committer:
    """
    Args:
        store: Nobody else may use it from now on, but for `record()`.
        now: Returns the broker's seconds.
        waits: A commit waits for the disk.

    Attributes:
        failing: The last commit failed.  It is tried again every second, whether somebody asks for it or not.
    """

    def __init__(self, store: Store, now: Callable[[], float], *, waits: bool) -> None:
        self.failing = False
        self._store = store
        self._now = now
        self._waits = waits
        self._thread = ThreadPoolExecutor(1, "messagequeue-disk")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: list[Told] = []
        self._asked = False
        self._job: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._rest_until = -math.inf  # the loop's time before which the log is not written back: that failed just now
        self._closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve *loop* from now on.  Those who waited in the one before do not any more; its last job is waited for."""
        self._thread.submit(_nothing).result()
        self._loop = loop
        self._waiters, self._asked, self._job, self._timer, self._retry = [], False, None, None, None
        self._rest_until = -math.inf
        if self.failing:
            self._try_later()

    async def committed(self) -> None:
        """
        Return when everything recorded so far is committed.  Cancelled, what was recorded is committed all the same.

        Raises:
            StorageError: the commit failed; it is tried again with the next.
        """
        if not self._store.pending or self._loop is None:
            return
        waiter = self._loop.create_future()
        self.after(partial(_settle, waiter))
        await waiter

    def after(self, then: Told) -> None:
        """
        Call *then* when everything recorded so far is committed: at once where it is already, else in a later turn of
        the loop, in the order of these calls.  Where the commit failed, *then* gets an error of its own.
        """
        if not self._store.pending or self._loop is None:
            then(None)
            return
        self._waiters.append(then)
        self._ask()

    def soon(self) -> None:
        """Have everything recorded so far committed, though nobody waits for it."""
        if self._loop is not None and self._store.pending:
            self._ask()

    def _ask(self) -> None:
        if not self._asked and self._job is None and self._loop is not None:
            self._asked = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._asked = False
        if self._closed or self._job is not None:
            return  # the job's end, or close(), does it
        waiters, self._waiters = self._waiters, []
        try:
            self._store.begin(self._now())
            if self._waits:
                self._run(self._store.commit, lambda error: self._answered(waiters, error))
                return
            self._store.commit()
        except Exception as error:
            self._answered(waiters, error)
            return
        self._answered(waiters, None)

    def _answered(self, waiters: list[Told], error: BaseException | None) -> None:
        self._judge(error)
        _answer(waiters, error)
        if error is None:
            self._keep_up()

    def _judge(self, error: BaseException | None) -> None:
        """Say once that commits fail, and once that they do not any more."""
        if error is None:
            if self.failing:
                events.FOLDER_RECOVERED.log("the data folder can be written again")
            self.failing = False
            return
        if not self.failing:
            code = str(error.code) if isinstance(error, MessageQueueError) else None
            events.FOLDER_FAILED.log("%s; it is tried again every %g s", error, RETRY_AFTER, error_code=code)
        self.failing = True
        self._try_later()

    def _try_later(self) -> None:
        if self._retry is None and not self._closed and self._loop is not None:
            self._retry = self._loop.call_later(RETRY_AFTER, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._job is not None:
            self._try_later()
        elif self.failing:
            self._flush()

    def _keep_up(self) -> None:
        """Keep the log short, and have what was committed forced to the disk before long."""
        if self._closed or self._loop is None:
            return
        if self._store.log_full and self._loop.time() >= self._rest_until:
            self._run(self._store.checkpoint, self._written_back)
        elif self._timer is None and not self._waits:
            self._timer = self._loop.call_later(SYNC_AFTER, self._sync)

    def _written_back(self, error: BaseException | None) -> None:
        if error is not None and self._loop is not None:
            self._rest_until = self._loop.time() + RETRY_AFTER
        _tell(error)

    def _sync(self) -> None:
        self._timer = None
        if self._job is None:  # else the job forces it to the disk, or the commit after it sets the timer again
            self._run(self._store.sync, _tell)

    def _run(self, work: Callable[[], None], then: Callable[[BaseException | None], None]) -> None:
        """Run *work* on the thread; what is recorded meanwhile is committed after it."""
        assert self._loop is not None
        job = self._job = self._loop.run_in_executor(self._thread, work)

        def over(done: asyncio.Future[None]) -> None:
            if self._job is not job:
                return  # of a loop that is no more
            self._job = None
            then(None if done.cancelled() else done.exception())
            if self._waiters or (self._store.pending and not self.failing):
                self._flush()

        job.add_done_callback(over)

    async def close(self, then: Callable[[], None]) -> None:
        """
        Commit what is left, then close the store.  Call it once; cancelled, it is done all the same.

        Args:
            then: Called at the end, on the thread.

        Raises:
            StorageError: what is left could not be committed, and is lost.
        """
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        self._closed = True
        now, waiters = self._now(), self._waiters
        last = asyncio.get_running_loop().run_in_executor(self._thread, _finish, self._store, now, then)
        self._thread.shutdown(wait=False)
        last.add_done_callback(lambda done: _answer(waiters, None if done.cancelled() else done.exception()))
        await asyncio.shield(last)

    def abandon(self) -> None:
        """Close the store at once; nothing was recorded."""
        self._closed = True
        self._thread.shutdown()
        self._store.close()


def _finish(store: Store, now: float, then: Callable[[], None]) -> None:
    try:
        if store.pending:
            store.begin(now)
            store.commit()
    finally:
        try:
            store.close()
        finally:
            then()


def _nothing() -> None:
    """To be waited for: a thread that runs it has done all before."""


def _answer(waiters: list[Told], error: BaseException | None) -> None:
    for waiter in waiters:
        own = None
        if error is not None:
            own = StorageError(str(error))  # each its own: a shared one would gather the traces of all
            own.__cause__ = error
        try:
            waiter(own)
        except Exception:
            events.FOLDER_WAITER.log("who waited for a commit failed on hearing of it", exc_info=True)


def _settle(waiter: asyncio.Future[None], error: StorageError | None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)


def _tell(error: BaseException | None) -> None:
    if error is not None:
        events.FOLDER_NOT_SYNCED.log("what was committed could not be forced to the disk: %s", error)
