"""What is recorded of publishing, and what travels with a message."""

from __future__ import annotations

import asyncio
import contextvars
import logging

import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as current
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from messagequeue import (
    ErrorCode,
    InvalidMessageError,
    Message,
    Outgoing,
    Publish,
    PublishError,
    PublishOptions,
    Receipt,
)
from messagequeue.driver import Capabilities, EncodedMessage
from messagequeue.middleware import with_middleware
from messagequeue.runtime.observed_publisher import ObservedPublisher
from messagequeue.telemetry import Destination
from messagequeue.testing import ScriptedSender, run_virtual
from tests.unit.telemetry.recording import (
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


def traceparent_ids(message: Message) -> tuple[str, str]:
    """The trace and the span that a received message names."""
    value = message.attributes["traceparent"]
    assert isinstance(value, str)
    _, trace, span, _ = value.split("-")
    return trace, span


def test_publish_has_a_producer_span_whose_context_goes_with_the_message():
    """From the call to the receipt; child of the caller's span; named, and with what tells messages apart."""
    recording = Recording()

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            with recording.tracer.start_as_current_span("request"):
                receipt = await publisher.publish({"id": 1}, ordering_key="ada", attributes={"kind": "test"})
            [message] = await bench.consume(nothing)
            send, request = recording.span("send orders"), recording.span("request")

            assert send.kind is SpanKind.PRODUCER
            assert parent_of(send) == identity(request)
            assert attributes(
                send,
                "messaging.system",
                "messaging.destination.name",
                "messaging.operation.name",
                "messaging.operation.type",
                "messaging.message.id",
                "messagequeue.ordering_key",
                "messaging.batch.message_count",
                "error.type",
            ) == ("messagequeue_memory", "orders", "send", "send", receipt.message_id, "ada", None, None)
            assert send.status.status_code is StatusCode.UNSET
            assert traceparent_ids(message) == (format_trace_id(trace_of(send)), format_span_id(identity(send)))
            assert message.attributes["kind"] == "test"

    run_virtual(main())


def test_publish_nowait_has_a_span_that_ends_with_the_answer():
    """Whether anybody reads the receipt or not; what comes after the call is not its child."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender()
        publisher = ObservedPublisher(
            "orders", sender, recording.telemetry.publisher(Destination(system="x", name="o"))
        )
        sender.takes("send", 2)
        receipt = publisher.publish_nowait("a")
        with recording.tracer.start_as_current_span("after"):
            await asyncio.sleep(1)
        assert recording.spans("send") == []
        await receipt
        await publisher.stop()

        send = recording.span("send o")
        assert seconds(send) == pytest.approx(2)
        assert parent_of(recording.span("after")) is None
        assert attributes(send, "messaging.message.id") == ("s1",)

    run_virtual(main())


def test_publish_nowait_that_is_refused_or_withdrawn_leaves_no_open_span():
    """Refused at the call, and cancelled before it left; the unread failure is still reported, as without telemetry."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender()
        telemetry = recording.telemetry.publisher(Destination(system="x", name="o"))
        publisher = ObservedPublisher("orders", sender, telemetry, PublishOptions(max_in_flight=1, batch_size=1))
        with pytest.raises(InvalidMessageError):
            publisher.publish_nowait("a", ordering_key="")
        sender.takes("send", 2)
        first, second = publisher.publish_nowait("a"), publisher.publish_nowait("b")
        await asyncio.sleep(1)
        second.cancel()
        await first
        await publisher.stop()

        kinds = [attributes(span, "error.type")[0] for span in recording.spans("send")]
        assert kinds == ["invalid", "cancelled", None]
        assert recording.total("messaging.client.sent.messages") == 1
        assert len(sender.sent) == 1

    run_virtual(main())


def test_publish_many_has_a_create_span_per_message_and_one_send_span():
    """Each message carries its own context; the call's span links to all of them and tells of failures."""
    recording = Recording()

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            results = await publisher.publish_many(["a", "", Outgoing("c", ordering_key="k")])
            messages = await bench.consume(nothing)
            send, creates = recording.span("send"), recording.spans("create")

            assert [isinstance(result, Receipt) for result in results] == [True, False, True]
            assert send.kind is SpanKind.CLIENT
            assert [span.kind for span in creates] == [SpanKind.PRODUCER] * 2
            assert links(send) == {identity(span) for span in creates}
            assert {parent_of(span) for span in creates} == {identity(send)}
            assert attributes(send, "messaging.batch.message_count", "messagequeue.batch.failed_count") == (3, 1)
            assert send.status.status_code is StatusCode.ERROR
            assert attributes(send, "error.type") == ("invalid",)
            assert [traceparent_ids(m)[1] for m in messages] == [format_span_id(identity(span)) for span in creates]
            assert attributes(creates[1], "messagequeue.ordering_key") == ("k",)
            assert recording.total("messaging.client.sent.messages") == 2

    run_virtual(main())


def test_create_spans_can_be_switched_off():
    """Then all messages of a call share its span, which is their producer."""
    recording = Recording(create_spans=False)

    async def main() -> None:
        async with memory(recording) as bench:
            await (await bench.publisher()).publish_many(["a", "b"])
            messages = await bench.consume(nothing)
            send = recording.span("send")

            assert recording.spans("create") == []
            assert send.kind is SpanKind.PRODUCER
            assert {traceparent_ids(message)[1] for message in messages} == {format_span_id(identity(send))}

    run_virtual(main())


def test_failures_are_recorded_by_their_code():
    """Of the broker's and of the caller's; what never left is not counted as sent."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender()
        sender.script("send", PublishError("no", code=ErrorCode.THROTTLED))
        publisher = ObservedPublisher(
            "orders", sender, recording.telemetry.publisher(Destination(system="x", name="o"))
        )
        with pytest.raises(PublishError):
            await publisher.publish("a")
        with pytest.raises(InvalidMessageError):
            await publisher.publish("b", ordering_key="")
        with pytest.raises(TypeError):
            await publisher.publish("c", dealy=1)  # type: ignore[call-arg]
        await publisher.publish("d")
        await publisher.stop()

        spans = recording.spans("send")
        assert [attributes(span, "error.type")[0] for span in spans] == ["throttled", "invalid", "TypeError", None]
        assert [event.name for event in spans[0].events] == ["exception"]
        sent = "messaging.client.sent.messages"
        assert recording.total(sent, error__type="throttled") == 1
        assert recording.total(sent) == 2
        assert recording.total("messaging.client.operation.duration", messaging__operation__name="send") == 4

    run_virtual(main())


def test_a_cancelled_publish_ends_its_span():
    """As failed, with the reason; a message that had not left is not sent."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender()
        sender.takes("send", 10)
        publisher = ObservedPublisher(
            "orders", sender, recording.telemetry.publisher(Destination(system="x", name="o"))
        )
        try:
            async with asyncio.timeout(3):
                await publisher.publish("a")
        except TimeoutError:
            pass
        await publisher.stop()

        send = recording.span("send")
        assert attributes(send, "error.type") == ("cancelled",)
        assert seconds(send) == pytest.approx(3)

    run_virtual(main())


def test_exceptions_can_be_kept_out_of_spans():
    """Then the type alone is there."""
    recording = Recording(record_exceptions=False)

    async def main() -> None:
        async with memory(recording) as bench:
            with pytest.raises(TypeError):
                await (await bench.publisher()).publish("c", dealy=1)  # type: ignore[call-arg]

            send = recording.span("send")
            assert send.events == ()
            assert attributes(send, "error.type") == ("TypeError",)
            assert send.status.description == "TypeError"

    run_virtual(main())


def test_who_publishes_next_is_no_child_of_who_published_before():
    """A request carries messages of several callers: what instruments it sees none of them, or the only one."""
    recording = Recording()
    seen: list[int] = []

    class Watched(ScriptedSender):
        async def send(self, messages):  # type: ignore[no-untyped-def]
            with recording.tracer.start_as_current_span("request"):
                seen.append(len(messages))
                return await super().send(messages)

    async def main() -> None:
        publisher = ObservedPublisher(
            "orders", Watched(), recording.telemetry.publisher(Destination(system="x", name="o"))
        )
        with recording.tracer.start_as_current_span("one"):
            await publisher.publish("a")
        with recording.tracer.start_as_current_span("two"):
            await asyncio.gather(publisher.publish("b"), publisher.publish("c"))
        await publisher.stop()

        alone, together = recording.spans("request")
        assert seen == [1, 2]
        assert parent_of(alone) == identity(recording.spans("send")[0])
        assert parent_of(together) is None
        sizes = recording.metrics()["messagequeue.publisher.batch.size"]
        assert [(point.count, point.sum) for point in sizes.values()] == [(2, 3)]

    run_virtual(main())


class Narrow(ScriptedSender):
    """A sender of a broker that takes ten attributes and 100 bytes of them."""

    def measure(self, message: EncodedMessage, /) -> int:
        size = sum(len(name) + len(str(value)) for name, value in (message.attributes or {}).items())
        if len(message.attributes or {}) > 10:
            raise InvalidMessageError(f"{len(message.attributes or {})} attributes: there may be 10")
        return super().measure(message) + size


def narrow(recording: Recording, **choices: object) -> tuple[Narrow, ObservedPublisher]:
    sender = Narrow()
    where = Destination(system="x", name="o")
    return sender, ObservedPublisher("orders", sender, recording.telemetry.publisher(where))


def many_attributes(number: int) -> dict[str, str]:
    return {f"a{n}": "x" for n in range(number)}


@pytest.mark.parametrize(("given", "carried"), [(7, True), (8, True), (9, False), (10, False)])
def test_context_is_carried_where_there_is_room_for_all_of_it(
    given: int, carried: bool, caplog: pytest.LogCaptureFixture
):
    """Two keys, ten attributes at most: both or none, never an error; told of once, counted each time (TEL-01)."""
    recording = Recording()

    async def main() -> None:
        sender, publisher = narrow(recording)
        token = current.attach(baggage.set_baggage("tenant", "7"))
        try:
            for _ in range(3):
                await publisher.publish("x", attributes=many_attributes(given))
        finally:
            current.detach(token)
        await publisher.stop()

        keys = {"traceparent", "baggage"} if carried else set()
        for message in sender.sent:
            assert set(message.attributes or {}) == set(many_attributes(given)) | keys
            assert message.traceparent is not None
        assert recording.total("messagequeue.publisher.context.skipped") == (0 if carried else 3)
        assert len([r for r in caplog.records if "has no room" in r.message]) == (0 if carried else 1)

    with caplog.at_level(logging.WARNING, "messagequeue.publisher"):
        run_virtual(main())


def test_context_in_the_attributes_already_takes_no_more_room():
    """Ten attributes, two of which are the context's: they are replaced, and linked to (TEL-01)."""
    recording = Recording()
    other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    async def main() -> None:
        sender, publisher = narrow(recording)
        given = many_attributes(8) | {"traceparent": other, "tracestate": "vendor=1"}
        await publisher.publish("x", attributes=given)
        await publisher.stop()

        send, [message] = recording.span("send"), sender.sent
        assert message.attributes is not None
        assert set(message.attributes) == set(many_attributes(8)) | {
            "traceparent"
        }  # the other trace's state is not ours
        assert str(message.attributes["traceparent"]).split("-")[2] == format_span_id(identity(send))
        assert links(send) == {0x00F067AA0BA902B7}
        assert recording.total("messagequeue.publisher.context.skipped") == 0

    run_virtual(main())


def test_one_full_message_of_many_is_the_only_one_without_context():
    """Its neighbours carry theirs, and all are sent (TEL-01)."""
    recording = Recording()

    async def main() -> None:
        sender, publisher = narrow(recording)
        items = [Outgoing(str(n), attributes=many_attributes(10 if n == 2 else 9)) for n in range(4)]
        results = await publisher.publish_many(items)
        await publisher.stop()

        assert all(isinstance(result, Receipt) for result in results)
        assert ["traceparent" in (message.attributes or {}) for message in sender.sent] == [True, True, False, True]
        assert len(sender.sent[2].attributes or {}) == 10
        assert recording.total("messagequeue.publisher.context.skipped") == 1

    run_virtual(main())


def test_context_never_makes_a_message_too_large():
    """A body of exactly the limit leaves without context (TEL-01)."""
    recording = Recording()

    async def main() -> None:
        async with memory(recording, max_message_size=1000) as bench:
            publisher = await bench.publisher()
            await publisher.publish("x" * 1000)
            await publisher.publish("x" * 900)
            full, small = await bench.consume(nothing)

            assert "traceparent" not in full.attributes
            assert "traceparent" in small.attributes

    run_virtual(main())


def test_faults_of_the_caller_are_told_as_without_telemetry():
    """The error speaks of what was given, not of attributes that telemetry would have added."""
    recording = Recording()

    async def main() -> None:
        _, publisher = narrow(recording)
        with pytest.raises(InvalidMessageError, match="11 attributes"):
            await publisher.publish("x", attributes=many_attributes(11))
        await publisher.stop()

        assert recording.total("messagequeue.publisher.context.skipped") == 0

    run_virtual(main())


def test_carrier_keys_are_written_as_the_standard_has_them():
    """traceparent, tracestate and baggage, in lower case, as text (TEL-05)."""
    recording = Recording()
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            remote = SpanContext(1, 2, True, TraceFlags(1), TraceState([("vendor", "a")]))
            context = baggage.set_baggage("tenant", "7", set_span_in_context(NonRecordingSpan(remote)))
            token = current.attach(context)
            try:
                await publisher.publish("x")
            finally:
                current.detach(token)
            [message] = await bench.consume(nothing)

            assert set(message.attributes) == {"traceparent", "tracestate", "baggage"}
            assert all(isinstance(value, str) for value in message.attributes.values())
            assert message.attributes["tracestate"] == "vendor=a"
            assert message.attributes["baggage"] == "tenant=7"

    run_virtual(main())


def test_ordering_and_batching_are_as_without_telemetry():
    """A key's messages stay in order, and a burst leaves in one request."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender(capabilities=Capabilities(ordering=True, ordering_key="accepted"))
        publisher = ObservedPublisher(
            "orders", sender, recording.telemetry.publisher(Destination(system="x", name="o"))
        )
        await asyncio.gather(*(publisher.publish(str(n), ordering_key="k") for n in range(10)))
        await publisher.stop()

        assert [message.body for message in sender.sent] == [str(n) for n in range(10)]
        assert len([call for call in sender.calls if call.action == "send"]) == 1

    run_virtual(main())


def test_middleware_is_within_the_callers_trace():
    """Each message passes alone, in a task of its own, and still is a child of the span that published it."""
    recording = Recording()

    def slow(publish: Publish) -> Publish:
        async def wrapped(item: Outgoing) -> Receipt:
            await asyncio.sleep(0.1)
            return await publish(item)

        return wrapped

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = with_middleware(await bench.publisher(), slow)
            with recording.tracer.start_as_current_span("one"):
                await publisher.publish("a")
            with recording.tracer.start_as_current_span("many"):
                await publisher.publish_many(["b", "c"])
            await publisher.stop()

        sends = recording.spans("send")
        parents = [identity(recording.span("one"))] + [identity(recording.span("many"))] * 2
        assert [parent_of(span) for span in sends] == parents

    run_virtual(main())


def test_a_publish_that_is_thrown_away_does_no_harm(caplog: pytest.LogCaptureFixture):
    """Closed in another context than it ran in, as by the end of its loop, it leaves that context as it is."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender()
        sender.takes("send", 1)
        publisher = ObservedPublisher(
            "orders", sender, recording.telemetry.publisher(Destination(system="x", name="o"))
        )
        work = publisher.publish("a")
        contextvars.copy_context().run(work.send, None)
        with recording.tracer.start_as_current_span("other") as other:
            work.close()
            assert trace.get_current_span() is other
        await publisher.stop()

    run_virtual(main())
    assert attributes(recording.span("send"), "error.type") == ("cancelled",)
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


def test_what_was_refused_here_is_not_counted_as_sent():
    """Of many, some are refused by checks and some by the broker, with the same word: the latter alone were sent."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender(max_size=100)
        sender.script("send", {1: PublishError("no", code=ErrorCode.INVALID)})
        publisher = ObservedPublisher(
            "orders", sender, recording.telemetry.publisher(Destination(system="x", name="o"))
        )
        bad = Outgoing("x", ordering_key="")
        results = await publisher.publish_many(["fine", "refused by the broker", bad, bad, "x" * 200])
        await publisher.stop()

        assert [isinstance(result, Receipt) for result in results] == [True, False, False, False, False]
        sent = recording.metrics()["messaging.client.sent.messages"]
        kinds = {dict(labels).get("error.type"): count for labels, count in sent.items()}
        assert kinds == {None: 1, "invalid": 1}

    run_virtual(main())
