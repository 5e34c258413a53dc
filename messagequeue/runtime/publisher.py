"""
The publisher of every provider: what `Publisher` promises, over the narrow `Sender` of one topic.

Which messages leave together is `batching`'s to say, what a call's answer means `answers`, who hears of it
`waiting`'s.  Here is what ties them to the event loop: the loop's clock, one task per call, the pause before a resend.

Messages that are published in the same turn of the loop share a batch, as the batcher is asked at the turn's end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from .._codec import Codec, JSONCodec
from .._errors import ClosedError, ErrorCode, PublishError
from .._message import Outgoing, Receipt
from .._options import PublishKwargs, PublishOptions
from ..driver import Sender
from .answers import Outcome, failed_as_a_whole, logger, reconcile, to_resend
from .backoff import equal_jitter, pause
from .batching import Batch, Batcher
from .many import ManyReceipts, Source, refuse_single
from .prepare import Preparer, stages_of
from .tasks import OwnedTasks, foreign_loop, outcome
from .waiting import WITHDRAWN, Confirmation, Entry, PendingReceipt

#: Seconds before an entry is sent once more: 0.1 doubling to 5, half of it random.
_RESEND_PAUSE = equal_jitter(0.1, 5.0)
_CONFIRMED = {Receipt}
#: Items of `publish_many()` taken in one turn of the loop, about a millisecond's work.
_TURN = 200


@dataclass(slots=True)
class PublisherStats:
    """
    What a publisher did so far; read it, do not write it.

    Attributes:
        published: Messages confirmed.
        failed: Messages that were handed over and got an error.  Those refused before are not counted.
        batches: Calls made.
        entries_retried: Resends of single messages.
        pending: Messages waiting or in flight now.
    """

    published: int = 0
    failed: int = 0
    batches: int = 0
    entries_retried: int = 0
    pending: int = 0


class RuntimePublisher:
    """
    Publishes to one topic; a `Publisher`.

    Args:
        topic: As the caller gave it.
        sender: Sends; closed by `stop()`.
        options: How to gather and send; the sender's limits cap them.
        codec: Encodes the data.
    """

    def __init__(self, topic: str, sender: Sender, options: PublishOptions | None = None, codec: Codec | None = None):
        options = PublishOptions() if options is None else options
        limits = sender.limits
        self._topic = topic
        self._sender = sender
        self._options = options
        self._ordered = sender.capabilities.ordering
        self._prepare = Preparer(topic, sender, JSONCodec() if codec is None else codec, stages_of(sender, options))
        self._batcher: Batcher[Entry] = Batcher(
            max_entries=min(options.batch_size, limits.batch_entries),
            max_bytes=min(options.batch_bytes, limits.batch_bytes or options.batch_bytes),
            max_in_flight=options.max_in_flight,
            linger=options.linger,
            ordered=self._ordered,
        )
        self._overflow: deque[Entry] = deque()  # beyond max_pending, first come first served
        self._tasks = OwnedTasks(logger)
        self._loop: asyncio.AbstractEventLoop | None = None  # of the first call
        self._asked = False
        self._timer: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self.stats = PublisherStats()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._topic!r}{', stopped' if self.stopped else ''}>"

    @property
    def topic(self) -> str:
        """The topic as it was given."""
        return self._topic

    @property
    def stopped(self) -> bool:
        """`stop()` was called: nothing more is taken."""
        return self._stopping is not None

    async def publish(self, data: object, /, **options: Unpack[PublishKwargs]) -> Receipt:
        """See `Publisher.publish()`."""
        entry = self._entry(data, options)
        confirmation = Confirmation(loop=asyncio.get_running_loop())
        confirmation.entry, confirmation.withdraw = entry, self._withdraw
        entry.waiter = confirmation
        self._submit(entry)
        return await confirmation

    def publish_nowait(self, data: object, /, **options: Unpack[PublishKwargs]) -> PendingReceipt:
        """See `Publisher.publish_nowait()`.  Cancelling the future withdraws the message where it has not left yet."""
        if self._full():
            self._refuse_stopped()
            raise PublishError(
                f"{self.stats.pending} messages of {self._topic!r} wait or are in flight: await publish(), "
                "publish less, or raise max_pending",
                topic=self._topic,
                code=ErrorCode.FULL,
                retryable=True,
            )
        entry = self._entry(data, options)
        entry.waiter = receipt = PendingReceipt(self._topic, self._withdraw)
        receipt.entry = entry
        self._submit(entry)
        return receipt

    async def publish_many(
        self, items: Iterable[object | Outgoing], /, **options: Unpack[PublishKwargs]
    ) -> list[Receipt | PublishError]:
        """
        See `Publisher.publish_many()`.

        *items* is read as room comes (`PublishOptions.max_pending`), so that it may be longer than memory is wide; what
        others publish meanwhile may come in between.
        Of a list or tuple all options are checked before anything is sent; of any other iterable, an item found later
        whose options the topic cannot honour fails alone (`ErrorCode.UNSUPPORTED`).

        Cancelling withdraws what has not left yet.  What is first read after `stop()` fails with `ErrorCode.CLOSED`.
        """
        self._refuse_stopped()
        refuse_single(items)
        source = Source(self._prepare, options)
        if isinstance(items, Sequence):
            source.check(items)
        many = ManyReceipts()
        try:
            await self._feed(items, source, many)
            return await many.wait_all()
        except BaseException:
            for entry in many.open:
                self._withdraw(entry)
            raise

    async def stop(self) -> None:
        """See `Publisher.stop()`.  Every call returns when it is done; cancelling one does not undo it."""
        self._refuse_foreign_loop()
        if self._stopping is None:
            self._batcher.flushing = True
            self._stopping = self._tasks.share(self._stop(), name=f"messagequeue stop {self._topic}")
        await outcome(self._stopping)

    async def _stop(self) -> None:
        try:
            while self.stats.pending:
                self._ask()
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
        finally:
            await self._sender.close()

    def _refuse_stopped(self) -> None:
        self._refuse_foreign_loop()
        if self.stopped:
            raise ClosedError(f"the publisher of {self._topic!r} was stopped: get a new one from its provider")

    def _refuse_foreign_loop(self) -> None:
        """Raise RuntimeError in another loop than that of the first call, unless that one is over and left nothing."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and (self.stats.pending or not self._loop.is_closed()):
                raise foreign_loop(f"the publisher of {self._topic!r}")
            self._loop, self._asked, self._timer = loop, False, None

    # ---- taking messages

    def _entry(self, data: object, options: Mapping[str, object]) -> Entry:
        """Return what is to be sent; its waiter is set by the caller."""
        self._refuse_stopped()
        if isinstance(data, Outgoing):
            message, size = self._prepare.message(data.data, self._prepare.terms_of(data, options))
        else:
            message, size = self._prepare.message(data, self._prepare.terms(options))
        return Entry(message, size)

    async def _feed(self, items: Iterable[object], source: Source, many: ManyReceipts) -> None:
        """
        Take *items* in as room comes; where no order is kept, many of them together, which costs less.

        (Where it is kept, each at once: whoever makes the items may publish, too, and must not be overtaken by itself.)
        """
        prepare, expect = source.prepare, many.expect
        most = 1 if self._ordered else _TURN
        taken: list[Entry] = []
        left = _TURN
        for item in items:
            prepared = prepare(item) if self._stopping is None else self._stopped_error()
            if type(prepared) is not tuple:
                many.results.append(prepared)  # type: ignore[arg-type]
            elif self._room(len(taken)):
                taken.append(expect(prepared[0], prepared[1]))
                if len(taken) >= most:
                    self._take(taken)
                    taken = []
            else:
                self._take(taken)
                taken = []
                if not self._submit(entry := expect(prepared[0], prepared[1])):
                    source.begun = True
                    await many.wait_admitted(entry)
            left -= 1
            if not left:
                left = _TURN
                self._take(taken)
                taken = []
                source.begun = True
                await asyncio.sleep(0)
        self._take(taken)

    def _room(self, taken: int) -> bool:
        """Whether there is room for one more beside *taken* ones that are not counted yet."""
        return self.stats.pending + taken < self._options.max_pending

    def _take(self, entries: list[Entry]) -> None:
        """Take *entries*, for which there is room."""
        if entries:
            self.stats.pending += len(entries)
            self._batcher.extend(entries, asyncio.get_running_loop().time())
            self._ask()

    def _stopped_error(self) -> PublishError:
        return PublishError(
            f"the publisher of {self._topic!r} was stopped before this message was taken; it was not sent",
            topic=self._topic,
            code=ErrorCode.CLOSED,
        )

    def _full(self) -> bool:
        return self.stats.pending >= self._options.max_pending

    def _submit(self, entry: Entry) -> bool:
        """Take *entry*, or, where there is no room, remember it; return whether there was."""
        stats = self.stats
        if stats.pending >= self._options.max_pending:
            self._overflow.append(entry)
            return False
        stats.pending += 1
        loop = asyncio.get_running_loop()
        self._batcher.add(entry, loop.time())
        if not self._asked:
            self._asked = True
            loop.call_soon(self._send_ready)
        return True

    def _enter(self, entry: Entry) -> None:
        self.stats.pending += 1
        self._batcher.add(entry, asyncio.get_running_loop().time())
        self._ask()

    def _leave(self, count: int) -> None:
        """*count* entries are no longer pending: let others in."""
        self.stats.pending -= count
        overflow = self._overflow
        while overflow and self.stats.pending < self._options.max_pending:
            entry = overflow.popleft()
            if not entry.place:
                self._enter(entry)
                entry.waiter.admitted()
        if not self.stats.pending and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _withdraw(self, entry: Entry) -> None:
        entry.wanted = False
        pending = bool(entry.place)
        if self._batcher.discard(entry):
            entry.message = WITHDRAWN  # it keeps its place in a line for as long as a call takes; its body need not
            if pending:
                self._leave(1)

    # ---- sending

    def _ask(self) -> None:
        """Have the batcher asked at the end of this turn of the loop, once however often this is called in it."""
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._send_ready)

    def _send_ready(self, not_before: float = 0.0) -> None:
        self._asked = False
        now = max(asyncio.get_running_loop().time(), not_before)
        while (batch := self._batcher.take(now)) is not None:
            self._tasks.spawn(self._send(batch), name=f"messagequeue send {self._topic}")
        self._set_timer()

    def _set_timer(self) -> None:
        due, timer = self._batcher.due(), self._timer
        if timer is not None:
            if due is not None and timer.when() <= due:
                return  # one that fires early sets the next; most are overtaken by the next batch
            timer.cancel()
        self._timer = None if due is None else asyncio.get_running_loop().call_at(due, self._on_timer, due)

    def _on_timer(self, due: float) -> None:
        self._timer = None
        self._send_ready(due)  # a timer may fire early: asyncio's by its clock's resolution, uvloop's by a millisecond

    async def _send(self, batch: Batch[Entry]) -> None:
        entries = batch.items
        self.stats.batches += 1
        try:
            results = await self._sender.send([entry.message for entry in entries])
            outcomes = reconcile(results, len(entries), self._topic)
        except BaseException as error:
            self._finish(batch, failed_as_a_whole(error, len(entries), self._topic), retries=0)
            if not isinstance(error, Exception):
                raise
        else:
            self._finish(batch, outcomes, retries=self._options.entry_retries)
        finally:
            # On Python 3.13 the sender's frames, which an error's traceback holds, hold this one: a cycle, in which a
            # message whose failure nobody reads would wait for the garbage collector.
            del batch, entries

    def _finish(self, batch: Batch[Entry], outcomes: list[Outcome], *, retries: int) -> None:
        entries = batch.items
        if set(map(type, outcomes)) == _CONFIRMED:
            self._batcher.complete(batch)
            self.stats.published += len(entries)
            for entry, result in zip(entries, outcomes, strict=True):
                entry.waiter.deliver(entry, result)
            self._leave(len(entries))
            self._ask()
            return
        for entry in entries:
            entry.attempts += 1
        again = to_resend(entries, outcomes, retries=retries, ordered=self._ordered)
        held = [entries[at] for at in sorted(again)]
        self._batcher.complete(batch, held)
        for at, (entry, result) in enumerate(zip(entries, outcomes, strict=True)):
            if at not in again:
                self._deliver(entry, result)
        self._leave(len(entries) - len(held))
        if held:
            seconds = pause(_RESEND_PAUSE, max(entry.attempts for entry in held))
            asyncio.get_running_loop().call_later(seconds, self._resend, held)
        self._ask()

    def _deliver(self, entry: Entry, result: Outcome) -> None:
        if isinstance(result, Receipt):
            self.stats.published += 1
        else:
            self.stats.failed += 1
        entry.waiter.deliver(entry, result)

    def _resend(self, held: list[Entry]) -> None:
        self._batcher.restore(held)
        self.stats.entries_retried += len(held)
        self._ask()
