"""
Telling the broker what became of messages: settled, handed back, dead-lettered.

Gathers settlements into batches, tries failed entries again while the lease lasts, and forgets none: each ends in
`on_settled` or `on_kept`.  Not concerned with why; that is `outcome`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from .. import _log_events as events
from .._errors import ConsumeError, ErrorCode, LeaseLostError, MessageQueueError, SettleError
from ..driver import LeaseSource
from .backoff import SETTLE_FIRST, SETTLE_LONGEST, equal_jitter, pause
from .dispatch import Held
from .outcome import Bury
from .sink import Faults, logger, tell_discarded
from .stats import ConsumerStats
from .tasks import OwnedTasks, own_cancellation

#: Settlement calls at once; while so many are out, finished messages gather.
MAX_IN_FLIGHT = 50

#: Seconds that a settlement waits for company while other calls are out; a lone one never waits.
LINGER = 0.01

#: A settlement is tried so many times while its lease lasts, a release so many.
SETTLE_TRIES, RELEASE_TRIES = 8, 3

#: What a source says where there is no dead-letter queue to put a message into.
_NO_DEAD_LETTER_QUEUE = (ErrorCode.CONFIGURATION, ErrorCode.UNSUPPORTED)

_WAIT = equal_jitter(SETTLE_FIRST, SETTLE_LONGEST)


class Settling:
    """
    The outgoing half of a consumer.

    After `close()` nothing is sent any more, for the source may be closed: a message whose handler outlives its
    consumer comes back when its lease ends.

    Args:
        on_settled: The message is off the queue.
        on_kept: It was to be settled and is still on the queue; the second argument says when it comes back (None:
            somebody else has it).
        on_progress: Called after them, once for all that one answer said.
        on_put_aside: Called before `on_settled` with a message that was put aside and whose key is to be skipped.
        discards: What is to be dead-lettered is taken off the queue where there is no dead-letter queue.
    """

    def __init__(
        self,
        source: LeaseSource,
        faults: Faults,
        stats: ConsumerStats,
        topic: str,
        *,
        on_settled: Callable[[Held], None],
        on_kept: Callable[[Held, float | None], None],
        on_progress: Callable[[], None] = lambda: None,
        on_put_aside: Callable[[Held], None] = lambda held: None,
        discards: bool = False,
    ) -> None:
        self._source = source
        self._faults = faults
        self._stats = stats
        self._topic = topic
        self._on_settled = on_settled
        self._on_kept = on_kept
        self._on_progress = on_progress
        self._on_put_aside = on_put_aside
        self._discards = discards
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Held] = deque()
        self._burials: dict[str, deque[tuple[Held, Bury]]] = {}
        self._in_flight = 0
        self._flush_handle: asyncio.Handle | None = None
        self._linger_handle: asyncio.TimerHandle | None = None
        self._tasks = OwnedTasks(logger)
        self._idle: asyncio.Future[None] | None = None
        self.pending = 0
        """Messages whose settlement or release is not over."""
        self._closed = False

    # -- settle

    def settle(self, held: Held) -> None:
        """Take the message off the queue, soon, in a batch."""
        if self._closed:
            return
        self.pending += 1
        if held.beat is not None and not held.beat.done():
            # A prolongation that lands after the delete would be refused, and reported, for nothing (HB-01).
            self._spawn(self._enqueue_after_beat(held), "settle")
        else:
            self._enqueue(held)

    async def _enqueue_after_beat(self, held: Held) -> None:
        await quiet([held])
        self._enqueue(held)

    def _enqueue(self, held: Held) -> None:
        if self._closed:
            return
        self._queue.append(held)
        if self._flush_handle is None:  # once per turn of the loop: what ends together leaves together
            self._flush_handle = self._loop.call_soon(self._flush)

    def _flush(self, *, partial: bool = False) -> None:
        self._flush_handle = None
        size = self._source.limits.batch_entries
        queue = self._queue
        while queue and self._in_flight < MAX_IN_FLIGHT:
            if len(queue) < size and self._in_flight and not partial:
                if self._linger_handle is None:
                    self._linger_handle = self._loop.call_later(LINGER, self._flush_partial)
                return
            batch = [queue.popleft() for _ in range(min(size, len(queue)))]
            self._in_flight += 1
            self._spawn(self._settle(batch), "settle")

    def _flush_partial(self) -> None:
        self._linger_handle = None
        self._flush(partial=True)

    async def _settle(self, batch: list[Held]) -> None:
        started = self._loop.time()
        try:
            results = await call(lambda: self._source.settle([held.handle for held in batch]), len(batch))
        finally:
            self._in_flight -= 1
            if self._queue and self._flush_handle is None:
                self._flush_handle = self._loop.call_soon(self._flush)
        now = self._loop.time()
        stats, settled = self._stats, self._on_settled
        for held, error in zip(batch, results, strict=True):
            if error is None and started <= held.deadline:
                stats.settled += 1
                self._over(held, settled)
            else:
                self._unsettled(held, error, now)
        self._on_progress()

    def _unsettled(self, held: Held, error: MessageQueueError | None, now: float) -> None:
        held.attempts += 1
        if error is None or isinstance(error, LeaseLostError):
            self._lost(held, error, off_the_queue=error is None)
        elif error.retryable and held.attempts < SETTLE_TRIES and now < held.deadline:
            wait = min(pause(_WAIT, held.attempts), max(0.0, held.deadline - now))
            self._loop.call_later(wait, self._enqueue, held)
        else:
            self._stats.settle_errors += 1
            text = f"message {held.id} was handled but not taken off the queue, and will come again: {error}"
            self._tell(SettleError, text, held, error)
            self._over(held, lambda h: self._on_kept(h, h.deadline))

    def _lost(self, held: Held, error: MessageQueueError | None, *, off_the_queue: bool) -> None:
        """
        The lease ended before the settlement.

        A success after the deadline is not a clean finish: SQS may answer so without deleting where the message was
        received again meanwhile (API Reference, DeleteMessage).
        """
        self._stats.leases_lost += 1
        text = f"the lease of message {held.id} ended before it was settled: it may have been delivered again"
        self._tell(LeaseLostError, text, held, error)
        self._over(held, self._on_settled if off_the_queue else lambda h: self._on_kept(h, None))

    # -- hand back, bury

    def give_back(self, batch: Sequence[Held], after: float) -> None:
        """Let the messages be delivered again in *after* seconds."""
        if self._closed:
            return
        size = self._source.limits.batch_entries
        self.pending += len(batch)
        for start in range(0, len(batch), size):
            self._spawn(self._release(list(batch[start : start + size]), after), "release")

    async def _release(self, batch: list[Held], after: float) -> None:
        """Hand back; one that fails comes back by itself when its lease ends, so that three tries are enough."""
        failures = 0
        until = self._loop.time() + after
        await quiet(batch)
        while batch:
            wait = max(0.0, until - self._loop.time())
            results = await call(partial(self._source.release, [held.handle for held in batch], after=wait), len(batch))
            failures += 1
            again = []
            for held, error in zip(batch, results, strict=True):
                if error is not None and error.retryable and failures < RELEASE_TRIES:
                    again.append(held)
                else:
                    self._released(held, error)
            batch = again
            if batch:
                await asyncio.sleep(pause(_WAIT, failures))

    def _released(self, held: Held, error: MessageQueueError | None) -> None:
        if error is None:
            self._stats.released += 1
        elif isinstance(error, LeaseLostError):
            text = "topic %s: message %s was not ours to hand back any more"
            events.RELEASE_STALE.log(text, self._topic, held.id, topic=self._topic, message_id=held.id)
        else:
            text = f"message {held.id} could not be handed back and stays hidden until its lease ends: {error}"
            self._tell(SettleError, text, held, error)
        self._over(held, None)

    def bury(self, held: Held, what: Bury) -> None:
        """
        Put the message into the dead-letter queue and take it off this one.

        Those of one key go one after the other, in the order of the calls: behind one that cannot be put there, the
        others are handed back.
        """
        if self._closed:
            return
        self.pending += 1
        if held.key is None:
            self._spawn(self._bury(held, what), "dead-letter")
        elif (line := self._burials.get(held.key)) is not None:
            line.append((held, what))
        else:
            self._burials[held.key] = deque([(held, what)])
            self._spawn(self._bury_line(held.key), "dead-letter")

    async def _bury_line(self, key: str) -> None:
        line = self._burials[key]
        gone = True
        while line:
            held, what = line[0]
            if gone and self._loop.time() < held.deadline:
                gone = await self._bury(held, what)
            else:
                gone = False
                self._over(held, lambda h: self._on_kept(h, h.deadline))
                self.give_back([held], 0.0)
            line.popleft()
        del self._burials[key]

    async def _bury(self, held: Held, what: Bury) -> bool:
        """Return whether it is there, or on its way off the queue."""
        await quiet([held])
        (error,) = await call(lambda: self._dead_letter(held, what), 1)
        gone = True
        if error is None:
            self._stats.dead_lettered += 1
            self._put_aside(held, what)
            self._over(held, self._on_settled)
        elif error.code in _NO_DEAD_LETTER_QUEUE and self._discards:
            self._stats.discarded += 1
            tell_discarded(self._topic, held.id, what.reason)
            self._put_aside(held, what)
            self._over(held, None)
            self.settle(held)
        else:
            gone = False
            self._stats.settle_errors += 1
            self._tell(SettleError, f"message {held.id} could not be dead-lettered: {error}", held, error)
            self._over(held, lambda h: self._on_kept(h, h.deadline))
        self._on_progress()
        return gone

    def _put_aside(self, held: Held, what: Bury) -> None:
        if what.skips:
            self._on_put_aside(held)

    async def _dead_letter(self, held: Held, what: Bury) -> Sequence[ConsumeError | None]:
        message = held.message
        return [await self._source.dead_letter(held.handle, message, reason=what.reason, error=what.error)]

    # -- ends

    def _over(self, held: Held, then: Callable[[Held], None] | None) -> None:
        self.pending -= 1
        if then is not None:
            then(held)
        if not self.pending and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def idle(self) -> None:
        """Return once nothing is pending."""
        while self.pending and not self._closed:
            self._idle = self._loop.create_future()
            await self._idle

    async def close(self) -> None:
        """End what is left (after `idle()`, or instead of it); settlements that wait for another try are given up."""
        self._closed = True
        for handle in (self._flush_handle, self._linger_handle):
            if handle is not None:
                handle.cancel()
        await self._tasks.cancel_all()

    def _spawn(self, work: Coroutine[Any, Any, object], what: str) -> None:
        self._tasks.spawn(work, name=f"messagequeue {what} {self._topic}")

    def _tell(self, kind: type[ConsumeError], text: str, held: Held, cause: BaseException | None) -> None:
        self._faults.tell_of(kind, text, held.message, cause, self._loop.time())


async def quiet(batch: Sequence[Held]) -> None:
    """Wait until no prolongation of these messages is on its way: it would undo or be refused after what follows."""
    beats = {held.beat for held in batch if held.beat is not None and not held.beat.done()}
    if beats:
        await asyncio.wait(beats)


async def call(
    work: Callable[[], Awaitable[Sequence[ConsumeError | None]]], count: int
) -> Sequence[MessageQueueError | None]:
    """
    Make a batch call of the source, and its failure as a whole the failure of each entry.

    An answer that makes no sense is a failure that may be tried again: no message may be forgotten for it.
    """
    try:
        results = list(await work())
    except MessageQueueError as error:
        return [error] * count
    except (Exception, asyncio.CancelledError) as error:
        if own_cancellation(error):
            raise
        return [unexpected(error)] * count
    if len(results) == count == results.count(None):
        return results
    if len(results) != count:
        text = f"the provider answered for {len(results)} of {count} messages"
        return [SettleError(text, code=ErrorCode.BAD_RESPONSE, retryable=True)] * count
    return [unexpected(result) if not isinstance(result, MessageQueueError | None) else result for result in results]


def unexpected(cause: object) -> SettleError:
    """What a provider should have translated."""
    error = SettleError(f"the provider raised {type(cause).__name__}", code=ErrorCode.OTHER, retryable=True)
    error.__cause__ = cause if isinstance(cause, BaseException) else None
    return error
