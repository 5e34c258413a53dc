"""Lanes of which several messages of one key may be taken at once, to be handled in one call; pure bookkeeping."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from .dispatch import Held, Lanes


class Run:
    """Messages of one key that were taken together."""

    __slots__ = ("broken", "open")

    def __init__(self, members: int) -> None:
        self.open = members
        self.broken = False


class RunLanes(Lanes):
    """
    `Lanes` that give out runs.

    A run holds its key until the last of it is off the queue.  The first of it that is not breaks it: the key is then
    that message's alone (`retreat()`), and what becomes of the others changes nothing any more.
    """

    def __init__(self, *, ordered: bool) -> None:
        super().__init__(ordered=ordered)
        self._runs: dict[Held, Run] = {}

    def startable(self) -> Iterator[Held]:
        """What could start now, in the order in which `take_run()` takes it."""
        for head in self._ready:
            yield head
            if head.key is not None:
                yield from self._lanes[head.key]

    def take_run(self, most: int, room: int | None) -> list[Held]:
        """
        Take the next message, and those behind it in its key.

        Args:
            most: Messages at most.
            room: Bytes of their bodies at most; None for no limit.

        Returns:
            None of them where the first does not fit.
        """
        head = self._ready[0] if self._ready else None
        if head is None or not fits(head, room):
            return []
        self._ready.popleft()
        run = [head]
        if head.key is not None:
            lane = self._lanes[head.key]
            while lane and len(run) < most:
                room = None if room is None else room - size(run[-1])
                if not fits(lane[0], room):
                    break
                run.append(lane.popleft())
            self._behind -= len(run) - 1
            if len(run) > 1:
                token = Run(len(run))
                self._runs.update((held, token) for held in run)
        return run

    def broken(self, held: Held) -> bool:
        """Whether *held* is of a run of which one failed."""
        run = self._runs.get(held)
        return run is not None and run.broken

    def forget(self, held: Held) -> None:
        """Count *held*, which is handed back because its run broke, no longer."""
        self._leave(held)
        self._over(held)

    def advance(self, held: Held) -> None:
        run = self._leave(held)
        if run is None or (not run.open and not run.broken):
            super().advance(held)
        else:
            self._over(held)

    def retreat(self, held: Held, now: float, *, back_at: float | None) -> list[Held]:
        run = self._leave(held)
        if run is None or not run.broken:
            if run is not None:
                run.broken = True
            return super().retreat(held, now, back_at=back_at)
        self._over(held)
        return []

    def _leave(self, held: Held) -> Run | None:
        run = self._runs.pop(held, None)
        if run is not None:
            run.open -= 1
        return run


def size(held: Held) -> int:
    """Bytes that a message counts."""
    return len(held.message.body)


def fits(held: Held, room: int | None) -> bool:
    """Whether a message may be added where *room* bytes are left."""
    return room is None or size(held) <= room


def first(startable: Iterator[Held], most: int, room: int | None) -> tuple[list[Held], bool]:
    """
    Return what the next list would hold at most, and whether it is full.

    Args:
        room: Bytes; the first message counts as fitting whatever its size.
    """
    found: list[Held] = []
    for held in islice(startable, most):
        if found and not fits(held, room):
            return found, True
        found.append(held)
        room = None if room is None else room - size(held)
    return found, len(found) == most or (room is not None and room <= 0)
