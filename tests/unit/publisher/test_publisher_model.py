"""A publisher under random load and random faults: what it says is what happened."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from messagequeue import ErrorCode, Outgoing, PublishError, PublishOptions, Receipt
from messagequeue.driver import Capabilities, EncodedMessage, Limits
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import run_virtual


class DiceSender:
    """Takes its time, fails entries and whole calls at random, and keeps what it stored in order."""

    capabilities = Capabilities(ordering=True, ordering_key="accepted")
    limits = Limits(batch_entries=4, batch_bytes=12)

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.taken: dict[str, int] = {}
        self.stored: list[tuple[str, str | None]] = []

    def measure(self, message: EncodedMessage, /) -> int:
        self.taken[str(message.body)] = len(self.taken)
        return len(message.body)

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        assert 1 <= len(messages) <= 4
        assert len(messages) == 1 or sum(len(message.body) for message in messages) <= 12
        await asyncio.sleep(self.dice.random())
        if self.dice.random() < 0.1:
            raise PublishError("down", code=ErrorCode.UNAVAILABLE, retryable=True)
        return [self._result(message) for message in messages]

    def _result(self, message: EncodedMessage) -> Receipt | PublishError:
        if self.dice.random() < 0.3:
            return PublishError("busy", retryable=self.dice.random() < 0.8)
        self.stored.append((str(message.body), message.ordering_key))
        return Receipt(str(message.body))

    async def close(self) -> None:
        pass


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), pending=st.integers(1, 30), calls=st.integers(1, 4), retries=st.integers(0, 3))
def test_publisher_tells_the_truth_whatever_fails(seed: int, pending: int, calls: int, retries: int) -> None:
    """
    Each confirmed message is stored exactly once, each failed one not at all, every caller has one result, and no key
    is stored in another order than it was taken in, whatever fails, is resent, or is given up (FIFO-07, BAT-03).
    """
    dice = random.Random(seed)
    sender = DiceSender(dice)
    options = PublishOptions(max_pending=pending, max_in_flight=calls, entry_retries=retries)

    async def main() -> tuple[list[object], RuntimePublisher]:
        publisher = RuntimePublisher("orders", sender, options)
        tasks: list[asyncio.Future[object]] = []
        for number in range(0, 90, 3):
            items = [Outgoing(f"{n:03}", ordering_key=dice.choice([None, "a", "b"])) for n in range(number, number + 3)]
            tasks.append(asyncio.ensure_future(publisher.publish_many(items[:2])))
            tasks.append(asyncio.ensure_future(publisher.publish(items[2])))
            if dice.random() < 0.1:
                asyncio.get_running_loop().call_later(dice.random(), tasks[-1].cancel)
            await asyncio.sleep(dice.choice([0, 0.05, 0.3]))
        await publisher.stop()
        return await asyncio.gather(*tasks, return_exceptions=True), publisher

    results, publisher = run_virtual(main())

    flat = [result for each in results for result in (each if isinstance(each, list) else [each])]
    confirmed = [result.message_id for result in flat if isinstance(result, Receipt)]
    abandoned = sum(isinstance(result, asyncio.CancelledError) for result in flat)
    stored = [body for body, _ in sender.stored]
    assert len(flat) == 90
    assert len(stored) == len(set(stored))
    assert set(confirmed) <= set(stored)
    assert len(stored) - len(confirmed) <= abandoned
    assert publisher.stats.pending == 0
    assert publisher.stats.published == len(stored)
    for key in "ab":
        order = [sender.taken[body] for body, its in sender.stored if its == key]
        assert order == sorted(order)
