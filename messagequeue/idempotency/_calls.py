"""Calls of a store as the guard makes them: bounded in time, with one kind of error, and finished once begun."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from .. import _log_events as events
from .._errors import ErrorCode, MessageQueueError
from ..runtime.sink import Throttle
from ..runtime.tasks import OwnedTasks, outcome, own_cancellation
from ._errors import IdempotencyStoreError
from ._store import Claimed, ClaimOutcome, Done, IdempotencyStore, InFlight

T = TypeVar("T")

logger = logging.getLogger("messagequeue.idempotency")


class Notes:
    """What is logged for every message while a store is down: a burst of each kind, then a line per half minute."""

    __slots__ = ("_throttle",)

    def __init__(self) -> None:
        self._throttle = Throttle()

    def write(self, event: events.Event, text: str, key: str, *values: object, error: MessageQueueError) -> None:
        """Log *text*, filled in with *key*, *values* and *error*; lines of one *event* are of one kind."""
        left_out = self._throttle.pass_(event.name, asyncio.get_running_loop().time())
        if left_out is None:
            return
        more = f" ({left_out} more like it were not logged)" if left_out else ""
        event.log(f"{text}: %s%s", key, *values, error, more, key=key, error_code=str(error.code))


class StoreCalls:
    """
    A store whose calls end in time.

    Each raises `IdempotencyStoreError` where the store failed or did not answer, and passes on the library's other
    errors (a wrong configuration, a closed store).

    Args:
        timeout: Seconds for one call.
    """

    __slots__ = ("_name", "_store", "_timeout", "notes")

    def __init__(self, store: IdempotencyStore, timeout: float) -> None:
        self._store = store
        self._timeout = timeout
        self._name = type(store).__name__
        self.notes = Notes()

    async def claim(self, key: str, *, owner: str, fingerprint: str, lease: float) -> ClaimOutcome:
        store = self._store
        found: object = await self._call(
            "claim", lambda: store.claim(key, owner=owner, fingerprint=fingerprint, lease=lease)
        )
        if not isinstance(found, Claimed | InFlight | Done):
            raise IdempotencyStoreError(
                f"{self._name}.claim() returned {type(found).__name__}: it must be Claimed, InFlight or Done",
                key=key,
                code=ErrorCode.BAD_RESPONSE,
                retryable=False,
            )
        return found

    async def renew(self, key: str, *, owner: str, lease: float, within: float) -> bool:
        """*within*: seconds for this call, where that is less than for others."""
        return await self._call("renew", lambda: self._store.renew(key, owner=owner, lease=lease), within)

    async def complete(self, key: str, *, owner: str, ttl: float, result: bytes | None) -> bool:
        store = self._store
        return await self._call("complete", lambda: store.complete(key, owner=owner, ttl=ttl, result=result))

    async def release(self, key: str, *, owner: str) -> bool:
        return await self._call("release", lambda: self._store.release(key, owner=owner))

    async def _call(self, what: str, call: Callable[[], Awaitable[T]], within: float | None = None) -> T:
        limit = self._timeout if within is None else min(within, self._timeout)
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                return await call()
        except MessageQueueError:
            raise
        except TimeoutError as error:
            if scope.expired():
                text = f"{self._name}.{what}() did not answer within {limit:g} s"
                raise IdempotencyStoreError(text, code=ErrorCode.CONNECTION) from error
            raise self._fault(what, error) from error
        except asyncio.CancelledError as error:
            if own_cancellation(error):
                raise
            raise self._fault(what, error) from error
        except Exception as error:
            raise self._fault(what, error) from error

    def _fault(self, what: str, error: BaseException) -> IdempotencyStoreError:
        # Its type, never its text, which may hold an address with a password.
        return IdempotencyStoreError(f"{self._name}.{what}() raised {type(error).__name__}")


async def finish(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """
    Run *work* to its end, also where this task is cancelled meanwhile; the cancellation goes on after it.

    *work* must be bounded in time.  A second cancellation reaches it.
    """
    tasks = OwnedTasks(logger)
    task = tasks.share(work, name=name)
    try:
        return await outcome(task)
    except asyncio.CancelledError:
        await tasks.join()
        raise
    finally:
        await tasks.cancel_all()
