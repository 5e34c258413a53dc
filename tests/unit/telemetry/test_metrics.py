"""Metrics: what is counted, what is read when they are collected, and that the series stay few."""

from __future__ import annotations

import asyncio
import gc
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagequeue import (
    ConsumeOptions,
    ErrorCode,
    LeaseLostError,
    Message,
    Outgoing,
    PublishError,
    PublishOptions,
    ReceiveError,
    SettleError,
)
from messagequeue.driver import Capabilities
from messagequeue.runtime import RuntimeConsumer
from messagequeue.runtime.observed_publisher import ObservedPublisher
from messagequeue.runtime.readings import consumer_readings
from messagequeue.telemetry import INSTRUMENTS, Destination, OpenTelemetry
from messagequeue.telemetry._names import MOST_ERROR_TYPES
from messagequeue.testing import ScriptedSender, ScriptedSource, message, run_virtual
from tests.unit.telemetry.recording import Recording, memory, nothing

WHERE = Destination(system="x", name="orders")


def test_series_depend_on_queue_outcome_and_kind_of_error_only():
    """
    Thousands of messages with ids, keys and error texts of their own over two queues: the series are a fixed few, and
    no message's id, key, body or text is in any (TEL-07).
    """
    recording = Recording()
    spans_off = Recording(record_exceptions=False)

    async def handler(message: Message) -> None:
        if message.json() % 3 == 0:
            raise ValueError(f"message {message.id} of {message.ordering_key} holds {message.text}")

    async def series(seen: Recording, messages: int) -> set[tuple[str, Any]]:
        async with memory(seen, max_receives=1) as bench:
            for topic in ("orders", "invoices"):
                publisher = await bench.publisher(topic)
                items = [Outgoing(n, ordering_key=f"secret-{n}") for n in range(messages)]
                await publisher.publish_many(items)
                await bench.consume(handler, 60, topic, concurrency=100, retry_delay=1000)
        return {(name, labels) for name, points in seen.metrics().items() for labels in points}

    async def main() -> None:
        few, many = await series(spans_off, 10), await series(recording, 2_000)

        assert few == many
        shown = repr(many)
        assert "secret-" not in shown
        assert "holds" not in shown
        ids = {span.attributes["messaging.message.id"] for span in recording.spans("process")}  # type: ignore[index]
        assert len(ids) == 4_000
        assert not any(name in shown for name in ids)  # type: ignore[operator]
        assert {dict(labels)["messaging.destination.name"] for _, labels in many} == {"orders", "invoices"}

    run_virtual(main())


def test_kinds_of_error_are_bounded():
    """A program that makes a class for each error does not make a series for each (TEL-07)."""
    recording = Recording()
    source = ScriptedSource()
    source.put(*range(3 * MOST_ERROR_TYPES))

    async def handler(message: Message) -> None:
        raise type(f"Error{message.text}", (Exception,), {})

    async def main() -> None:
        telemetry = recording.telemetry.consumer(WHERE)
        consumer = RuntimeConsumer("orders", source, handler, ConsumeOptions(retry_delay=999), telemetry=telemetry)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await asyncio.sleep(100)
            consumer.stop()

        consumed = recording.metrics()["messaging.client.consumed.messages"]
        assert len(consumed) == MOST_ERROR_TYPES + 1
        assert recording.total("messaging.client.consumed.messages", error__type="_OTHER") == 2 * MOST_ERROR_TYPES
        assert len(recording.spans("process")) == 3 * MOST_ERROR_TYPES

    run_virtual(main())


def test_the_standard_metrics_are_recorded():
    """Sent and consumed messages, the time of calls and of handlers, with the buckets that the conventions advise."""
    recording = Recording()

    async def handler(message: Message) -> None:
        await asyncio.sleep(0.3)

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            await publisher.publish("a")
            await publisher.publish_many(["b", "c"])
            await bench.consume(handler)

        metrics = recording.metrics()
        assert recording.total("messaging.client.sent.messages") == 3
        assert recording.total("messaging.client.consumed.messages", messagequeue__outcome="handled") == 3
        [process] = metrics["messaging.process.duration"].values()
        assert (process.count, process.sum) == (3, pytest.approx(0.9))
        assert process.explicit_bounds[:3] == (0.005, 0.01, 0.025)
        operations = {
            dict(labels)["messaging.operation.name"] for labels in metrics["messaging.client.operation.duration"]
        }
        assert operations == {"send", "receive", "settle"}

    run_virtual(main())


