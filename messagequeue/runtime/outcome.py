"""What becomes of a message, decided from how its handler ended: pure."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .._errors import DeadLetter, DecodeError, Discard, RetryLater, Signal
from .._options import ConsumeOptions
from .retrying import retry_after


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
    """
    Put it into the dead-letter queue, then take it off.

    Attributes:
        reason: Why, in words.
        error: The type of the exception behind it; None where there is none.
        skips: Once it is there, its key is skipped.
    """

    reason: str
    error: str | None = None
    skips: bool = False


Outcome = Settle | GiveBack | Bury


def outcome(raised: BaseException | None, options: ConsumeOptions, attempt: int | None, dice: float = 0.0) -> Outcome:
    """
    The fate of a message whose handler returned (*raised* is None) or raised.

    By default a failure leaves the message alone until its lease ends: putting it straight back turns an outage of
    what the handler needs into a storm that burns through the receive count.

    Args:
        options: `retry_delay` and what is beside it, `permanent` and `undecodable`.
        attempt: See `retry_after()`.
        dice: See `retry_after()`.
    """
    match raised:
        case None:
            return Settle()
        case Discard():
            return Settle(discarded=raised.reason)
        case RetryLater():
            return GiveBack(raised.after, failed=False)
        case DeadLetter():
            cause = raised.__cause__
            return Bury(raised.reason, None if cause is None else type_name(cause))
        case _ if isinstance(raised, options.permanent):
            return Bury(f"{type(raised).__name__} is permanent", type_name(raised))
        case DecodeError(retryable=False) if options.undecodable == "dead_letter":
            return Bury("it cannot be read", type_name(raised))
        case DecodeError(retryable=False) if options.undecodable == "discard":
            return Settle(discarded="it cannot be read")
        case _:
            return GiveBack(retry_after(options, attempt, dice), failed=True)


def is_failure(raised: BaseException | None) -> bool:
    """Whether what a handler raised is an error, which is to be reported; a signal is none."""
    return raised is not None and not isinstance(raised, Signal)


def breaks(raised: BaseException | None, options: ConsumeOptions) -> bool:
    """Whether a failure may be due to what handlers need; one of the message itself says nothing about the next."""
    if isinstance(raised, DecodeError):
        return raised.retryable
    return is_failure(raised) and not isinstance(raised, options.permanent)


def type_name(raised: BaseException) -> str:
    """The name of an exception's type, with its module where that is not Python's own."""
    kind = type(raised)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def describe(raised: BaseException, handler_timeout: float | None) -> str:
    """One line about what a handler raised: its type, never its text, which may hold a body."""
    if isinstance(raised, TimeoutError) and handler_timeout is not None:
        return f"the handler was cancelled or timed out (handler_timeout={handler_timeout:g} s)"
    if isinstance(raised, asyncio.CancelledError):
        return "the handler was cancelled by something else than this consumer"
    if isinstance(raised, NotAsyncError):
        return "the handler is not async, so that it cannot be waited for: declare it with async def"
    return f"the handler raised {type(raised).__name__}"
