"""The deduplication window of one queue: which ids it has seen, for how long; not what is done with a duplicate."""

from __future__ import annotations

from collections import deque

from ._settings import DedupScope
from ._values import PutResult
from .storage import Identity


class DedupWindow:
    """
    Remembers the first put of each id.  It outlives the message: a repeat after a settle is a duplicate, too.

    The window runs from the first put and is not prolonged by repeats.  Memory is bounded by the puts of one window.
    """

    __slots__ = ("_line", "_seen")

    def __init__(self) -> None:
        self._seen: dict[Identity, tuple[float, PutResult]] = {}
        self._line: deque[Identity] = deque()

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, identity: Identity) -> PutResult | None:
        """Return the first put as the answer to its duplicate, or None.  `expire()` comes first."""
        seen = self._seen.get(identity)
        return None if seen is None else seen[1]

    def remember(self, identity: Identity, at: float, message_id: str, sequence: int) -> bool:
        """Begin the window of *identity*; say whether it was new."""
        if identity in self._seen:
            return False
        self._line.append(identity)
        self._seen[identity] = at, PutResult(message_id, sequence, duplicate=True)
        return True

    def expire(self, now: float, window: float) -> None:
        """Forget what was first put *window* seconds before *now*, or earlier."""
        line, seen = self._line, self._seen
        while line and seen[line[0]][0] + window <= now:
            del seen[line.popleft()]

    def clear(self) -> None:
        self._seen.clear()
        self._line.clear()


def identity_of(scope: DedupScope, key: str | None, dedup_id: str) -> Identity:
    """Return what *dedup_id* is unique as."""
    return dedup_id if scope is DedupScope.QUEUE else (key, dedup_id)
