"""Settling: what is tried again and how long, what a late heartbeat does, and which delays a release may have."""

from __future__ import annotations

import asyncio
import logging

import pytest

from messagequeue import ErrorCode, LeaseLostError, Message, RetryLater, SettleError
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def down() -> SettleError:
    return SettleError("503", code=ErrorCode.UNAVAILABLE, retryable=True)


async def nothing(_message: Message) -> None: ...


def test_deletes_that_are_refused_are_each_told_and_logged_in_part(caplog: pytest.LogCaptureFixture) -> None:
    """100 handled and none deleted: 100 calls of the sink, none counted as settled, ten lines in the log (CON-13)."""

    async def main() -> None:
        source = FakeSource(lease=600)
        source.put(*["x"] * 100)
        source.script["settle"].extend(
            SettleError("denied", code=ErrorCode.ACCESS_DENIED, retryable=False) for _ in range(1000)
        )
        b = bench(source, nothing)
        b.start()
        await asyncio.sleep(20)

        assert b.kinds() == ["SettleError"] * 100
        assert (b.consumer.stats.settled, b.consumer.stats.settle_errors) == (0, 100)
        assert b.task is not None
        assert not b.task.done()
        await b.stop()

    run_virtual(main())

    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 10


def test_delete_is_not_tried_again_beyond_its_lease() -> None:
    """What fails on the broker's side is tried while the lease lasts, reported once, and then comes again (CON-14)."""

    async def main() -> None:
        source = FakeSource(lease=4, latency={"settle": 1.5})
        source.put("x")
        source.script["settle"].extend(down() for _ in range(3))
        attempts: list[int | None] = []

        async def handler(message: Message) -> None:
            attempts.append(message.delivery_attempt)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(20)
        tries = [at for at, handles in source.ops("settle") if handles == ("h1",)]

        assert attempts == [1, 2]
        assert len(tries) == 3
        assert max(tries) < 4
        assert b.kinds() == ["SettleError"]
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_delete_whose_answer_was_lost_is_sent_again_and_told_by_nobody() -> None:
    """The message was deleted, the caller was told that the call failed: deleting it once more is harmless (CON-14)."""

    async def main() -> None:
        source = FakeSource(lease=60)
        source.put("x")

        def deleted_but_cut() -> None:
            for item in list(source.stored):
                source._settle(item.handle)
            raise down()

        source.script["settle"].extend([deleted_but_cut, lambda: [None]])
        b = bench(source, nothing)
        b.start()
        await asyncio.sleep(5)

        assert len(source.ops("settle")) == 2
        assert b.errors == []
        assert b.consumer.stats.settled == 1
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("ending", ["settle", "release"])
def test_heartbeat_refused_after_the_handler_ended_is_no_fault(ending: str, caplog: pytest.LogCaptureFixture) -> None:
    """A beat that was on its way when the handler ended may be refused: that is a DEBUG line and no more (HB-01)."""

    async def refused_late() -> list[LeaseLostError]:
        await asyncio.sleep(0.5)
        return [LeaseLostError("not in flight")]

    async def main() -> None:
        source = FakeSource(lease=3)
        source.put("x")
        source.script["extend"].append(refused_late)

        async def handler(message: Message) -> None:
            if message.delivery_attempt == 1:
                await asyncio.sleep(1.1)  # the beat starts at 1.0 and is answered at 1.5
                if ending == "release":
                    raise RetryLater(1)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(10)

        assert source.stored == []
        assert b.errors == []
        assert b.consumer.stats.leases_lost == 0
        await b.stop()

    with caplog.at_level(logging.DEBUG):
        run_virtual(main())

    assert [record.levelname for record in caplog.records if "late heartbeat" in record.getMessage()] == ["DEBUG"]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("after", [3600, 2**1000, 1e300])
def test_chosen_delay_is_cut_to_what_the_twelve_hours_leave(after: float) -> None:
    """A message that was held for 11 h 55 min cannot be hidden for another hour: it comes within 5 min (CON-18)."""

    async def main() -> None:
        source = FakeSource(lease=1200)
        source.put("x")
        times: list[float] = []

        async def handler(_message: Message) -> None:
            times.append(source.now())
            if len(times) == 1:
                await asyncio.sleep(42_900)
                raise RetryLater(after)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(43_500)
        [(at, (delay, _))] = source.ops("release")

        assert (at, delay) == (42_900, 299)
        assert times[1] == pytest.approx(43_199)
        assert b.errors == []
        await b.stop()

    run_virtual(main(), timeout=100_000)


@pytest.mark.parametrize("after", [2**1000, 1e300])
def test_chosen_delay_without_a_longest_lease_overflows_nothing(after: float) -> None:
    """Where the broker sets no limit, an absurd delay is the handler's own; the consumer goes on (CON-18)."""

    async def main() -> None:
        source = FakeSource(lease=30, max_lease=None)
        source.put("x", "y")
        handled: list[str] = []

        async def handler(message: Message) -> None:
            handled.append(message.text)
            if message.text == "x":
                raise RetryLater(after)

        b = bench(source, handler, concurrency=1)
        b.start()
        await asyncio.sleep(5)

        assert handled == ["x", "y"]
        assert b.errors == []
        await b.stop()

    run_virtual(main())
