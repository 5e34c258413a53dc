"""When messages leave, in which order, and how many may wait."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import (
    ErrorCode,
    Outgoing,
    Publisher,
    PublishError,
    Receipt,
)
from messagequeue.driver import Limits
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import ScriptedSender
from tests.unit.publisher.publishing import FIFO, bodies, busy, outcomes, run, times


def test_lone_publish_leaves_at_once_and_returns_the_receipt() -> None:
    """A single message waits for nothing."""
    sender = ScriptedSender()

    async def test(publisher: RuntimePublisher) -> None:
        assert await publisher.publish("a") == Receipt("s1")
        assert isinstance(publisher, Publisher)

    run(sender, test, linger=60)

    assert times(sender)[0] == 0.0


def test_publishes_of_one_turn_share_a_batch() -> None:
    """What is published before the loop turns leaves together, in order."""
    sender = ScriptedSender()

    async def test(publisher: RuntimePublisher) -> None:
        assert await outcomes(*(publisher.publish(name) for name in "abc")) == [Receipt(f"s{n}") for n in (1, 2, 3)]

    run(sender, test)

    assert bodies(sender) == [["a", "b", "c"]]


def test_messages_gather_while_a_call_is_in_flight() -> None:
    """A partial batch waits for *linger* at most; a full one goes at once."""
    sender = ScriptedSender()
    sender.takes("send", 10.0)

    async def test(publisher: RuntimePublisher) -> None:
        waiting = [publisher.publish_nowait("a")]
        await asyncio.sleep(1)
        waiting += [publisher.publish_nowait(name) for name in "bcd"]
        await asyncio.sleep(1)
        waiting += [publisher.publish_nowait("e")]
        await asyncio.sleep(0.5)
        waiting += [publisher.publish_nowait("f")]
        await asyncio.wait(waiting)

    run(sender, test, linger=3.0, batch_size=3)

    assert bodies(sender) == [["a"], ["b", "c", "d"], ["e", "f"]]
    assert times(sender) == [0.0, 1.0, 5.0]


def test_timer_that_fires_early_lets_the_batch_go() -> None:
    """Loops round timers to their clock; a batch whose timer fired does not spin until the last microsecond."""
    sender = ScriptedSender()
    sender.takes("send", 10.0)

    async def test(publisher: RuntimePublisher) -> None:
        loop = asyncio.get_running_loop()
        exact = loop.call_at
        loop.call_at = lambda when, *rest, **more: exact(when - 0.0005, *rest, **more)  # type: ignore[method-assign]
        waiting = [publisher.publish_nowait("a")]
        await asyncio.sleep(1)
        waiting.append(publisher.publish_nowait("b"))
        await asyncio.wait(waiting)

    run(sender, test, linger=3.0)

    assert times(sender) == [0.0, pytest.approx(4.0, abs=0.01)]


def test_calls_in_flight_are_bounded() -> None:
    """No more than *max_in_flight* calls run at once."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def test(publisher: RuntimePublisher) -> None:
        await publisher.publish_many(["x"] * 70)

    run(sender, test, max_in_flight=3)

    assert sender.most_sending == 3
    assert [len(batch) for batch in bodies(sender)] == [10] * 7
    assert times(sender) == [0, 0, 0, 1, 1, 1, 2]


def test_batches_are_bounded_by_the_brokers_limits_and_the_options() -> None:
    """Entries and bytes are the smaller of what the broker takes and what was asked (BAT-01)."""
    sender = ScriptedSender(limits=Limits(batch_entries=10, batch_bytes=1_048_576))
    body = b"x" * (150 * 1024)

    async def test(publisher: RuntimePublisher) -> None:
        assert all(isinstance(result, Receipt) for result in await publisher.publish_many([body] * 10))
        assert all(isinstance(result, Receipt) for result in await publisher.publish_many([b"y" * (600 * 1024)] * 2))

    run(sender, test)
    small = ScriptedSender(limits=Limits(batch_entries=10, batch_bytes=1_048_576))
    run(small, test, batch_bytes=400 * 1024, batch_size=4)

    assert [len(batch) for batch in bodies(sender)] == [6, 4, 1, 1]
    assert [len(batch) for batch in bodies(small)] == [2] * 5 + [1, 1]


