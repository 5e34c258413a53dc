"""One claim, from its making to its end, with stores that fail and calls that are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue.idempotency import (
    ClaimLostError,
    Idempotency,
    IdempotencyStoreError,
    InProgressError,
    MemoryStore,
)
from messagequeue.testing import run_virtual
from tests.unit.idempotency.faulty_store import FaultyStore, Hang, LoseAnswer


def once(store, **options):
    return Idempotency(store, namespace="test", **{"lease": 30, "ttl": 3600, "store_timeout": 5} | options)


class Work:
    """Takes *seconds*; counts how often it began, ended and was cancelled."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self.begun = self.ended = 0
        self.cancelled_at = None

    async def __call__(self):
        self.begun += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled_at = asyncio.get_running_loop().time()
            raise
        self.ended += 1
        return self.begun


def down():
    return IdempotencyStoreError("down")


# -- renewal


def test_a_claim_is_renewed_while_the_work_runs():
    """Every third of its length, by a task that has a name and ends with the work."""

    async def main():
        store, work = FaultyStore(), Work(300)
        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.sleep(200)

        names = [task.get_name() for task in asyncio.all_tasks()]
        with pytest.raises(InProgressError):
            await once(store).run("k", work)

        assert 'messagequeue idempotency renew ["test","k"]' in names
        assert await task == 1
        assert work.begun == 1
        assert store.times("renew") == pytest.approx(range(10, 300, 10))

    run_virtual(main())


def test_short_work_is_not_renewed():
    """It costs a claim and a completion, and nothing else."""

    async def main():
        store = FaultyStore()
        await once(store).run("k", Work(9))

        assert [name for _, name in store.calls] == ["claim", "complete"]

    run_virtual(main())


def test_a_renewal_that_fails_is_tried_again_soon():
    """Before the claim ends; the work goes on."""

    async def main():
        store, work = FaultyStore(), Work(60)
        store.plan("renew", down(), ConnectionError(), down())

        assert await once(store).run("k", work) == 1
        assert store.times("renew")[:4] == pytest.approx([10, 12.5, 15, 17.5])

    run_virtual(main())


def test_a_renewal_that_hangs_does_not_keep_the_next_from_being_tried():
    """Each has a time limit of its own."""

    async def main():
        store, work = FaultyStore(), Work(60)
        store.plan("renew", Hang(1000, does=False), Hang(1000, does=False))

        assert await once(store).run("k", work) == 1

    run_virtual(main())


def test_work_is_cancelled_when_its_claim_is_lost():
    """Two do not do the same work; the record is the other's and stays so."""

    async def main():
        store, work = FaultyStore(), Work(300)
        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.sleep(15)
        await store.steal("k")

        with pytest.raises(ClaimLostError, match="somebody else has it") as caught:
            await task

        assert caught.value.retryable
        assert caught.value.key == '["test","k"]'
        assert work.cancelled_at == pytest.approx(20)
        assert store.times("release") == store.times("complete") == []
        with pytest.raises(InProgressError):
            await once(store).run("k", work)

    run_virtual(main())


def test_work_is_cancelled_when_no_renewal_reaches_the_store():
    """Just before its claim ends and somebody else may begin, and no earlier."""

    async def main():
        store, work = FaultyStore(), Work(300)
        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.sleep(35)
        store.down = True

        with pytest.raises(ClaimLostError, match="ended before it was renewed"):
            await task

        assert work.cancelled_at == pytest.approx(30 + 0.95 * 30)

    run_virtual(main())


def test_fail_open_lets_work_outlive_its_claim():
    """An outage of the store ends no work then; only the store's word that somebody else has the key does."""

    async def main():
        store, work = FaultyStore(), Work(300)
        task = asyncio.create_task(once(store, fail_open=True).run("k", work))
        await asyncio.sleep(5)
        store.down = True
        await asyncio.sleep(200)
        store.down = False

        assert await task == 1
        stolen = asyncio.create_task(once(store, fail_open=True).run("k2", Work(300)))
        await asyncio.sleep(5)
        await store.steal("k2")
        with pytest.raises(ClaimLostError):
            await stolen

    run_virtual(main())


def test_work_that_ends_although_its_claim_is_lost_is_not_recorded():
    """It ignored its cancellation: the store refuses its result, and that is said."""

    async def main():
        store = FaultyStore()

        async def stubborn():
            try:
                await asyncio.sleep(300)
            except asyncio.CancelledError:
                return "mine"

        task = asyncio.create_task(once(store).run("k", stubborn))
        await asyncio.sleep(5)
        await store.steal("k")

        with pytest.raises(ClaimLostError, match="the work was done"):
            await task

    run_virtual(main())


def test_work_does_not_begin_after_its_claim_has_ended():
    """The store's answer took longer than the claim lasts."""

    async def main():
        store, work = FaultyStore(), Work()
        store.plan("claim", Hang(4))

        with pytest.raises(ClaimLostError, match="not begun"):
            await once(store, lease=3, ttl=3600).run("k", work)

        assert work.begun == 0
        assert await once(store).run("k", work) == 1

    run_virtual(main())


