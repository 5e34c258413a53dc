"""The `Telemetry` that an application gives to its providers; not what is recorded of a topic."""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import TracerProvider

from ..._errors import ConfigurationError
from ..._message import Message
from ..._version import __version__
from .._names import CONVENTIONS
from .._protocol import Destination, Readings
from ._consumer import OtelConsumer
from ._metrics import Histograms
from ._observing import Observed, observed_of
from ._propagation import Propagation
from ._publisher import OtelPublisher
from ._topic import Choices, Topic

_SCOPE = "messagequeue"
_SCHEMA = f"https://opentelemetry.io/schemas/{CONVENTIONS}"


class OpenTelemetry:
    """
    Records spans and metrics with OpenTelemetry, and carries trace context in messages.

    Where they go is set up as for any other instrumentation, with the OpenTelemetry SDK.  Without one nothing is
    recorded, and what other services sent is still passed on.

    Args:
        tracer_provider, meter_provider: None: the global ones, as they are when the first topic is opened.
        propagator: How context is written into attributes and read from them; None: the global one, which is W3C
            `traceparent`, `tracestate` and `baggage` unless told otherwise.
        continue_trace: A handler's span is a child of the span that published its message.  Where False it begins a
            trace of its own.  It links to that span in both cases.
        create_spans: Each message of a `publish_many()` has a span of its own.  Where False they share the span of the
            call.
        receive_spans: Receives that brought messages have spans.
        record_exceptions: Spans of failures hold the exception's text and traceback.  Where False, its type alone: a
            text may hold what was in a message.
        client_id: `messaging.client.id` of spans.
        clock: Returns seconds, by which durations are measured.

    Raises:
        ConfigurationError: *client_id* is empty.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
        continue_trace: bool = True,
        create_spans: bool = True,
        receive_spans: bool = True,
        record_exceptions: bool = True,
        client_id: str | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if client_id == "":
            raise ConfigurationError("client_id='' is empty: give the client's name, or None")
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._propagator = propagator
        self._choices = Choices(
            continue_trace=continue_trace,
            create_spans=create_spans,
            receive_spans=receive_spans,
            record_exceptions=record_exceptions,
            client_id=client_id,
            clock=clock,
        )

    def publisher(self, destination: Destination, /) -> OtelPublisher:
        """See `Telemetry.publisher()`."""
        return OtelPublisher(self._topic(destination), self._propagation())

    def consumer(
        self, destination: Destination, /, *, carried: Callable[[Message], str | None] = lambda message: None
    ) -> OtelConsumer:
        """See `Telemetry.consumer()`."""
        return OtelConsumer(self._topic(destination), self._propagation(), carried)

    def watch(self, destination: Destination, read: Readings, /) -> Callable[[], None]:
        """See `Telemetry.watch()`."""
        return self._observed().watch(destination, read)

    # Not before the first topic: an application may set its providers up after it made this.

    def _topic(self, destination: Destination) -> Topic:
        tracer = trace.get_tracer(_SCOPE, __version__, self._tracer_provider, _SCHEMA)
        meter = self._provider().get_meter(_SCOPE, __version__, _SCHEMA)
        return Topic(destination, tracer, Histograms(meter), self._observed(), self._choices)

    def _propagation(self) -> Propagation:
        return Propagation(self._propagator or propagate.get_global_textmap())

    def _observed(self) -> Observed:
        return observed_of(self._provider(), _SCOPE, __version__, _SCHEMA)

    def _provider(self) -> MeterProvider:
        return self._meter_provider or metrics.get_meter_provider()
