"""
Where every message of one queue is, and which may be taken next; no policy (dead letters, limits, handles, journal).

All structures are cleaned lazily and rebuilt when garbage outnumbers what is alive, so that every operation is O(log n)
amortised and memory is bounded by what is stored.  They hold sequence numbers, not messages: garbage is small.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from ._groups import SLACK, Group, Line, Record
from ._tenants import Tenants
from ._values import State

VISIBLE, IN_FLIGHT, DELAYED = State.VISIBLE, State.IN_FLIGHT, State.DELAYED


class Store:
    """
    The state of one queue.

    Attributes:
        records: Every message by sequence.
        visible, in_flight, delayed: How many there are of each state, as of the last `advance()`.
        last: The last sequence number given out.
        woken: Something became takeable since somebody set this to False.
    """

    __slots__ = (
        "_ages",
        "_due",
        "_groups",
        "_line",
        "_singles",
        "_tenants",
        "delayed",
        "in_flight",
        "last",
        "records",
        "visible",
        "woken",
    )

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.last = 0
        self.woken = False
        self._reset()

    def _reset(self) -> None:
        self.records = {}
        self.visible = self.in_flight = self.delayed = 0
        self._singles: list[int] = []  # heap of visible messages that nothing orders
        self._groups: dict[str, Group] = {}
        self._line = Line()
        self._tenants = Tenants()
        self._due: list[tuple[float, int]] = []  # heap of the ends of delays and leases
        self._ages = Ages()

    # --- arrivals and departures

    def insert(self, record: Record, ordered: bool, due: float | None) -> None:
        """Add a message at the end of the queue: delayed until *due*, or visible."""
        message = record.message
        sequence = message.sequence
        if sequence > self.last:
            self.last = sequence
        self.records[sequence] = record
        self._ages.add(message.sent_at, sequence)
        if message.key is not None:
            self._join(record, message.key, ordered)
        if due is None:
            self.visible += 1
            if record.group is None:  # as `_offer()` does, for what is nowhere yet
                self.woken = record.queued = True
                heappush(self._singles, sequence)
            else:
                self._offer(record)
        else:
            record.state = DELAYED
            self.delayed += 1
            self._set_due(record, due)

    def _join(self, record: Record, key: str, ordered: bool) -> None:
        if not ordered:
            self._tenants.add(record, key)
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
        group.append(record)

    def remove(self, record: Record) -> None:
        """Take a message off the queue for good; what it held back may be taken."""
        del self.records[record.message.sequence]
        self._leave(record)
        if record.tenant is not None:
            self._tenants.remove(record.tenant)
        group = record.group
        if group is not None:
            group.remove(record)
            if group.head is None:
                del self._groups[group.key]
                self._line.compact(len(self._groups))
            elif self._line.offer(group, self.last):
                self.woken = True
        self._ages.compact(self.records)

    def clear(self) -> None:
        """Take everything off; the sequence goes on."""
        self._reset()

    # --- changes of state

    def hide(self, record: Record, until: float) -> None:
        """Put a message in flight, or move the end of its lease."""
        if record.state is not IN_FLIGHT:
            self._leave(record)
            record.state = IN_FLIGHT
            self.in_flight += 1
            if record.tenant is not None:
                record.tenant.in_flight += 1
        self._set_due(record, until)

    def show(self, record: Record, now: float) -> None:
        """Make a message visible, in its place."""
        record.due = now
        if record.state is not VISIBLE:
            self._leave(record)
            record.state = VISIBLE
            self.visible += 1
        self._offer(record)

    def advance(self, now: float) -> None:
        """Let delays and leases end that are due."""
        due = self._due
        while due and due[0][0] <= now:
            at, sequence = heappop(due)
            record = self.records.get(sequence)
            if record is not None and record.due == at and record.state is not VISIBLE:
                self.show(record, at)
        for sequence in self._tenants.forgive(now):
            heappush(self._singles, sequence)

    # --- questions

    def takeable(self) -> Iterator[Record]:
        """
        Yield what may be taken, in turn: all that the oldest key can give before the next key.

        What it yields has left its place in line: the caller gives it to `requeue()`, or removes it, afterwards.
        """
        while True:
            group, single = self._line.first(), self._first_single()
            if group is not None and (single is None or single > group.rank):
                self._line.pop()
                yield from _visible_run(group)
            elif single is not None:
                record = self.records[heappop(self._singles)]
                if not self._tenants.steps_back(record, self.in_flight):
                    record.queued = False
                    yield record
            else:
                stepped_back = self._tenants.first(self.records)
                if stepped_back is None:
                    return
                self._tenants.take(stepped_back)
                stepped_back.queued = False
                yield stepped_back

    def requeue(self, record: Record) -> None:
        """Give a message that `takeable()` yielded its place in line again, where it is still visible."""
        if record.group is not None or record.state is VISIBLE:
            self._offer(record)

    def has_takeable(self) -> bool:
        """Whether `takeable()` would yield anything."""
        if self._first_single() is not None or self._line.first() is not None:
            return True
        return self._tenants.first(self.records) is not None

    def next_due(self) -> float | None:
        """Return when the next delay or lease ends."""
        due = self._due
        while due:
            at, sequence = due[0]
            record = self.records.get(sequence)
            if record is not None and record.due == at and record.state is not VISIBLE:
                return at
            heappop(due)
        return None

    def oldest(self) -> Record | None:
        """Return the message whose retention began first."""
        return self._ages.oldest(self.records)

    def garbage(self) -> int:
        """Return how many entries of lazily cleaned structures exist beyond one for each message; for tests."""
        entries = len(self._singles) + len(self._due) + len(self._line) + len(self._ages) + len(self._tenants)
        return entries - 2 * len(self.records)

    # --- parts

    def _first_single(self) -> int | None:
        singles, records = self._singles, self.records
        while singles:
            record = records.get(singles[0])
            if record is not None:
                if record.state is VISIBLE:
                    return singles[0]
                record.queued = False
            heappop(singles)
        return None

    def _offer(self, record: Record) -> None:
        if record.group is not None:
            if self._line.offer(record.group, self.last):
                self.woken = True
            return
        self.woken = True
        if record.queued:
            return
        record.queued = True
        heappush(self._singles, record.message.sequence)
        if len(self._singles) > 2 * len(self.records) + SLACK:
            self._singles = sorted(sequence for sequence in self._singles if sequence in self.records)

    def _set_due(self, record: Record, due: float) -> None:
        record.due = due
        heappush(self._due, (due, record.message.sequence))
        if len(self._due) > 2 * (self.in_flight + self.delayed) + SLACK:
            live = {(at, seq) for at, seq in self._due if self._waits_until(seq, at)}
            self._due = list(live)
            heapify(self._due)

    def _waits_until(self, sequence: int, at: float) -> bool:
        record = self.records.get(sequence)
        return record is not None and record.state is not VISIBLE and record.due == at

    def _leave(self, record: Record) -> None:
        """Count a message out of the state that it is in."""
        if record.state is VISIBLE:
            self.visible -= 1
        elif record.state is DELAYED:
            self.delayed -= 1
        else:
            self.in_flight -= 1
            if record.tenant is not None:
                record.tenant.in_flight -= 1


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

    def oldest(self, records: dict[int, Record]) -> Record | None:
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


def _visible_run(group: Group) -> Iterator[Record]:
    record = group.head
    while record is not None and record.state is VISIBLE:
        yield record
        record = record.after
