"""
A hub whose broker outlives the process; not where its store comes from, and not when that is written.

The broker's clock counts seconds since the epoch, for its deadlines must go on while no process runs.  While one runs,
it follows the event loop's clock, which no correction of the system's moves.  It never starts before the last commit:
were the system's clock set back, leases and delays would last longer, and nothing would come early or be lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..broker import Broker, Lease, Queue
from ._commit import Committer, Store, Told
from ._config import TopicOptions
from ._hub import Hub, settings_of

#: Topics of the SQS server, of its own region and of others: their settings are its users' to change.
SERVER_PREFIXES = ("sqs.", "sqs@")


class DurableHub(Hub):
    """
    Args:
        broker: Loaded from *store*, which is its journal.
        store: Nobody else may write it.
        clock: The broker's seconds at the last commit.
        waits: A commit waits for the disk.
        wall: Returns seconds since the epoch.
    """

    def __init__(
        self, broker: Broker, store: Store, *, clock: float, waits: bool, wall: Callable[[], float] = time.time
    ) -> None:
        super().__init__(broker, what="the data folder", wall=wall)
        self._last = clock
        self._named: set[str] = set()
        self._committer = Committer(store, lambda: self._last, waits=waits)

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        super()._bind(loop)
        self._committer.bind(loop)

    async def committed(self) -> None:
        """
        Return when what was done so far survives the end of the process.

        Raises:
            StorageError: that is not known.  It is tried again with the next commit.
        """
        await self._committer.committed()

    def commit_soon(self) -> None:
        self._committer.soon()

    def after_commit(self, then: Told) -> None:
        """`committed()` for who does not wait: *then* is called, at once where there is nothing to wait for."""
        self._committer.after(then)

    @property
    def failing(self) -> bool:
        """The last commit failed.  It is tried again every second; a change made now would be in doubt."""
        return self._committer.failing

    async def _hand_out(self, queue: Queue, leases: list[Lease]) -> None:
        try:
            await self._committer.committed()
        except BaseException:
            now = self.now()
            for lease in leases:
                queue.release(now, lease.handle)
            self.announce(queue)
            raise

    def queue(self, topic: str, config: TopicOptions) -> Queue:
        """Return the queue of *topic*; the first to name it in this process says what it is like, but for its order."""
        queue = super().queue(topic, config)
        if topic not in self._named:
            self._named.add(topic)
            settings = settings_of(topic, config)
            same_order = settings.ordering is queue.settings.ordering
            if settings != queue.settings and same_order and not topic.startswith(SERVER_PREFIXES):
                queue.configure(settings)
                if settings.dead_letters is not None:
                    self.queue(settings.dead_letters.target, config)
        return queue

    async def close(self, then: Callable[[], None]) -> None:
        """
        Commit what is left and close the store.  Call it once; cancelled, it is done all the same.

        Args:
            then: Called at the end, from another thread.

        Raises:
            StorageError: what is left could not be committed.
        """
        await self._committer.close(then)

    def abandon(self) -> None:
        """Close the store of a hub that nobody used."""
        self._committer.abandon()