def test_the_age_of_a_message_is_that_at_the_start_of_its_handler():
    """Since its publication, by the wall clock; one without a date is not counted."""
    recording = Recording()
    source = ScriptedSource()
    source.put(message("x", published_at=datetime.now(UTC) - timedelta(hours=2)))
    source.put(message("y", published_at=None))

    async def main() -> None:
        telemetry = recording.telemetry.consumer(WHERE)
        consumer = RuntimeConsumer("orders", source, nothing, ConsumeOptions(), telemetry=telemetry)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await asyncio.sleep(1)
            consumer.stop()

        [age] = recording.metrics()["messagequeue.message.age"].values()
        assert age.count == 1
        assert age.sum == pytest.approx(7200, abs=60)

    run_virtual(main())


def test_counters_that_consumers_have_are_read_when_metrics_are_collected():
    """Empty and failed receives, lost and prolonged leases, failed settlements, released messages, what is held now."""
    recording = Recording()
    source = ScriptedSource(lease=9)
    source.put("a", "lost", "c")
    source.script("receive", ReceiveError("no", code=ErrorCode.UNAVAILABLE))
    source.script("settle", SettleError("no", code=ErrorCode.ACCESS_DENIED))

    async def handler(message: Message) -> None:
        if message.text == "lost":
            source.lose(message.id)
        await asyncio.sleep(10)

    async def main() -> None:
        telemetry = recording.telemetry.consumer(WHERE)
        consumer = RuntimeConsumer(
            "orders", source, handler, ConsumeOptions(concurrency=2, prefetch=1), telemetry=telemetry
        )
        stop = recording.telemetry.watch(WHERE, lambda: consumer_readings(consumer))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await asyncio.sleep(2)
            assert recording.total("messagequeue.consumer.in_flight") == 3
            assert recording.total("messagequeue.consumer.running") == 2
            await asyncio.sleep(50)
            consumer.stop()
        stop()

        assert recording.total("messagequeue.consumer.receive_errors") == 1
        assert recording.total("messagequeue.consumer.empty_receives") == consumer.stats.empty_receives > 0
        assert recording.total("messagequeue.consumer.leases_lost") == 1
        assert recording.total("messagequeue.consumer.leases_extended") == consumer.stats.leases_extended > 0
        assert recording.total("messagequeue.consumer.settle_errors") == 1
        assert "messagequeue.consumer.in_flight" not in recording.metrics()  # it holds nothing any more, and is gone

    run_virtual(main())


def test_keys_that_wait_for_a_failed_message_are_counted():
    """From the failure until the message is back, or its time has passed."""
    recording = Recording()
    tries: list[str] = []

    async def handler(message: Message) -> None:
        tries.append(message.text)
        if tries.count(message.text) == 1 and message.ordering_key != "good":
            raise ValueError

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            for key in ("bad", "worse", "good"):
                await publisher.publish_many([f"{key}1", f"{key}2"], ordering_key=key)
            consumer = await bench.consumers.new_consumer("orders", handler, retry_delay=10)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consumer.consume())
                await asyncio.sleep(5)
                assert recording.total("messagequeue.consumer.blocked_keys") == 2
                await asyncio.sleep(25)
                assert recording.total("messagequeue.consumer.blocked_keys") == 0
                consumer.stop()

    run_virtual(main())


