"""Who goes next, per key; not how long anybody takes."""

from __future__ import annotations

import asyncio
from collections import deque


class Turn:
    """A place in the line of one key."""

    __slots__ = ("_woken", "key", "over")

    def __init__(self, key: str) -> None:
        self.key = key
        self.over = False
        self._woken: asyncio.Event | None = None

    async def _sleep(self) -> None:
        if self._woken is None:
            self._woken = asyncio.Event()
        self._woken.clear()
        await self._woken.wait()

    def _wake(self) -> None:
        if self._woken is not None:
            self._woken.set()


class Turns:
    """Lets what has the same key pass in the order in which its turns were taken; a key at rest costs nothing."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, deque[Turn]] = {}

    def __len__(self) -> int:
        """Keys with somebody in line."""
        return len(self._lines)

    def take(self, key: object) -> Turn | None:
        """Return a turn behind all others of *key*; None where *key* is not text, for then there is no order."""
        if not isinstance(key, str):
            return None
        turn = Turn(key)
        self._lines.setdefault(key, deque()).append(turn)
        return turn

    async def wait(self, turn: Turn) -> None:
        """Return when every earlier turn of the key is over, at once where *turn* itself is."""
        line = self._lines.get(turn.key)
        while line and not turn.over and line[0] is not turn:
            await turn._sleep()

    def end(self, turn: Turn) -> None:
        """Let the next one go.  May be called before *turn* was waited for, and more than once."""
        if turn.over:
            return
        turn.over = True
        line = self._lines[turn.key]
        while line and line[0].over:
            line.popleft()
        if line:
            line[0]._wake()
        else:
            del self._lines[turn.key]
