"""When a failed message comes back: by number, by list, growing, and spread out."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from messagequeue import ConfigurationError, ConsumeOptions, RetryLater
from messagequeue.runtime.retrying import Skips, retry_after
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


@pytest.mark.parametrize(
    ("options", "delays"),
    [
        ({}, [None, None]),
        ({"retry_delay": 5}, [5, 5, 5]),
        ({"retry_delay": [1, 5, 30]}, [1, 5, 30, 30]),
        ({"retry_delay": 1, "retry_factor": 2, "retry_longest": 10}, [1, 2, 4, 8, 10, 10]),
        ({"retry_delay": (1, 5), "retry_factor": 3}, [1, 5, 15, 45]),
        ({"retry_delay": 20, "retry_factor": 2, "retry_longest": 10}, [20, 20]),
        ({"retry_delay": 0, "retry_factor": 2}, [0, 0]),
    ],
)
def test_the_delay_grows_by_attempt(options: dict[str, object], delays: list[float | None]) -> None:
    """A list says it for the first deliveries, the factor from its last on, up to the longest."""
    given = ConsumeOptions(**options)  # type: ignore[arg-type]

    assert [retry_after(given, attempt, 0.0) for attempt in range(1, len(delays) + 1)] == delays


def test_an_attempt_that_nobody_counted_is_the_first() -> None:
    """A broker that leaves the count out, or gives 0, is no reason to fail (CON-18)."""
    options = ConsumeOptions(retry_delay=[1, 60])

    assert [retry_after(options, attempt, 0.0) for attempt in (None, 0, -3)] == [1, 1, 1]


def test_a_count_of_millions_does_not_overflow() -> None:
    """A power of the attempt is more than a float can hold (CON-18)."""
    options = ConsumeOptions(retry_delay=0.1, retry_factor=1_000, retry_longest=900)

    assert retry_after(options, 10**9, 0.0) == 900


def test_jitter_takes_away_up_to_its_part() -> None:
    """Never more than the delay asked for, and at full jitter perhaps none."""
    options = ConsumeOptions(retry_delay=8, retry_jitter=0.5)

    assert [retry_after(options, 1, dice) for dice in (0.0, 0.5, 1.0)] == [8, 6, 4]
    assert retry_after(ConsumeOptions(retry_delay=8, retry_jitter=1), 1, 1.0) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retry_delay": []}, "at least one"),
        ({"retry_delay": [1, 43_201]}, "43200"),
        ({"retry_delay": [1, None]}, "give a number"),
        ({"retry_delay": "1,5"}, "give a number"),
        ({"retry_factor": 0.5}, "retry_factor"),
        ({"retry_jitter": 1.1}, "retry_jitter"),
        ({"permanent": ValueError}, "tuple of exception types"),
        ({"permanent": (KeyboardInterrupt,)}, "tuple of exception types"),
        ({"permanent": (RetryLater,)}, "signals"),
        ({"undecodable": "drop"}, "leave, dead_letter, discard"),
        ({"on_failure": "stop"}, "block, park, skip_group"),
        ({"no_dead_letter_queue": "drop"}, "leave, discard"),
        ({"breaker_failures": 0}, "breaker_failures"),
        ({"breaker_ratio": 0}, "breaker_ratio"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, object], says: str) -> None:
    """When the options are made."""
    with pytest.raises(ConfigurationError, match=says):
        ConsumeOptions(**options)  # type: ignore[arg-type]


def test_a_failing_message_comes_back_by_its_attempt() -> None:
    """1 s after the first delivery, 5 s after the second, 5 s from then on (CON-17)."""

    async def main():
        source, at = FakeSource(lease=600), []
        source.put("a")

        async def handler(message):
            at.append(asyncio.get_running_loop().time())
            raise ValueError

        b = bench(source, handler, retry_delay=[1, 5])
        b.start()
        await asyncio.sleep(13)

        assert [round(later - earlier, 3) for earlier, later in pairwise(at)] == [1, 5, 5]
        await b.stop()

    run_virtual(main())


def test_a_delay_is_cut_to_what_the_longest_lease_leaves() -> None:
    """SQS refuses what would pass 12 h since the receive (CON-18)."""

    async def main():
        source = FakeSource(lease=30, max_lease=43_200)
        source.put("a")

        async def handler(message):
            await asyncio.sleep(1_800)
            raise ValueError

        b = bench(source, handler, retry_delay=43_200)
        b.start()
        await asyncio.sleep(1_805)
        [(_, (after, *_))] = source.ops("release")

        assert 41_000 < after <= 43_200 - 1_800
        await b.stop()

    run_virtual(main())


def test_a_key_is_skipped_until_it_was_quiet_for_the_time() -> None:
    """Each skipped message renews it; other keys are none of its business."""
    skips = Skips(10)
    skips.note("a", 0)

    assert [skips.skipped(key, now) for key, now in (("b", 1), (None, 1), ("a", 9), ("a", 18.5), ("a", 29))] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_skips_of_keys_that_never_come_again_are_forgotten() -> None:
    """Memory does not grow with the number of keys that ever failed."""
    skips = Skips(1)
    for n in range(10_000):
        skips.note(str(n), float(n))

    assert len(skips._until) < 200
