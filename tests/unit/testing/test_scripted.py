"""The broker that does as it is told."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import (
    ConsumeError,
    LeaseLostError,
    MessageTooLargeError,
    PublishError,
    Receipt,
    ReceiveError,
    SettleError,
)
from messagequeue.driver import Capabilities, EncodedMessage, LeaseSource, Sender
from messagequeue.testing import ScriptedSender, ScriptedSource, message, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_source_gives_out_what_was_put() -> None:
    """In order, at most so many, each held until it is settled or released."""

    async def main() -> None:
        source: LeaseSource = ScriptedSource("orders")
        assert isinstance(source, ScriptedSource)
        assert source.put("a", message("b", id="mine"), "c") == ["m1", "mine", "m3"]
        first = await source.receive(2, wait=20)
        assert [item.message.text for item in first] == ["a", "b"]
        assert source.held == ["m1", "mine"]
        assert await source.settle([item.lease for item in first]) == [None, None]
        assert (source.settled, source.held) == (["m1", "mine"], [])

    run_virtual(main())


def test_receive_waits_for_a_message_and_no_longer() -> None:
    """It returns when one arrives, or with nothing when the wait is over."""

    async def main() -> None:
        source = ScriptedSource()
        source.put("late", after=3)
        assert len(await source.receive(10, wait=20)) == 1
        assert now() == 3
        assert await source.receive(10, wait=20) == []
        assert now() == 23
        parked = asyncio.create_task(source.receive(10, wait=20), name="parked")
        await asyncio.sleep(1)
        source.put("woken")
        assert len(await parked) == 1
        assert now() == 24

    run_virtual(main())


def test_a_released_message_comes_again_with_the_next_attempt() -> None:
    """After the seconds given, under the same id."""

    async def main() -> None:
        source = ScriptedSource()
        source.put("a")
        (first,) = await source.receive(1, wait=0)
        await source.release([first.lease], after=5)
        assert source.released == [("m1", 5)]
        (again,) = await source.receive(1, wait=20)
        assert (again.message.id, again.message.delivery_attempt, now()) == ("m1", 2, 5)

    run_virtual(main())


def test_scripted_faults_meet_one_call_each() -> None:
    """An exception fails a call as a whole, a mapping single entries, None nothing; then all is well."""

    async def main() -> None:
        source = ScriptedSource()
        source.script("receive", ReceiveError("down"))
        with pytest.raises(ReceiveError):
            await source.receive(1, wait=0)
        source.put("a", "b")
        leases = [item.lease for item in await source.receive(2, wait=0)]
        fault: ConsumeError = SettleError("busy", retryable=True)
        source.script("settle", {"m1": fault}, None)
        assert await source.settle(leases) == [fault, None]
        assert source.settled == ["m2"]
        assert await source.settle(leases[:1]) == [None]
        assert [call.items for call in source.calls if call.action == "settle"] == [("m1", "m2"), ("m1",)]

    run_virtual(main())


def test_a_lost_lease_is_lost_for_every_use() -> None:
    """Extending, settling and releasing all say so, and nothing is recorded as done."""

    async def main() -> None:
        source = ScriptedSource()
        source.put("a")
        leases = [item.lease for item in await source.receive(1, wait=0)]
        assert await source.extend(leases, by=30) == [None]
        source.lose("m1")
        for answer in (await source.extend(leases, by=30), await source.settle(leases)):
            assert isinstance(answer[0], LeaseLostError)
        assert isinstance((await source.release(leases, after=0))[0], LeaseLostError)
        assert (source.extended, source.settled, source.released) == ([("m1", 30)], [], [])

    run_virtual(main())


def test_source_records_dead_letters_time_and_concurrency() -> None:
    """Calls can be made slow; how many ran at once is counted."""

    async def main() -> None:
        source = ScriptedSource(lease=12)
        assert await source.start() == 12
        source.put("a")
        (one,) = await source.receive(1, wait=0)
        source.takes("dead_letter", 2)
        assert await source.dead_letter(one.lease, one.message, reason="bad") is None
        assert (source.dead, source.held, now()) == ([("m1", "bad")], [], 2)
        await asyncio.gather(source.receive(1, wait=1), source.receive(1, wait=1))
        assert (source.most_receiving, source.receiving, source.count("receive")) == (2, 0, 3)
        await source.close()
        assert source.closed == 1

    run_virtual(main())


def test_sender_takes_messages_and_fails_as_told() -> None:
    """By position for single entries, by exception for the call; sizes are held against the limit."""

    async def main() -> None:
        sender: Sender = ScriptedSender(capabilities=Capabilities(ordering=True), max_size=5)
        assert isinstance(sender, ScriptedSender)
        assert sender.measure(EncodedMessage("é", attributes={"n": 12})) == 5
        with pytest.raises(MessageTooLargeError):
            sender.measure(EncodedMessage("sixsix"))
        fault = PublishError("busy", retryable=True)
        sender.script("send", {1: fault}, PublishError("down"))
        batch = [EncodedMessage("a"), EncodedMessage("b")]
        assert await sender.send(batch) == [Receipt("s1", f"{1:020}"), fault]
        with pytest.raises(PublishError, match="down"):
            await sender.send(batch)
        assert sender.sent == batch[:1]
        sender.takes("send", 1)
        await asyncio.gather(sender.send(batch), sender.send(batch))
        assert (sender.most_sending, now()) == (2, 1)

    run_virtual(main())
