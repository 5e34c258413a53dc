"""
Which items leave together, and when; not how they are sent, and no clock: callers say what time it is.

A batch leaves

* as soon as it is full and fewer than *max_in_flight* batches are under way;
* partly filled: when nothing is under way (a lone item never waits), when its oldest item waited *linger*, or when
  the batcher is `flushing`.

Where *ordered* is set, a key with a batch under way is locked: its other items wait until that batch is complete, so
that they can never overtake.  Several items of one key may share a batch, in their order.  Ready keys take turns, one
item each; no step looks at more keys than the batch has items.  Items without a key are never locked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from math import inf
from typing import Generic, TypeVar

from .lines import Item, Line, Place

_OUTSIDE, _WAITING, _TAKEN, _HELD, _GONE = Place

T = TypeVar("T", bound=Item)


class Batch(Generic[T]):
    """Items that leave together; handed back to `Batcher.complete()`."""

    __slots__ = ("_lines", "items")

    def __init__(self, items: list[T], lines: list[Line[T]]) -> None:
        self.items = items
        self._lines = lines


class Batcher(Generic[T]):
    """
    Gathers items into batches.  See the module for its rules.

    Args:
        max_entries: Items in a batch at most.
        max_bytes: Sum of their sizes at most; None for no limit.  A larger item leaves alone.
        max_in_flight: Batches under way at most.
        linger: Seconds that a partial batch waits for company while others are under way.
        ordered: Keys are sequences.  Where False, they mean nothing.

    Attributes:
        in_flight: Batches taken and not complete.
        waiting: Items added and neither taken, held nor discarded.
        flushing: Set it to let partial batches leave at once.
    """

    __slots__ = (
        "_free",
        "_lines",
        "_linger",
        "_max_bytes",
        "_max_entries",
        "_max_in_flight",
        "_oldest",
        "_ordered",
        "_ready",
        "_ready_bytes",
        "_ready_count",
        "flushing",
        "in_flight",
        "waiting",
    )

    def __init__(
        self,
        *,
        max_entries: int,
        max_bytes: int | None = None,
        max_in_flight: int = 1,
        linger: float = 0.0,
        ordered: bool = False,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes: float = inf if max_bytes is None else max_bytes
        self._max_in_flight = max_in_flight
        self._linger = linger
        self._ordered = ordered
        self._free: Line[T] = Line(None)
        self._lines: dict[Hashable, Line[T]] = {}
        self._ready: deque[Line[T]] = deque()  # unlocked keys with items, in turn
        self._ready_count = 0
        self._ready_bytes = 0
        self._oldest = inf
        self.in_flight = 0
        self.waiting = 0
        self.flushing = False

    def add(self, item: T, now: float) -> None:
        """Let *item* wait for its batch.  Added twice, or after `discard()`, it is ignored."""
        if item.place is not _OUTSIDE:
            return
        item.at = now
        if item.key is None:  # as below, for the one line that is never locked and takes no turns
            item.place = _WAITING
            line, size = self._free, item.size
            line.items.append(item)
            line.count += 1
            line.bytes += size
            self.waiting += 1
            self._ready_count += 1
            self._ready_bytes += size
            if now < self._oldest:
                self._oldest = now
            return
        line = self._line(item)
        line.items.append(item)
        self._count_in(item, line)
        if not line.locked:
            self._enqueue(line, now)

    def extend(self, items: Sequence[T], now: float) -> None:
        """As `add()` for each of *items*, in their order, all of them new."""
        if self._ordered:
            for item in items:
                self.add(item, now)
            return
        line, size = self._free, 0
        for item in items:
            item.at = now
            item.place = _WAITING
            size += item.size
        line.items.extend(items)
        line.count += len(items)
        line.bytes += size
        self.waiting += len(items)
        self._ready_count += len(items)
        self._ready_bytes += size
        if items and now < self._oldest:
            self._oldest = now

    def take(self, now: float) -> Batch[T] | None:
        """Return the next batch that may leave at *now*, or None.  Call it until it returns None."""
        if not self._ready_count or self.in_flight >= self._max_in_flight or not self._may_leave(now):
            return None
        batch = self._fill()
        self.in_flight += 1
        self.waiting -= len(batch.items)
        self._oldest = self._oldest_ready()
        return batch

    def due(self) -> float | None:
        """When `take()` may have a batch because time passed; None where only `add()` or `complete()` can bring one."""
        if not self._ready_count or self.in_flight >= self._max_in_flight:
            return None
        return self._oldest + self._linger

    def complete(self, batch: Batch[T], held: Iterable[T] = ()) -> None:
        """
        Account for *batch*: its keys are free again, except for those of *held*.

        Args:
            held: Items of *batch* that shall leave once more after a pause; give them to `restore()` then.  Until
                that their keys stay locked.
        """
        self.in_flight -= 1
        keep = set()
        for item in held:
            item.place = _HELD
            keep.add(item.key)
        for line in batch._lines:
            if line.key not in keep:
                self._unlock(line)

    def restore(self, items: Iterable[T]) -> None:
        """Put *items*, held by one `complete()`, back in their order and ahead of all later ones of their keys."""
        lines: dict[Hashable | None, Line[T]] = {}
        for item in reversed(list(items)):
            line = lines[item.key] = self._line(item)
            if item.place is _HELD:
                line.items.appendleft(item)
                self._count_in(item, line)
        for line in reversed(lines.values()):
            if line.locked:
                self._unlock(line)
            elif (head := line.head()) is not None:
                self._enqueue(line, head.at)

    def discard(self, item: T) -> bool:
        """Withdraw *item*.  Returns False where it is too late: it has been taken, or was withdrawn before."""
        place = item.place
        if place is _TAKEN or place is _GONE:
            return False
        item.place = _GONE
        if place is _WAITING:
            line = self._line(item)
            line.count -= 1
            line.bytes -= item.size
            self.waiting -= 1
            if not line.locked:
                self._ready_count -= 1
                self._ready_bytes -= item.size
                if not self._ready_count:
                    self._forget_empty()
        return True

    def _line(self, item: T) -> Line[T]:
        key = item.key
        if key is None or not self._ordered:
            return self._free
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key)
        return line

    def _count_in(self, item: T, line: Line[T]) -> None:
        item.place = _WAITING
        line.count += 1
        line.bytes += item.size
        self.waiting += 1
        if not line.locked:
            self._ready_count += 1
            self._ready_bytes += item.size

    def _enqueue(self, line: Line[T], since: float) -> None:
        if since < self._oldest:
            self._oldest = since
        if not line.queued and line is not self._free:
            line.queued = True
            self._ready.append(line)

    def _unlock(self, line: Line[T]) -> None:
        line.locked = False
        head = line.head()
        if head is None:
            del self._lines[line.key]
            return
        self._ready_count += line.count
        self._ready_bytes += line.bytes
        self._enqueue(line, head.at)

    def _forget_empty(self) -> None:
        """Drop what `discard()` left in the lines, all of which are empty now."""
        self._oldest = inf
        self._free.items.clear()
        for line in self._ready:
            del self._lines[line.key]
        self._ready.clear()

    def _lock(self, line: Line[T]) -> None:
        line.locked = True
        self._ready_count -= line.count
        self._ready_bytes -= line.bytes

    def _may_leave(self, now: float) -> bool:
        return (
            self._ready_count >= self._max_entries
            or self._ready_bytes >= self._max_bytes
            or not self.in_flight
            or self.flushing
            or now >= self._oldest + self._linger
        )

    def _fill(self) -> Batch[T]:
        if not self._ready:
            return Batch(self._fill_from_free(), [])
        items: list[T] = []
        locked: list[Line[T]] = []
        turns: deque[Line[T]] = deque()  # keys of this batch that have more
        room = self._max_bytes
        while len(items) < self._max_entries and (line := self._next(turns)) is not None:
            size = line.items[0].size
            if size > room and items:
                break
            room -= size
            if line is self._free:
                self._ready_count -= 1
                self._ready_bytes -= size
            elif line.locked:
                turns.popleft()
            else:
                self._ready.popleft().queued = False
                self._lock(line)
                locked.append(line)
            items.append(line.pop())
            if line.locked and line.head() is not None:
                turns.append(line)
        return Batch(items, locked)

    def _fill_from_free(self) -> list[T]:
        items: list[T] = []
        free, room, most = self._free, self._max_bytes, self._max_entries
        waiting = free.items
        taken = 0
        while waiting and len(items) < most:
            item = waiting[0]
            if item.place is not _WAITING:  # withdrawn: as `Line.head()`, without a call for each
                waiting.popleft()
                continue
            size = item.size
            if size > room and items:
                break
            room -= size
            taken += size
            item.place = _TAKEN
            waiting.popleft()
            items.append(item)
        free.count -= len(items)
        free.bytes -= taken
        self._ready_count -= len(items)
        self._ready_bytes -= taken
        return items

    def _next(self, turns: deque[Line[T]]) -> Line[T] | None:
        """Whose turn it is: the older of the first without a key and the next key's; then keys of this batch again."""
        free, line = self._free.head(), self._next_ready()
        if free is not None and (line is None or free.at <= line.items[0].at):
            return self._free
        if line is not None:
            return line
        return turns[0] if turns else None

    def _next_ready(self) -> Line[T] | None:
        """The key whose turn it is.  Keys left empty by `discard()` are dropped here."""
        ready = self._ready
        while ready:
            line = ready[0]
            if line.head() is not None:
                return line
            ready.popleft()
            del self._lines[line.key]
        return None

    def _oldest_ready(self) -> float:
        """
        When the oldest ready item was added.

        Exact, unless a full batch left more keys behind than one: then it is the next key's, and a partial batch may
        leave late, by *linger* at most.  To be exact would take a search of all keys.
        """
        free, line = self._free.head(), self._next_ready()
        return min(inf if free is None else free.at, inf if line is None else line.items[0].at)
