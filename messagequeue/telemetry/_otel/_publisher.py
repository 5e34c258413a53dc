"""
What is recorded of a publisher.

    send (PRODUCER)    a `publish()` or `publish_nowait()`, from the call to the broker's answer
    send (CLIENT)      a `publish_many()`; links to the spans of its messages
    create (PRODUCER)  a message of a `publish_many()`, where it is taken

The context of the PRODUCER goes with the message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from ..._errors import PublishError
from ..._message import Receipt
from ...driver import EncodedMessage
from .._names import (
    CONTEXT_SKIPPED,
    CREATE,
    FAILED_COUNT,
    MESSAGE_COUNT,
    MESSAGE_ID,
    ORDERING_KEY,
    SEND,
    SENT,
)
from .._protocol import TraceContext
from ._propagation import Propagation, span_context, traceparent_of, within
from ._topic import Current, Topic, error_type, with_span

#: Which `OtelSending` the code that runs now belongs to.
_SENDING = current.create_key("messagequeue-sending")


class OtelPublisher:
    """The `PublisherTelemetry` of one topic."""

    def __init__(self, topic: Topic, propagation: Propagation) -> None:
        self._topic = topic
        self._propagation = propagation

    def sending(self) -> OtelSending:
        return OtelSending(self._topic, many=False)

    def sending_many(self) -> OtelSending:
        return OtelSending(self._topic, many=True)

    def context(self, message: EncodedMessage, /) -> TraceContext | None:
        now = current.get_current()
        sending = now.get(_SENDING)
        if isinstance(sending, OtelSending):
            if message.attributes:
                text = {name: value for name, value in message.attributes.items() if isinstance(value, str | bytes)}
                sending.continues(self._propagation.read(text))
            now = sending.creating(message, now)
        attributes, traceparent = self._propagation.write(now), traceparent_of(span_context(now))
        if not attributes and traceparent is None:
            return None
        return TraceContext(attributes, traceparent, self._propagation.replaced)

    def skipped(self, message: EncodedMessage, /) -> None:
        self._topic.count(CONTEXT_SKIPPED, 1)

    def request(self, messages: Sequence[EncodedMessage], /) -> AbstractContextManager[None]:
        self._topic.meters.batch.record(len(messages), self._topic.attributes)
        context = Context()
        if len(messages) == 1 and (traceparent := messages[0].traceparent) is not None:
            context = within(traceparent, context)
        return Current(context)

    def sent(self, results: Sequence[Receipt | PublishError], /) -> None:
        kinds = Counter(None if isinstance(result, Receipt) else error_type(result) for result in results)
        for kind, count in kinds.items():
            self._topic.count(SENT, count, self._topic.series(SEND, kind))


class OtelSending:
    """One call of a publisher."""

    __slots__ = ("_many", "_span", "_timed", "_topic")

    def __init__(self, topic: Topic, *, many: bool) -> None:
        self._topic = topic
        self._many = many
        creates = many and topic.choices.create_spans
        self._timed = topic.begin(SEND, SpanKind.CLIENT if creates else SpanKind.PRODUCER)
        self._span = self._timed.span

    def current(self) -> Current:
        return Current(current.set_value(_SENDING, self, with_span(self._span)))

    # -- messages

    def continues(self, context: Context) -> None:
        """A message has the context of another span in its attributes, as one that is passed on: keep that known."""
        before = span_context(context)
        if before.is_valid:
            self._span.add_link(before)

    def creating(self, message: EncodedMessage, now: Context) -> Context:
        """Return the context that *message* takes with it."""
        attributes = {} if message.ordering_key is None else {ORDERING_KEY: message.ordering_key}
        if not self._many:
            self._span.set_attributes(attributes)
            return now
        if not self._topic.choices.create_spans:
            return now
        created = self._topic.begin(CREATE, SpanKind.PRODUCER, context=now, attributes=attributes)
        created.end()
        self._span.add_link(created.span.get_span_context())
        return with_span(created.span, now)

    # -- the end

    def end(self, result: Receipt | Sequence[Receipt | PublishError] | BaseException, /) -> None:
        if isinstance(result, BaseException):
            kind = self._failed(result)
        elif isinstance(result, Receipt):
            kind = None
            self._span.set_attribute(MESSAGE_ID, result.message_id)
        else:
            kind = self._many_ended(result)
        self._topic.meters.duration.record(self._timed.end(), self._topic.series(SEND, kind).attributes)

    def _many_ended(self, results: Sequence[Receipt | PublishError]) -> str | None:
        errors = [result for result in results if not isinstance(result, Receipt)]
        self._span.set_attribute(MESSAGE_COUNT, len(results))
        if not errors:
            return None
        self._span.set_attribute(FAILED_COUNT, len(errors))
        return self._failed(errors[0])

    def _failed(self, error: BaseException) -> str:
        self._topic.fail(self._span, error)
        return error_type(error)
