"""Messages that are too old to be worth handling; not a limit on how long handling takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from .._errors import ConfigurationError, DeadLetter, Discard
from .._message import Message
from .._protocols import Handler, Middleware
from ._checks import positive


def _now() -> datetime:
    return datetime.now(UTC)


def deadline(
    seconds: float, *, then: type[Discard] | type[DeadLetter], clock: Callable[[], datetime] = _now
) -> Middleware:
    """
    Raise *then* for a message that was published more than *seconds* ago, without handling it.

    Looked at when a message is about to be handled, on every delivery and, inside of `retry()`, before every attempt;
    a handler that has begun is not cut short.  The age counts from the publication, so it includes a `delay`, and it
    compares the broker's clock with this machine's.  A message whose broker does not say when it was published
    (`Message.published_at` is None) is handled.

    Args:
        seconds: The age up to which a message is handled.
        then: `Discard` deletes it; `DeadLetter` moves it to the topic's dead-letter queue.
        clock: The time, with time zone.

    Raises:
        ConfigurationError: *seconds* is not a finite number above 0, or *then* is neither of the two.
    """
    limit = positive("deadline", seconds, "seconds")
    if then is not Discard and then is not DeadLetter:
        raise ConfigurationError("deadline(then=...): give Discard, which deletes, or DeadLetter, which keeps a copy")

    def wrap(handler: Handler) -> Handler:
        async def in_time(message: Message) -> None:
            if message.published_at is not None:
                age = (clock() - message.published_at).total_seconds()
                if age > limit:
                    raise then(f"it was published {age:.0f} s ago, which is past its deadline of {limit:g} s")
            await handler(message)

        return in_time

    return wrap
