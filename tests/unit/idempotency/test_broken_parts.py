"""Stores, codecs and callers that do not keep to what is asked of them: nothing is done unguarded or lost for it."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import ErrorCode, RetryLater
from messagequeue.idempotency import (
    ClaimLostError,
    Idempotency,
    IdempotencyStoreError,
    MemoryStore,
    ResultNotStoredError,
    idempotent,
)
from messagequeue.testing import message, run_virtual


def once(store, **options):
    return Idempotency(store, namespace="test", **options)


def counted():
    done = []

    async def work():
        done.append(1)
        return len(done)

    return done, work


# -- stores


@pytest.mark.parametrize("answer", [True, None, "claimed", 1])
@pytest.mark.parametrize("fail_open", [False, True])
def test_an_answer_that_is_none_lets_nothing_run(answer, fail_open):
    """A store that says something else than it may has claimed nothing: not a fault to be worked through."""

    class Babbling(MemoryStore):
        async def claim(self, key, /, **options):
            return answer

    async def main():
        done, work = counted()
        with pytest.raises(IdempotencyStoreError, match=r"Babbling\.claim\(\) returned") as caught:
            await once(Babbling(), fail_open=fail_open).run("k", work)
        assert not caught.value.retryable
        assert done == []

    run_virtual(main())


def broken(method):
    """A store one of whose methods is no coroutine function and raises at once."""

    def fails(self, key, /, **options):
        raise AttributeError("no connection")

    return type("Broken", (MemoryStore,), {method: fails})()


def test_a_store_that_raises_before_it_can_be_awaited_is_a_store_that_failed():
    """A claim is one error of ours; with `fail_open` it is worked through."""

    async def main():
        done, work = counted()
        with pytest.raises(IdempotencyStoreError, match=r"Broken\.claim\(\) raised AttributeError"):
            await once(broken("claim")).run("k", work)
        assert done == []
        assert await once(broken("claim"), fail_open=True).run("k", work) == 1

    run_virtual(main())


@pytest.mark.parametrize("method", ["complete", "release", "renew"])
def test_done_work_is_no_failure_where_its_store_breaks(method, caplog):
    """It passes as if it had failed in the network: the result is given, what is not recorded is said."""

    async def main():
        _, work = counted()
        assert await once(broken(method), lease=9, store_timeout=1).run("k", work) == 1

    run_virtual(main())
    assert [record.event for record in caplog.records] == (["claim.not_recorded"] if method == "complete" else [])


# -- results


def codec(encode=lambda value: b"kept", decode=lambda data: "read"):
    return type("Codec", (), {"encode": staticmethod(encode), "decode": staticmethod(decode)})()


@pytest.mark.parametrize("made", ["text", None, 5, ["list"]])
def test_a_codec_that_makes_no_bytes_has_made_no_result(made):
    """The work is done and stays done; a store that takes bytes alone would have refused it until the claim ended."""

    async def main():
        store, (done, work) = MemoryStore(), counted()
        with pytest.raises(ResultNotStoredError, match=f"made {type(made).__name__}, not bytes") as caught:
            await once(store).run("k", work, codec=codec(encode=lambda value: made))
        assert caught.value.value == 1
        with pytest.raises(ResultNotStoredError, match="was done earlier"):
            await once(store).run("k", work)
        assert done == [1]

    run_virtual(main())


@pytest.mark.parametrize("made", [bytearray(b"kept"), memoryview(b"kept"), memoryview(b"k.e.p.t.")[::2]])
def test_a_codec_may_make_anything_of_bytes(made):
    """It is kept as bytes, so that it is the same for everybody whatever becomes of the buffer."""

    async def main():
        store, (_, work) = MemoryStore(), counted()
        for _ in range(2):
            kept = await once(store).run("k", work, codec=codec(lambda value: made, lambda data: data))
            assert kept == b"kept"
            assert type(kept) is bytes

    run_virtual(main())


def test_a_result_that_cannot_be_read_is_said_to_be_of_done_work():
    """Whatever the codec raises would look like a failure of the work, which is done and not done again."""

    def unreadable(data):
        raise ConnectionError("the body")

    async def main():
        store, (done, work) = MemoryStore(), counted()
        for value in (1, None):
            with pytest.raises(ResultNotStoredError, match="ConnectionError") as caught:
                await once(store).run("k", work, codec=codec(decode=unreadable))
            assert "the body" not in str(caught.value)
            assert caught.value.code is ErrorCode.DECODE
            assert caught.value.value == value
            assert isinstance(caught.value.__cause__, ConnectionError)
        assert done == [1]

    run_virtual(main())


# -- callers


def test_work_that_cannot_be_called_claims_nothing():
    """A coroutine in the place of a function that makes one is a mistake of the caller's, told at once."""

    async def main():
        store, (_, work) = MemoryStore(), counted()
        coroutine = work()
        with pytest.raises(TypeError, match="the work is a coroutine: give a function"):
            await once(store).run("k", coroutine)
        coroutine.close()
        assert len(store) == 0

    run_virtual(main())


@pytest.mark.parametrize("data", [memoryview(b"a.b.c.")[::2], bytearray(b"abc"), "abc"])
def test_a_fingerprint_may_be_any_bytes(data):
    """Parts of a buffer, too; the same bytes are the same fingerprint."""

    async def main():
        store, (done, work) = MemoryStore(), counted()
        for fingerprint in (b"abc", data):
            assert await once(store).run("k", work, fingerprint=fingerprint) == 1
        assert done == [1]

    run_virtual(main())


@pytest.mark.parametrize("part", ["key", "fingerprint"])
def test_a_function_of_a_message_that_raises_claims_nothing(part):
    """Its exception is the handler's: the message comes back, and nobody waits for a claim."""

    def fails(message):
        raise LookupError("no order")

    async def handle(message):
        raise AssertionError("not to be handled")

    async def main():
        store = MemoryStore()
        with pytest.raises(LookupError):
            await idempotent(store, **{part: fails})(handle)(message(b"{}"))
        assert len(store) == 0

    run_virtual(main())


# -- clocks


def test_a_clock_set_forward_ends_a_claim_and_its_owner_changes_nothing_any_more():
    """Somebody else takes over; the first is cancelled with its next renewal, and neither records nor releases."""

    async def main():
        jump = 0.0
        store = MemoryStore(clock=lambda: asyncio.get_running_loop().time() + jump)
        calls = once(store, lease=30)

        async def slow():
            await asyncio.sleep(25)
            return "first"

        first = asyncio.create_task(calls.run("k", slow))
        await asyncio.sleep(1)
        jump = 100.0

        async def quick():
            return "second"

        assert await calls.run("k", quick) == "second"
        with pytest.raises(ClaimLostError):
            await first
        assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.1)
        assert await calls.run("k", quick) == "second"

    run_virtual(main())


def test_a_clock_set_back_holds_nobody_up_for_longer_than_a_lease():
    """The claim of a dead owner seems to last for hours: whoever waits asks again within `lease`."""

    async def main():
        jump = 0.0
        store = MemoryStore(clock=lambda: 10_000 + asyncio.get_running_loop().time() + jump)
        await store.claim('["t","k"]', owner="dead", fingerprint="", lease=30)
        jump = -7200.0

        async def handle(message):
            raise AssertionError("not to be handled")

        once_each = idempotent(store, key=lambda message: "k", namespace="t", fingerprint=None, lease=30)
        with pytest.raises(RetryLater) as caught:
            await once_each(handle)(message(b"{}"))
        assert caught.value.after == 30

    run_virtual(main())
