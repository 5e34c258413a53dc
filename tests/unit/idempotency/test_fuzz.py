"""Many workers, few keys, and a store that fails in every way, in virtual time: what must hold whatever happens."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from messagequeue import RetryLater
from messagequeue.idempotency import (
    ClaimLostError,
    Idempotency,
    IdempotencyStoreError,
    InProgressError,
)
from messagequeue.testing import run_virtual
from tests.unit.idempotency.faulty_store import FaultyStore, Hang, LoseAnswer

KEYS = 5
WORKERS = 8
SECONDS = 3_000


class World:
    """Workers that are handed keys over and over, as a broker does, and an account of what they did."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = FaultyStore()
        self.calls = Idempotency(self.store, namespace="fuzz", lease=30, ttl=1_000_000, store_timeout=5)
        self.running: Counter[str] = Counter()
        self.most_running = 0
        self.recorded: set[str] = set()
        self.begun_after_record: list[str] = []
        self.ended: Counter[str] = Counter()

    async def work(self, key: str) -> int:
        if key in self.recorded:
            self.begun_after_record.append(key)
        self.running[key] += 1
        self.most_running = max(self.most_running, self.running[key])
        try:
            await asyncio.sleep(self.random.choice((0, 1, 20, 100)))
            if self.random.random() < 0.3:
                raise RetryLater(1)
        finally:
            self.running[key] -= 1
        self.ended[key] += 1
        return self.ended[key]

    async def worker(self) -> None:
        while True:
            key = f"k{self.random.randrange(KEYS)}"
            task = asyncio.create_task(self.calls.run(key, lambda key=key: self.work(key)), name="call")
            if self.random.random() < 0.2:
                asyncio.get_running_loop().call_later(self.random.uniform(0, 60), task.cancel)
            try:
                await asyncio.wait([task])
                task.result()
            except (RetryLater, InProgressError, IdempotencyStoreError, ClaimLostError):
                pass
            except asyncio.CancelledError:
                if not task.cancelled():
                    task.cancel()
                    await asyncio.wait([task])
                    raise
            self.note_records()
            await asyncio.sleep(self.random.uniform(0, 20))

    def note_records(self) -> None:
        done = [name for name, record in self.store.records._records.items() if record.done]
        self.recorded.update(f"k{number}" for number in range(KEYS) if any(f'"k{number}"' in name for name in done))

    async def trouble(self) -> None:
        """Whatever a network does: outages, lost answers, calls that hang."""
        while True:
            await asyncio.sleep(self.random.uniform(1, 40))
            method = self.random.choice(("claim", "renew", "complete", "release"))
            match self.random.randrange(4):
                case 0:
                    self.store.down = True
                    await asyncio.sleep(self.random.uniform(0, 50))
                    self.store.down = False
                case 1:
                    self.store.plan(method, LoseAnswer())
                case 2:
                    self.store.plan(method, Hang(self.random.uniform(0, 20), does=self.random.random() < 0.5))
                case 3:
                    self.store.plan(method, ConnectionError())


@pytest.mark.parametrize("seed", range(15))
def test_whatever_the_store_does_no_key_is_worked_on_twice_at_once(seed, caplog):
    """Nor is any begun again once its end is recorded; and every one is done in the end."""

    async def main():
        world = World(seed)
        tasks = [asyncio.create_task(world.worker(), name=f"worker {number}") for number in range(WORKERS)]
        tasks.append(asyncio.create_task(world.trouble(), name="trouble"))
        await asyncio.sleep(SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return world

    world = run_virtual(main(), timeout=SECONDS + 100)

    assert world.most_running == 1
    assert world.begun_after_record == []
    assert len(world.recorded) == KEYS
    assert sum(world.running.values()) == 0
