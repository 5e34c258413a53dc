"""Trying a message again at once, while this consumer has it; not its return to the queue (`RetryLater`)."""

from __future__ import annotations

import asyncio

from .. import _log_events as events
from .._errors import DecodeError, MessageQueueError, Signal
from .._message import Message
from .._protocols import Handler, Middleware
from ._checks import positive, whole

#: What a handler may raise to have another attempt: one type, or several.
Retried = type[Exception] | tuple[type[Exception], ...]


def retry(
    on: Retried, /, *, attempts: int = 3, first: float = 0.1, longest: float = 5.0, within: float = 60.0
) -> Middleware:
    """
    Call the handler again when it raises one of *on*, after a pause; the last exception is raised.

    Meanwhile the message stays with this consumer: heartbeats keep its lease, its slot of `concurrency` is taken, later
    messages of its ordering key wait, and its delivery attempt does not change.  So this is for faults of seconds; for
    longer ones raise `RetryLater`.  A handler that is not idempotent repeats what it did before it failed.

    Never tried again, whatever *on* says: signals (`RetryLater`, `Discard`, `DeadLetter`), cancellation, a body that
    cannot be decoded (`DecodeError`), and errors of this library that are not `retryable`.

    Args:
        on: Exception types, subclasses included.
        attempts: Calls at most, the first included.
        first: Seconds of the first pause; each further one doubles, and half of it is random.
        longest: Seconds of a pause at most.
        within: Seconds after the first call's beginning in which another may begin.  One that runs is not cut short:
            put a `timeout()` inside for that.

    Raises:
        TypeError: *on* is no exception type, or one that is never retried.
        ConfigurationError: a number is out of range.
    """
    from ..runtime.backoff import equal_jitter, pause  # it loads tenacity, which `import messagequeue` must not

    kinds = _kinds(on)
    most = whole("attempts", attempts, "how often the handler is called at most")
    wait = equal_jitter(positive("first", first, "seconds"), positive("longest", longest, "seconds"))
    limit = positive("within", within, "seconds")

    def wrap(handler: Handler) -> Handler:
        async def retried(message: Message) -> None:
            loop = asyncio.get_running_loop()
            began, attempt = loop.time(), 1
            while True:
                try:
                    return await handler(message)
                except kinds as error:
                    seconds = pause(wait, attempt)
                    if not may_heal(error):
                        raise
                    if attempt >= most or loop.time() + seconds > began + limit:
                        error.add_note(f"retry() gave up after attempt {attempt}, {loop.time() - began:.1f} s")
                        raise
                    _tell(message, error, attempt, seconds)
                await asyncio.sleep(seconds)
                attempt += 1

        return retried

    return wrap


def may_heal(error: Exception) -> bool:
    """Whether the same call can succeed later without a change to the message."""
    if isinstance(error, Signal | DecodeError):
        return False
    return not isinstance(error, MessageQueueError) or error.retryable


def _kinds(on: object) -> tuple[type[Exception], ...]:
    kinds: list[type[Exception]] = []
    for kind in on if isinstance(on, tuple) else (on,):
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise TypeError("retry(on): give exception types, such as ConnectionError or (TimeoutError, OSError)")
        if issubclass(kind, Signal | DecodeError):
            raise TypeError(f"retry(on): {kind.__name__} is never tried again here: it says what becomes of a message")
        kinds.append(kind)
    if not kinds:
        raise TypeError("retry(on): give at least one exception type")
    return tuple(kinds)


def _tell(message: Message, error: Exception, attempt: int, seconds: float) -> None:
    events.HANDLER_RETRY.log(
        "message %s of %s: attempt %d raised %s; again in %.2f s",
        message.id,
        message.topic,
        attempt,
        type(error).__name__,
        seconds,
        topic=message.topic,
        message_id=message.id,
        attempt=attempt,
        error_type=type(error).__name__,
        pause=seconds,
    )
