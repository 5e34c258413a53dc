"""Failing receives: how far they are apart, how often they are told, and when they are forgotten."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import pairwise

import pytest

from messagequeue import ConsumeError, ErrorCode, Message, ReceiveError
from messagequeue.runtime.backoff import RECEIVE_FIRST, RECEIVE_LONGEST, Backoff
from messagequeue.runtime.sink import Faults
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def gone() -> ReceiveError:
    return ReceiveError("the queue does not exist", code=ErrorCode.NOT_FOUND, fatal=True)


def down() -> ReceiveError:
    return ReceiveError("503", code=ErrorCode.UNAVAILABLE)


def pauses() -> list[float]:
    backoff = Backoff(RECEIVE_FIRST, RECEIVE_LONGEST)
    return [backoff.failed() for _ in range(2000)]


def test_backoff_doubles_to_its_cap_with_half_of_each_pause_random() -> None:
    """0.1 s doubling to 30 s; at least half of it, never more, and not twice the same; no overflow (CON-02)."""
    found = pauses()

    for count, pause in enumerate(found):
        full = min(RECEIVE_LONGEST, RECEIVE_FIRST * 2.0 ** min(count, 20))
        assert full / 2 <= pause <= full + 1e-9
    assert len(set(found)) > 1900
    assert found[:20] != pauses()[:20]


def test_backoff_is_forgotten_after_one_success() -> None:
    """The next failure waits for a tenth of a second at most again (CON-02)."""
    backoff = Backoff(RECEIVE_FIRST, RECEIVE_LONGEST)
    for _ in range(10):
        backoff.failed()
    backoff.succeeded()

    assert backoff.failed() <= RECEIVE_FIRST


def test_receives_of_a_queue_that_does_not_exist_are_ten_at_most_in_ten_seconds() -> None:
    """And when the queue appears the same consumer takes from it, without a restart (CON-02)."""

    async def main() -> None:
        source = FakeSource()
        source.script["receive"].extend(gone() for _ in range(100))
        handled: list[str] = []

        async def handler(message: Message) -> None:
            handled.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(10)
        assert 5 <= len(source.ops("receive")) <= 10
        source.script["receive"].clear()
        source.put("at last")
        await asyncio.sleep(30)

        assert handled == ["at last"]
        await b.stop()

    run_virtual(main())


def test_failing_receives_of_a_day_stay_apart_and_are_told_each() -> None:
    """Calls are 15 s to 30 s apart at their cap, none goes untold, and consume() does not end (CON-02)."""

    async def main() -> None:
        source = FakeSource()
        source.script["receive"].extend(down() for _ in range(10_000))
        b = bench(source, nothing)
        b.start()
        await asyncio.sleep(86_400)
        times = [at for at, _ in source.ops("receive")]

        assert all(15 <= after - before <= 30.1 for before, after in list(pairwise(times))[12:])
        assert len(b.errors) == b.consumer.stats.receive_errors == len(times)
        assert b.task is not None
        assert not b.task.done()
        await b.stop()

    run_virtual(main(), timeout=100_000)


def test_log_of_a_lasting_fault_is_a_burst_then_a_line_per_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A fault that comes a hundred times a second fills no disk; each line says what was left out (CON-02)."""
    told: list[ConsumeError] = []
    faults = Faults("t", told.append)
    for number in range(60_000):
        faults.tell(down(), number / 100)

    lines = warnings_of(caplog.records)
    assert len(told) == 60_000
    assert len(lines) == 10 + 600 / 30 - 1
    assert "2990 more like it were not logged" in lines[10]
    assert "2999 more like it were not logged" in lines[-1]


def test_log_of_a_fault_that_comes_again_after_a_quiet_period_has_a_burst_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What comes back is news; what only slows down is not (CON-02)."""
    faults = Faults("t", None)
    for second in (0, 40, 80, 200):
        for number in range(15):
            faults.tell(down(), second + number / 100)

    assert len(warnings_of(caplog.records)) == 10 + 1 + 1 + 10


async def nothing(_message: Message) -> None: ...


def warnings_of(records: Iterable[logging.LogRecord]) -> list[str]:
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]