def test_the_works_own_time_limit_is_not_taken_for_a_lost_claim():
    """A TimeoutError of the work passes as it is."""

    async def main():
        async def slow():
            async with asyncio.timeout(5):
                await asyncio.sleep(100)

        with pytest.raises(TimeoutError):
            await once(MemoryStore()).run("k", slow)

    run_virtual(main())


# -- completion


def test_a_completion_that_fails_is_tried_again():
    """While the claim lasts; a call whose answer was lost is one of them."""

    async def main():
        store, work = FaultyStore(), Work()
        store.plan("complete", down(), LoseAnswer(), Hang(100, does=False))

        assert await once(store).run("k", work) == 1
        assert len(store.times("complete")) == 4
        assert await once(store).run("k", work) == 1

    run_virtual(main())


def test_work_that_cannot_be_recorded_is_done_all_the_same(caplog):
    """Its caller gets the result, and an error is logged: raising would bring the message back to be done again."""

    async def main():
        store, work = FaultyStore(), Work(1)
        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.sleep(0.5)
        store.down = True

        assert await task == 1
        assert 1 < asyncio.get_running_loop().time() <= 30

    run_virtual(main())
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "is done, but that could not be recorded" in caplog.text


def test_a_completion_that_cannot_succeed_is_not_repeated(caplog):
    """A fault that no retry mends is logged at once."""

    async def main():
        store = FaultyStore()
        store.plan("complete", IdempotencyStoreError("denied", retryable=False))

        assert await once(store).run("k", Work()) == 1
        assert len(store.times("complete")) == 1

    run_virtual(main())
    assert "denied" in caplog.text


def test_a_cancellation_does_not_tear_a_completion_down():
    """The work is done: that is recorded before the cancellation goes on, and the next delivery is skipped."""

    async def main():
        store, work = FaultyStore(), Work(1)
        store.plan("complete", Hang(2, does=False))
        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.sleep(2)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

        assert asyncio.get_running_loop().time() == pytest.approx(3)
        assert await once(store).run("k", work) == 1
        assert work.begun == 1

    run_virtual(main())


def test_a_cancellation_that_comes_when_the_work_has_just_ended_does_not_undo_it():
    """Nothing is waited for between the end of the work and its record, so done work never passes for cancelled."""

    async def main():
        store, ended = FaultyStore(), []

        async def work():
            await asyncio.sleep(1)
            ended.append(1)
            asyncio.current_task().cancel()  # seen at the next await, which is not the work's any more
            return "done"

        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.wait([task])

        assert task.cancelled()
        assert await once(store).run("k", work) == "done"
        assert ended == [1]

    run_virtual(main())


# -- release


def test_cancelled_work_frees_its_key():
    """At a shutdown, the next consumer need not wait for the claim's end."""

    async def main():
        store, work = FaultyStore(), Work(100)
        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.sleep(1)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

        assert await once(store).run("k", work) == 2

    run_virtual(main())


@pytest.mark.parametrize(("cancels", "ends_at"), [(1, 6), (2, 6), (3, 3)])
def test_a_release_that_hangs_holds_nobody_up_for_long(cancels, ends_at):
    """It has the time limit of one call; whoever cancels on is not held up at all.  The claim ends by itself."""

    async def main():
        store = FaultyStore()
        store.plan("release", Hang(1000, does=False))
        task = asyncio.create_task(once(store).run("k", Work(100)))
        for _ in range(cancels):
            await asyncio.sleep(1)
            task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()
        assert asyncio.get_running_loop().time() == pytest.approx(ends_at)

    run_virtual(main())


def test_a_release_that_fails_does_not_hide_what_the_work_raised(caplog):
    """The error is the work's own; that the next attempt must wait is logged."""

    async def main():
        store = FaultyStore()
        store.plan("release", down())

        async def fails():
            raise KeyError("the work's own")

        with pytest.raises(KeyError, match="the work's own"):
            await once(store).run("k", fails)

    run_virtual(main())
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# -- claims whose answer is lost


@pytest.mark.parametrize("fault", [LoseAnswer(), Hang(100)], ids=["error", "no answer"])
def test_a_claim_whose_answer_was_lost_is_withdrawn(fault):
    """It may have been made: left alone, it would keep everybody waiting for its end."""

    async def main():
        store, work = FaultyStore(), Work()
        store.plan("claim", fault)

        with pytest.raises(IdempotencyStoreError) as caught:
            await once(store).run("k", work)

        assert caught.value.retryable
        assert "secret" not in str(caught.value)
        assert await once(store).run("k", work) == 1

    run_virtual(main())


def test_a_cancelled_claim_is_withdrawn():
    """The caller went away while the store was asked."""

    async def main():
        store, work = FaultyStore(), Work()
        store.plan("claim", Hang(3))
        task = asyncio.create_task(once(store).run("k", work))
        await asyncio.sleep(1)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

        assert work.begun == 0
        assert await once(store).run("k", work) == 1

    run_virtual(main())


def test_a_cancellation_inside_of_the_store_is_a_fault_of_the_store():
    """A connection that was closed under it; nobody cancelled the caller."""

    async def main():
        class Closing(MemoryStore):
            async def claim(self, key, /, **options):
                raise asyncio.CancelledError

        with pytest.raises(IdempotencyStoreError, match="CancelledError"):
            await once(Closing()).run("k", Work())

    run_virtual(main())
