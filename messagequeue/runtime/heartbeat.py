"""Keeps leases alive: asks the book what is due, calls the broker, and tells of leases that are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from .. import _log_events as events
from .._errors import LeaseLostError, MessageQueueError
from ..driver import LeaseSource
from .dispatch import Held
from .leases import LeaseBook
from .settling import call
from .sink import logger
from .stats import ConsumerStats
from .tasks import OwnedTasks

#: Seconds: the longest that one prolongation may take where the interval between two is longer.
BEAT_TIMEOUT = 20.0


class Heart:
    """
    The beating of one consumer.

    Args:
        book: What is held; whoever takes a message out of it stops its beats.
        on_lost: The lease of a message ended, by the broker's word or because no prolongation landed in time.
    """

    def __init__(
        self,
        source: LeaseSource,
        book: LeaseBook,
        stats: ConsumerStats,
        topic: str,
        *,
        on_lost: Callable[[Held, MessageQueueError | None], None],
    ) -> None:
        self._source = source
        self._book = book
        self._stats = stats
        self._topic = topic
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._tasks = OwnedTasks(logger)
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """The book may have something due earlier than it had."""
        self._changed.set()

    async def run(self) -> None:
        """Beat until cancelled."""
        try:
            while True:
                await self._pause()
                self._beat(self._loop.time())
        finally:
            await self._tasks.cancel_all()

    async def _pause(self) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout_at(self._book.next_due()):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _beat(self, now: float) -> None:
        due = self._book.due(now)
        for lease in due.lost:
            self._on_lost(cast(Held, lease), None)
        size = self._source.limits.batch_entries
        for by, leases in due.extend.items():
            for start in range(0, len(leases), size):
                batch = [cast(Held, lease) for lease in leases[start : start + size]]
                task = self._tasks.spawn(self._extend(batch, by), name=f"messagequeue heartbeat {self._topic}")
                for held in batch:
                    held.beat = task

    async def _extend(self, batch: list[Held], by: float) -> None:
        """One call, with a time limit of its own: one that hangs must not keep the next from being tried."""
        asked_at = self._loop.time()
        handles = [held.handle for held in batch]
        limit = min(BEAT_TIMEOUT, self._book.terms.interval or BEAT_TIMEOUT)
        try:
            async with asyncio.timeout(limit):
                results = await call(lambda: self._source.extend(handles, by=by), len(batch))
        except TimeoutError:
            results = [MessageQueueError("no answer in time", retryable=True)] * len(batch)
        except asyncio.CancelledError:
            for held in batch:
                held.beating = False
            raise
        for held, handle, error in zip(batch, handles, results, strict=True):
            if held.handle is handle:
                self._extended(held, error, asked_at, by)
            else:  # the message came again meanwhile: what became of its older lease says nothing
                held.beating = False

    def _extended(self, held: Held, error: MessageQueueError | None, asked_at: float, by: float) -> None:
        if error is None:
            self._stats.leases_extended += 1
            self._book.extended(held, asked_at, by)
            return
        self._book.failed(held, self._loop.time())
        self.wake()
        if held not in self._book:  # settled or handed back meanwhile: its refusal says nothing
            text = "topic %s: late heartbeat of message %s refused"
            events.HEARTBEAT_LATE.log(text, self._topic, held.id, topic=self._topic, message_id=held.id)
        elif isinstance(error, LeaseLostError):
            self._book.remove(held)
            self._on_lost(held, error)
        else:
            left = max(0.0, held.deadline - self._loop.time())
            events.HEARTBEAT_FAILED.log(
                "topic %s: heartbeat of message %s failed, its lease lasts %.1f s more: %s",
                self._topic,
                held.id,
                left,
                error,
                topic=self._topic,
                message_id=held.id,
                error_code=str(error.code),
                left=left,
            )
