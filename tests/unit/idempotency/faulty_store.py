"""A store of claims that fails when it is told to; what it is asked is written down."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from messagequeue.idempotency import ClaimOutcome, IdempotencyStoreError, MemoryStore

T = TypeVar("T")


@dataclass(frozen=True)
class Hang:
    """Do it, or not, and give no answer for *seconds*."""

    seconds: float
    does: bool = True


@dataclass(frozen=True)
class LoseAnswer:
    """Do it, and fail all the same."""


Step = Exception | Hang | LoseAnswer | None


class FaultyStore:
    """
    A `MemoryStore` in front of which calls can fail.

    Attributes:
        plans: By method, what its next calls do; None, or the end of a plan: what they should.
        down: Every call fails.
        calls: When and what was called.
    """

    max_result = 1_000_000

    def __init__(self) -> None:
        self.records = MemoryStore()
        self.plans: dict[str, deque[Step]] = defaultdict(deque)
        self.down = False
        self.calls: list[tuple[float, str]] = []

    def plan(self, method: str, *steps: Step) -> None:
        self.plans[method].extend(steps)

    def times(self, method: str) -> list[float]:
        return [at for at, name in self.calls if name == method]

    async def steal(self, key: str) -> None:
        """Let somebody else have the key, as if the claim on it had ended."""
        for record_key in [name for name in self.records._records if key in name]:
            del self.records._records[record_key]
            await self.records.claim(record_key, owner="thief", fingerprint="", lease=1000)

    async def claim(self, key: str, /, *, owner: str, fingerprint: str, lease: float) -> ClaimOutcome:
        return await self._do("claim", self.records.claim(key, owner=owner, fingerprint=fingerprint, lease=lease))

    async def renew(self, key: str, /, *, owner: str, lease: float) -> bool:
        return await self._do("renew", self.records.renew(key, owner=owner, lease=lease))

    async def complete(self, key: str, /, *, owner: str, ttl: float, result: bytes | None) -> bool:
        return await self._do("complete", self.records.complete(key, owner=owner, ttl=ttl, result=result))

    async def release(self, key: str, /, *, owner: str) -> bool:
        return await self._do("release", self.records.release(key, owner=owner))

    async def _do(self, name: str, call: Coroutine[Any, Any, T]) -> T:
        self.calls.append((asyncio.get_running_loop().time(), name))
        plan = self.plans[name]
        step = plan.popleft() if plan else None
        try:
            if self.down:
                raise IdempotencyStoreError("down")
            if isinstance(step, Exception):
                raise step
            if isinstance(step, Hang) and not step.does:
                await asyncio.sleep(step.seconds)
            answer = await call
            if isinstance(step, Hang) and step.does:
                await asyncio.sleep(step.seconds)
            if isinstance(step, LoseAnswer):
                raise ConnectionResetError("redis://:secret@host")
            return answer
        finally:
            call.close()
