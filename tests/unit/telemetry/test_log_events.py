"""Lines that are logged: each is declared, has the keys that were said, and holds nothing that it must not."""

from __future__ import annotations

import ast
import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from messagequeue import (
    ConsumeOptions,
    DeadLetter,
    Discard,
    ErrorCode,
    Message,
    PublishError,
    SettleError,
    compose,
    open_consumers,
    open_publishers,
)
from messagequeue import _log_events as events
from messagequeue.middleware import logging as log_handlers
from messagequeue.middleware import publish_logging, publish_retry, retry, with_middleware
from messagequeue.runtime import RuntimeConsumer
from messagequeue.testing import ScriptedSource, run_virtual

ROOT = Path(__file__).resolve().parents[3]
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
#: Middleware whose user chooses logger and level.
CHOSEN = {"messagequeue/middleware/_logging.py", "messagequeue/middleware/_publish_logging.py"}
OWN = {"exc_info", "to"}
STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def calls() -> Iterator[tuple[str, ast.Call, ast.Attribute]]:
    """Every call in the packages that looks like one of a logger's methods."""
    for package in ("messagequeue", "messagequeue_sqs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            where = str(path.relative_to(ROOT))
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                    yield where, node, node.func


def event_of(function: ast.Attribute) -> str | None:
    """The name of the event whose `log()` is called, where that is said in place."""
    owner = function.value
    named = isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id == "events"
    return owner.attr if named and isinstance(owner, ast.Attribute) else None


def test_every_line_is_of_a_declared_event():
    """Nothing is logged past the declarations, so that the table of events is all there is."""
    past = [
        f"{where}:{call.lineno} {ast.unparse(function)}"
        for where, call, function in calls()
        if where not in CHOSEN and where != "messagequeue/_log_events.py"
        if "log" in ast.unparse(function.value).lower() and event_of(function) is None
    ]

    assert past == []


def test_every_line_has_the_keys_of_its_event():
    """All of them and no others, as they are documented."""
    wrong = []
    for where, call, function in calls():
        name = event_of(function)
        if name is None:
            continue
        event: events.Event = getattr(events, name)
        given = {keyword.arg for keyword in call.keywords} - OWN
        if given != set(event.keys):
            wrong.append(f"{where}:{call.lineno} {name}: {sorted(map(str, given))} for {sorted(event.keys)}")

    assert wrong == []


def test_every_event_is_logged_somewhere_and_named_once():
    """No declaration outlives its line."""
    source = "".join(
        path.read_text()
        for package in ("messagequeue", "messagequeue_sqs")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "_log_events.py"
    )
    names = {name for name, value in vars(events).items() if isinstance(value, events.Event)}

    assert [name for name in sorted(names) if f"events.{name}" not in source] == []
    assert len({event.name for event in events.EVENTS}) == len(events.EVENTS) == len(names)


def test_keys_are_none_of_the_records_own():
    """`logging` refuses a key that a record has already, at the moment when something went wrong."""
    assert [event.name for event in events.EVENTS if STANDARD & {"event", *event.keys}] == []


def test_levels_of_lines_that_come_with_every_message_are_debug():
    """What is INFO or above is rare, or a fault."""
    per_message = {
        "message.discarded",
        "handler.begin",
        "handler.end",
        "publish.end",
        "claim.replayed",
        "server.request",
    }

    assert {event.level for event in events.EVENTS if event.name in per_message} == {logging.DEBUG}


def test_nothing_is_made_ready_for_a_level_that_is_off():
    """Arguments are not even turned into text."""

    class Costly:
        def __str__(self) -> str:
            raise AssertionError("made ready for nothing")

    event = events.Event("test.event", "test", logging.DEBUG, ("key",), "A test.")
    logging.getLogger("messagequeue.test").setLevel(logging.INFO)

    assert not event.enabled
    event.log("%s", Costly(), key=Costly())


def test_a_line_is_of_who_logs_it(caplog: pytest.LogCaptureFixture):
    """Its file and function are the caller's, not those of the declarations."""
    with caplog.at_level(logging.DEBUG, "messagequeue.consumer"):
        events.RELEASE_STALE.log("%s", "text", topic="orders", message_id="m")

    [record] = caplog.records
    assert (record.funcName, record.filename) == ("test_a_line_is_of_who_logs_it", "test_log_events.py")
    assert (record.event, record.topic, record.message_id) == ("release.stale", "orders", "m")  # type: ignore[attr-defined]


def test_what_an_application_sees_is_as_declared_and_holds_no_body(caplog: pytest.LogCaptureFixture):
    """Everything that goes wrong at DEBUG: each record has its event, that event's keys, and no body or attribute."""
    declared = {event.name: event for event in events.EVENTS}

    async def handler(message: Message) -> None:
        if "discard" in message.text:
            raise Discard("no use")
        if "bury" in message.text:
            raise DeadLetter("no hope")
        if "slow" in message.text:
            await asyncio.sleep(100)
        raise ConnectionError

    async def main() -> None:
        async with (
            open_publishers("memory://?name=lines") as plain,
            open_consumers("memory://?name=lines") as consumers,
        ):
            publishers = with_middleware(plain, publish_logging(), publish_retry(first=0.1))
            publisher = await publishers.new_publisher("orders")
            for word in ("discard", "bury", "slow", "fail"):
                await publisher.publish(f"SECRET {word}", attributes={"token": "SECRET"})
            consumer = await consumers.new_consumer(
                "orders", compose(handler, log_handlers(), retry(ConnectionError, attempts=2)), drain_timeout=1
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consumer.consume())
                await asyncio.sleep(5)
                consumer.stop()

    with caplog.at_level(logging.DEBUG, "messagequeue"):
        run_virtual(main())
    seen = set()
    for record in caplog.records:
        extra = vars(record).keys() - STANDARD - {"event"}
        seen.add(record.event)  # type: ignore[attr-defined]
        assert extra == set(declared[record.event].keys), record.event  # type: ignore[attr-defined]
        assert "SECRET" not in record.getMessage() + repr({key: vars(record)[key] for key in extra})
    assert seen >= {
        "message.discarded",
        "handler.failed",
        "handler.cancelled",
        "handler.end",
        "handler.retry",
        "publish.end",
    }


def test_faults_of_a_broker_are_lines_with_their_code(caplog: pytest.LogCaptureFixture):
    """The same words as `ErrorCode`, for alerts to go by."""
    source = ScriptedSource()
    source.put("x")
    source.script("settle", SettleError("no", code=ErrorCode.ACCESS_DENIED))

    async def handler(message: Message) -> None:
        raise PublishError("no", code=ErrorCode.THROTTLED) if message.text == "y" else Discard("x")

    async def main() -> None:
        consumer = RuntimeConsumer("orders", source, handler, ConsumeOptions())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await asyncio.sleep(1)
            consumer.stop()

    run_virtual(main())
    [record] = [record for record in caplog.records if record.event == "settle.failed"]  # type: ignore[attr-defined]
    assert (record.topic, record.message_id, record.error_code) == ("orders", "m1", "access_denied")  # type: ignore[attr-defined]


def test_the_tables_in_the_documentation_are_those_of_the_code():
    """Of metrics and of log events; `make docs` writes them."""
    command = [sys.executable, "tools/telemetry_tables.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "telemetry.md").read_text()
    assert "| `messaging.process.duration` | histogram |" in page
    assert "| `handler.failed` | `consumer` | ERROR |" in page
