"""What publishers and consumers of one topic have in common: how spans begin and end, and what series metrics go to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

from opentelemetry import context as current
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from ..._errors import MessageQueueError
from .._names import (
    CANCELLED,
    CLIENT_ID,
    ERROR_TYPE,
    MOST_ERROR_TYPES,
    OPERATION_NAME,
    OPERATION_TYPE,
    OPERATION_TYPES,
    OTHER_ERROR,
    OUTCOME,
    Instrument,
)
from .._protocol import Destination
from ._metrics import Histograms
from ._observing import Labels, Observed, labels_of

_NANO = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What an application chose; see `OpenTelemetry`."""

    continue_trace: bool
    create_spans: bool
    receive_spans: bool
    record_exceptions: bool
    client_id: str | None
    clock: Callable[[], float]


class Series(NamedTuple):
    """The attributes of one series of a metric, in two forms."""

    attributes: dict[str, AttributeValue]
    labels: Labels


class Timed:
    """
    An operation under way.

    Its time is measured once, by the application's clock, so that the span and the histogram say the same.
    """

    __slots__ = ("_began", "_began_ns", "_clock", "span")

    def __init__(self, span: Span, clock: Callable[[], float], began: float, began_ns: int) -> None:
        self.span = span
        self._clock = clock
        self._began = began
        self._began_ns = began_ns

    def end(self) -> float:
        """End the span and return the seconds that the operation took."""
        seconds = self._clock() - self._began
        self.span.end(self._began_ns + int(seconds * _NANO))
        return seconds


class Topic:
    """Where the spans and the measurements of one topic go."""

    def __init__(
        self, destination: Destination, tracer: Tracer, meters: Histograms, observed: Observed, choices: Choices
    ) -> None:
        self.meters = meters
        self.choices = choices
        self.clock = choices.clock
        self.attributes: dict[str, AttributeValue] = dict(labels_of(destination))
        self._observed = observed
        self._labels = labels_of(destination)
        self._tracer = tracer
        self._name = destination.name
        self._on_spans: dict[str, AttributeValue] = {**self.attributes, **destination.details}
        if choices.client_id is not None:
            self._on_spans[CLIENT_ID] = choices.client_id
        self._series: dict[tuple[str, str | None, str | None], Series] = {}
        self._error_types: set[str] = set()

    # -- spans

    def begin(
        self,
        operation: str,
        kind: SpanKind,
        *,
        context: Context | None = None,
        links: Sequence[SpanContext] = (),
        ago: float = 0.0,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Timed:
        """
        Begin an operation and its span.

        Args:
            context: Its parent's; None: what is current.
            links: The spans that it links to; invalid ones are left out.
            ago: Seconds since it began.
        """
        given: dict[str, AttributeValue] = {
            **self._on_spans,
            OPERATION_NAME: operation,
            OPERATION_TYPE: OPERATION_TYPES[operation],
            **(attributes or {}),
        }
        began = time.time_ns() - int(ago * _NANO)
        found = [Link(each) for each in links if each.is_valid]
        span = self._tracer.start_span(f"{operation} {self._name}", context, kind, given, found, began)
        return Timed(span, self.clock, self.clock() - ago, began)

    def fail(self, span: Span, error: BaseException, kind: str | None = None) -> None:
        """Mark *span* as failed by *error*; *kind* is what it is called, where not by its own name."""
        if not span.is_recording():
            return
        kind = kind or error_type(error)
        # Texts of our own errors hold no body; of others, only `record_exceptions` says.
        text = str(error) if isinstance(error, MessageQueueError) else kind
        span.set_attribute(ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, text))
        if self.choices.record_exceptions:
            try:
                span.record_exception(error)
            except Exception:  # its text raises: the span must end all the same, and has its type
                span.set_attribute(ERROR_TYPE, kind)

    # -- series

    def count(self, instrument: Instrument, number: int, series: Series | None = None) -> None:
        """Add to a counter."""
        self._observed.count(instrument, number, self._labels if series is None else series.labels)

    def series(self, operation: str, error: str | None = None, outcome: str | None = None) -> Series:
        """Return the attributes of a measurement; as many different ones as there are operations and kinds of error."""
        if error is not None:
            error = self._bounded(error)
        found = self._series.get((operation, error, outcome))
        if found is None:
            about = (operation, OPERATION_TYPES[operation], error, outcome)
            given = zip((OPERATION_NAME, OPERATION_TYPE, ERROR_TYPE, OUTCOME), about, strict=True)
            labels = (*self._labels, *((name, value) for name, value in given if value is not None))
            found = self._series[operation, error, outcome] = Series(dict(labels), labels)
        return found

    def _bounded(self, error: str) -> str:
        if error in self._error_types:
            return error
        if len(self._error_types) >= MOST_ERROR_TYPES:
            return OTHER_ERROR
        self._error_types.add(error)
        return error


def error_type(error: BaseException) -> str:
    """Return what an error is called: its code where it is one of ours, else its class; never its text."""
    if isinstance(error, MessageQueueError):
        return str(error.code)
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return CANCELLED
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class Current:
    """Makes a context the current one of a block."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        self._token = current.attach(self._context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A coroutine that is thrown away is closed by whoever does so, in another context, which is left as it is.
        if self._token is not None and kind is not GeneratorExit:
            current.detach(self._token)


def with_span(span: Span, context: Context | None = None) -> Context:
    """Return *context*, or the current one, with *span* as its span."""
    return trace.set_span_in_context(span, context)
