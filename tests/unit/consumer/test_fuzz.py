"""Consumers under random faults, stops and cancellations: what must hold, holds in every course of events."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from messagequeue import DeadLetter, Discard, LeaseLostError, ReceiveError, RetryLater, SettleError
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench

KEYS = ("a", "b", "c", None)
LEASE = 6.0

#: Courses of events per kind of topic; a hundred take about a second.
COURSES = 60


class ForeignError(Exception):
    """What a source should have translated."""


class OddError(BaseException):
    """What `except Exception` does not see."""


class Chaos(FakeSource):
    """
    A fake source that is slow and fails at random, before or after the call took effect, as a whole or for an entry.

    It also holds the runtime to what it may ask for; `wrong` gets what it must not.
    """

    def setup(self, dice):
        self.dice = dice
        self.calm = False
        self.wrong = []
        self.running = Counter()
        self.succeeded = set()
        self.lapsed = set()
        self.everything = {}

    def put(self, *bodies, key=None, fault=False):
        ids = super().put(*bodies, key=key, fault=fault)
        self.everything.update((item.id, item) for item in self.stored if item.id in ids)
        return ids

    def _delivery(self, item):
        if self.running[item.id]:
            self.lapsed.add(item.id)  # whoever runs it has lost it and will be told
        return super()._delivery(item)

    def ids(self, handles):
        return [item.id for handle in handles if (item := self._find(handle)) is not None]

    async def disturbed(self, op, call, entries=None):
        if self.calm:
            await asyncio.sleep(0.01)  # else a poisoned message on a retry_delay of 0 comes again without end
            return await call()
        dice = self.dice
        await asyncio.sleep(dice.choice([0, 0, 0.01, 0.3]))
        roll = dice.random()
        if roll < 0.05:
            raise self.fault(op)
        result = await call()
        await asyncio.sleep(dice.choice([0, 0, 0.01, 0.3]))
        if roll < 0.08:
            raise self.fault(op)
        if entries is not None and roll < 0.15:
            result = list(result)
            result[dice.randrange(entries)] = SettleError("this one failed", retryable=dice.random() < 0.7)
        return result

    def fault(self, op):
        kind = ReceiveError if op in ("receive", "start") else SettleError
        return self.dice.choice([kind("down", retryable=True), ForeignError(), asyncio.CancelledError()])

    async def start(self):
        return await self.disturbed("start", super().start)

    async def receive(self, most, /, *, wait):
        real = super().receive
        return await self.disturbed("receive", lambda: real(most, wait=wait))

    async def settle(self, leases, /):
        self.wrong += [
            f"settled before it succeeded: {each}" for each in self.ids(leases) if each not in self.succeeded
        ]
        real = super().settle
        return await self.disturbed("settle", lambda: real(leases), len(leases))

    async def release(self, leases, /, *, after):
        running = [each for each in self.ids(leases) if self.running[each] and each not in self.lapsed]
        self.wrong += [f"released while it runs: {each}" for each in running]
        real = super().release
        return await self.disturbed("release", lambda: real(leases, after=after), len(leases))

    async def extend(self, leases, /, *, by):
        real = super().extend
        if not self.calm and self.dice.random() < 0.03:
            await asyncio.sleep(1000)
        return await self.disturbed("extend", lambda: real(leases, by=by), len(leases))

    async def dead_letter(self, lease, message, /, *, reason, error):
        if self._find(lease) is None:
            return LeaseLostError("stale")
        real = super().dead_letter
        return await self.disturbed("dead_letter", lambda: real(lease, message, reason=reason, error=error))

    def lose_a_lease(self):
        """The broker makes a message visible that somebody holds."""
        held = [item for item in self.stored if item.visible_at > self.now()]
        if held:
            item = self.dice.choice(held)
            item.visible_at = self.now()
            if self.dice.random() < 0.5:
                self.steal(item.id)
                item.visible_at = self.now() + 1
            self._notify()


class Course:
    """One course of events: some consumers of one topic, and what they are put through."""

    def __init__(self, seed, *, ordered):
        random.seed(seed)  # the jitter of pauses
        self.dice = dice = random.Random(seed)
        self.source = Chaos(
            lease=LEASE,
            ordered=ordered,
            cancellable=dice.random() < 0.5,
            dead_letters=dice.random() < 0.5,
            entries=dice.choice([1, 3, 10]),
            max_receives=dice.choice([1, 3]),
        )
        self.source.setup(dice)
        self.benches = [self.consumer() for _ in range(dice.choice([1, 1, 2, 3]))]

    def consumer(self):
        dice = self.dice
        mine = Counter()

        async def handler(message):
            await self.handle(message, mine)

        return bench(
            self.source,
            handler,
            concurrency=dice.choice([1, 2, 10]),
            prefetch=dice.choice([0, 0, 5]),
            handler_timeout=dice.choice([None, 2.0]),
            retry_delay=dice.choice([None, 0.0, 1.0]),
            drain_timeout=dice.choice([0.0, 1.0, 25.0]),
            wait_time=dice.choice([0.0, 5.0, 20.0]),
        )

    async def handle(self, message, mine):
        source, key = self.source, message.ordering_key if self.source.ordered else None
        self.check_start(message, mine, key)
        places = [message.id] if key is None else [message.id, key]
        if source.everything[message.id].attempts != message.delivery_attempt:
            source.lapsed.add(message.id)  # the answer was so slow that somebody else has it already
        mine.update(places)
        source.running[message.id] += 1
        ended = False
        try:
            await self.work(message)
            ended = True
        finally:
            mine.subtract(places)
            source.running[message.id] -= 1
            if not ended and self.dice.random() < 0.2:
                await asyncio.sleep(self.dice.choice([0, 0.5, 3]))  # unwinding
        source.succeeded.add(message.id)

    def check_start(self, message, mine, key):
        source = self.source
        if mine[message.id]:
            source.wrong.append(f"runs twice in one consumer: {message.id}")
        if key is None:
            return
        if mine[key]:
            source.wrong.append(f"two of key {key} run in one consumer: {message.id}")
        earlier = [item.id for item in source.stored if item.key == key and int(item.id[1:]) < int(message.id[1:])]
        if earlier:
            source.wrong.append(f"{message.id} overtakes {earlier}")

    async def work(self, message):
        dice = self.dice
        if self.source.calm:
            await asyncio.sleep(dice.choice([0, 0.01, 0.5, 1.5]))  # less than any handler_timeout
            return
        await asyncio.sleep(dice.choice([0, 0, 0.01, 0.5, 1, 3, 8]))
        if message.delivery_attempt > 4 or dice.random() < 0.6:
            return
        how = dice.choice(
            [ValueError(), RetryLater(dice.choice([0, 1, 5])), Discard("no"), DeadLetter("bad"), OddError()]
        )
        if isinstance(how, Discard):
            self.source.succeeded.add(message.id)
        if dice.random() < 0.1:
            asyncio.current_task().cancel()
            await asyncio.sleep(1)
        raise how

    async def disturb(self):
        """One more thing that happens."""
        dice, source = self.dice, self.source
        await asyncio.sleep(dice.choice([0, 0, 0.01, 0.5, 2]))
        for _ in range(dice.choice([0, 1, 7])):
            await asyncio.sleep(0)
        b = dice.choice(self.benches)
        match dice.choice(["put", "put", "lose", "end", "start", "start", "fault"]):
            case "put":
                source.put(*"xyz"[: dice.randint(1, 3)], key=dice.choice(KEYS))
            case "fault":
                (message_id,) = source.put("poison", key=dice.choice(KEYS), fault=True)
                asyncio.get_running_loop().call_later(5, setattr, source.everything[message_id], "fault", False)
            case "lose":
                source.lose_a_lease()
            case "end" if b.task is not None and not b.task.done():
                self.end(b)
            case "start" if b.task is None or b.task.done():
                await self.reap(b)
                b.start()

    def end(self, b):
        how = self.dice.choice(["stop", "cancel", "twice"])
        if how == "stop":
            b.consumer.stop()
        else:
            b.task.cancel()
        if how == "twice":
            asyncio.get_running_loop().call_later(self.dice.choice([0, 0.2, 1]), b.task.cancel)

    async def reap(self, b):
        if b.task is not None:
            await asyncio.wait([b.task])
            if not b.task.cancelled():
                b.task.result()

    async def run(self):
        source = self.source
        for _ in range(self.dice.randint(10, 40)):
            await self.disturb()
        source.calm = True
        for b in self.benches:
            await self.restarted(b)
        async with asyncio.timeout(2000):
            while source.stored:
                await asyncio.sleep(1)
        assert set(source.settled_ids) | {each for each, _ in source.buried} == set(source.everything)
        await self.stop_in_the_middle()
        assert source.wrong == []

    async def restarted(self, b):
        if b.task is not None and not b.task.done():
            b.consumer.stop()
        await self.reap(b)
        b.start()

    async def stop_in_the_middle(self):
        """Stopped with work in every state, on a source that answers: what did not fail is visible or gone."""
        source = self.source
        for _ in range(10):
            source.put("x", "y", key=self.dice.choice(KEYS))
        await asyncio.sleep(self.dice.choice([0, 0.01, 0.5, 1]))
        for b in self.benches:
            b.consumer.stop()
        for b in self.benches:
            await self.reap(b)

        assert source.hidden() == []
        assert [b.consumer.stats.running for b in self.benches] == [0] * len(self.benches)
        assert {task for task in asyncio.all_tasks() if "handler" not in task.get_name()} == {asyncio.current_task()}


@pytest.mark.parametrize("ordered", [False, True])
def test_consumers_lose_nothing_and_overtake_nothing_whatever_happens(ordered):
    """
    All messages end, each after a success; of a key none starts while an earlier one is on the queue; a message runs
    once at a time in a consumer and is not handed back meanwhile; after a stop nothing is hidden and no task is left.
    """
    for seed in range(COURSES):
        try:
            run_virtual(Course(seed, ordered=ordered).run(), timeout=10_000)
        except BaseException as error:
            error.add_note(f"seed {seed}, ordered={ordered}")
            raise
