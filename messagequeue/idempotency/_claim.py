"""One claim from its making to its end: renewed while the work runs, then completed or released."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .. import _log_events as events
from .._errors import MessageQueueError
from ..runtime.backoff import Backoff
from ..runtime.tasks import OwnedTasks
from ._calls import StoreCalls, finish, logger
from ._errors import ClaimLostError, IdempotencyError
from ._options import IdempotencyOptions

T = TypeVar("T")

#: The part of a claim by whose length its owner stops before it ends there: cancelling work takes a moment, and two
#: clocks do not run at quite the same speed.
MARGIN = 0.05

#: Seconds: the first pause before a result is handed to a failing store again, and the longest.
COMPLETE_FIRST, COMPLETE_LONGEST = 0.1, 2.0


class HeldClaim:
    """
    A claim that was made.

    Args:
        made_at: The loop's time before the store was asked, so that the claim ends here before it ends there.
    """

    __slots__ = ("_calls", "_end", "_key", "_options", "_owner", "_recorded", "_taken", "_tasks")

    def __init__(self, calls: StoreCalls, key: str, owner: str, options: IdempotencyOptions, *, made_at: float) -> None:
        self._calls = calls
        self._key = key
        self._owner = owner
        self._options = options
        self._end = self._end_of(made_at)
        self._taken = False
        self._recorded = False
        self._tasks = OwnedTasks(logger)

    async def keep_during(self, work: Callable[[], Awaitable[T]]) -> T:
        """
        Run *work* in this task and renew the claim meanwhile.

        Raises:
            ClaimLostError: somebody else has it, or it ended because no renewal reached the store; *work* was
                cancelled.
            Whatever *work* raises.
        """
        if self._deadline_passed():
            raise self._lost("the work was not begun")
        # A time limit that each renewal moves: the standard library's way of cancelling a block and no more.
        scope = asyncio.timeout_at(self._deadline())
        try:
            async with scope:
                renewal = self._tasks.spawn(self._renew(scope), name=f"messagequeue idempotency renew {self._key}")
                try:
                    value = await work()
                finally:
                    # Not waited for: a cancellation that came while waiting would let done work pass for cancelled.
                    renewal.cancel()
                if not scope.expired():
                    scope.reschedule(None)
        except TimeoutError as error:
            if scope.expired():
                raise self._lost("the work was cancelled") from error
            raise
        return value

    async def close(self) -> None:
        """Wait until nothing runs for this claim any more."""
        await self._tasks.cancel_all()

    async def complete(self, result: bytes | None) -> None:
        """
        Record that the work is done; tried again, while the claim lasts, where the store fails.

        Where it cannot be recorded, that is logged as an error and not raised: the work is done, and a message that
        came back would do it again.  So it is where a cancellation ends the trying.

        Raises:
            ClaimLostError: somebody else has claimed the key meanwhile, and the record is theirs, or it is gone.
        """
        try:
            await self._complete(result)
        except asyncio.CancelledError:
            if not self._recorded:
                self._tell_unrecorded(IdempotencyError("it was cancelled before the store had taken it"))
            raise

    async def _complete(self, result: bytes | None) -> None:
        backoff = Backoff(COMPLETE_FIRST, COMPLETE_LONGEST)
        while True:
            try:
                kept = await finish(self._record(result), name=f"messagequeue idempotency complete {self._key}")
            except MessageQueueError as error:
                pause = backoff.failed()
                if not error.retryable or asyncio.get_running_loop().time() + pause >= self._end:
                    self._tell_unrecorded(error)
                    return
                await asyncio.sleep(pause)
                continue
            if kept:
                return
            self._taken = True
            raise self._lost("the work was done, and may be done again")

    async def _record(self, result: bytes | None) -> bool:
        self._recorded = await self._calls.complete(self._key, owner=self._owner, ttl=self._options.ttl, result=result)
        return self._recorded

    async def withdraw(self) -> None:
        """Release the claim where it was made although its call failed, or was cancelled.  Never raises."""
        try:
            await self._release()
        except MessageQueueError as error:
            events.CLAIM_LEFT.log(
                "the claim of %s, if it was made, ends by itself: %s",
                self._key,
                error,
                key=self._key,
                error_code=str(error.code),
            )

    async def release(self) -> None:
        """Give the key free for the next attempt.  Never raises: where the store fails, the claim ends by itself."""
        if self._taken:
            return
        try:
            await self._release()
        except MessageQueueError as error:
            self._calls.notes.write(
                events.CLAIM_KEPT,
                "the claim of %s was not released, so the next attempt waits for its end, at most %g s",
                self._key,
                self._options.lease,
                error=error,
            )

    async def _release(self) -> None:
        await finish(
            self._calls.release(self._key, owner=self._owner), name=f"messagequeue idempotency release {self._key}"
        )

    def _end_of(self, asked_at: float) -> float:
        return asked_at + (1 - MARGIN) * self._options.lease

    def _deadline_passed(self) -> bool:
        deadline = self._deadline()
        return deadline is not None and asyncio.get_running_loop().time() >= deadline

    def _deadline(self) -> float | None:
        """None where work goes on without a claim anyway: then only the store's word ends it."""
        return None if self._options.fail_open else self._end

    async def _renew(self, scope: asyncio.Timeout) -> None:
        loop, interval = asyncio.get_running_loop(), self._options.lease / 3
        pause = interval
        while True:
            await asyncio.sleep(pause)
            asked_at = loop.time()
            try:
                kept = await self._calls.renew(self._key, owner=self._owner, lease=self._options.lease, within=interval)
            except MessageQueueError as error:
                self._tell_not_renewed(error)
                pause = interval / 4
                continue
            if scope.expired():
                return
            if not kept:
                self._taken = True
                scope.reschedule(loop.time())
                return
            pause, self._end = interval, self._end_of(asked_at)
            scope.reschedule(self._deadline())

    def _lost(self, what: str) -> ClaimLostError:
        why = "somebody else has it, or the store has forgotten it" if self._taken else "it ended before it was renewed"
        return ClaimLostError(
            f"the claim of {self._key} was lost ({why}): {what}; where this happens often, raise "
            f"lease={self._options.lease:g}, and look for code that blocks the event loop",
            key=self._key,
        )

    def _tell_not_renewed(self, error: MessageQueueError) -> None:
        left = max(0.0, self._end - asyncio.get_running_loop().time())
        text = "the claim of %s was not renewed, it lasts %.1f s more"
        self._calls.notes.write(events.CLAIM_NOT_RENEWED, text, self._key, left, error=error)

    def _tell_unrecorded(self, error: MessageQueueError) -> None:
        text = "the work of %s is done, but that could not be recorded: a copy of it would be done again"
        self._calls.notes.write(events.CLAIM_NOT_RECORDED, text, self._key, error=error)