def test_attributes_count_to_the_bytes_of_a_batch() -> None:
    """Three messages whose attributes push the sum one byte over the limit take two calls (BAT-01)."""
    sender = ScriptedSender(limits=Limits(batch_bytes=30))

    async def test(publisher: RuntimePublisher) -> None:
        await publisher.publish_many([Outgoing(b"12345", attributes={"a": "1234"}) for _ in range(3)])
        await publisher.publish_many([Outgoing(b"123456", attributes={"a": "1234"}) for _ in range(3)])

    run(sender, test)

    assert [len(batch) for batch in bodies(sender)] == [3, 2, 1]


def test_one_key_keeps_its_order_over_many_calls() -> None:
    """Parts of a large publish go one after another within a key, and side by side over keys (FIFO-07)."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.takes("send", 1.0)

    async def test(publisher: RuntimePublisher) -> None:
        await publisher.publish_many([f"a{n}" for n in range(35)], ordering_key="a")
        await publisher.publish_many([Outgoing(f"{key}{n}", ordering_key=key) for n in range(20) for key in "bc"])

    run(sender, test)

    sent = [str(item.body) for item in sender.sent]
    for key, count in [("a", 35), ("b", 20), ("c", 20)]:
        assert [body for body in sent if body[0] == key] == [f"{key}{n}" for n in range(count)]
    assert [len(batch) for batch in bodies(sender)] == [10, 10, 10, 5, 10, 10, 10, 10]
    assert times(sender)[:4] == [0, 1, 2, 3]


def test_key_without_order_locks_nothing() -> None:
    """On a topic without order, a key is a tag: its calls run side by side."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def test(publisher: RuntimePublisher) -> None:
        await publisher.publish_many(["x"] * 30, ordering_key="tenant")

    run(sender, test)

    assert times(sender) == [0, 0, 0]


def test_resent_message_stays_ahead_of_its_key() -> None:
    """While a failed entry waits to be sent again, its key waits behind it and others do not."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.script("send", {1: busy(), 2: busy()})

    async def test(publisher: RuntimePublisher) -> None:
        waiting = [publisher.publish_nowait(body, ordering_key="a") for body in ("a1", "a2", "a3")]
        await asyncio.sleep(0)
        waiting += [publisher.publish_nowait(body, ordering_key=body[0]) for body in ("a4", "b1")]
        await asyncio.gather(*waiting)

    publisher = run(sender, test)

    assert bodies(sender) == [["a1", "a2", "a3"], ["b1"], ["a2", "a3", "a4"]]
    assert publisher.stats.entries_retried == 2


def test_message_overtaken_on_the_broker_is_not_resent() -> None:
    """A failed message of whose key a later one is stored fails: sending it now would turn the two around."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.script("send", {0: busy(), 1: busy(), 3: busy()})

    async def test(publisher: RuntimePublisher) -> None:
        calls = [publisher.publish(body, ordering_key=body[0]) for body in ("a1", "a2", "a3", "b1")]
        first, *others = await outcomes(*calls)

        assert isinstance(first, PublishError)
        assert first.code is ErrorCode.UNAVAILABLE
        assert all(isinstance(result, Receipt) for result in others)

    run(sender, test)

    assert bodies(sender) == [["a1", "b1", "a2", "a3"], ["b1", "a3"]]


def test_publish_waits_for_room_and_publish_nowait_refuses() -> None:
    """Above *max_pending*, publishers queue up in order; who cannot wait is told to."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def test(publisher: RuntimePublisher) -> None:
        waiting = [publisher.publish_nowait("a"), publisher.publish_nowait("b")]
        late = [asyncio.ensure_future(publisher.publish(name)) for name in "cd"]
        await asyncio.sleep(0)
        assert publisher.stats.pending == 2
        with pytest.raises(PublishError, match="raise max_pending") as caught:
            publisher.publish_nowait("e")
        assert caught.value.code is ErrorCode.FULL
        assert caught.value.retryable
        await asyncio.gather(*waiting, *late)
        await publisher.publish_nowait("f")

    run(sender, test, max_pending=2, batch_size=1, max_in_flight=1)

    assert bodies(sender) == [["a"], ["b"], ["c"], ["d"], ["f"]]


def test_publish_that_waits_for_room_can_be_cancelled() -> None:
    """It leaves the queue of those who wait, which goes on without it."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def test(publisher: RuntimePublisher) -> None:
        tasks = [asyncio.ensure_future(publisher.publish(name)) for name in "abc"]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        assert tasks[1].cancelled()

    run(sender, test, max_pending=1)

    assert bodies(sender) == [["a"], ["c"]]
