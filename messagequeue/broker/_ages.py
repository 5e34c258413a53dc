"""Which message of a queue is the oldest; not what becomes of it."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from ._groups import SLACK, Record


class Ages:
    """
    Messages in the order in which their retention began.

    Nearly all arrive in that order, which is a line; a dead letter keeps its age and goes to a heap beside it.
    """

    __slots__ = ("_late", "_line", "_newest")

    def __init__(self) -> None:
        self._line: deque[int] = deque()
        self._late: list[tuple[float, int]] = []
        self._newest = float("-inf")

    def __len__(self) -> int:
        return len(self._line) + len(self._late)

    def add(self, sent_at: float, sequence: int) -> None:
        if sent_at >= self._newest:
            self._newest = sent_at
            self._line.append(sequence)
        else:
            heappush(self._late, (sent_at, sequence))

    def oldest_at(self, records: dict[int, Record]) -> float | None:
        """Return when the retention began that began first; None where there is none."""
        oldest = self.oldest(records)
        return None if oldest is None else oldest.message.sent_at

    def oldest(self, records: dict[int, Record]) -> Record | None:
        """Return the message whose retention began first; None where there is none."""
        line, late = self._line, self._late
        while line and line[0] not in records:
            line.popleft()
        while late and late[0][1] not in records:
            heappop(late)
        if late and (not line or late[0][0] < records[line[0]].message.sent_at):
            return records[late[0][1]]
        return records[line[0]] if line else None

    def compact(self, records: dict[int, Record]) -> None:
        """Drop messages that are gone, where they outnumber those that are not."""
        if len(self) <= 2 * len(records) + SLACK:
            return
        self._line = deque(sequence for sequence in self._line if sequence in records)
        self._late = [entry for entry in self._late if entry[1] in records]
        heapify(self._late)
