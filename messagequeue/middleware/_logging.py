"""
A log line when a handler begins and one when it ends; not the report of failures, which is the consumer's.

Names and keys are stable: programs may go by them.

| `event` | when | keys beside `topic`, `message_id`, `ordering_key`, `delivery_attempt` |
|---|---|---|
| `handler.begin` | before | `age` (seconds since publication, or None) |
| `handler.end` | after | `outcome`, `duration` (seconds), `error_type` (or None), `reason` (of a signal, or None) |
| `handler.retry` | by `retry()`, before a pause | `attempt`, `error_type`, `pause` (seconds) |
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from logging import DEBUG, Logger, getLogger

from .. import _log_events as events
from .._errors import DeadLetter, Discard, RetryLater, Signal
from .._message import Message
from .._protocols import Handler, Middleware


def logging(logger: Logger | None = None, /, *, level: int = DEBUG) -> Middleware:
    """
    Log the beginning and the end of every handling, with the outcome and the time it took.

    A failure is an outcome here (`failed`, with the type of the exception) and no more: the consumer reports it at
    ERROR, once and with its traceback, whether this middleware is there or not.  Bodies, attributes and texts of
    exceptions are not logged; the reason that a handler gives with a signal is.

    `outcome` is `handled`, `discarded`, `dead_lettered`, `retry_later`, `failed` or `cancelled`: how the handler ended.
    Whether the message could be settled then is the consumer's to say.

    Args:
        logger: Where to; `messagequeue.handler` where None.
        level: Of both lines.  Nothing is made ready for a level that is off.
    """
    log = getLogger("messagequeue.handler") if logger is None else logger

    def wrap(handler: Handler) -> Handler:
        async def logged(message: Message) -> None:
            if not log.isEnabledFor(level):
                return await handler(message)
            clock = asyncio.get_running_loop().time
            log.log(level, "message %s of %s: begin", message.id, message.topic, extra=_begin(message))
            began = clock()
            error: BaseException | None = None
            try:
                await handler(message)
            except BaseException as raised:
                error = raised
                raise
            finally:
                extra = _end(message, error, clock() - began)
                log.log(
                    level,
                    "message %s of %s: %s after %.3f s",
                    message.id,
                    message.topic,
                    extra["outcome"],
                    extra["duration"],
                    extra=extra,
                )
                del error  # else it, its frames and this one were a cycle

        return logged

    return wrap


def _about(message: Message, event: events.Event) -> dict[str, object]:
    return {
        "event": event.name,
        "topic": message.topic,
        "message_id": message.id,
        "ordering_key": message.ordering_key,
        "delivery_attempt": message.delivery_attempt,
    }


def _begin(message: Message) -> dict[str, object]:
    at = message.published_at
    return _about(message, events.HANDLER_BEGIN) | {
        "age": None if at is None else (datetime.now(UTC) - at).total_seconds(),
    }


def _end(message: Message, error: BaseException | None, duration: float) -> dict[str, object]:
    return _about(message, events.HANDLER_END) | {
        "outcome": _outcome(error),
        "duration": duration,
        "error_type": None if error is None or isinstance(error, Signal) else type(error).__name__,
        "reason": getattr(error, "reason", None) or None if isinstance(error, Signal) else None,
    }


def _outcome(error: BaseException | None) -> str:
    match error:
        case None:
            return "handled"
        case Discard():
            return "discarded"
        case DeadLetter():
            return "dead_lettered"
        case RetryLater():
            return "retry_later"
        case asyncio.CancelledError():
            return "cancelled"
        case _:
            return "failed"
