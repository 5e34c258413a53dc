"""
A log line per published message.

Names and keys are stable: programs may go by them.

| `event` | when | keys beside `topic`, `ordering_key`, `duration` (seconds) |
|---|---|---|
| `publish.end` | the broker confirmed it | `message_id`, `sequence_number` |
| `publish.failed` | it raised | `error_type`, `error_code` (of a `MessageQueueError`, else None) |
| `publish.retry` | by `publish_retry()`, before a pause | `attempt`, `error_code`, `pause` (seconds); no `duration` |
"""

from __future__ import annotations

import asyncio
from logging import DEBUG, WARNING, Logger, getLogger

from .. import _log_events as events
from .._errors import MessageQueueError
from .._message import Outgoing, Receipt
from .._protocols import Publish, PublishMiddleware
from ._publishing import current_topic


def publish_logging(
    logger: Logger | None = None, /, *, level: int = DEBUG, failed_level: int = WARNING
) -> PublishMiddleware:
    """
    Log every message that was confirmed, and every one that failed, with the time it took.

    Data, attributes and texts of foreign exceptions are not logged.

    Args:
        logger: Where to; `messagequeue.publisher` where None.
        level: Of the line of a confirmed message.
        failed_level: Of the line of a failure.  The caller gets its exception all the same.
    """
    log = getLogger("messagequeue.publisher") if logger is None else logger

    def wrap(publish: Publish) -> Publish:
        async def logged(item: Outgoing) -> Receipt:
            clock = asyncio.get_running_loop().time
            began = clock()
            try:
                receipt = await publish(item)
            except Exception as error:
                _failed(log, failed_level, _about(item, events.PUBLISH_FAILED, clock() - began), error)
                raise
            if log.isEnabledFor(level):
                _confirmed(log, level, _about(item, events.PUBLISH_END, clock() - began), receipt)
            return receipt

        return logged

    return wrap


def _about(item: Outgoing, event: events.Event, duration: float) -> dict[str, object]:
    return {
        "event": event.name,
        "topic": current_topic(),
        "ordering_key": item.ordering_key,
        "duration": duration,
    }


def _confirmed(log: Logger, level: int, extra: dict[str, object], receipt: Receipt) -> None:
    extra |= {"message_id": receipt.message_id, "sequence_number": receipt.sequence_number}
    text = "message %s published to %s in %.3f s"
    log.log(level, text, receipt.message_id, extra["topic"], extra["duration"], extra=extra)


def _failed(log: Logger, level: int, extra: dict[str, object], error: Exception) -> None:
    code = str(error.code) if isinstance(error, MessageQueueError) else None
    extra |= {"error_type": type(error).__name__, "error_code": code}
    said = error if code else extra["error_type"]  # only a text of ours is known to hold no body
    text = "a message was not published to %s after %.3f s: %s"
    log.log(level, text, extra["topic"], extra["duration"], said, extra=extra)
