"""What becomes of messages whose caller gives up, or whose publisher stops."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from messagequeue import (
    ClosedError,
    ErrorCode,
    PublishError,
    PublishOptions,
    Receipt,
)
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import ScriptedSender, run_virtual
from tests.unit.publisher.publishing import FIFO, bodies, busy, run, times


def test_cancelling_withdraws_a_message_that_has_not_left() -> None:
    """A cancelled publish() and a cancelled future are not sent; the others of their batch are."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def test(publisher: RuntimePublisher) -> None:
        first = publisher.publish_nowait("a")
        await asyncio.sleep(0.5)
        task = asyncio.ensure_future(publisher.publish("b"))
        future = publisher.publish_nowait("c")
        many = asyncio.ensure_future(publisher.publish_many(["d", "e"]))
        last = publisher.publish_nowait("f")
        await asyncio.sleep(0.1)
        assert publisher.stats.pending == 6
        assert task.cancel()
        assert future.cancel()
        assert many.cancel()
        await asyncio.wait([first, task, many, last])
        assert task.cancelled()
        assert many.cancelled()

    publisher = run(sender, test, linger=60)

    assert bodies(sender) == [["a"], ["f"]]
    assert (publisher.stats.published, publisher.stats.pending) == (2, 0)


def test_timeout_withdraws_too() -> None:
    """`asyncio.wait_for()` on a publish leaves nothing behind that goes out later."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def test(publisher: RuntimePublisher) -> None:
        first = publisher.publish_nowait("a")
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(publisher.publish_nowait("b"), 0.5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(publisher.publish("c"), 0.1)
        await first

    run(sender, test, linger=60)

    assert bodies(sender) == [["a"]]


def test_message_in_flight_cannot_be_withdrawn_and_is_not_resent() -> None:
    """Its caller has gone: what the broker stored stays, what it failed is let go."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)
    sender.script("send", {0: busy(), 1: busy()})

    async def test(publisher: RuntimePublisher) -> None:
        gone, stays = publisher.publish_nowait("a"), publisher.publish_nowait("b")
        await asyncio.sleep(0.5)
        assert gone.cancel()
        await stays

    publisher = run(sender, test)

    assert bodies(sender) == [["a", "b"], ["b"]]
    assert publisher.stats.pending == 0


def test_stop_sends_what_waits_at_once() -> None:
    """What is buffered leaves in one call without waiting for the linger, and gets real results (BAT-07)."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def main() -> None:
        publisher = RuntimePublisher("orders", sender, PublishOptions(linger=5.0))
        first = publisher.publish_nowait("a")
        await asyncio.sleep(0.5)
        buffered = [publisher.publish_nowait(name) for name in "bcd"]
        stopping = asyncio.ensure_future(publisher.stop())
        await asyncio.sleep(0)
        for late in (publisher.publish("x"), publisher.publish_many(["x"])):
            with pytest.raises(ClosedError, match="'orders' was stopped"):
                await late
        with pytest.raises(ClosedError):
            publisher.publish_nowait("x")
        assert sender.closed == 0
        await stopping
        assert [future.result() for future in (first, *buffered)] == [Receipt(f"s{n}") for n in (1, 2, 3, 4)]
        await publisher.stop()

    run_virtual(main())

    assert bodies(sender) == [["a"], ["b", "c", "d"]]
    assert times(sender) == [0.0, 0.5]
    assert sender.closed == 1


def test_stop_waits_for_resends_and_for_those_who_wait_for_room() -> None:
    """Everything that was taken before has its result when stop() returns."""
    sender = ScriptedSender()
    sender.script("send", {0: busy()}, {0: busy()})

    async def main() -> list[bool]:
        publisher = RuntimePublisher("orders", sender, PublishOptions(max_pending=1))
        tasks = [asyncio.ensure_future(publisher.publish(name)) for name in "ab"]
        await asyncio.sleep(0)
        await publisher.stop()
        await asyncio.sleep(0)
        return [task.done() for task in tasks]

    assert run_virtual(main()) == [True, True]
    assert bodies(sender) == [["a"], ["a"], ["a"], ["b"]]
    assert sender.calls[-1].action == "close"


def test_concurrent_stops_return_together_and_close_once() -> None:
    """Every caller of stop() returns at the end; one that is cancelled does not undo it."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)
    sender.takes("close", 1.0)

    async def main() -> list[float]:
        publisher = RuntimePublisher("orders", sender)
        publisher.publish_nowait("a")
        ends: list[float] = []

        async def stop() -> None:
            await publisher.stop()
            ends.append(asyncio.get_running_loop().time())

        first, *others = (asyncio.ensure_future(stop()) for _ in range(3))
        await asyncio.sleep(0.5)
        first.cancel()
        await asyncio.wait([first, *others])
        assert first.cancelled()
        return ends

    assert run_virtual(main()) == [2.0, 2.0]
    assert sender.closed == 1


def test_stop_of_an_unused_publisher_closes_its_sender() -> None:
    """There is nothing to send and something to close."""
    sender = ScriptedSender()

    async def test(publisher: RuntimePublisher) -> None:
        pass

    run(sender, test)

    assert [call.action for call in sender.calls] == ["close"]


def test_stop_raises_what_closing_raises() -> None:
    """A sender that cannot be closed is every stopper's to know."""
    sender = ScriptedSender()
    sender.script("close", PublishError("stuck"))

    async def main() -> None:
        publisher = RuntimePublisher("orders", sender)
        for _ in range(2):
            with pytest.raises(PublishError, match="stuck"):
                await publisher.stop()

    run_virtual(main())


def test_publish_many_under_way_ends_when_the_publisher_stops() -> None:
    """What it had handed over is sent; what it had not read fails in its place with CLOSED."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def main() -> list[Receipt | PublishError]:
        publisher = RuntimePublisher("orders", sender, PublishOptions(max_pending=10))
        task = asyncio.ensure_future(publisher.publish_many(str(n) for n in range(100)))
        await asyncio.sleep(0.5)
        await publisher.stop()
        return await task

    results = run_virtual(main())

    sent = [result for result in results if isinstance(result, Receipt)]
    assert len(results) == 100
    assert len(sent) == len(sender.sent) == 11
    assert {result.code for result in results if isinstance(result, PublishError)} == {ErrorCode.CLOSED}


def test_cancelling_everything_leaves_no_caller_waiting() -> None:
    """Where the loop is torn down with a call in flight, its message is not confirmed, and nobody waits for ever."""
    sender = ScriptedSender()
    sender.takes("send", 100.0)

    async def main() -> Receipt | BaseException | None:
        publisher = RuntimePublisher("orders", sender)
        future = publisher.publish_nowait("a")
        await asyncio.sleep(1)
        (task,) = publisher._tasks
        await publisher._tasks.cancel_all()
        assert task.cancelled()
        await publisher.stop()
        return future.exception()

    error = run_virtual(main())

    assert isinstance(error, PublishError)
    assert error.code is ErrorCode.NOT_CONFIRMED


class Body(str):
    """Text that can be watched."""


class AsItIs:
    """A codec that keeps the very object."""

    def encode(self, data: object, /) -> str | bytes:
        assert isinstance(data, Body)
        return data


@pytest.mark.parametrize("max_pending", [1, 10], ids=["waiting for room", "waiting for its key"])
def test_withdrawn_messages_free_their_bodies_at_once(max_pending: int) -> None:
    """However long the broker takes to answer: callers that give up and try again do not fill the memory."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.takes("send", 100.0)
    bodies_made: list[weakref.ref[Body]] = []

    async def give_up(publisher: RuntimePublisher) -> None:
        body = Body("x")
        bodies_made.append(weakref.ref(body))
        task = asyncio.ensure_future(publisher.publish(body, ordering_key="k"))
        await asyncio.wait((task,), timeout=1)
        assert task.cancel()
        await asyncio.wait((task,))

    async def main() -> None:
        publisher = RuntimePublisher("orders", sender, PublishOptions(max_pending=max_pending), AsItIs())
        first = publisher.publish_nowait(Body("a"), ordering_key="k")
        for _ in range(5):
            await give_up(publisher)
        gc.collect()
        assert [made() for made in bodies_made] == [None] * 5
        await first
        await publisher.stop()

    run_virtual(main())
