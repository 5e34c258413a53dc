"""Where faults of a consumer go: to the log, throttled, and to the application's `ErrorSink`; not what follows."""

from __future__ import annotations

import logging

from .. import _log_events as events
from .._errors import (
    ConsumeError,
    DecodeError,
    HandlerError,
    LeaseLostError,
    MessageQueueError,
    ReceiveError,
    SettleError,
)
from .._message import Message
from .._protocols import ErrorSink

logger = logging.getLogger("messagequeue.consumer")

#: Lines of one kind that are logged at once, and after them one per so many seconds.
BURST, QUIET = 10, 30.0

_EVENTS: dict[type[ConsumeError], events.Event] = {
    ReceiveError: events.RECEIVE_FAILED,
    DecodeError: events.MESSAGE_UNREADABLE,
    HandlerError: events.HANDLER_FAILED,
    SettleError: events.SETTLE_FAILED,
    LeaseLostError: events.LEASE_LOST,
}


class Throttle:
    """Decides which of many equal lines are written: a burst, then one per quiet period with the number left out."""

    def __init__(self, burst: int = BURST, quiet: float = QUIET) -> None:
        self._burst = burst
        self._quiet = quiet
        self._written: dict[object, tuple[float, int, int]] = {}  # kind -> (period's start, written, left out)

    def pass_(self, kind: object, now: float) -> int | None:
        """
        Return None to leave the line out, else the number of lines left out before it.

        *kind* must be one of few: what is kept grows with the number of kinds.
        """
        since, written, left_out = self._written.get(kind, (now, 0, 0))
        if now - since >= self._quiet:
            # Where lines were left out lately, the stream goes on: this line stands for a period, not for a new burst.
            goes_on = left_out and now - since < 2 * self._quiet
            self._written[kind] = (now, self._burst if goes_on else 1, 0)
            return left_out
        if written < self._burst:
            self._written[kind] = (since, written + 1, 0)
            return 0
        self._written[kind] = (since, written, left_out + 1)
        return None


class Faults:
    """Tells of every fault: the log (throttled by kind) and the application's sink (each one)."""

    def __init__(self, topic: str, sink: ErrorSink | None) -> None:
        self._topic = topic
        self._sink = sink
        self._throttle = Throttle()

    def tell(self, error: ConsumeError, now: float) -> None:
        """
        Never raises: a sink that does is logged.

        A `CancelledError` is one of its errors, too (it read the result of a cancelled future): this is no place where
        a task can be cancelled.  Only what ends the process passes through.
        """
        self._log(error, now)
        if self._sink is None:
            return
        try:
            self._sink(error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            events.SINK_RAISED.log("on_error of topic %s raised", self._topic, exc_info=True, topic=self._topic)

    def tell_of(
        self, kind: type[ConsumeError], text: str, message: Message, cause: BaseException | None, now: float
    ) -> None:
        """Tell of a new error of *kind*; the code of a `SettleError` is that of what caused it."""
        code = cause.code if kind is SettleError and isinstance(cause, MessageQueueError) else None
        error = kind(text, topic=self._topic, about=message, code=code)
        error.__cause__ = cause
        self.tell(error, now)

    def _log(self, error: ConsumeError, now: float) -> None:
        left_out = self._throttle.pass_((type(error), error.code), now)
        if left_out is None:
            return
        more = f" ({left_out} more like it were not logged)" if left_out else ""
        event = next((_EVENTS[kind] for kind in type(error).__mro__ if kind in _EVENTS), events.HANDLER_FAILED)
        event.log(
            "topic %s: %s%s",
            self._topic,
            error,
            more,
            exc_info=error.__cause__ if isinstance(error, HandlerError) else None,
            topic=self._topic,
            message_id=error.message.id if error.message else None,
            error_code=str(error.code),
        )


def tell_discarded(topic: str, message_id: str, reason: str) -> None:
    """Log that a message is taken off the queue without having been handled."""
    events.MESSAGE_DISCARDED.log(
        "topic %s: message %s discarded: %s",
        topic,
        message_id,
        reason,
        topic=topic,
        message_id=message_id,
        reason=reason,
    )
