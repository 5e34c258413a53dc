"""`logging()`: a line when a handler begins and one when it ends, by stable names."""

from __future__ import annotations

import asyncio
import gc
import logging as stdlib
import uuid
import weakref
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from messagequeue import (
    DeadLetter,
    Discard,
    Handler,
    Message,
    RetryLater,
    open_consumers,
    open_publishers,
)
from messagequeue.middleware import logging
from messagequeue.testing import deliver, message, run_virtual

#: What every record has, beside what is of this library.
USUAL = set(vars(stdlib.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def extras(record: stdlib.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in USUAL}


def test_two_lines_tell_of_a_message(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG, with these keys and no others; body and attributes are not among them."""
    caplog.set_level(stdlib.DEBUG, "messagequeue.handler")

    async def handle(_: Message) -> None:
        await asyncio.sleep(1.5)

    given = message(
        "secret body",
        topic="orders",
        id="m-1",
        ordering_key="ada",
        delivery_attempt=2,
        attributes={"token": "secret attribute"},
        published_at=datetime.now(UTC) - timedelta(seconds=60),
    )
    run_virtual(deliver(handle, given, middleware=[logging()]))

    first, last = caplog.records
    about = {"topic": "orders", "message_id": "m-1", "ordering_key": "ada", "delivery_attempt": 2}
    assert extras(first) == about | {"event": "handler.begin", "age": pytest.approx(60, abs=30)}
    end = {"event": "handler.end", "outcome": "handled", "duration": 1.5, "error_type": None, "reason": None}
    assert extras(last) == about | end
    assert {record.levelno for record in caplog.records} == {stdlib.DEBUG}
    assert last.getMessage() == "message m-1 of orders: handled after 1.500 s"
    assert "secret" not in caplog.text + str([vars(record) for record in caplog.records])


@pytest.mark.parametrize(
    ("error", "outcome", "error_type", "reason"),
    [
        (Discard("stale"), "discarded", None, "stale"),
        (DeadLetter("hopeless"), "dead_lettered", None, "hopeless"),
        (RetryLater(5), "retry_later", None, None),
        (RetryLater(5, "closed"), "retry_later", None, "closed"),
        (ValueError("secret"), "failed", "ValueError", None),
        (asyncio.CancelledError(), "cancelled", "CancelledError", None),
    ],
)
def test_the_end_says_how_the_handler_ended(
    caplog: pytest.LogCaptureFixture, error: BaseException, outcome: str, error_type: str | None, reason: str | None
) -> None:
    """Signals by their reason, exceptions by their type, never by their text; the error itself passes through."""
    caplog.set_level(stdlib.DEBUG, "messagequeue.handler")

    async def handle(_: Message) -> None:
        raise error

    seen = run_virtual(deliver(handle, "x", middleware=[logging()]))

    found = extras(caplog.records[-1])
    assert (found["outcome"], found["error_type"], found["reason"]) == (outcome, error_type, reason)
    assert type(seen.error) is type(error)
    assert "secret" not in caplog.text
    assert caplog.records[-1].exc_info is None


def test_a_level_that_is_off_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The handler is called and nothing is made ready."""
    caplog.set_level(stdlib.INFO, "messagequeue.handler")
    called: list[Message] = []

    async def handle(given: Message) -> None:
        called.append(given)

    run_virtual(deliver(handle, "x", middleware=[logging()]))

    assert len(called) == 1
    assert caplog.records == []


def test_logger_and_level_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    """Lines of an application's own logger."""

    async def handle(_: Message) -> None: ...

    own = logging(stdlib.getLogger("shop.orders"), level=stdlib.WARNING)
    run_virtual(deliver(handle, "x", middleware=[own]))

    assert {(record.name, record.levelname) for record in caplog.records} == {("shop.orders", "WARNING")}


def test_a_failure_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """By the consumer, at ERROR, with the traceback; this middleware adds no second report."""
    caplog.set_level(stdlib.DEBUG, "messagequeue")

    async def main() -> None:
        broker = f"memory://?name={uuid.uuid4()}"

        async def handle(_: Message) -> None:
            consumer.stop()
            raise KeyError("gone")

        async with open_publishers(broker) as publishers, open_consumers(broker) as consumers:
            await (await publishers.new_publisher("t")).publish("x")
            consumer = await consumers.new_consumer("t", handle, middleware=[logging()])
            await consumer.consume()

    run_virtual(main())

    loud = [record for record in caplog.records if record.levelno > stdlib.DEBUG]
    assert [(record.name, record.levelname) for record in loud] == [("messagequeue.consumer", "ERROR")]
    assert "handler.end" in [extras(record).get("event") for record in caplog.records]


def test_the_error_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    """No cycle of frame and exception that would keep the message until the collector runs."""
    caplog.set_level(stdlib.DEBUG, "messagequeue.handler")

    class Trace(Exception):
        pass

    def build() -> tuple[Handler, list[weakref.ref[Trace]]]:
        refs: list[weakref.ref[Trace]] = []

        async def handle(_: Message) -> None:
            error = Trace()
            refs.append(weakref.ref(error))
            try:
                raise error
            finally:
                del error

        return handle, refs

    async def main() -> None:
        handle, refs = build()
        gc.disable()
        try:
            with suppress(Trace):
                await logging()(handle)(message("x"))
            assert refs[0]() is None
        finally:
            gc.enable()

    run_virtual(main())
