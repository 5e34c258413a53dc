"""What the tests of telemetry share: an OpenTelemetry SDK that keeps what it is told, applications in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from messagequeue import (
    ConsumeError,
    ConsumerProvider,
    Handler,
    Message,
    Publisher,
    PublisherProvider,
    open_consumers,
    open_publishers,
)
from messagequeue.telemetry import OpenTelemetry

Labels = frozenset[tuple[str, Any]]

_names = (f"telemetry-{n}" for n in count())


class Recording:
    """
    An `OpenTelemetry`, and what it recorded.

    Attributes:
        telemetry: Measures by the running loop's clock.
        tracer: For spans of the application's own.
    """

    def __init__(self, **choices: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider(metric_readers=[self._reader], shutdown_on_exit=False)
        self.traces = provider
        self.tracer = provider.get_tracer("application")
        self.telemetry = OpenTelemetry(
            tracer_provider=provider,
            meter_provider=self.meters,
            clock=lambda: asyncio.get_running_loop().time(),
            **choices,
        )

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """Every span that ended, in the order of their ends; those of an operation, `send`, or of a name."""
        spans = self._spans.get_finished_spans()
        return [span for span in spans if name is None or span.name == name or span.name.split()[0] == name]

    def span(self, name: str) -> ReadableSpan:
        """The only span of that name."""
        [found] = self.spans(name)
        return found

    def metrics(self) -> dict[str, dict[Labels, Any]]:
        """The points of every metric by their attributes; of a histogram, its point."""
        data = self._reader.get_metrics_data()
        found: dict[str, dict[Labels, Any]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    series = found.setdefault(metric.name, {})
                    for point in metric.data.data_points:
                        labels = frozenset((point.attributes or {}).items())
                        assert labels not in series, f"{metric.name} has a series twice: {labels}"
                        series[labels] = getattr(point, "value", point)
        return found

    def total(self, metric: str, **labels: Any) -> float:
        """The sum over the series that have *labels*, dots written as two underscores; of a histogram, the count."""
        wanted = {(name.replace("__", "."), value) for name, value in labels.items()}
        points = [point for series, point in self.metrics().get(metric, {}).items() if wanted <= series]
        return sum(getattr(point, "count", point) for point in points)


class Bench:
    """A `memory` broker of its own, with telemetry at both halves."""

    def __init__(self, publishers: PublisherProvider, consumers: ConsumerProvider) -> None:
        self.publishers = publishers
        self.consumers = consumers
        self.errors: list[ConsumeError] = []

    async def publisher(self, topic: str = "orders") -> Publisher:
        return await self.publishers.new_publisher(topic)

    async def consume(
        self, handler: Handler, seconds: float = 1.0, topic: str = "orders", **options: Any
    ) -> list[Message]:
        """Consume for so long, and return the messages that the handler got."""
        seen: list[Message] = []

        async def handle(message: Message) -> None:
            seen.append(message)
            await handler(message)

        consumer = await self.consumers.new_consumer(topic, handle, on_error=self.errors.append, **options)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await asyncio.sleep(seconds)
            consumer.stop()
        await consumer.close()
        return seen


@asynccontextmanager
async def memory(
    recording: Recording | None, *, sending: Recording | None = None, **options: object
) -> AsyncIterator[Bench]:
    """
    Open a broker of its own.

    Args:
        recording: Of both halves; None for none.
        sending: Of the publishing half instead.
        options: Of the provider.
    """
    config = {"provider": "memory", "memory": {"name": next(_names), **options}}
    sender = sending or recording
    async with (
        open_publishers(config, telemetry=sender and sender.telemetry) as publishers,
        open_consumers(config, telemetry=recording and recording.telemetry) as consumers,
    ):
        yield Bench(publishers, consumers)


async def nothing(message: Message) -> None:
    """A handler."""


def links(span: ReadableSpan) -> set[int]:
    """The ids of the spans that *span* links to."""
    return {link.context.span_id for link in span.links}


def identity(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def attributes(span: ReadableSpan, *names: str) -> tuple[Any, ...]:
    return tuple((span.attributes or {}).get(name) for name in names)
