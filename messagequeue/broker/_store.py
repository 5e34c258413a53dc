"""
Where every message of one queue is, and which may be taken next; no policy (dead letters, limits, handles, journal).

A message that nothing orders and nobody has taken yet is a plain tuple in a line: `arrivals`.  Most of a full queue is
such messages.  They have no record, so that each costs a third less memory, and, holding nothing but text, bytes and
numbers, none of the garbage collector's time: a million of them would take it a second, again and again.

All other structures are cleaned lazily and rebuilt when garbage outnumbers what is alive, so that every operation is
O(log n) amortised and memory is bounded by what is stored.  They hold sequence numbers, not messages: garbage is small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import TypeAlias

from ._ages import Ages
from ._groups import SLACK, Group, Line, Record
from ._tenants import Tenants
from ._values import State, StoredMessage

VISIBLE, IN_FLIGHT, DELAYED = State.VISIBLE, State.IN_FLIGHT, State.DELAYED

#: What a `StoredMessage` is made of.
Fields: TypeAlias = "tuple[int, str, bytes | str, None, None, object, float]"


class Store:
    """
    The state of one queue.

    Attributes:
        records: Every message by sequence, but for arrivals.
        arrivals: Visible messages by sequence that nothing orders and that were never taken.
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
        "arrivals",
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
        self.arrivals: deque[Fields] = deque()
        self.visible = self.in_flight = self.delayed = 0
        self._singles: list[int] = []  # heap of visible messages that nothing orders
        self._groups: dict[str, Group] = {}
        self._line = Line()
        self._tenants = Tenants()
        self._due: list[tuple[float, int]] = []  # heap of the ends of delays and leases
        self._ages = Ages()

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self.records) + len(self.arrivals)

    # --- arrivals and departures

    def arrive(self, arrivals: Sequence[Fields]) -> None:
        """Add visible messages that nothing orders, one or more, at the end of the queue."""
        last = arrivals[-1][0]
        if last > self.last:
            self.last = last
        self.visible += len(arrivals)
        self.woken = True
        self.arrivals.extend(arrivals)

    def find(self, sequence: int) -> Record | None:
        """Return the record of a message, made now where it had none; None where there is no such message."""
        record = self.records.get(sequence)
        arrivals = self.arrivals
        if record is not None or not arrivals or not arrivals[0][0] <= sequence <= arrivals[-1][0]:
            return record
        place = bisect_left(arrivals, sequence, key=itemgetter(0))
        if arrivals[place][0] != sequence:
            return None
        arrivals.rotate(-place)
        record = self._recorded()
        arrivals.rotate(place)
        self._offer(record)
        return record

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
            group, single, arrival = self._line.first(), self._first_single(), self._first_arrival()
            first = single if arrival is None or (single is not None and single < arrival) else arrival
            if group is not None and (first is None or first > group.rank):
                self._line.pop()
                yield from _visible_run(group)
            elif first is not None and first == arrival:
                yield self._recorded()
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
        if self.arrivals or self._first_single() is not None or self._line.first() is not None:
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

    def oldest_at(self) -> float | None:
        """Return when the retention began that began first."""
        at = self._ages.oldest_at(self.records)
        if not self.arrivals:
            return at
        arrived_at = self.arrivals[0][6]
        return arrived_at if at is None else min(at, arrived_at)

    def oldest(self) -> Record | None:
        """Return the message whose retention began first."""
        at = self._ages.oldest_at(self.records)
        if self.arrivals and (at is None or self.arrivals[0][6] < at):
            self._offer(self._recorded())
        return self._ages.oldest(self.records)

    def messages(self) -> Iterator[Record]:
        """Yield every message by sequence, without changing anything."""
        arrivals = [Record(StoredMessage(*fields)) for fields in self.arrivals]
        return iter(sorted([*self.records.values(), *arrivals], key=lambda record: record.message.sequence))

    def garbage(self) -> int:
        """Return how many entries of lazily cleaned structures exist beyond one for each record; for tests."""
        entries = len(self._singles) + len(self._due) + len(self._line) + len(self._ages) + len(self._tenants)
        return entries - 2 * len(self.records)

    # --- parts

    def _first_arrival(self) -> int | None:
        return self.arrivals[0][0] if self.arrivals else None

    def _recorded(self) -> Record:
        """Make a record of the first arrival; it has left its place in line."""
        message = StoredMessage(*self.arrivals.popleft())
        record = self.records[message.sequence] = Record(message)
        self._ages.add(message.sent_at, message.sequence)
        return record

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


def _visible_run(group: Group) -> Iterator[Record]:
    record = group.head
    while record is not None and record.state is VISIBLE:
        yield record
        record = record.after
