"""The deduplication window of one queue: which ids it has seen, for how long; not what is done with a duplicate."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from ._settings import DedupScope
from ._values import PutResult


class DedupWindow:
    """
    Remembers the first put of each id.  It outlives the message: a repeat after a settle is a duplicate, too.

    The window runs from the first put and is not prolonged by repeats.  Memory is bounded by the puts of one window.
    """

    __slots__ = ("_line", "_seen")

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[float, PutResult]] = {}
        self._line: deque[Hashable] = deque()

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, scope: DedupScope, key: str | None, dedup_id: str) -> PutResult | None:
        """Return the first put as the answer to its duplicate, or None.  `expire()` comes first."""
        seen = self._seen.get(_identity(scope, key, dedup_id))
        return None if seen is None else seen[1]

    def remember(self, scope: DedupScope, key: str | None, dedup_id: str, at: float, message: tuple[str, int]) -> None:
        identity = _identity(scope, key, dedup_id)
        if identity not in self._seen:
            self._line.append(identity)
            self._seen[identity] = at, PutResult(*message, duplicate=True)

    def expire(self, now: float, window: float) -> None:
        """Forget what was first put *window* seconds before *now*, or earlier."""
        line, seen = self._line, self._seen
        while line and seen[line[0]][0] + window <= now:
            del seen[line.popleft()]

    def clear(self) -> None:
        self._seen.clear()
        self._line.clear()


def _identity(scope: DedupScope, key: str | None, dedup_id: str) -> Hashable:
    return dedup_id if scope is DedupScope.QUEUE else (key, dedup_id)
