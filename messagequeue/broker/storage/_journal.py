"""
Every change of the broker's state as a small event; not a store.

The events say what changed, not what was asked: each carries every number that was drawn, so that applying them in
order to a fresh `Broker` (`Broker.apply()`) makes the same state without a clock or a factory.  What time alone does
(a lease or delay ends, a deduplication id is forgotten) is no event: the deadlines are in the state.

*What it cannot promise:* the order in which waiting keys have their turns is not journalled; after a replay they wait
in the order of their messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from .._settings import QueueSettings
from .._values import StoredMessage


@dataclass(frozen=True, slots=True)
class QueueConfigured:
    """
    A queue was made, or its settings changed.  `serial` tells queues of the same name, one after the other, apart.
    """

    queue: str
    serial: int
    settings: QueueSettings


@dataclass(frozen=True, slots=True)
class QueueDeleted:
    """A queue and all that it held is gone."""

    queue: str


@dataclass(frozen=True, slots=True)
class QueuePurged:
    """All messages of a queue and its deduplication window are gone; its sequence goes on."""

    queue: str


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A message was put, or moved here as a dead letter (`message.source`); `due` ends its delay, None: it has none."""

    queue: str
    message: StoredMessage
    due: float | None = None
    receives: int = 0
    first_received: float | None = None


@dataclass(frozen=True, slots=True)
class Leased:
    """
    A message was taken (`receives` counted up), or its lease was changed (`receives` as before).

    Attributes:
        at: When it was taken or changed.
        until: The end of the lease; equal to `at` where the message is visible.
    """

    queue: str
    sequence: int
    receives: int
    at: float
    until: float


@dataclass(frozen=True, slots=True)
class Removed:
    """A message left the queue: settled, moved, or its retention ended."""

    queue: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """
    A face's own note took the place of the one under the same key; what it says is the face's business.

    Attributes:
        key: Begins with the face's name and a colon.
        text: None: there is no such note any more.
    """

    key: str
    text: str | None


Event: TypeAlias = QueueConfigured | QueueDeleted | QueuePurged | Enqueued | Leased | Removed | Remembered


class Journal(Protocol):
    """
    Is told of every change, in order, within the call that makes it.

    A call of the broker may record several events (a dead letter is `Enqueued` there, then `Removed` here).  A durable
    face commits what was recorded before it answers its caller.
    """

    def record(self, event: Event, /) -> None: ...
