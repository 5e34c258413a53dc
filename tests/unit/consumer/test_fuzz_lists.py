"""Handlers of lists under random faults, stops and cancellations; see `test_fuzz`."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from messagequeue import BatchHandler, DeadLetter, Discard, PartialFailure, RetryLater
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import bench
from tests.unit.consumer.test_fuzz import Course, OddError

#: Courses of events per kind of topic; a hundred take about a second.
COURSES = 60


class ListCourse(Course):
    """One course of events whose consumers take lists."""

    def consumer(self):
        dice, mine = self.dice, Counter()

        async def handler(messages):
            await self.handle_list(messages, mine)

        batches = BatchHandler(
            handler,
            max_messages=dice.choice([1, 3, 10]),
            max_bytes=dice.choice([None, None, 2]),
            max_wait=dice.choice([0.0, 0.5, 2.0]),
        )
        return bench(
            self.source,
            batches,
            concurrency=dice.choice([1, 2, 10]),
            prefetch=dice.choice([0, 0, 5]),
            handler_timeout=dice.choice([None, 2.0]),
            retry_delay=dice.choice([None, 0.0, 1.0]),
            drain_timeout=dice.choice([0.0, 1.0, 25.0]),
            wait_time=dice.choice([0.0, 5.0, 20.0]),
        )

    async def handle_list(self, messages, mine):
        source = self.source
        self.check_list(messages, mine)
        places = [message.id for message in messages] + list(self.keys(messages))
        for message in messages:
            if source.everything[message.id].attempts != message.delivery_attempt:
                source.lapsed.add(message.id)  # the answer was so slow that somebody else has it already
            source.running[message.id] += 1
        mine.update(places)
        done = set()
        try:
            done = await self.work_on(messages)
        finally:
            mine.subtract(places)
            for message in messages:
                source.running[message.id] -= 1
            if not done and self.dice.random() < 0.2:
                await asyncio.sleep(self.dice.choice([0, 0.5, 3]))  # unwinding
        source.succeeded |= done
        left = {message.id: self.fate(message) for message in messages if message.id not in done}
        if left:
            raise PartialFailure(left)

    def keys(self, messages):
        return {message.ordering_key for message in messages if self.source.ordered and message.ordering_key}

    def check_list(self, messages, mine):
        source, ids = self.source, [message.id for message in messages]
        source.wrong += [f"runs twice in one consumer: {each}" for each in ids if mine[each]]
        if len(ids) != len(set(ids)):
            source.wrong.append(f"twice in one list: {ids}")
        for key in self.keys(messages):
            if mine[key]:
                source.wrong.append(f"two lists of key {key} run in one consumer: {ids}")
            own = [int(message.id[1:]) for message in messages if message.ordering_key == key]
            if own != sorted(own):
                source.wrong.append(f"not in order: {ids}")
            earlier = {
                item.id
                for item in source.stored
                if item.key == key and int(item.id[1:]) < own[-1] and not source.everything[item.id].fault
            }
            if earlier - set(ids):
                source.wrong.append(f"{ids} overtakes {earlier - set(ids)}")

    async def work_on(self, messages):
        """Return the ids of those that are done; the others are failures; or raise for all."""
        dice = self.dice
        everything = {message.id for message in messages}
        if self.source.calm:
            await asyncio.sleep(dice.choice([0, 0.01, 0.5, 1.5]))  # less than any handler_timeout
            return everything
        await asyncio.sleep(dice.choice([0, 0, 0.01, 0.5, 1, 3, 8]))
        roll = dice.random()
        if roll < 0.5:
            return everything
        if roll < 0.8:
            return {each for each in everything if dice.random() < 0.6}
        if roll < 0.85:
            asyncio.current_task().cancel()
            await asyncio.sleep(1)
        how = dice.choice([ValueError(), RetryLater(dice.choice([0, 5])), Discard("no"), DeadLetter("x"), OddError()])
        if isinstance(how, Discard):
            self.source.succeeded |= everything
        raise how

    def fate(self, message):
        dice = self.dice
        how = dice.choice([ValueError(), RetryLater(dice.choice([0, 1, 5])), Discard("no"), DeadLetter("bad")])
        if isinstance(how, Discard):
            self.source.succeeded.add(message.id)
        return how


@pytest.mark.parametrize("ordered", [False, True])
def test_lists_lose_nothing_and_overtake_nothing_whatever_happens(ordered):
    """
    All messages end, each after a success; of a key no list starts while an earlier message of it is on the queue and
    not in the list; a message runs once at a time in a consumer; after a stop nothing is hidden and no task is left.
    """
    for seed in range(COURSES):
        try:
            run_virtual(ListCourse(seed, ordered=ordered).run(), timeout=10_000)
        except BaseException as error:
            error.add_note(f"seed {seed}, ordered={ordered}")
            raise
