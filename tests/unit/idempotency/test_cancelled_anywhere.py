"""A call that is cancelled at every one of its steps, once and twice: what must hold wherever it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

import pytest

from messagequeue.idempotency import Idempotency, IdempotencyStoreError, MemoryStore
from messagequeue.testing import run_virtual

T = TypeVar("T")


async def steps(number: int = 2) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


class SteppingStore(MemoryStore):
    """Takes some steps of the loop before and after each change, as a network does; *fails* names what fails."""

    def __init__(self, fails: str | None = None) -> None:
        super().__init__()
        self.fails = fails

    async def claim(self, key, /, **options):
        return await self.stepping("claim", super().claim(key, **options))

    async def renew(self, key, /, **options):
        return await self.stepping("renew", super().renew(key, **options))

    async def complete(self, key, /, **options):
        return await self.stepping("complete", super().complete(key, **options))

    async def release(self, key, /, **options):
        return await self.stepping("release", super().release(key, **options))

    async def stepping(self, name: str, call: Coroutine[Any, Any, T]) -> T:
        try:
            await steps()
            if name == self.fails:
                raise IdempotencyStoreError("down")
            answer = await call
            await steps()
            return answer
        finally:
            call.close()


class Outcome:
    """
    What came of a call that was cancelled *at* some steps after its start.

    Attributes:
        ran_through: It was over before the last of them.
    """

    def __init__(self, fails: str | None, at: tuple[int, ...]) -> None:
        self.store = SteppingStore(fails)
        self.calls = Idempotency(self.store, namespace="test", lease=30, ttl=3600, store_timeout=5)
        self.at = at
        self.ended = 0
        self.ran_through = False

    async def work(self) -> int:
        await steps(3)
        self.ended += 1
        return self.ended

    async def first(self) -> None:
        task = asyncio.create_task(self.calls.run("k", self.work))
        for step in range(max(self.at) + 1):
            await asyncio.sleep(0)
            if step in self.at:
                self.ran_through = task.done()
                task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        await steps(20)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing goes on for a call that is over"
        assert asyncio.get_running_loop().time() <= 30, "nothing is held up for longer than a claim"

    @property
    def recorded(self) -> bool:
        return any(record.done for record in self.store._records.values())

    @property
    def claimed(self) -> bool:
        return bool(self.store._records) and not self.recorded


def courses(pairs: bool) -> list[tuple[int, ...]]:
    if not pairs:
        return [(step,) for step in range(30)]
    return [(first, first + gap) for first in range(26) for gap in (1, 2, 3, 5)]


@pytest.mark.parametrize("at", courses(pairs=False))
def test_a_call_cancelled_at_any_step_is_either_recorded_or_free(at, caplog):
    """Work that ended is on record and is not done again; other work has left no claim that others wait for."""

    async def main():
        course = Outcome(None, at)
        await course.first()
        assert course.recorded is (course.ended == 1)
        assert not course.claimed
        assert await course.calls.run("k", course.work) == 1
        assert course.ended == 1

    run_virtual(main())
    assert caplog.records == []


@pytest.mark.parametrize("at", courses(pairs=True))
def test_a_call_cancelled_twice_says_what_it_could_not_record(at, caplog):
    """The second cancellation may cut the record itself short: then work that ended is in the log, as an error."""

    async def main():
        course = Outcome(None, at)
        await course.first()
        return course

    course = run_virtual(main())
    told = [record.event for record in caplog.records]
    if course.ended:
        assert course.recorded or told == ["claim.not_recorded"]
    else:
        assert told == []


@pytest.mark.parametrize("at", courses(pairs=False))
def test_done_work_that_is_cancelled_before_a_failing_store_has_it_is_in_the_log(at, caplog):
    """A cancellation does not keep quiet what a copy of the message would do again."""

    async def main():
        course = Outcome("complete", at)
        await course.first()
        return course

    course = run_virtual(main())
    told = [record.event for record in caplog.records if record.levelname == "ERROR"]
    assert told == ["claim.not_recorded"] * course.ended


def test_the_steps_of_a_call_are_all_among_them():
    """The last step is one after the end, so that no step is left out."""

    async def ends_at() -> int:
        for step in count():
            course = Outcome(None, (step,))
            await course.first()
            if course.ran_through:
                return step
        raise AssertionError

    assert 12 < run_virtual(ends_at()) < 25
