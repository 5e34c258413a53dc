"""What the author of a store of claims gives the kit, and what its facts are told with; no fact is here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from ...idempotency import Claimed, ClaimOutcome, IdempotencyStore
from ._harness import Main

#: Units that a claim lasts in a fact.
LEASE = 10


class StoreHarness(Protocol):
    """
    A store of claims under judgement.

    Every coroutine is called inside of `run()`.  One harness serves one fact.
    """

    @property
    def unit(self) -> float:
        """
        The pace of the kit in seconds: claims last 10 units, and what is to happen within one must not take 3.

        As small as the store's clock allows: any number where `advance()` moves a clock, some 0.1 where it waits.
        """
        ...

    def run(self, main: Main, /) -> None:
        """Run `main()` in a new event loop: `run_in_virtual_time()`, or `run_in_real_time()` where sockets are used."""
        ...

    async def open(self) -> IdempotencyStore:
        """
        Open the store as a process does.

        Every call opens it anew, on the same records, which are none at first.  A store that only lives in one process
        may return the same each time.
        """
        ...

    async def advance(self, seconds: float, /) -> None:
        """Let *seconds* pass by the store's clock: move it, or wait."""
        ...

    async def aclose(self) -> None:
        """Close what was opened, and remove the records.  Called once, at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Owner:
    """One who claims, through one of the two opened stores."""

    bench: StoreBench
    store: IdempotencyStore
    token: str

    async def claim(self, key: str, *, fingerprint: str = "f1", units: float = LEASE) -> ClaimOutcome:
        lease = units * self.bench.unit
        return await self.store.claim(key, owner=self.token, fingerprint=fingerprint, lease=lease)

    async def renew(self, key: str, *, units: float = LEASE) -> bool:
        return await self.store.renew(key, owner=self.token, lease=units * self.bench.unit)

    async def complete(self, key: str, result: bytes | None = b"result", *, units: float = 1_000_000) -> bool:
        return await self.store.complete(key, owner=self.token, ttl=units * self.bench.unit, result=result)

    async def release(self, key: str) -> bool:
        return await self.store.release(key, owner=self.token)


class StoreBench:
    """Two opened stores on the same records, and owners who take them in turn."""

    def __init__(self, harness: StoreHarness, stores: Sequence[IdempotencyStore]) -> None:
        self.unit = harness.unit
        self.stores = stores
        self._harness = harness
        self._made = 0

    def owner(self) -> Owner:
        """Someone new, who uses the other store than the one before."""
        self._made += 1
        return Owner(self, self.stores[self._made % len(self.stores)], uuid4().hex)

    def owners(self, number: int) -> list[Owner]:
        return [self.owner() for _ in range(number)]

    async def pass_(self, units: float) -> None:
        """Let time pass."""
        await self._harness.advance(units * self.unit)


def winners(owners: Sequence[Owner], outcomes: Sequence[ClaimOutcome]) -> list[Owner]:
    """Return those whose claim was granted."""
    return [owner for owner, outcome in zip(owners, outcomes, strict=True) if isinstance(outcome, Claimed)]


async def at_once(calls: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Make the *calls* at the same time and return their answers."""
    return await asyncio.gather(*calls)


async def either_first(one: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any], *, first: int) -> list[Any]:
    """Make both calls at the same time, begun with the one or the other, and return their answers in this order."""
    calls = [one, other] if first == 0 else [other, one]
    answers = await at_once(calls)
    return answers if first == 0 else answers[::-1]


#: A method that judges a store, with a bench; what `store_fact()` decorates.
StoreFact = Callable[[Any, StoreBench], Coroutine[Any, Any, None]]


def store_fact(check: StoreFact) -> Callable[..., None]:
    """Make a test of a fact about stores."""

    def test(self: Any, harness: StoreHarness) -> None:
        harness.run(lambda: _judge(self, check, harness))

    test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
    test.__module__ = check.__module__
    return test


async def _judge(suite: Any, check: StoreFact, harness: StoreHarness) -> None:
    try:
        await check(suite, StoreBench(harness, [await harness.open(), await harness.open()]))
    finally:
        await harness.aclose()
