"""
Every change of the broker's state as a small event; not a store.

The events say what changed, not what was asked: each carries every number that was drawn, so that applying them in
order to a fresh `Broker` (`Broker.apply()`) makes the same state without a clock or a factory.  What time alone does
(a lease or delay ends, a deduplication id is forgotten) is no event: the deadlines are in the state.  Those that every
message needs are named tuples: they are made faster.

*What it cannot promise:* the order in which waiting keys have their turns is not journalled; after a replay they wait
in the order of their messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from ..._errors import ErrorCode, MessageQueueError
from .._settings import QueueSettings
from .._values import StoredMessage

#: What the deduplication window holds a put under: its id, or its key and its id.
Identity: TypeAlias = str | tuple[str | None, str]


@dataclass(frozen=True, slots=True)
class QueueConfigured:
    """
    A queue was made, or its settings changed.

    Attributes:
        serial: Tells queues of the same name, one after the other, apart.
        last: The last sequence number it gave out so far.
    """

    queue: str
    serial: int
    settings: QueueSettings
    last: int = 0


@dataclass(frozen=True, slots=True)
class QueueDeleted:
    """A queue and all that it held is gone."""

    queue: str


@dataclass(frozen=True, slots=True)
class QueuePurged:
    """All messages of a queue and its deduplication window are gone; its sequence goes on."""

    queue: str


class Enqueued(NamedTuple):
    """
    A message was put, or moved here as a dead letter (`message.source`).

    Attributes:
        due: Ends its delay; None: it has none.
        receives, first_received: Of earlier queues.
        identity: What the deduplication window holds from now on because of it; None: nothing more.
    """

    queue: str
    message: StoredMessage
    due: float | None = None
    receives: int = 0
    first_received: float | None = None
    identity: Identity | None = None


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """
    The deduplication window holds an identity whose put is no event any more.

    No change records it.  A store that keeps the state and not the events tells of it, oldest first, when it is read.
    """

    queue: str
    identity: Identity
    at: float
    message_id: str
    sequence: int


class Leased(NamedTuple):
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


class Removed(NamedTuple):
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


QueueEvent: TypeAlias = QueuePurged | Enqueued | Deduplicated | Leased | Removed
Event: TypeAlias = QueueConfigured | QueueDeleted | Remembered | QueueEvent


class Journal(Protocol):
    """
    Is told of every change, in order, within the call that makes it.

    A call of the broker may record several events (a dead letter is `Enqueued` there, then `Removed` here).  A durable
    face commits what was recorded before it answers its caller.
    """

    def record(self, event: Event, /) -> None: ...


class StorageError(MessageQueueError):
    """
    A durable store could not write: whether what was recorded outlives the process is not known.

    The store keeps what it could not write and tries again with what comes next.
    """

    default_code = ErrorCode.UNAVAILABLE
    default_retryable = True
