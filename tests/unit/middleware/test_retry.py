"""`retry()`: attempts while the consumer has the message."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from messagequeue import (
    ConfigurationError,
    DeadLetter,
    DecodeError,
    Discard,
    Handler,
    InvalidMessageError,
    Message,
    PublishError,
    RetryLater,
    open_consumers,
    open_publishers,
)
from messagequeue.middleware import retry, timeout
from messagequeue.testing import deliver, message, run_virtual


class Flaky:
    """A handler that raises what it is given, one after another, and then returns; it remembers when it was called."""

    def __init__(self, *raises: BaseException | None) -> None:
        self._raises = list(raises)
        self.calls: list[float] = []

    async def __call__(self, _: Message) -> None:
        self.calls.append(asyncio.get_running_loop().time())
        error = self._raises.pop(0) if self._raises else None
        if error is not None:
            raise error


def test_retry_calls_again_until_the_handler_returns() -> None:
    """With pauses that double, at least half of each."""

    async def main() -> None:
        handler = Flaky(ConnectionError(), ConnectionError(), ConnectionError())

        outcome = await deliver(handler, "x", middleware=[retry(ConnectionError, attempts=5, first=1)])

        assert outcome.settled
        assert len(handler.calls) == 4
        for number, (before, after) in enumerate(pairwise(handler.calls)):
            assert 2**number / 2 <= after - before <= 2**number

    run_virtual(main())


def test_retry_raises_the_last_error_after_its_attempts() -> None:
    """The error itself, with a note of how long it was tried."""

    async def main() -> None:
        last = ConnectionError("3")
        handler = Flaky(ConnectionError("1"), ConnectionError("2"), last, ConnectionError("4"))

        outcome = await deliver(handler, "x", middleware=[retry(ConnectionError)])

        assert outcome.error is last
        assert len(handler.calls) == 3
        assert any("gave up after attempt 3" in note for note in last.__notes__)

    run_virtual(main())


def test_retry_begins_no_attempt_after_its_time() -> None:
    """The pause that would end too late is not even begun."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def handler(_: Message) -> None:
            calls.append(loop.time())
            await asyncio.sleep(4)
            raise ConnectionError

        calls: list[float] = []
        again = retry(ConnectionError, attempts=100, first=1, longest=1, within=10)
        await deliver(handler, "x", middleware=[again])

        assert len(calls) == 3  # at 0, about 5 and about 10: each takes 4 s and a pause of at most 1 s
        assert calls[-1] <= 10
        assert loop.time() == pytest.approx(calls[-1] + 4)

    run_virtual(main())


@pytest.mark.parametrize(
    "error",
    [
        RetryLater(5),
        Discard("no use"),
        DeadLetter("hopeless"),
        DecodeError("not JSON"),
        InvalidMessageError("too odd"),
        PublishError("denied", retryable=False),
        asyncio.CancelledError(),
        KeyError("another type"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_retry_leaves_alone_what_another_attempt_cannot_mend(error: BaseException) -> None:
    """Signals, cancellation, undecodable bodies, errors marked as permanent and types that were not named."""

    async def main() -> None:
        handler = Flaky(error)
        on = (ConnectionError,) if isinstance(error, KeyError) else (Exception,)

        outcome = await deliver(handler, "x", middleware=[retry(on, attempts=5)])

        assert outcome.error is error or isinstance(error, asyncio.CancelledError)
        assert isinstance(outcome.error, type(error))
        assert len(handler.calls) == 1

    run_virtual(main())


def test_retry_tries_again_what_is_marked_as_retryable() -> None:
    """An error of this library says itself whether the same call may succeed."""

    async def main() -> None:
        handler = Flaky(PublishError("busy", retryable=True))

        assert (await deliver(handler, "x", middleware=[retry(PublishError)])).settled
        assert len(handler.calls) == 2

    run_virtual(main())


def test_retry_with_a_timeout_inside_limits_each_attempt() -> None:
    """`TimeoutError` is an exception like any other, so it can be named."""

    async def main() -> None:
        loop, calls = asyncio.get_running_loop(), []

        async def handler(_: Message) -> None:
            calls.append(loop.time())
            if len(calls) < 3:
                await asyncio.sleep(3600)

        outcome = await deliver(handler, "x", middleware=[retry(TimeoutError, first=0.1), timeout(2)])

        assert outcome.settled
        assert len(calls) == 3
        assert 4 <= loop.time() <= 4.4

    run_virtual(main())


def test_cancellation_ends_the_pause() -> None:
    """A consumer that stops, or loses the lease, does not wait for it."""

    async def main() -> None:
        handler = Flaky(ConnectionError())
        again: Handler = retry(ConnectionError, first=60, longest=60, within=600)(handler)
        task = asyncio.create_task(again(message("x")))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()
        assert len(handler.calls) == 1

    run_virtual(main())


def test_retry_says_each_pause_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """With stable keys and without the exception's text."""
    caplog.set_level(logging.DEBUG, "messagequeue.handler")
    handler = Flaky(ConnectionError("secret"))

    run_virtual(deliver(handler, "x", middleware=[retry(ConnectionError)]))

    [record] = caplog.records
    assert (record.event, record.attempt, record.error_type) == ("handler.retry", 1, "ConnectionError")  # type: ignore[attr-defined]
    assert "secret" not in caplog.text


def test_heartbeats_keep_the_lease_while_a_handler_is_tried_again() -> None:
    """Minutes of attempts under a lease of 30 s: one receive, no lease lost, delivery attempt 1 to the end."""

    async def main() -> None:
        broker = f"memory://?name={uuid.uuid4()}&visibility_timeout=30"
        handler = Flaky(*(ConnectionError() for _ in range(9)))
        attempts: list[int | None] = []

        async def handle(given: Message) -> None:
            attempts.append(given.delivery_attempt)
            await handler(given)
            consumer.stop()

        async with open_publishers(broker) as publishers, open_consumers(broker) as consumers:
            await (await publishers.new_publisher("t")).publish("x")
            again = retry(ConnectionError, attempts=10, first=60, longest=60, within=3600)
            consumer = await consumers.new_consumer("t", handle, middleware=[again])
            await consumer.consume()

            assert attempts == [1] * 10
            assert handler.calls[-1] > 9 * 30
            assert consumer.stats.leases_lost == 0  # type: ignore[attr-defined]
            assert consumer.stats.settled == 1  # type: ignore[attr-defined]

    run_virtual(main())


@pytest.mark.parametrize(
    "make",
    [
        lambda: retry(()),
        lambda: retry(5),  # type: ignore[arg-type]
        lambda: retry(ConnectionError()),  # type: ignore[arg-type]
        lambda: retry(BaseException),  # type: ignore[arg-type]
        lambda: retry(asyncio.CancelledError),  # type: ignore[arg-type]
        lambda: retry((ConnectionError, RetryLater)),
        lambda: retry(DecodeError),
    ],
)
def test_retry_refuses_types_that_it_never_retries(make: Callable[[], Any]) -> None:
    """When it is made: a line that has no effect would be believed."""
    with pytest.raises(TypeError, match=r"retry\(on\)"):
        make()


@pytest.mark.parametrize(
    "options", [{"attempts": 0}, {"attempts": 1.5}, {"first": 0}, {"longest": -1}, {"within": float("nan")}]
)
def test_retry_refuses_numbers_out_of_range(options: dict[str, Any]) -> None:
    """By their names."""
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))}="):
        retry(ConnectionError, **options)
