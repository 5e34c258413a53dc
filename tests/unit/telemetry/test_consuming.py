"""What is recorded of consuming: whose child a handler is, and how its span ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.trace import SpanKind, StatusCode

from messagequeue import (
    BatchHandler,
    ConsumeOptions,
    DeadLetter,
    DecodeError,
    Discard,
    ErrorCode,
    LeaseLostError,
    Message,
    PartialFailure,
    PublishError,
    ReceiveError,
    RetryLater,
    SettleError,
)
from messagequeue.driver import Delivery, LeaseSource
from messagequeue.embedded import MemoryConsumerProvider, MemoryPublisherProvider
from messagequeue.priority import new_priority_consumer
from messagequeue.runtime import RuntimeConsumer
from messagequeue.telemetry import OUTCOMES, Destination
from messagequeue.testing import ScriptedSource, message, run_virtual
from tests.unit.telemetry.recording import (
    Bench,
    Recording,
    attributes,
    identity,
    links,
    memory,
    nothing,
    parent_of,
    seconds,
    trace_of,
)

OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER_TRACE, OTHER_SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7


async def consume(
    recording: Recording, source: LeaseSource, handler: Any, during: float = 1.0, **options: Any
) -> RuntimeConsumer:
    """Consume from *source* for some seconds, with telemetry."""
    telemetry = recording.telemetry.consumer(Destination(system="x", name="orders"))
    consumer = RuntimeConsumer("orders", source, handler, ConsumeOptions(**options), telemetry=telemetry)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.consume())
        await asyncio.sleep(during)
        consumer.stop()
    await consumer.close()
    return consumer


def test_a_handler_is_a_child_of_the_span_that_published_its_message():
    """The trace goes on from publisher to handler; the span links to its parent, too, and says what it is about."""
    recording = Recording()

    async def main() -> None:
        async with memory(recording) as bench:
            receipt = await (await bench.publisher()).publish("x", ordering_key="ada")
            await bench.consume(nothing)
            send, process = recording.span("send"), recording.span("process orders")

            assert process.kind is SpanKind.CONSUMER
            assert (trace_of(process), parent_of(process)) == (trace_of(send), identity(send))
            assert links(process) == {identity(send)}
            assert attributes(
                process,
                "messaging.system",
                "messaging.destination.name",
                "messaging.operation.name",
                "messaging.operation.type",
                "messaging.message.id",
                "messagequeue.ordering_key",
                "messagequeue.delivery_attempt",
                "messagequeue.outcome",
            ) == ("messagequeue_memory", "orders", "process", "process", receipt.message_id, "ada", 1, "handled")

    run_virtual(main())


def test_a_handler_can_begin_a_trace_of_its_own():
    """`continue_trace=False`: a root that links to the span that published the message; baggage still arrives."""
    recording = Recording(continue_trace=False)
    found: list[object] = []

    async def handler(message: Message) -> None:
        found.append(baggage.get_baggage("tenant"))

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            await publisher.publish("x", attributes={"baggage": "tenant=7"})
            await bench.consume(handler)
            send, process = recording.span("send"), recording.span("process")

            assert parent_of(process) is None
            assert trace_of(process) != trace_of(send)
            assert links(process) == {identity(send)}
            assert found == ["7"]

    run_virtual(main())


def test_each_message_has_its_own_context():
    """
    Five traces and one message without any, received together: each handler goes on with its own, and a publish in it
    is its child; nothing is left current afterwards (TEL-04).
    """
    recording = Recording()
    sending = Recording()

    async def main() -> None:
        async with memory(recording, sending=sending) as bench:
            publisher = await bench.publisher()
            for n in range(5):
                await publisher.publish(f"{n}")
            sends = sending.spans("send")
            onward = await bench.publisher("onward")

            async def handler(message: Message) -> None:
                await asyncio.sleep(0.01)
                await onward.publish(message.body)
                await asyncio.sleep(0.01)

            await (await without_telemetry(bench).new_publisher("orders")).publish("5")
            await bench.consume(handler, concurrency=3, prefetch=3)

        with recording.tracer.start_as_current_span("later"):
            pass
        processes = {attributes(span, "messaging.message.id")[0]: span for span in recording.spans("process")}
        [receive] = recording.spans("receive")
        nested = [span for span in sending.spans("send") if span.name == "send onward"]

        assert len(processes) == 6
        assert attributes(receive, "messaging.batch.message_count") == (6,)
        for send in sends:
            process = processes.pop(attributes(send, "messaging.message.id")[0])
            assert (trace_of(process), parent_of(process)) == (trace_of(send), identity(send))
        [orphan] = processes.values()
        assert parent_of(orphan) is None
        assert trace_of(orphan) not in {trace_of(send) for send in sends}
        assert {parent_of(span) for span in nested} == {identity(span) for span in recording.spans("process")}
        assert {trace_of(span) for span in nested} == {trace_of(span) for span in recording.spans("process")}
        assert parent_of(recording.span("later")) is None

    run_virtual(main())


def without_telemetry(bench: Bench) -> MemoryPublisherProvider:
    """Another publishing half of the same broker."""
    assert isinstance(bench.consumers, MemoryConsumerProvider)
    return MemoryPublisherProvider(bench.consumers._config)


def test_every_processing_span_ends_and_says_how():
    """
    Ten messages, one at a time, 100 ms each: three fail, one is cancelled, one cannot be read.  Ten spans of the time
    that each took, with status; failures hold the exception; none is left open (TEL-03).
    """
    recording = Recording()
    source = ScriptedSource()
    source.put(*range(9))
    broken = message("x", topic="orders", id="broken")
    source.put(Delivery(broken, lease_of(source, broken), DecodeError("not readable")))

    async def handler(message: Message) -> None:
        await asyncio.sleep(0.1)
        number = message.json()
        if number in (1, 4, 7):
            raise ValueError("no such product")
        if number == 5:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)

    async def main() -> None:
        await consume(recording, source, handler, during=5, concurrency=1, prefetch=9)

        spans = recording.spans("process")
        outcomes = [attributes(span, "messagequeue.outcome")[0] for span in spans]
        assert outcomes == [
            "handled", "failed", "handled", "handled", "failed", "cancelled", "handled", "failed", "handled",
            "undecodable",
        ]  # fmt: skip
        assert [round(seconds(span), 3) for span in spans] == [0.1] * 9 + [0.0]
        failed = [span for span, outcome in zip(spans, outcomes, strict=True) if outcome == "failed"]
        assert {span.status.status_code for span in failed} == {StatusCode.ERROR}
        assert {attributes(span, "error.type")[0] for span in failed} == {"ValueError"}
        assert [event.attributes["exception.type"] for span in failed for event in span.events] == ["ValueError"] * 3  # type: ignore[index]
        assert attributes(spans[-1], "error.type") == ("decode",)
        assert all(span.end_time is not None for span in recording.spans())
        durations = recording.metrics()["messaging.process.duration"]
        assert sum(point.count for point in durations.values()) == 10
        assert sum(point.sum for point in durations.values()) == pytest.approx(0.9)

    run_virtual(main())


def lease_of(source: ScriptedSource, message: Message) -> object:
    from messagequeue.testing._scripted import Lease

    return Lease(message.id, 1)


def test_a_handler_that_is_cut_short_has_a_span_that_says_why():
    """Time limit, lost lease and shutdown are told apart; the span ends when the handler does."""
    recording = Recording()
    source = ScriptedSource(lease=10)
    source.put("slow", "lost", "shutdown")

    async def handler(message: Message) -> None:
        if message.text == "lost":
            source.lose(message.id)
        try:
            await asyncio.sleep(100 if message.text != "slow" else 50)
        finally:
            await asyncio.sleep(0.25)

    async def main() -> None:
        await consume(recording, source, handler, during=20, handler_timeout=15, drain_timeout=1, heartbeat_interval=4)

        ended = {attributes(span, "messagequeue.outcome")[0]: span for span in recording.spans("process")}
        assert set(ended) <= set(OUTCOMES)
        assert round(seconds(ended["timed_out"]), 2) == 15.25
        assert attributes(ended["timed_out"], "error.type") == ("timed_out",)
        assert round(seconds(ended["lease_lost"]), 2) == 4.25
        assert attributes(ended["lease_lost"], "error.type") == ("lease_lost",)

    run_virtual(main())


def test_a_handler_cancelled_at_shutdown_has_a_span_that_ends():
    """What runs when the drain is over is cancelled; its span says so."""
    recording = Recording()
    source = ScriptedSource()
    source.put("x")

    async def handler(message: Message) -> None:
        await asyncio.sleep(100)

    async def main() -> None:
        await consume(recording, source, handler, during=2, drain_timeout=1)

        process, release = recording.span("process"), recording.spans("release")[0]
        assert attributes(process, "messagequeue.outcome", "error.type") == ("cancelled", "cancelled")
        assert seconds(process) == pytest.approx(3)
        assert attributes(release, "messaging.operation.type", "messaging.message.id") == ("settle", "m1")

    run_virtual(main())


@pytest.mark.parametrize(
    ("signal", "outcome"),
    [(RetryLater(5), "retry_later"), (Discard("no use"), "discarded"), (DeadLetter("no hope"), "dead_lettered")],
)
def test_signals_are_outcomes_and_no_errors(signal: Exception, outcome: str):
    """The span of a handler that decided has no error."""
    recording = Recording()
    source = ScriptedSource()
    source.put("x")

    async def handler(message: Message) -> None:
        raise signal

    async def main() -> None:
        await consume(recording, source, handler)

        process = recording.span("process")
        assert attributes(process, "messagequeue.outcome", "error.type") == (outcome, None)
        assert process.status.status_code is StatusCode.UNSET
        assert process.events == ()

    run_virtual(main())


def test_a_span_around_consume_is_linked_to_and_no_parent():
    """A message without context begins a new trace wherever the consumer was started."""
    recording = Recording()
    source = ScriptedSource()
    source.put("x")

    async def main() -> None:
        with recording.tracer.start_as_current_span("program") as program:
            await consume(recording, source, nothing)

        process, receive, settle = (recording.span(name) for name in ("process", "receive", "settle"))
        assert links(process) == {program.get_span_context().span_id}
        assert {parent_of(span) for span in (process, receive, settle)} == {None}

    run_virtual(main())


def test_settlements_have_spans_in_the_trace_of_a_lone_message():
    """One that is about several messages is a root that links to what published them."""
    recording = Recording()

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            await publisher.publish("x")
            await bench.consume(nothing)
            [send] = recording.spans("send")
            alone = recording.span("settle orders")
            assert alone.kind is SpanKind.CLIENT
            assert (trace_of(alone), parent_of(alone)) == (trace_of(send), identity(send))

            for body in "ab":
                await publisher.publish(body)
            await bench.consume(nothing)
            together = recording.spans("settle")[-1]
            assert parent_of(together) is None
            assert links(together) == {identity(span) for span in recording.spans("send")[1:]}
            assert attributes(together, "messaging.batch.message_count", "messaging.message.id") == (2, None)

    run_virtual(main())


def test_failing_calls_have_spans_with_their_code():
    """Receives that fail, settlements that fail as a whole and for one message."""
    recording = Recording()
    source = ScriptedSource()
    source.put("a", "b")
    source.put("c", after=10)
    source.script("receive", ReceiveError("no", code=ErrorCode.UNAVAILABLE))
    source.script("settle", {"m1": LeaseLostError("gone")}, SettleError("no", code=ErrorCode.ACCESS_DENIED))

    async def main() -> None:
        await consume(recording, source, nothing, during=15)

        receives, settles = recording.spans("receive"), recording.spans("settle")
        assert [attributes(span, "error.type")[0] for span in receives] == ["unavailable", None, None]
        assert [attributes(span, "error.type")[0] for span in settles] == ["lease_lost", "access_denied"]
        assert attributes(settles[0], "messagequeue.batch.failed_count") == (1,)
        duration = "messaging.client.operation.duration"
        assert recording.total(duration, messaging__operation__name="receive", error__type="unavailable") == 1
        assert recording.total(duration, messaging__operation__name="settle") == 2

    run_virtual(main())


def test_empty_receives_have_no_spans_and_can_be_switched_off():
    """A quiet topic would fill the trace store with nothing; a counter knows of them."""
    recording, quiet = Recording(), Recording(receive_spans=False)

    async def main() -> None:
        async with memory(recording) as bench:
            await bench.consume(nothing, 65, wait_time=20)
            assert recording.spans() == []
            assert recording.total("messagequeue.consumer.empty_receives") == 3

        async with memory(quiet) as bench:
            await (await bench.publisher()).publish("x")
            await bench.consume(nothing)
            assert quiet.spans("receive") == []
            assert len(quiet.spans("process")) == 1

    run_virtual(main())


@pytest.mark.parametrize(
    ("given", "parent"),
    [
        ({"traceparent": OTHER}, OTHER_SPAN),
        ({"Traceparent": OTHER}, OTHER_SPAN),
        ({"traceparent": OTHER.encode()}, OTHER_SPAN),
        ({"traceparent": OTHER, "tracestate": "vendor=1"}, OTHER_SPAN),
        ({"traceparent": "00-zz"}, None),
        ({"traceparent": b"\xff\xfe"}, None),
        ({"tracestate": "vendor=1"}, None),
        ({"traceparent": OTHER, "tracestate": "=,,=\x00"}, OTHER_SPAN),
        ({"baggage": "=;,=%ff"}, None),
        ({}, None),
    ],
)
def test_odd_attributes_are_no_fault(given: Mapping[str, str | bytes], parent: int | None):
    """Another case, bytes, broken or half a context: read where it can be, else no parent; never an error (TEL-05)."""
    recording = Recording()
    source = ScriptedSource()
    source.put(message("x", topic="orders", attributes=given))

    async def main() -> None:
        consumer = await consume(recording, source, nothing)

        process = recording.span("process")
        assert parent_of(process) == parent
        assert links(process) == ({parent} if parent else set())
        assert consumer.stats.handled == consumer.stats.settled == 1

    run_virtual(main())


def test_a_list_of_messages_has_one_span():
    """Links to all of them, no single parent; the count, and how many failed."""
    recording = Recording()

    async def handle(messages: Any) -> None:
        await asyncio.sleep(0.5)
        raise PartialFailure({messages[1].id: ValueError("no")})

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            for body in "abc":
                await publisher.publish(body)
            consumer = await bench.consumers.new_consumer("orders", BatchHandler(handle, max_wait=0.1), retry_delay=100)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consumer.consume())
                await asyncio.sleep(5)
                consumer.stop()

            process = recording.span("process")
            assert parent_of(process) is None
            assert links(process) == {identity(span) for span in recording.spans("send")}
            assert attributes(process, "messaging.batch.message_count", "messagequeue.batch.failed_count") == (3, 1)
            assert attributes(process, "error.type", "messaging.message.id") == ("ValueError", None)
            assert seconds(process) == pytest.approx(0.5)
            consumed = "messaging.client.consumed.messages"
            assert recording.total(consumed, messagequeue__outcome="handled") == 2
            assert recording.total(consumed, messagequeue__outcome="failed") == 1

    run_virtual(main())


def test_the_span_of_a_handler_is_current_in_it():
    """Middleware included; spans of the application become its children."""
    recording = Recording()
    seen: list[int] = []

    def middleware(handler: Any) -> Any:
        async def wrapped(message: Message) -> None:
            seen.append(trace.get_current_span().get_span_context().span_id)
            with recording.tracer.start_as_current_span("work"):
                await handler(message)

        return wrapped

    async def main() -> None:
        async with memory(recording) as bench:
            await (await bench.publisher()).publish("x")
            consumer = await bench.consumers.new_consumer("orders", nothing, middleware=[middleware])
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consumer.consume())
                await asyncio.sleep(1)
                consumer.stop()

            process, work = recording.span("process"), recording.span("work")
            assert seen == [identity(process)] == [parent_of(work)]

    run_virtual(main())


def test_a_propagator_that_raises_is_no_fault_of_a_message(caplog: pytest.LogCaptureFixture):
    """It is told of once; messages are published and handled without context."""
    from opentelemetry.propagators.textmap import TextMapPropagator

    class Broken(TextMapPropagator):
        def extract(self, carrier, context=None, getter=None):  # type: ignore[no-untyped-def]
            raise RuntimeError("no")

        def inject(self, carrier, context=None, setter=None):  # type: ignore[no-untyped-def]
            raise RuntimeError("no")

        @property
        def fields(self) -> set[str]:
            return {"broken"}

    recording = Recording(propagator=Broken())

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            await publisher.publish_many(["a", "b"], attributes={"k": "v"})
            messages = await bench.consume(nothing)

            assert [message.text for message in messages] == ["a", "b"]
            assert bench.errors == []

    run_virtual(main())
    assert len([record for record in caplog.records if "propagator" in record.message]) == 2  # a half each


def test_messages_that_publishing_fails_for_are_errors_of_theirs_alone():
    """A nested publish that fails is an error of the handler, recorded at both spans."""
    recording = Recording()
    source = ScriptedSource()
    source.put("x")

    async def handler(message: Message) -> None:
        raise PublishError("no", code=ErrorCode.THROTTLED)

    async def main() -> None:
        await consume(recording, source, handler)

        assert attributes(recording.span("process"), "error.type") == ("throttled",)

    run_virtual(main())


class Opening(ScriptedSource):
    """A source whose messages have to be opened."""

    def opening(self, handler: Any, /) -> Any:
        async def opened(message: Message) -> None:
            await handler(replace(message, body=message.body.upper()))

        return opened


@pytest.mark.parametrize("lists", [False, True], ids=["one", "list"])
def test_a_source_that_opens_messages_does_so_with_telemetry(lists: bool):
    """What a provider asks for beyond the plain protocol is passed through."""
    recording = Recording()
    source = Opening()
    source.put("a", "b")
    seen: list[str] = []

    async def handle(message: Message) -> None:
        seen.append(message.text)

    async def handle_all(messages: Any) -> None:
        seen.extend(message.text for message in messages)

    async def main() -> None:
        await consume(recording, source, BatchHandler(handle_all) if lists else handle)

        assert seen == ["A", "B"]
        assert source.settled == ["m1", "m2"]
        assert len(recording.spans("process")) == (1 if lists else 2)

    run_virtual(main())


def test_a_dead_lettered_message_has_a_span_of_its_own_kind():
    """The call is a settlement by its type, and in the trace of its message."""
    recording = Recording()
    source = ScriptedSource()
    source.put(message("x", topic="orders", id="m1", attributes={"traceparent": OTHER}))

    async def handler(message: Message) -> None:
        raise DeadLetter("no hope") from KeyError("x")

    async def main() -> None:
        await consume(recording, source, handler)

        buried = recording.span("dead_letter orders")
        assert source.dead == [("m1", "no hope")]
        assert attributes(buried, "messaging.operation.type", "messaging.message.id") == ("settle", "m1")
        assert (trace_of(buried), parent_of(buried)) == (OTHER_TRACE, OTHER_SPAN)

    run_virtual(main())


def test_topics_of_one_consumer_are_told_apart():
    """A consumer over several topics has the series and spans of each."""
    recording = Recording()

    async def main() -> None:
        async with memory(recording) as bench:
            for topic in ("urgent", "bulk"):
                await (await bench.publisher(topic)).publish("x")
            consumer = await new_priority_consumer(bench.consumers, ["urgent", "bulk"], nothing, wait_time=1)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consumer.consume())
                await asyncio.sleep(3)
                consumer.stop()

        assert [span.name for span in recording.spans("process")] == ["process urgent", "process bulk"]
        consumed = "messaging.client.consumed.messages"
        assert recording.total(consumed, messaging__destination__name="urgent") == 1
        assert recording.total(consumed, messaging__destination__name="bulk") == 1

    run_virtual(main())


@pytest.mark.parametrize(
    ("given", "carried", "parent"),
    [
        ({"traceparent": OTHER}, "00-" + "1" * 32 + "-" + "2" * 16 + "-01", OTHER_SPAN),
        ({"traceparent": "00-zz"}, OTHER, OTHER_SPAN),
        ({}, OTHER, OTHER_SPAN),
        ({}, "00-zz", None),
        ({}, None, None),
    ],
)
def test_what_a_broker_carried_is_read_where_the_attributes_name_no_span(
    given: Mapping[str, str], carried: str | None, parent: int | None
):
    """The attributes are the publisher's own word, and win; what cannot be read is no parent (TEL-05)."""
    recording = Recording()

    async def main() -> None:
        telemetry = recording.telemetry.consumer(Destination(system="x", name="o"), carried=lambda message: carried)
        source = ScriptedSource()
        source.put(message("x", topic="orders", attributes=given))
        consumer = RuntimeConsumer("orders", source, nothing, ConsumeOptions(), telemetry=telemetry)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await asyncio.sleep(1)
            consumer.stop()

        assert parent_of(recording.span("process")) == parent

    run_virtual(main())
