"""
A publisher whose messages go through middleware; not what the middleware does, and not how messages are sent.

Every message has a task of its own (that of its caller, for `publish()`), so that a middleware may wait without holding
up others.  Order per key is kept at the far end: each message takes a turn when it is published, and waits for it right
before it reaches the publisher behind.  Batching is that publisher's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack, cast

from .._errors import (
    ClosedError,
    ErrorCode,
    InvalidMessageError,
    MessageQueueError,
    PublishError,
    UnsupportedOptionError,
)
from .._message import Outgoing, Receipt
from .._options import PublishKwargs, refuse_unknown
from .._protocols import Publisher, PublishMiddleware
from ..runtime.answers import Outcome, as_publish_error, logger
from ..runtime.many import refuse_single
from ..runtime.tasks import OwnedTasks, outcome
from ..runtime.waiting import ReportedReceipt
from ._publishing import TOPIC, compose_publish
from ._turns import Turn, Turns

#: Items of `publish_many()` taken in one turn of the loop, about a millisecond's work.
_TURN = 200

_OPTIONS = "ordering_key", "deduplication_key", "delay", "attributes"


@dataclass(frozen=True, slots=True)
class _Passage:
    """A message on its way through the middleware of *owner*."""

    owner: MiddlewarePublisher
    turn: Turn | None


_PASSAGE: ContextVar[_Passage | None] = ContextVar("messagequeue passage", default=None)


class MiddlewarePublisher:
    """
    A `Publisher` around another one; see `with_middleware()`.

    Attributes:
        publisher: The one behind.
    """

    def __init__(self, publisher: Publisher, middleware: Sequence[PublishMiddleware], max_pending: int) -> None:
        self.publisher = publisher
        self._max_pending = max_pending
        self._turns = Turns()
        self._tasks = OwnedTasks(logger)
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._publish = compose_publish(self._arrive, *middleware)

    def __repr__(self) -> str:
        return f"<middleware around {self.publisher!r}{', stopped' if self.stopped else ''}>"

    @property
    def topic(self) -> str:
        """The topic as it was given."""
        return self.publisher.topic

    @property
    def stopped(self) -> bool:
        """`stop()` was called: nothing more is taken."""
        return self._stopping is not None

    @property
    def ended(self) -> bool:
        """`stop()` was called and is done."""
        return self._stopping is not None and self._stopping.done()

    async def publish(self, data: object, /, **options: Unpack[PublishKwargs]) -> Receipt:
        """See `Publisher.publish()`."""
        item = self._item(data, options, "publish()")
        turn = self._depart(item)
        try:
            return await self._pass(item, turn)
        finally:
            self._over(turn)

    def publish_nowait(self, data: object, /, **options: Unpack[PublishKwargs]) -> asyncio.Future[Receipt]:
        """See `Publisher.publish_nowait()`.  Cancelling the future cancels what the middleware does with it."""
        item = self._item(data, options, "publish_nowait()")
        if self._under_way >= self._max_pending:
            raise PublishError(
                f"{self._under_way} messages of {self.topic!r} are in the hands of its middleware: await publish(), "
                "publish less, or raise max_pending",
                topic=self.topic,
                code=ErrorCode.FULL,
                retryable=True,
            )
        turn = self._depart(item)
        receipt = _HandedOver(self.topic, self._start(item, turn))
        receipt.task.add_done_callback(partial(self._handed_over, receipt, turn))
        return receipt

    async def publish_many(
        self, items: Iterable[object | Outgoing], /, **options: Unpack[PublishKwargs]
    ) -> list[Receipt | PublishError]:
        """
        See `Publisher.publish_many()`.  *items* is read as room comes.

        What is first read after `stop()` fails with `ErrorCode.CLOSED`.  Cancelling cancels what is under way.
        """
        self._refuse_stopped()
        refuse_single(items)
        refuse_unknown(options, PublishKwargs, "publish_many()")
        many = _Many()
        try:
            for count, data in enumerate(items, 1):
                await many.until(self._max_pending - 1)
                self._add(many, data, options)
                if not count % _TURN:
                    await asyncio.sleep(0)
            await many.until(0)
        except BaseException:
            await many.cancel()
            raise
        return many.results

    async def stop(self) -> None:
        """See `Publisher.stop()`.  Waits for what the middleware has in hand, then stops the publisher behind."""
        if self._stopping is None:
            self._stopping = self._tasks.share(self._stop(), name=f"messagequeue stop {self.topic}")
        await outcome(self._stopping)

    async def _stop(self) -> None:
        while self._under_way:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        await self.publisher.stop()

    def _refuse_stopped(self) -> None:
        if self.stopped:
            raise ClosedError(f"the publisher of {self.topic!r} was stopped: get a new one from its provider")

    # ---- one message: it departs, passes, arrives, and is over

    def _item(self, data: object, options: Mapping[str, object], what: str) -> Outgoing:
        self._refuse_stopped()
        refuse_unknown(options, PublishKwargs, what)
        return _outgoing(data, options)

    def _depart(self, item: Outgoing) -> Turn | None:
        """Count the message, and take its turn; `_over()` undoes both."""
        self._under_way += 1
        passage = _PASSAGE.get()
        if passage is not None and passage.owner is self:  # published by the middleware itself, for another message:
            return None  # behind that one's turn it would wait for ever
        return self._turns.take(item.ordering_key)

    def _start(self, item: Outgoing, turn: Turn | None) -> asyncio.Task[Receipt]:
        return self._tasks.share(self._pass(item, turn), name=f"messagequeue publish {self.topic}")

    async def _pass(self, item: Outgoing, turn: Turn | None) -> Receipt:
        passage, topic = _PASSAGE.set(_Passage(self, turn)), TOPIC.set(self.topic)
        try:
            receipt = await self._publish(item)
        finally:
            TOPIC.reset(topic)
            _PASSAGE.reset(passage)
        if not isinstance(receipt, Receipt):
            raise TypeError(
                f"a publish middleware returned {type(receipt).__qualname__}: return the receipt of what it wraps"
            )
        return receipt

    async def _arrive(self, item: Outgoing) -> Receipt:
        """The innermost `Publish`."""
        passage = _PASSAGE.get()
        if passage is not None and passage.owner is self and passage.turn is not None:
            await self._turns.wait(passage.turn)
            self._turns.end(passage.turn)  # the next one wakes in a later turn of the loop, after the call below began
        options = {name: value for name in _OPTIONS if (value := getattr(item, name)) is not None}
        return await self.publisher.publish(item.data, **cast(PublishKwargs, options))

    def _over(self, turn: Turn | None) -> None:
        if turn is not None:
            self._turns.end(turn)
        self._under_way -= 1
        if not self._under_way and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # ---- messages that nobody waits for one by one
    #
    # What follows a task is a callback and no part of it: a task that is cancelled before its first step runs nothing
    # of its own, not even a `finally`.

    def _handed_over(self, receipt: _HandedOver, turn: Turn | None, task: asyncio.Task[Receipt]) -> None:
        self._over(turn)
        if receipt.done():
            return
        if task.cancelled():
            receipt.cancel()
        elif (error := task.exception()) is not None:
            receipt.fail(error)
        else:
            receipt.set_result(task.result())

    def _add(self, many: _Many, data: object, options: Mapping[str, object]) -> None:
        if self.stopped:
            many.results.append(_closed(self.topic))
            return
        item = _outgoing(data, options)
        turn = self._depart(item)
        task = self._start(item, turn)
        many.expect(task)
        task.add_done_callback(partial(self._one_of_many, many, len(many.results) - 1, turn))

    def _one_of_many(self, many: _Many, index: int, turn: Turn | None, task: asyncio.Task[Receipt]) -> None:
        self._over(turn)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        many.deliver(task, index, task.result() if error is None else _as_outcome(error, self.topic))


class _HandedOver(ReportedReceipt):
    """The receipt of a message that its own *task* publishes.  Cancelling it cancels the task."""

    def __init__(self, topic: str, task: asyncio.Task[Receipt]) -> None:
        super().__init__(topic)
        self.task = task

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self.task.cancel()
        return cancelled


class _Many:
    """The results of one `publish_many()` and the tasks that bring them."""

    __slots__ = ("_most", "_open", "_woken", "results")

    def __init__(self) -> None:
        self.results: list[Outcome] = []
        self._open: set[asyncio.Task[Receipt]] = set()
        self._most = 0
        self._woken: asyncio.Future[None] | None = None

    def expect(self, task: asyncio.Task[Receipt]) -> None:
        self.results.append(_NO_RESULT)
        self._open.add(task)

    def deliver(self, task: asyncio.Task[Receipt], index: int, result: Outcome) -> None:
        self.results[index] = result
        self._open.discard(task)
        if len(self._open) <= self._most and self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def until(self, most: int) -> None:
        """Wait until no more than *most* tasks run."""
        self._most = most
        while len(self._open) > most:
            self._woken = asyncio.get_running_loop().create_future()
            await self._woken

    async def cancel(self) -> None:
        left = set(self._open)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


_NO_RESULT = PublishError("no result yet", code=ErrorCode.NOT_CONFIRMED)


def _outgoing(data: object, options: Mapping[str, object]) -> Outgoing:
    """Return data and options as one; those of an `Outgoing` win over those of its call."""
    if not isinstance(data, Outgoing):
        return Outgoing(data, **cast(Any, options))
    missing = {name: value for name, value in options.items() if getattr(data, name) is None}
    return replace(data, **cast(Any, missing)) if missing else data


def _closed(topic: str) -> PublishError:
    return PublishError(
        f"the publisher of {topic!r} was stopped before this message was taken; it was not sent",
        topic=topic,
        code=ErrorCode.CLOSED,
    )


def _as_outcome(error: BaseException, topic: str) -> PublishError:
    """Return *error*, however the middleware or the publisher behind it raised it, as the result of one item."""
    if isinstance(error, PublishError):
        return error.with_traceback(None)  # its frames would keep the data
    made: PublishError
    if isinstance(error, UnsupportedOptionError):
        made = InvalidMessageError(str(error), topic=topic, code=error.code)
    elif isinstance(error, ClosedError):
        made = _closed(topic)
    elif isinstance(error, MessageQueueError) or not isinstance(error, Exception):
        return as_publish_error(error, topic)
    else:
        made = PublishError(
            f"publishing to {topic!r} failed: its middleware raised {type(error).__name__}", topic=topic
        )
    made.__cause__ = error
    return made
