"""Parked receives: what wakes them, when, and whom; in virtual time, so every time is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from messagequeue import ErrorCode, LeaseLostError, PublishError, ReceiveError
from messagequeue.broker import Counts
from messagequeue.driver import Delivery, EncodedMessage, LeaseSource, Sender
from messagequeue.embedded import memory_broker
from messagequeue.embedded._hub import hub
from messagequeue.testing import AutojumpLoop, run_virtual

Act = Callable[[Sender, LeaseSource, list[Delivery]], Awaitable[object]]


def bodies(deliveries: Any) -> list[bytes]:
    return [delivery.message.body for delivery in deliveries]


async def timed(receive: Awaitable[Any]) -> tuple[list[bytes], float]:
    """What a receive brings, and when."""
    found = await receive
    return bodies(found), asyncio.get_running_loop().time()


async def _send(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await sender.send([EncodedMessage(b"new")])


async def _send_delayed(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await sender.send([EncodedMessage(b"new", delay=3.0)])


async def _nothing(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    return None


async def _release(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await source.release([held[0].lease], after=0)


async def _release_later(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await source.release([held[0].lease], after=3.0)


async def _shorten(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await source.extend([held[0].lease], by=0.5)


async def _prolong(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await source.extend([held[0].lease], by=15.0)


async def _settle(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await source.settle([held[0].lease])


async def _dead_letter(sender: Sender, source: LeaseSource, held: list[Delivery]) -> None:
    await source.dead_letter(held[0].lease, held[0].message, reason="bad")


@pytest.mark.parametrize(
    ("act", "brings", "at"),
    [
        (_send, b"new", 1.0),
        (_send_delayed, b"new", 4.0),
        (_nothing, b"first", 10.0),
        (_release, b"first", 1.0),
        (_release_later, b"first", 4.0),
        (_shorten, b"first", 1.5),
        (_prolong, b"first", 16.0),
        (_settle, b"second", 1.0),
        (_dead_letter, b"second", 1.0),
    ],
)
def test_parked_receive_returns_as_soon_as_there_is_something(memory, act: Act, brings: bytes, at: float) -> None:
    """A send, the end of a delay or lease, a release, a key set free: each wakes at its own moment (SRV-05)."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        await sender.send([EncodedMessage(name, ordering_key="k") for name in (b"first", b"second")])
        held = list(await source.receive(1, wait=0))
        parked = asyncio.create_task(timed(source.receive(1, wait=20)))
        await asyncio.sleep(1)
        await act(sender, source, held)

        assert await parked == ([brings], at)

    run_virtual(main())


def test_parked_receive_of_a_dead_letter_topic_wakes_when_one_arrives(memory) -> None:
    """The change happens in one topic and wakes at another (SRV-05)."""

    async def main() -> None:
        sender, source, dead = await memory.sender(), await memory.source(), await memory.source("orders.dead")
        parked = asyncio.create_task(timed(dead.receive(1, wait=20)))
        await sender.send([EncodedMessage(b"bad")])
        (held,) = await source.receive(1, wait=0)
        await asyncio.sleep(2)
        await source.dead_letter(held.lease, held.message, reason="bad")

        assert await parked == ([b"bad"], 2.0)

    run_virtual(main())


def test_receive_that_finds_nothing_returns_at_its_end(memory) -> None:
    """Exactly `wait` seconds, with nothing left behind; 0 does not wait."""

    async def main() -> None:
        source = await memory.source()

        assert await timed(source.receive(1, wait=0)) == ([], 0.0)
        assert await timed(source.receive(1, wait=7.3)) == ([], 7.3)

    run_virtual(main())


def test_one_message_wakes_one_receive_and_the_others_wait_on(memory) -> None:
    """The one that waited longest gets it; the rest return empty at their own end, not before (SRV-05)."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        parked = [asyncio.create_task(timed(source.receive(1, wait=5))) for _ in range(3)]
        await asyncio.sleep(1)
        await sender.send([EncodedMessage(b"only")])

        assert await asyncio.gather(*parked) == [([b"only"], 1.0), ([], 5.0), ([], 5.0)]

    run_virtual(main())


def test_several_messages_at_once_wake_as_many_receives(memory) -> None:
    """Each takes what it asked for and leaves the rest to the next in line."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        parked = [asyncio.create_task(timed(source.receive(2, wait=5))) for _ in range(3)]
        await asyncio.sleep(1)
        await sender.send([EncodedMessage(str(number)) for number in range(3)])

        assert await asyncio.gather(*parked) == [([b"0", b"1"], 1.0), ([b"2"], 1.0), ([], 5.0)]

    run_virtual(main())


