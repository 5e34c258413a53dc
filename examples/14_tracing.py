"""
Follow an order from the request that placed it to the handlers that ship it: one trace, and metrics of the way.

The trace context travels in the message's attributes, on SQS in its trace header, too; so it goes on in another process
and in another language.  The exporters here keep everything in memory and print it; a program exports to a collector.

Prints:

    POST /orders
      send orders
        process orders: handled
          send parcels
            process parcels: failed ValueError
            process parcels: handled
    sent: orders 1, parcels 1
    handled: orders 1, parcels 1; failed: parcels 1
"""

import asyncio
from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from messagequeue import Message, open_consumers, open_publishers, run
from messagequeue.telemetry import OpenTelemetry


def tree(spans: Sequence[ReadableSpan], parent: int | None = None, depth: int = 0) -> None:
    """Print the spans below *parent*, but for the calls to the broker."""
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if (span.parent.span_id if span.parent else None) != parent or span.name.startswith(
            ("receive", "settle", "release")
        ):
            continue
        about = span.attributes or {}
        words = [str(about[name]) for name in ("messagequeue.outcome", "error.type") if name in about]
        print("  " * depth + span.name + (f": {' '.join(words)}" if words else ""))
        tree(spans, span.context.span_id if span.context else None, depth + 1)


def counts(reader: InMemoryMetricReader, metric: str, **labels: str) -> str:
    """Return how much was counted for each topic."""
    found: dict[str, int] = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for point in (point for item in scope.metrics if item.name == metric for point in item.data.data_points):
                about = point.attributes or {}
                if all(about.get(f"messagequeue.{name}") == value for name, value in labels.items()):
                    topic = str(about["messaging.destination.name"])
                    found[topic] = found.get(topic, 0) + int(point.value)  # type: ignore[union-attr]
    return ", ".join(f"{topic} {count}" for topic, count in sorted(found.items()))


async def main() -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider(metric_readers=[reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = OpenTelemetry(tracer_provider=tracers, meter_provider=meters)

    async with (
        open_publishers("memory://", telemetry=telemetry) as publishers,
        open_consumers("memory://", telemetry=telemetry) as consumers,
    ):
        orders, parcels = await publishers.new_publisher("orders"), await publishers.new_publisher("parcels")

        async def pack(message: Message) -> None:
            await parcels.publish({"parcel": 1, "of": message.json()["order"]})

        async def ship(message: Message) -> None:
            if message.delivery_attempt == 1:
                raise ValueError("no such street")
            packing.stop()
            shipping.stop()

        packing = await consumers.new_consumer("orders", pack)
        shipping = await consumers.new_consumer("parcels", ship, retry_delay=0.1)

        with tracers.get_tracer("shop").start_as_current_span("POST /orders"):
            await orders.publish({"order": "o-1"})
        await run(packing, shipping)

    tree(exporter.get_finished_spans())
    consumed = "messaging.client.consumed.messages"
    print("sent:", counts(reader, "messaging.client.sent.messages"))
    print(
        f"handled: {counts(reader, consumed, outcome='handled')}; failed: {counts(reader, consumed, outcome='failed')}"
    )


asyncio.run(main())
