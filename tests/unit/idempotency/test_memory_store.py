"""`MemoryStore`: bounded, and honest about what it forgets; what all stores do is the conformance kit's."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import ConfigurationError, ErrorCode
from messagequeue.idempotency import Claimed, Done, IdempotencyStoreError, MemoryStore
from messagequeue.testing import run_virtual


async def do(store, key, *, ttl=1000.0):
    found = await store.claim(key, owner=key, fingerprint="", lease=10)
    if isinstance(found, Claimed):
        await store.complete(key, owner=key, ttl=ttl, result=None)
    return found


def test_the_oldest_results_are_forgotten_first(caplog):
    """A full store goes on, and says once that it forgets."""

    async def main():
        store = MemoryStore(max_records=3)
        for key in "abcde":
            await do(store, key)

        assert len(store) == 3
        assert [isinstance(await do(store, key), Done) for key in "cde"] == [True] * 3
        assert await do(store, "a") == Claimed()

    run_virtual(main())
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_has_ended_makes_room_before_what_has_not(caplog):
    """No result is forgotten early while there are those whose time is over."""

    async def main():
        store = MemoryStore(max_records=3)
        for key in "abc":
            await do(store, key, ttl=5)
        await asyncio.sleep(6)
        for key in "def":
            await do(store, key)

        assert len(store) == 3

    run_virtual(main())
    assert caplog.records == []


def test_claims_in_flight_are_never_forgotten():
    """They would be worked on twice at once: a new claim is refused instead."""

    async def main():
        store = MemoryStore(max_records=2)
        for key in "ab":
            await store.claim(key, owner=key, fingerprint="", lease=10)

        with pytest.raises(IdempotencyStoreError, match="raise max_records") as caught:
            await do(store, "c")

        assert caught.value.code is ErrorCode.FULL
        assert await store.complete("a", owner="a", ttl=10, result=None)
        assert await do(store, "c") == Claimed()

    run_virtual(main())


def test_purge_removes_what_has_ended():
    """And nothing else."""

    async def main():
        store = MemoryStore()
        await do(store, "a", ttl=5)
        await do(store, "b")
        await asyncio.sleep(6)

        assert await store.purge() == 1
        assert len(store) == 1

    run_virtual(main())


def test_the_clock_can_be_given():
    """In seconds, for tests in real time."""

    async def main():
        now = [0.0]
        store = MemoryStore(clock=lambda: now[0])
        await do(store, "a", ttl=5)
        now[0] = 6.0

        assert await do(store, "a") == Claimed()

    run_virtual(main())


@pytest.mark.parametrize("size", [0, -1, 1.5, "10", None, True])
def test_a_store_without_room_is_refused(size):
    """Where it is made."""
    with pytest.raises(ConfigurationError, match="max_records"):
        MemoryStore(max_records=size)
