"""How many messages of one key run at once; not of the whole consumer (its option `concurrency`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from .._errors import RetryLater
from .._message import Message
from .._protocols import Handler, Middleware
from ._checks import positive, whole


def _ordering_key(message: Message) -> str | None:
    return message.ordering_key


@dataclass(slots=True)
class _Room:
    """The slots of one key; it exists while somebody has or awaits one."""

    slots: asyncio.Semaphore
    users: int = 0


def concurrency(
    limit: int, /, *, key: Callable[[Message], Hashable | None] = _ordering_key, busy: float | None = None
) -> Middleware:
    """
    Handle at most *limit* messages of one key at the same time, in the order in which they came.

    For topics without order of their own (standard SQS queues), where the ordering key is a tenant, or by a key of
    your own: an attribute, an account in the body.  Where a topic keeps order, messages of one ordering key run one at
    a time already.

    A message over the limit waits here: it has a slot of the consumer's `concurrency`, and heartbeats keep its lease.
    A tenant with a backlog can so fill every slot with messages that wait.  Either give the consumer many more slots
    than *limit*, or set *busy*: such a message goes back to the queue instead, which frees the slot and counts one
    more receive.  `handler_timeout` and `drain_timeout` count the wait, too; a `timeout()` inside does not.

    What is counted is counted per process, and together for all consumers that get the returned middleware.

    Args:
        limit: Messages of one key at most.
        key: What to count by; None exempts the message.
        busy: Seconds after which a message over the limit is delivered again (`RetryLater`); None: it waits.

    Raises:
        ConfigurationError: *limit* is no whole number of 1 or more, or *busy* not a finite number above 0.
    """
    most = whole("concurrency", limit, "how many messages of one key may run at once")
    after = None if busy is None else positive("busy", busy, "seconds")
    rooms: dict[Hashable, _Room] = {}

    def wrap(handler: Handler) -> Handler:
        async def capped(message: Message) -> None:
            name = key(message)
            if name is None:
                return await handler(message)
            if (room := rooms.get(name)) is None:
                room = rooms[name] = _Room(asyncio.Semaphore(most))
            elif after is not None and room.slots.locked():
                raise RetryLater(after, f"{most} of its key are being handled")
            room.users += 1
            try:
                async with room.slots:
                    await handler(message)
            finally:
                room.users -= 1
                if not room.users and rooms.get(name) is room:
                    del rooms[name]

        return capped

    return wrap
