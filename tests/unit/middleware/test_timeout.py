"""`timeout()` and `deadline()`: how long an attempt may take, and how old a message may be."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagequeue import ConfigurationError, DeadLetter, Discard, Message, RetryLater
from messagequeue.middleware import deadline, timeout
from messagequeue.testing import deliver, message, run_virtual

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_timeout_cancels_waits_for_the_unwinding_and_raises() -> None:
    """The handler's `finally` has run when the error comes, and the error says which limit it was (CON-25)."""

    async def main() -> None:
        loop, unwound = asyncio.get_running_loop(), []

        async def handler(_: Message) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.3)
                unwound.append(loop.time())

        outcome = await deliver(handler, "x", middleware=[timeout(5)])

        assert outcome.failed
        assert isinstance(outcome.error, TimeoutError)
        assert str(outcome.error) == "the handler took longer than timeout(5)"
        assert unwound == [pytest.approx(5.3)]
        assert loop.time() == pytest.approx(5.3)

    run_virtual(main())


def test_timeout_leaves_other_ends_as_they_are() -> None:
    """A return, a signal and a `TimeoutError` of the handler's own pass through."""

    async def main() -> None:
        async def own(_: Message) -> None:
            raise TimeoutError("of the database")

        async def signal(_: Message) -> None:
            raise RetryLater(3)

        async def quick(_: Message) -> None: ...

        assert str((await deliver(own, "x", middleware=[timeout(5)])).error) == "of the database"
        assert (await deliver(signal, "x", middleware=[timeout(5)])).after == 3
        assert (await deliver(quick, "x", middleware=[timeout(5)])).settled

    run_virtual(main())


def test_cancellation_from_outside_is_no_timeout() -> None:
    """A lost lease or a shutdown cancels the handler, and cancelled it ends."""

    async def main() -> None:
        async def handler(_: Message) -> None:
            await asyncio.sleep(60)

        task = asyncio.create_task(timeout(5)(handler)(message("x")))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()

    run_virtual(main())


@pytest.mark.parametrize(
    ("age", "fate"), [(9, "settled"), (10, "settled"), (11, "past"), (0, "settled"), (-5, "settled")]
)
@pytest.mark.parametrize(("then", "past"), [(Discard, "discarded"), (DeadLetter, "dead_lettered")])
def test_deadline_ends_messages_that_are_too_old(age: int, fate: str, then: Any, past: str) -> None:
    """As chosen, with the age as the reason; a message from a broker whose clock is ahead is new."""

    async def main() -> None:
        handled: list[str] = []

        async def handler(given: Message) -> None:
            handled.append(given.text)

        old = deadline(10, then=then, clock=lambda: NOON)
        outcome = await deliver(handler, "x", middleware=[old], published_at=NOON - timedelta(seconds=age))

        assert outcome.fate == (past if fate == "past" else fate)
        assert handled == ([] if fate == "past" else ["x"])
        if fate == "past":
            assert outcome.reason == "it was published 11 s ago, which is past its deadline of 10 s"

    run_virtual(main())


def test_deadline_handles_what_has_no_date() -> None:
    """A broker that does not say when a message was published has no old ones."""

    async def main() -> None:
        async def handler(_: Message) -> None: ...

        assert (await deliver(handler, "x", middleware=[deadline(1, then=Discard)], published_at=None)).settled

    run_virtual(main())


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "5", None, 10**400])
def test_limits_that_make_no_sense_are_refused(seconds: Any) -> None:
    """When the middleware is made, not when the first message comes."""
    with pytest.raises(ConfigurationError, match=r"timeout=.*: give seconds, a number above 0"):
        timeout(seconds)
    with pytest.raises(ConfigurationError, match=r"deadline=.*: give seconds"):
        deadline(seconds, then=Discard)


def test_deadline_needs_to_know_what_becomes_of_old_messages() -> None:
    """Only a signal that ends them will do."""
    with pytest.raises(ConfigurationError, match="give Discard, which deletes, or DeadLetter"):
        deadline(5, then=RetryLater)  # type: ignore[arg-type]
