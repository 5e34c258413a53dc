"""
The values that go into and come out of a queue of the broker; not how it keeps them.

Those that every message needs are named tuples: one is made in a third of the time that a frozen dataclass takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple


class State(StrEnum):
    """Where a message stands."""

    DELAYED = "delayed"
    VISIBLE = "visible"
    IN_FLIGHT = "in_flight"


class Outcome(Enum):
    """What became of a request about a handle.  Never an exception: a face says what its own protocol makes of it."""

    DONE = "done"
    GONE = "gone"
    """The handle was good once; its message was settled, moved or purged, or its retention ended."""
    STALE = "stale"
    """The message was taken again since; only the latest handle counts.  Nothing changed."""
    EXPIRED = "expired"
    """The lease has ended and the queue does not forgive it (FIFO).  Nothing changed."""
    UNKNOWN = "unknown"
    """No take of this queue gave out such a handle."""
    BEYOND_LIMIT = "beyond_limit"
    """The lease would end later than `QueueSettings.max_lease` after the receive.  Nothing changed."""
    NO_TARGET = "no_target"
    """The queue has no dead-letter target, or it does not exist.  Nothing changed."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """
    What the faces of this package keep beside a body, so that each can read what another put.  None means that there
    are no attributes and that the message was published when its retention began.

    Attributes:
        published_at: Seconds since the epoch; None: when its retention began, on a clock of such seconds.
        attributes: As a handler gets them; None where there are none.
        types: Data types of attributes that are not what their values look like (`String` of text, `Binary` of bytes).
        trace: A trace header that travels beside the attributes, or None.
    """

    published_at: float | None = None
    attributes: Mapping[str, str | bytes] | None = None
    types: Mapping[str, str] | None = None
    trace: str | None = None


class StoredMessage(NamedTuple):
    """
    A message as one queue holds it; what does not change while it is there.

    Attributes:
        sequence: Its place in the queue, rising, never used twice.
        id: The same in every queue that it is moved to.
        body: As it was put.
        key: The sequence it belongs to, or None.
        dedup_id: As it was put, or None.
        attributes: Whatever the face put beside the body; the broker never looks inside.
        sent_at: The broker's seconds at which its retention began.
        source: The queue it was dead-lettered from, or None.
    """

    sequence: int
    id: str
    body: bytes | str
    key: str | None
    dedup_id: str | None
    attributes: object
    sent_at: float
    source: str | None = None


class Draft(NamedTuple):
    """A message that is to be put; its parts are those of `Queue.put()`."""

    body: bytes | str
    key: str | None = None
    dedup_id: str | None = None
    delay: float | None = None
    attributes: object = None


class PutResult(NamedTuple):
    """
    The queue's word that it has a message.

    Attributes:
        id, sequence: Of the message stored; of the first one where this is its duplicate.
        duplicate: Nothing was stored, because the deduplication window holds the same id.
    """

    id: str
    sequence: int
    duplicate: bool = False


class Lease(NamedTuple):
    """
    The right to work on a message until `until`.

    Attributes:
        handle: Names this receive of this message; a new one for each.
        receives: Receives so far, this one included, those in earlier queues too.
        first_received, received_at, until: The broker's seconds.
    """

    handle: str
    message: StoredMessage
    receives: int
    first_received: float
    received_at: float
    until: float


@dataclass(frozen=True, slots=True)
class Peek:
    """
    A message seen without receiving it.

    Attributes:
        until: When the delay or the lease ends; None where the message is visible.
    """

    message: StoredMessage
    state: State
    receives: int
    until: float | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages of a queue by state; exact.  What a locked group holds back counts as visible, as it does in SQS."""

    visible: int = 0
    in_flight: int = 0
    delayed: int = 0

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed
