"""Publishers in another event loop or thread than their own: refused, as nothing there would ever wake the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from messagequeue import PublishOptions
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import ScriptedSender, run_virtual
from tests.unit.publisher.publishing import busy

CALLS: list[Callable[[RuntimePublisher], Awaitable[object]]] = [
    lambda publisher: publisher.publish("b"),
    lambda publisher: publisher.publish_many(["b"]),
    lambda publisher: publisher.publish_nowait("b"),
    lambda publisher: publisher.stop(),
]


async def called(call: Callable[[RuntimePublisher], Awaitable[object]], publisher: RuntimePublisher) -> object:
    return await call(publisher)


@pytest.mark.parametrize("call", CALLS, ids=["publish", "publish_many", "publish_nowait", "stop"])
def test_call_from_another_loop_is_refused_with_what_to_do(
    call: Callable[[RuntimePublisher], Awaitable[object]],
) -> None:
    """While the publisher works in its own; the messages it has are not harmed."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)

    async def main() -> None:
        publisher = RuntimePublisher("orders", sender, PublishOptions())
        first = publisher.publish_nowait("a")
        await asyncio.sleep(0.5)

        def elsewhere() -> None:
            with pytest.raises(RuntimeError, match=r"'orders'.*run_coroutine_threadsafe"):
                asyncio.run(asyncio.wait_for(called(call, publisher), 5))

        await asyncio.to_thread(elsewhere)
        await first
        await publisher.stop()
        assert (publisher.stats.published, publisher.stats.failed) == (1, 0)

    run_virtual(main())


def test_publisher_that_has_nothing_left_can_be_stopped_from_a_later_loop() -> None:
    """Its own is over, and closing what it holds needs no more of it."""
    sender = ScriptedSender()
    publisher = RuntimePublisher("orders", sender)

    async def publish() -> None:
        await publisher.publish("a")

    run_virtual(publish())
    run_virtual(publish())
    run_virtual(publisher.stop())
    run_virtual(publisher.stop())

    assert sender.closed == 1


def test_publisher_whose_loop_ended_with_messages_left_says_so() -> None:
    """Nobody is there to send them: waiting for them in another loop would take for ever."""
    sender = ScriptedSender()
    sender.script("send", {0: busy()})
    publisher = RuntimePublisher("orders", sender)

    async def leave_one() -> None:
        publisher.publish_nowait("a")
        while not publisher.stats.batches:
            await asyncio.sleep(0)

    asyncio.run(leave_one())  # the pause before the resend is not over

    assert publisher.stats.pending == 1
    with pytest.raises(RuntimeError, match="belongs to another event loop"):
        run_virtual(publisher.stop())