def test_a_publisher_tells_what_is_pending_and_what_was_resent():
    """Read from its counters."""
    recording = Recording()

    async def main() -> None:
        sender = ScriptedSender()
        sender.takes("send", 1)
        sender.script("send", {0: PublishError("busy", code=ErrorCode.UNAVAILABLE, retryable=True)})
        publisher = ObservedPublisher("orders", sender, recording.telemetry.publisher(WHERE), PublishOptions())
        from messagequeue.runtime.readings import publisher_readings

        stop = recording.telemetry.watch(WHERE, lambda: publisher_readings(publisher.stats))
        task = asyncio.ensure_future(publisher.publish_many(["a", "b"]))
        await asyncio.sleep(0.5)
        assert recording.total("messagequeue.publisher.pending") == 2
        await task
        stop()
        await publisher.stop()
        assert recording.total("messagequeue.publisher.resent") == 1
        [(labels, sent)] = recording.metrics()["messaging.client.sent.messages"].items()
        assert (sent, dict(labels).get("error.type")) == (2, None)  # by how each ended

    run_virtual(main())


def test_what_was_counted_stays_counted_when_a_consumer_ends():
    """Also what nobody collected before it ended; a new consumer of the topic goes on from there."""
    recording = Recording()

    async def main() -> None:
        async with memory(recording) as bench:
            await bench.consume(nothing, 25, wait_time=10)
            await bench.consume(nothing, 25, wait_time=10)
        assert recording.total("messagequeue.consumer.empty_receives") == 4

    run_virtual(main())


def test_what_is_watched_for_one_topic_in_several_places_is_added_up():
    """One series per topic: an SDK would refuse two, and two telemetries of one meter provider share it."""
    recording = Recording()
    other = OpenTelemetry(meter_provider=recording.meters)
    name = "messagequeue.consumer.in_flight"

    first = recording.telemetry.watch(WHERE, lambda: {name: 1})
    second = other.watch(WHERE, lambda: {name: 2})
    recording.telemetry.watch(Destination(system="x", name="invoices"), lambda: {name: 4})

    assert recording.total(name, messaging__destination__name="orders") == 3
    assert recording.total(name) == 7
    first()
    first()
    second()
    assert recording.total(name) == 4


def test_a_closed_consumer_is_not_kept():
    """Its numbers are; it is not."""
    recording = Recording()

    async def main() -> weakref.ref[object]:
        async with memory(recording) as bench:
            consumer = await bench.consumers.new_consumer("orders", nothing)
            await consumer.close()
            return weakref.ref(consumer)

    kept = run_virtual(main())
    gc.collect()

    assert kept() is None
    assert recording.total("messagequeue.consumer.empty_receives") == 0


def test_every_metric_that_is_recorded_is_declared():
    """With its unit and description; the attributes are those that the table says."""
    recording = Recording()
    declared = {instrument.name: instrument for instrument in INSTRUMENTS}

    async def main() -> None:
        async with memory(recording) as bench:
            publisher = await bench.publisher()
            await publisher.publish_many(["a", ""])
            await bench.consume(nothing)

    run_virtual(main())
    for name, points in recording.metrics().items():
        for labels in points:
            assert {label for label, _ in labels} <= set(declared[name].attributes)
    assert len(declared) == len(INSTRUMENTS)


def test_nothing_is_kept_for_leases_after_their_settlement():
    """Telemetry has no table of messages: what it knows of one is with its lease."""
    recording = Recording()
    source = ScriptedSource(capabilities=Capabilities())
    ids = [weakref.ref(m) for m in _put(source, 20)]

    async def main() -> None:
        telemetry = recording.telemetry.consumer(WHERE)
        consumer = RuntimeConsumer("orders", source, nothing, ConsumeOptions(), telemetry=telemetry)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await asyncio.sleep(1)
            consumer.stop()
        source.calls.clear()
        gc.collect()
        assert [ref for ref in ids if ref() is not None] == []

    run_virtual(main())


class _Tracked(Message):
    """A message that can be referred to weakly."""

    __slots__ = ("__weakref__",)


def _put(source: ScriptedSource, number: int) -> list[Message]:
    made: list[Message] = [_Tracked("orders", f"t{n}", b"x") for n in range(number)]
    source.put(*made)
    return made


def test_a_lost_lease_is_told_by_the_same_word_everywhere():
    """In the span of the settlement, in the metrics, and in the errors of this library."""
    assert LeaseLostError().code == "lease_lost"