def test_leases_that_end_together_wake_as_many_receives(memory) -> None:
    """What time alone brings is shared among those who wait, too."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        await sender.send([EncodedMessage(b"a"), EncodedMessage(b"b")])
        await source.receive(2, wait=0)
        parked = [asyncio.create_task(timed(source.receive(1, wait=15))) for _ in range(3)]

        assert await asyncio.gather(*parked) == [([b"a"], 10.0), ([b"b"], 10.0), ([], 15.0)]

    run_virtual(main())


@pytest.mark.parametrize("turns", range(4))
def test_cancelled_receive_swallows_nothing(memory, turns: int) -> None:
    """Cancelled before, while or after it is woken: the message is the next receive's, and counts once (SRV-07)."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        doomed = asyncio.create_task(source.receive(1, wait=20))
        heir = asyncio.create_task(source.receive(1, wait=20))
        await asyncio.sleep(1)
        if turns != 3:
            await sender.send([EncodedMessage(b"only")])
        for _ in range(turns % 3):
            await asyncio.sleep(0)
        taken = doomed.done()
        doomed.cancel()
        if turns == 3:
            await sender.send([EncodedMessage(b"only")])
        (found,) = await (doomed if taken else heir)
        assert asyncio.get_running_loop().time() == 1.0
        heir.cancel()
        await asyncio.gather(doomed, heir, return_exceptions=True)

        assert found.message.delivery_attempt == 1
        assert memory.counts() == Counts(in_flight=1)
        assert not hub(memory.config.name)._waiters
        assert not hub(memory.config.name)._timers

    run_virtual(main())


def test_receive_woken_in_vain_keeps_its_place(memory) -> None:
    """Where a newcomer is quicker, the one that waited longest is still the next."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        first, second = (asyncio.create_task(timed(source.receive(1, wait=20))) for _ in range(2))
        await asyncio.sleep(1)
        await sender.send([EncodedMessage(b"stolen")])
        assert bodies(await source.receive(1, wait=0)) == [b"stolen"]
        await asyncio.sleep(1)
        await sender.send([EncodedMessage(b"next")])
        assert await first == ([b"next"], 2.0)
        await sender.send([EncodedMessage(b"last")])

        assert await second == ([b"last"], 2.0)

    run_virtual(main())


def test_waiting_ends_where_the_clock_rounds(memory) -> None:
    """In a broker that has outlived a loop the two clocks differ by a fraction: no timer fires for ever too early."""

    async def age() -> None:
        await asyncio.sleep(41.82701718990053)  # rounding bites in 1 of 100 waits
        await (await memory.source()).receive(1, wait=0)

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        for number in range(300):
            await sender.send([EncodedMessage(b"x", delay=0.1 + number / 7)])
            (found,) = await source.receive(1, wait=300.0)
            await source.settle([found.lease])
            assert await source.receive(1, wait=0.1 * number / 3 + 0.01) == []

    run_virtual(age())
    run_virtual(main(), timeout=100_000)


def test_loop_that_was_closed_under_a_parked_receive_is_forgotten(memory) -> None:
    """A receive that no loop will ever run again is not woken in place of one that waits."""
    old = AutojumpLoop()

    async def leave() -> asyncio.Task[Any]:
        task = asyncio.create_task((await memory.source()).receive(1, wait=20))
        await asyncio.sleep(1)
        return task

    left = old.run_until_complete(leave())
    old.close()

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        parked = asyncio.create_task(timed(source.receive(1, wait=20)))
        await asyncio.sleep(1)
        await sender.send([EncodedMessage(b"x")])

        assert await parked == ([b"x"], 1.0)

    run_virtual(main())
    left._log_destroy_pending = False  # type: ignore[attr-defined]


def test_broker_outlives_event_loops(memory) -> None:
    """What one loop left is there in the next, with its lease; the clock goes on although the new loop starts at 0."""

    async def leave() -> None:
        await asyncio.sleep(50)
        sender, source = await memory.sender(), await memory.source()
        await sender.send([EncodedMessage(b"held"), EncodedMessage(b"waiting")])
        assert bodies(await source.receive(1, wait=0)) == [b"held"]
        assert await (await memory.source("other")).receive(1, wait=1) == []

    async def find() -> None:
        source = await memory.source()
        assert await timed(source.receive(1, wait=20)) == ([b"waiting"], 0.0)
        assert await timed(source.receive(1, wait=20)) == ([b"held"], 9.0)

    run_virtual(leave())
    run_virtual(find())


def test_deleted_topic_ends_a_receive_for_good(memory) -> None:
    """A receive says that the topic is gone and asking again is no use; a send says so, too."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        await sender.send([EncodedMessage(b"x")])
        (held,) = await source.receive(1, wait=0)
        memory_broker(memory.config.name).delete("orders")
        with pytest.raises(ReceiveError, match="deleted") as received:
            await source.receive(1, wait=20)
        with pytest.raises(PublishError, match="deleted") as sent:
            await sender.send([EncodedMessage(b"x")])

        assert received.value.fatal
        assert received.value.code is sent.value.code is ErrorCode.NOT_FOUND
        assert await source.settle([held.lease]) == [None]
        assert isinstance((await source.extend([held.lease], by=5))[0], LeaseLostError)

    run_virtual(main())


def test_topic_deleted_under_a_parked_receive_ends_it(memory) -> None:
    """Each that waits is told at once, whoever deleted it."""

    async def main() -> None:
        source = await memory.source()
        parked = [asyncio.create_task(source.receive(1, wait=20)) for _ in range(3)]
        await asyncio.sleep(1)
        memory_broker(memory.config.name).delete("orders")
        for receive in parked:
            with pytest.raises(ReceiveError, match="deleted"):
                await receive

        assert asyncio.get_running_loop().time() == 1.0

    run_virtual(main())
