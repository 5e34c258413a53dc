"""Runs a handler on a message and says what would become of it; no broker, no consumer, no retry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Unpack

from .._message import Message
from .._options import ConsumeOptions
from .._protocols import Handler, Middleware
from ..middleware import compose
from ..middleware._compose import several
from ..runtime.outcome import Bury, GiveBack, Settle, is_failure, outcome
from ._messages import MessageFields, message


class Fate(StrEnum):
    """What becomes of a message."""

    SETTLED = "settled"
    """Handled, and taken off the queue."""
    DISCARDED = "discarded"
    """Taken off the queue without having been handled (`Discard`)."""
    RETRIED = "retried"
    """It comes back."""
    DEAD_LETTERED = "dead_lettered"
    """Moved to the dead-letter queue at once (`DeadLetter`)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What a consumer would have done after the handler ended.

    Attributes:
        fate: What becomes of the message.
        message: What the handler got.
        after: Seconds until a retried message comes back; None: when its lease ends.
        reason: The text given with `Discard`, `DeadLetter` or `RetryLater`; "" where none was.
        error: What the handler raised, signals included; None where it returned.
    """

    fate: Fate
    message: Message
    after: float | None = None
    reason: str = ""
    error: BaseException | None = None

    @property
    def settled(self) -> bool:
        return self.fate is Fate.SETTLED

    @property
    def discarded(self) -> bool:
        return self.fate is Fate.DISCARDED

    @property
    def retried(self) -> bool:
        return self.fate is Fate.RETRIED

    @property
    def dead_lettered(self) -> bool:
        return self.fate is Fate.DEAD_LETTERED

    @property
    def failed(self) -> bool:
        """The handler raised an error, which a consumer reports; a signal is none."""
        return is_failure(self.error)


async def deliver(
    handler: Handler,
    data: object,
    /,
    *,
    middleware: Sequence[Middleware] = (),
    retry_delay: float | Sequence[float] | None = None,
    permanent: tuple[type[Exception], ...] = (),
    undecodable: Literal["leave", "dead_letter", "discard"] = "leave",
    **fields: Unpack[MessageFields],
) -> Outcome:
    """
    Run *handler* on one message and return what a consumer would have done with it.

    Args:
        handler: As given to `ConsumerProvider.new_consumer()`.
        data: A `Message`, or data for `message()`.
        middleware: As given to `new_consumer()`, the first outermost.
        retry_delay, permanent, undecodable: As in `ConsumeOptions`.
        fields: As of `message()`; only where *data* is not a `Message`.

    An exception of the handler is not raised: it is `Outcome.error`.  Cancelling this call cancels the handler.

    Raises:
        EncodeError, TypeError: as `message()` and `compose()`.
    """
    if isinstance(data, Message) and fields:
        raise TypeError(f"fields {', '.join(sorted(fields))} were given beside a Message: set them on the message")
    made = data if isinstance(data, Message) else message(data, **fields)
    raised = await _call(compose(handler, *several(middleware)), made)
    options = ConsumeOptions(retry_delay=retry_delay, permanent=permanent, undecodable=undecodable)
    return _outcome(made, raised, options)


async def _call(handler: Handler, made: Message) -> BaseException | None:
    task = asyncio.current_task()
    cancels = task.cancelling() if task else 0
    try:
        await handler(made)
    except asyncio.CancelledError as error:
        if task and task.cancelling() > cancels:
            raise
        return error
    except Exception as error:
        return error
    return None


def _outcome(made: Message, raised: BaseException | None, options: ConsumeOptions) -> Outcome:
    match outcome(raised, options, made.delivery_attempt):
        case Settle(discarded=None):
            return Outcome(Fate.SETTLED, made)
        case Settle(discarded=str(reason)):
            return Outcome(Fate.DISCARDED, made, reason=reason, error=raised)
        case Bury(reason=reason):
            return Outcome(Fate.DEAD_LETTERED, made, reason=reason, error=raised)
        case GiveBack(after=after):
            return Outcome(Fate.RETRIED, made, after, getattr(raised, "reason", ""), raised)
    raise AssertionError("unreachable")
