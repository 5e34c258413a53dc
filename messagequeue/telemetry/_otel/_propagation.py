"""How trace context gets into attributes and out of them; whatever an attribute holds, nothing here raises."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ... import _log_events as events

Attributes = Mapping[str, str | bytes]

_W3C = TraceContextTextMapPropagator()
_TRACEPARENT = "traceparent"
#: What an application says of itself, and not whose span it was: one that is there stays where there is no other.
_BAGGAGE = "baggage"


class AttributeGetter(Getter[Attributes]):
    """
    Reads attributes of received messages.

    Names are compared as they are, then without regard to case: some libraries change it.  Text may have come as bytes.
    """

    def get(self, carrier: Attributes, key: str) -> list[str] | None:
        value = carrier.get(key)
        if value is None:
            lower = key.lower()
            value = next((value for name, value in carrier.items() if name.lower() == lower), None)
        if isinstance(value, bytes):
            value = value.decode("ascii") if value.isascii() else None
        return None if value is None else [value]

    def keys(self, carrier: Attributes) -> list[str]:
        return list(carrier)


class AttributeSetter(Setter[dict[str, str]]):
    """Writes attributes, named exactly as the propagator says."""

    def set(self, carrier: dict[str, str], key: str, value: str) -> None:
        carrier[key] = value


_GETTER, _SETTER = AttributeGetter(), AttributeSetter()


class Propagation:
    """
    One propagator at work.

    Attributes:
        replaced: The attributes that a context written by it takes the place of.
    """

    __slots__ = ("_propagator", "_warned", "replaced")

    def __init__(self, propagator: TextMapPropagator) -> None:
        self._propagator = propagator
        self._warned = False
        self.replaced = frozenset(propagator.fields) - {_BAGGAGE}

    def write(self, context: Context) -> dict[str, str]:
        """Return the attributes of *context*."""
        carrier: dict[str, str] = {}
        try:
            self._propagator.inject(carrier, context, _SETTER)
        except Exception:
            self._warn()
            return {}
        return {name: value for name, value in carrier.items() if value}

    def read(self, attributes: Attributes) -> Context:
        """Return the context that came with a message; an empty one where none did, or it is broken."""
        context = Context()
        if attributes:
            try:
                return self._propagator.extract(attributes, context, _GETTER)
            except Exception:
                self._warn()
        return context

    def _warn(self) -> None:
        """A propagator that raises is a foreign one's fault: the message is more important."""
        if not self._warned:
            self._warned = True
            name = type(self._propagator).__name__
            text = "the propagator %s raised; messages go on without its context"
            events.PROPAGATOR_RAISED.log(text, name, exc_info=True, propagator=name)


def within(traceparent: str, context: Context) -> Context:
    """Return *context* with the span that *traceparent* names; as it is where that names none."""
    return _W3C.extract({_TRACEPARENT: traceparent}, context, _GETTER)


def span_context(context: Context | None) -> SpanContext:
    """Return the identity of the span of *context*, an invalid one where it has none."""
    return trace.get_current_span(context).get_span_context()


def traceparent_of(span: SpanContext) -> str | None:
    """Return the W3C form of *span*; None where it is not valid."""
    if not span.is_valid:
        return None
    return f"00-{trace.format_trace_id(span.trace_id)}-{trace.format_span_id(span.span_id)}-{span.trace_flags:02x}"
