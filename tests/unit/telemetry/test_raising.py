"""Telemetry that raises, or answers what it may not: messages are published and handled as if there were none."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from messagequeue import BatchHandler, HandlerError, Message, Receipt, RetryLater, open_consumers, open_publishers
from messagequeue.telemetry import OpenTelemetry, TraceContext
from messagequeue.testing import run_virtual
from tests.unit.telemetry.recording import Recording, memory

_names = (f"raising-{n}" for n in count())


class Fault(Exception):
    """What telemetry raises here."""


class Around:
    """A context manager that fails where it is told to, and would swallow what is raised inside of it."""

    def __init__(self, broken: Broken, name: str) -> None:
        self.broken = broken
        self.name = name

    def __enter__(self) -> None:
        self.broken.called(f"{self.name}.__enter__")

    def __exit__(self, *details: object) -> bool:
        self.broken.called(f"{self.name}.__exit__")
        return True


class Part:
    """One thing that the runtime tells something, or asks for something."""

    def __init__(self, broken: Broken, name: str) -> None:
        self.broken = broken
        self.name = name

    def __getattr__(self, method: str) -> Any:
        name = f"{self.name}.{method}"

        def call(*arguments: object) -> object:
            self.broken.called(name)
            return self.broken.answers.get(name) or self.broken.usual(name)

        return call


class Broken:
    """
    A `Telemetry` whose calls named *raises* raise, and which gives *answers* in the place of what it should.

    Attributes:
        calls: The names of all calls.
    """

    def __init__(self, raises: str = "", answers: dict[str, object] | None = None) -> None:
        self.raises = raises
        self.answers = answers or {}
        self.calls: set[str] = set()

    def called(self, name: str) -> None:
        self.calls.add(name)
        if name == self.raises or self.raises == "all":
            raise Fault(name)

    def usual(self, name: str) -> object:
        method = name.rpartition(".")[2]
        if method in ("current", "request"):
            return Around(self, name)
        if method == "context":
            return TraceContext({f"attribute-{number}": "x" for number in range(11)}, "00-zz")  # more than ten
        return None if method in ("end", "sent", "skipped", "origin") else Part(self, method)

    def publisher(self, destination: object, /) -> Any:
        return Part(self, "publisher")

    def consumer(self, destination: object, /, *, carried: object = None) -> Any:
        return Part(self, "consumer")

    def watch(self, destination: object, read: Any, /) -> Any:
        return lambda: self.called("watch.stop")


CALLS = (
    "publisher.sending",
    "publisher.sending_many",
    "publisher.context",
    "publisher.request",
    "publisher.request.__enter__",
    "publisher.request.__exit__",
    "publisher.sent",
    "sending.current",
    "sending.current.__enter__",
    "sending.current.__exit__",
    "sending.end",
    "sending_many.current",
    "sending_many.end",
    "consumer.receiving",
    "consumer.origin",
    "consumer.settling",
    "consumer.processing",
    "receiving.end",
    "settling.end",
    "processing.current",
    "processing.current.__enter__",
    "processing.current.__exit__",
    "processing.end",
    "watch.stop",
)


async def published(publishers: Any) -> None:
    """Publish seven messages in every way there is."""
    publisher = await publishers.new_publisher("orders")
    assert isinstance(await publisher.publish("publish"), Receipt)
    assert isinstance(await publisher.publish_nowait("nowait"), Receipt)
    results = await publisher.publish_many(["m1", "m2", "fails", "later", "m3"], ordering_key="k")
    assert [type(result) for result in results] == [Receipt] * 5
    withdrawn = publisher.publish_nowait("withdrawn")
    withdrawn.cancel()


async def handled(consumers: Any, lists: bool) -> tuple[list[str], list[str]]:
    """Consume, and return what the handler got and what was reported."""
    got: list[str] = []
    errors: list[str] = []

    async def handle(message: Message) -> None:
        got.append(message.text)
        if message.text in ("fails", "later") and got.count(message.text) == 1:
            raise ValueError("once") if message.text == "fails" else RetryLater(1)

    async def handle_list(messages: Any) -> None:
        for message in messages:
            got.append(message.text)
        if got.count("m1") == 1 and "m1" in [message.text for message in messages]:
            raise ValueError("once")

    handler = BatchHandler(handle_list) if lists else handle
    consumer = await consumers.new_consumer(
        "orders", handler, on_error=lambda error: errors.append(type(error).__name__), retry_delay=1
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.consume())
        await asyncio.sleep(30)
        consumer.stop()
    await consumer.close()
    return got, errors


async def course(telemetry: Any, lists: bool) -> tuple[list[str], list[str]]:
    config = {"provider": "memory", "memory": {"name": next(_names)}}
    async with (
        open_publishers(config, telemetry=telemetry) as publishers,
        open_consumers(config, telemetry=telemetry) as consumers,
    ):
        await published(publishers)
        return await handled(consumers, lists)


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("raises", [*CALLS, "all", ""])
def test_what_telemetry_raises_does_no_harm(raises: str, lists: bool, caplog: pytest.LogCaptureFixture):
    """Everything is published and handled, failures are reported, and the fault is logged once for each call."""
    broken = Broken(raises)

    got, errors = run_virtual(course(broken, lists))
    undisturbed = run_virtual(course(None, lists))

    assert (got, errors) == undisturbed
    assert errors
    told = [record for record in caplog.records if record.event == "telemetry.raised"]  # type: ignore[attr-defined]
    calls = [(record.call, record.error_type) for record in told]  # type: ignore[attr-defined]
    halves = 1 + (raises in ("watch.stop", "all"))  # each tells for itself
    assert all(calls.count(call) <= halves for call in calls)
    assert bool(calls) is bool(raises)
    assert all(record.exc_info for record in told)


def test_every_call_is_among_them():
    """So that no way for a fault to get through is left out."""
    broken = Broken()
    run_virtual(course(broken, False))
    calls = broken.calls | {"publisher.skipped"}  # the `memory` provider has room for any number of attributes

    assert calls - {"sending_many.current.__enter__", "sending_many.current.__exit__", "publisher.skipped"} == set(
        CALLS
    )


@pytest.mark.parametrize(
    "context",
    [
        "00-zz",
        TraceContext({"traceparent": 5}),  # type: ignore[dict-item]
        TraceContext({5: "x"}),  # type: ignore[dict-item]
        TraceContext({}, traceparent=b"00"),  # type: ignore[arg-type]
        TraceContext(["a"]),  # type: ignore[arg-type]
    ],
)
def test_a_context_that_is_none_is_left_out(context: object, caplog: pytest.LogCaptureFixture):
    """It would be an attribute that no broker takes; the message goes without it."""

    async def main() -> list[dict[str, object]]:
        seen: list[dict[str, object]] = []

        async def handle(message: Message) -> None:
            seen.append(dict(message.attributes))
            consumer.stop()

        broken = Broken(answers={"publisher.context": context})
        config = {"provider": "memory", "memory": {"name": next(_names)}}
        async with (
            open_publishers(config, telemetry=broken) as publishers,  # type: ignore[arg-type]
            open_consumers(config) as consumers,
        ):
            await (await publishers.new_publisher("orders")).publish("x", attributes={"own": "1"})
            consumer = await consumers.new_consumer("orders", handle)
            await consumer.consume()
        return seen

    assert run_virtual(main()) == [{"own": "1"}]
    assert [record.call for record in caplog.records] == ["context"]  # type: ignore[attr-defined]


def test_a_span_processor_that_raises_does_no_harm():
    """OpenTelemetry's SDK lets its exceptions through, where an exporter's are caught."""

    class Raises(SpanProcessor):
        def on_start(self, span: object, parent_context: object = None) -> None:
            raise Fault("on_start")

        def on_end(self, span: object) -> None:
            raise Fault("on_end")

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Raises())

    assert run_virtual(course(OpenTelemetry(tracer_provider=provider), False)) == run_virtual(course(None, False))


def test_an_exception_without_a_text_ends_its_span():
    """One whose `__str__` raises is recorded by its type; the span ends, and the metrics count it."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise Fault("no words")

    async def handle(message: Message) -> None:
        raise Unspeakable

    recording = Recording()

    async def main() -> None:
        async with memory(recording) as bench:
            await (await bench.publisher()).publish("x")
            await bench.consume(handle)
            assert [type(error) for error in bench.errors] == [HandlerError]

    run_virtual(main())
    span = recording.span("process orders")
    assert (span.attributes or {})["error.type"].endswith("Unspeakable")  # type: ignore[union-attr]
    assert recording.total("messaging.client.consumed.messages", messagequeue__outcome="failed") == 1
