"""The stores of claims that need no server, judged by the kit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from messagequeue.idempotency import IdempotencyStore, MemoryStore, SqliteStore
from messagequeue.testing.conformance import (
    IdempotencyStoreConformance,
    Main,
    run_in_real_time,
    run_in_virtual_time,
)


class MemoryHarness:
    """One store, in virtual time."""

    unit = 6.0

    def __init__(self) -> None:
        self._store = MemoryStore()

    def run(self, main: Main, /) -> None:
        run_in_virtual_time(main)

    async def open(self) -> IdempotencyStore:
        return self._store

    async def advance(self, seconds: float, /) -> None:
        await asyncio.sleep(seconds)

    async def aclose(self) -> None:
        """Nothing to close."""


class SqliteHarness:
    """Two connections to one file, as two processes have, with a clock that the test moves."""

    unit = 6.0

    def __init__(self, path: Path, fsync: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._now = 1_800_000_000.0
        self._opened: list[SqliteStore] = []

    def run(self, main: Main, /) -> None:
        run_in_real_time(main)

    async def open(self) -> IdempotencyStore:
        store = SqliteStore(self._path, fsync=self._fsync, clock=lambda: self._now)
        self._opened.append(store)
        return store

    async def advance(self, seconds: float, /) -> None:
        self._now += seconds

    async def aclose(self) -> None:
        for store in self._opened:
            await store.close()


class TestMemoryStore(IdempotencyStoreConformance):
    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness()


class TestSqliteStore(IdempotencyStoreConformance):
    @pytest.fixture(params=[False, True], ids=["plain", "fsync"])
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> SqliteHarness:
        return SqliteHarness(tmp_path / "claims.db", request.param)
