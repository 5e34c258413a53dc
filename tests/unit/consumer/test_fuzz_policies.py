"""Failure policies, circuit breakers and shared slots under random faults, stops and cancellations; see `test_fuzz`."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from messagequeue.runtime.sharing import SharedSlots, StrictOrder, WeightedOrder
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import bench
from tests.unit.consumer.test_fuzz import Course

#: Courses of events per kind of topic; a hundred take about two seconds.
COURSES = 40


class PolicyCourse(Course):
    """One course of events whose consumers put messages aside, skip keys, and stop receiving when too much fails."""

    def consumer(self):
        dice, mine = self.dice, Counter()

        async def handler(message):
            await self.handle(message, mine)

        policies = ["block", "park", "skip_group"] if self.source.ordered else ["block"]
        return bench(
            self.source,
            handler,
            concurrency=dice.choice([1, 2, 10]),
            prefetch=dice.choice([0, 0, 5]),
            retry_delay=dice.choice([None, 0.0, [0.5, 1.0, 3.0]]),
            retry_jitter=dice.choice([0.0, 0.5]),
            drain_timeout=dice.choice([0.0, 25.0]),
            wait_time=dice.choice([0.0, 20.0]),
            permanent=dice.choice([(), (ValueError,)]),
            undecodable=dice.choice(["leave", "dead_letter"]),
            on_failure=dice.choice(policies),
            skip_time=dice.choice([1.0, 20.0]),
            breaker_failures=dice.choice([None, 2, 5]),
            breaker_pause=dice.choice([1.0, 30.0]),
        )


class SharedCourse(Course):
    """One course of events whose consumers share their slots, as those of several topics do."""

    def __init__(self, seed, *, ordered):
        dice = random.Random(~seed)
        count = dice.choice([2, 3])
        order = dice.choice([StrictOrder(), WeightedOrder([1.0, 5.0, 2.0][:count])])
        self.slots = SharedSlots(dice.choice([1, 2, 10]), count, order)
        self.left = list(self.slots.shares)
        self.running = 0
        super().__init__(seed, ordered=ordered)
        while self.left:
            self.benches.append(self.consumer())
        del self.benches[count:]

    def consumer(self):
        dice, mine = self.dice, Counter()

        async def handler(message):
            await self.handle(message, mine)

        return bench(
            self.source,
            handler,
            share=self.left.pop() if self.left else None,
            concurrency=self.slots.slots,
            prefetch=dice.choice([0, 0, 5]),
            handler_timeout=dice.choice([None, 2.0]),
            retry_delay=dice.choice([None, 0.0, 1.0]),
            drain_timeout=dice.choice([0.0, 25.0]),
            wait_time=dice.choice([0.0, 5.0, 20.0]),
        )

    async def work(self, message):
        self.running += 1
        if self.running > self.slots.slots or self.slots.used > self.slots.slots:
            self.source.wrong.append(f"{self.running} run, {self.slots.used} slots are used")
        try:
            await super().work(message)
        finally:
            self.running -= 1


@pytest.mark.parametrize("ordered", [False, True])
def test_consumers_with_shared_slots_lose_nothing_and_use_no_more(ordered):
    """As above, with no more handlers at once than there are slots for all of them; at the end every slot is free."""
    for seed in range(COURSES):
        try:
            course = SharedCourse(seed, ordered=ordered)
            run_virtual(course.run(), timeout=20_000)
            assert course.slots.used == 0
        except BaseException as error:
            error.add_note(f"seed {seed}, ordered={ordered}")
            raise


@pytest.mark.parametrize("ordered", [False, True])
def test_policies_lose_nothing_and_overtake_nothing_whatever_happens(ordered):
    """
    All messages end, each after a success or in the dead-letter queue; of a key none starts while an earlier one is on
    the queue; a message runs once at a time in a consumer; after a stop nothing is hidden and no task is left.
    """
    for seed in range(COURSES):
        try:
            run_virtual(PolicyCourse(seed, ordered=ordered).run(), timeout=20_000)
        except BaseException as error:
            error.add_note(f"seed {seed}, ordered={ordered}")
            raise
