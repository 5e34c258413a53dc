"""Running a handler on a message, without a broker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from messagequeue import DeadLetter, Discard, EncodeError, Handler, Message, RetryLater
from messagequeue.testing import Fate, deliver, message, run_virtual


async def accept(message: Message) -> None:
    """A handler that succeeds."""


def raising(error: BaseException) -> Handler:
    async def handler(_: Message) -> None:
        raise error

    return handler


def test_message_is_what_a_handler_would_get() -> None:
    """Data is encoded as publish() does, numbers among the attributes arrive as text, and the delivery is the first."""
    made = message({"n": 1}, attributes={"count": 2, "raw": b"\x00", "ratio": 0.5}, ordering_key="k")

    assert made.json() == {"n": 1}
    assert made.attributes == {"count": "2", "raw": b"\x00", "ratio": "0.5"}
    assert (made.topic, made.ordering_key, made.delivery_attempt) == ("test", "k", 1)
    assert made.published_at is not None
    assert made.published_at.tzinfo is UTC


def test_message_takes_bytes_and_text_as_they_are() -> None:
    """No JSON is put around them."""
    assert message(b"\xff").body == b"\xff"
    assert message("ü").text == "ü"


def test_messages_have_ids_of_their_own() -> None:
    """Two messages are two, unless the id is given."""
    assert message("a").id != message("a").id
    assert message("a", id="same").id == "same"


def test_message_refuses_unknown_fields_and_data() -> None:
    """A misspelt field is a TypeError, data without a form an EncodeError."""
    with pytest.raises(TypeError):
        message("a", ordring_key="k")  # type: ignore[call-arg]
    with pytest.raises(EncodeError):
        message(object())


def test_message_fields_win_over_the_usual_ones() -> None:
    """Every field can be given."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    made = message("a", topic="t", id="i", delivery_attempt=None, published_at=at, sequence_number="7", raw=3)
    assert (made.topic, made.id, made.delivery_attempt, made.published_at) == ("t", "i", None, at)
    assert (made.sequence_number, made.raw) == ("7", 3)


def test_deliver_settles_when_the_handler_returns() -> None:
    """Return = done; the outcome holds the message."""
    result = run_virtual(deliver(accept, {"n": 1}, topic="orders"))
    assert result.settled
    assert result.message.topic == "orders"
    assert result.error is None


def test_deliver_retries_when_the_handler_raises() -> None:
    """Raise = not done: the message comes back when its lease ends, and the error is in the outcome, not raised."""
    fault = KeyError("x")
    result = run_virtual(deliver(raising(fault), "a"))
    assert result.retried
    assert result.failed
    assert result.error is fault
    assert result.after is None


def test_deliver_applies_the_retry_delay() -> None:
    """A failed message comes back after `retry_delay` where one is set."""
    assert run_virtual(deliver(raising(KeyError()), "a", retry_delay=5)).after == 5


@pytest.mark.parametrize(
    ("signal", "fate", "after", "reason"),
    [
        (RetryLater(30, "busy"), Fate.RETRIED, 30, "busy"),
        (Discard("old"), Fate.DISCARDED, None, "old"),
        (DeadLetter("bad"), Fate.DEAD_LETTERED, None, "bad"),
    ],
)
def test_deliver_obeys_signals(signal: Exception, fate: Fate, after: float | None, reason: str) -> None:
    """What a handler decides with a signal is the outcome; a signal is not a failure."""
    result = run_virtual(deliver(raising(signal), "a"))
    assert (result.fate, result.after, result.reason, result.error) == (fate, after, reason, signal)
    assert not result.failed
    assert [result.settled, result.discarded, result.retried, result.dead_lettered].count(True) == 1


def test_deliver_runs_middleware_from_the_outside_in() -> None:
    """The first middleware is the outermost, as with new_consumer()."""
    seen: list[str] = []

    def named(name: str):  # type: ignore[no-untyped-def]
        def wrap(inner: Handler) -> Handler:
            async def handler(message: Message) -> None:
                seen.append(name)
                await inner(message)

            return handler

        return wrap

    run_virtual(deliver(accept, "a", middleware=[named("a"), named("b")]))

    assert seen == ["a", "b"]


def test_deliver_tells_the_handlers_cancellation_from_its_own() -> None:
    """A handler that was cancelled from within is not done; cancelling deliver() cancels the handler and is raised."""
    assert run_virtual(deliver(raising(asyncio.CancelledError()), "a")).retried

    async def wait(_: Message) -> None:
        await asyncio.sleep(10)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await deliver(wait, "a")

    run_virtual(main())


def test_deliver_refuses_fields_beside_a_message() -> None:
    """Fields given beside a whole Message would be lost, so they are refused."""
    with pytest.raises(TypeError, match="ordering_key"):
        run_virtual(deliver(accept, message("a"), ordering_key="k"))
