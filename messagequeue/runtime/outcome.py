"""What becomes of a message, decided from how its handler ended: pure."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .._errors import DeadLetter, Discard, RetryLater


class NotAsyncError(TypeError):
    """A handler returned something that cannot be awaited: whether its work is done is not known."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Take it off the queue."""

    discarded: str | None = None


@dataclass(frozen=True, slots=True)
class GiveBack:
    """
    It comes back: *after* seconds from now, or when its lease ends (None).

    *failed* says that the handler raised an error, which is to be reported; a signal is not one.
    """

    after: float | None
    failed: bool


@dataclass(frozen=True, slots=True)
class Bury:
    """Put it into the dead-letter queue, then take it off."""

    reason: str


Outcome = Settle | GiveBack | Bury


def outcome(raised: BaseException | None, retry_delay: float | None) -> Outcome:
    """
    The fate of a message whose handler returned (*raised* is None) or raised.

    By default a failure leaves the message alone until its lease ends: putting it straight back turns an outage of
    what the handler needs into a storm that burns through the receive count.
    """
    match raised:
        case None:
            return Settle()
        case Discard():
            return Settle(discarded=raised.reason)
        case RetryLater():
            return GiveBack(raised.after, failed=False)
        case DeadLetter():
            return Bury(raised.reason)
        case _:
            return GiveBack(retry_delay, failed=True)


def describe(raised: BaseException, handler_timeout: float | None) -> str:
    """One line about what a handler raised: its type, never its text, which may hold a body."""
    if isinstance(raised, TimeoutError) and handler_timeout is not None:
        return f"the handler was cancelled or timed out (handler_timeout={handler_timeout:g} s)"
    if isinstance(raised, asyncio.CancelledError):
        return "the handler was cancelled by something else than this consumer"
    if isinstance(raised, NotAsyncError):
        return "the handler is not async, so that it cannot be waited for: declare it with async def"
    return f"the handler raised {type(raised).__name__}"
