"""A source that breaks the rules of `LeaseSource` costs pauses and reports, never a message or the consumer."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import DeadLetter, RetryLater
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


class Foreign(Exception):
    """An error that the provider should have translated."""


WRONG = {
    "no sequence": lambda: 0,
    "a foreign error in place of a result": lambda: [Foreign()],
    "too few": list,
    "cancelled": asyncio.CancelledError(),
    "foreign": Foreign(),
}


@pytest.mark.parametrize(
    ("op", "what"),
    [
        ("receive", "no sequence"),
        ("receive", "cancelled"),
        ("receive", "foreign"),
        ("start", "cancelled"),
        ("start", "foreign"),
    ],
)
def test_receives_of_a_bad_source_are_paced_and_reported(op, what):
    """Each counts as a failure, is followed by a pause, and the consumer goes on once the source does."""

    async def main():
        source = FakeSource()
        source.put("x")
        source.script[op].extend([WRONG[what]] * 5)
        done = []

        async def handler(message):
            done.append(message.id)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(60)

        assert done == ["m1"]
        assert b.kinds() == ["ReceiveError"] * 5
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("ordered", [False, True])
def test_settlements_of_a_bad_source_are_tried_again(ordered, what):
    """What the source answered is not a yes: the delete is tried again while the lease lasts."""

    async def main():
        source = FakeSource(ordered=ordered)
        source.put("x", "y", key="k")
        source.script["settle"].extend([WRONG[what]] * 2)
        done = []

        async def handler(message):
            done.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(100)

        assert source.stored == []
        assert done[:2] == ["x", "y"]
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("what", WRONG)
def test_prolongations_of_a_bad_source_are_tried_again(what):
    """One beat whose answer makes no sense does not end the beats."""

    async def main():
        source = FakeSource(lease=9)
        source.put("x")
        source.script["extend"].append(WRONG[what])
        runs = []

        async def handler(message):
            runs.append(message.id)
            await asyncio.sleep(60)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(100)

        assert runs == ["m1"]
        assert source.stored == []
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("what", WRONG)
def test_releases_and_burials_of_a_bad_source_leave_nothing_pending(what):
    """consume() ends without waiting for a settlement that nobody is working on."""

    async def main():
        source = FakeSource(lease=1000, cancellable=True, dead_letters=True)
        source.put("x", "y")
        source.script["release"].extend([WRONG[what]] * 2)
        source.script["dead_letter"].append(WRONG[what])

        async def handler(message):
            raise RetryLater(500) if message.text == "x" else DeadLetter("bad")

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(20)
        before = source.now()
        await b.stop()

        assert source.now() == before

    run_virtual(main())
