"""
The messages of one ordering key as a chain, and the line in which keys wait for their turn; no clock.

A message is blocked while an *earlier* one of its key is delayed or in flight.  So a chain has something to give
exactly when its head is visible.  A message stays in the chain until it leaves the queue: one that comes back is in
its place already.  The chain is woven through the records, so that leaving costs the same at either end and in the
middle, and a million keys of one message each cost little.

*The developer guide says a group gives nothing while any of its messages is in flight; recorded answers show an earlier
message coming back while later ones are in flight.  Both agree on what matters: nothing overtakes.*
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ._values import State, StoredMessage

if TYPE_CHECKING:
    from ._tenants import Tenant

#: Entries of garbage that every lazily cleaned structure may hold before it is rebuilt, beside as many as it has live
#: ones.
SLACK = 64


_VISIBLE = State.VISIBLE


class Record:
    """What changes about a message while it is in a queue; `None` in `group` means that nothing orders it."""

    __slots__ = (
        "after",
        "before",
        "carried",
        "due",
        "first_received",
        "group",
        "message",
        "queued",
        "received_at",
        "receives",
        "state",
        "tenant",
    )

    def __init__(self, message: StoredMessage, receives: int = 0, first_received: float | None = None) -> None:
        self.message = message
        self.state = _VISIBLE
        self.due = (
            0.0  # end of the delay or lease: the one deadline that decides visibility, order, settling, extension
        )
        self.receives = receives
        self.carried = receives  # those of earlier queues do not count towards this one's dead letters
        self.first_received = first_received
        self.received_at = 0.0
        self.queued = False  # it has an entry among the messages that nothing orders
        self.group: Group | None = None
        self.tenant: Tenant | None = None
        self.before: Record | None = None
        self.after: Record | None = None


class Group:
    """The messages of one key, oldest first."""

    __slots__ = ("head", "key", "queued", "rank", "tail")

    def __init__(self, key: str) -> None:
        self.key = key
        self.head: Record | None = None
        self.tail: Record | None = None
        self.queued = False
        self.rank = 0

    @property
    def takeable(self) -> bool:
        head = self.head
        return head is not None and head.state is State.VISIBLE

    def append(self, record: Record) -> None:
        record.group = self
        tail = self.tail
        if tail is None:
            self.head = record
        else:
            tail.after = record
            record.before = tail
        self.tail = record

    def remove(self, record: Record) -> None:
        before, after = record.before, record.after
        if before is None:
            self.head = after
        else:
            before.after = after
        if after is None:
            self.tail = before
        else:
            after.before = before
        record.before = record.after = None


class Line:
    """Keys with something to give, in the order of their turns.  One that was served goes to the end."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: deque[Group] = deque()

    def __len__(self) -> int:
        return len(self._groups)

    def offer(self, group: Group, rank: int) -> bool:
        """Put *group* at the end if it has something to give and does not wait already; say whether it can be taken."""
        if not group.takeable:
            return False
        if not group.queued:
            group.queued = True
            group.rank = rank
            self._groups.append(group)
        return True

    def first(self) -> Group | None:
        """Return the group whose turn it is; those that have nothing any more leave the line."""
        groups = self._groups
        while groups:
            group = groups[0]
            if group.takeable:
                return group
            groups.popleft().queued = False
        return None

    def pop(self) -> None:
        self._groups.popleft().queued = False

    def compact(self, live: int) -> None:
        """Drop groups that have nothing, where they outnumber the *live* ones."""
        if len(self._groups) <= 2 * live + SLACK:
            return
        for group in self._groups:
            group.queued = group.takeable
        self._groups = deque(group for group in self._groups if group.queued)
