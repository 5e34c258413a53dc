"""
What is recorded of a publisher.

    send (PRODUCER)    a `publish()` or `publish_nowait()`, from the call to the broker's answer
    send (CLIENT)      a `publish_many()`; links to the spans of its messages
    create (PRODUCER)  a message of a `publish_many()`, where it is taken

The context of the PRODUCER goes with the message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from ..._errors import ErrorCode, PublishError
from ..._message import Receipt
from ...driver import EncodedMessage
from .._names import CONTEXT_SKIPPED, CREATE, FAILED_COUNT, MESSAGE_COUNT, MESSAGE_ID, ORDERING_KEY, SEND, SENT
from .._protocol import TraceContext
from ._propagation import Propagation, span_context, traceparent_of, within
from ._topic import Current, Topic, error_type, with_span

#: Which `OtelSending` the code that runs now belongs to.
_SENDING = current.create_key("messagequeue-sending")

#: Errors of messages that were refused here and never reached the broker; it may give some of them, too.
_LOCAL = frozenset({str(code) for code in (ErrorCode.TOO_LARGE, ErrorCode.INVALID, ErrorCode.ENCODE,
                                           ErrorCode.UNSUPPORTED, ErrorCode.CLOSED)})  # fmt: skip


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


class OtelSending:
    """One call of a publisher."""

    __slots__ = ("_handed_over", "_many", "_span", "_timed", "_topic")

    def __init__(self, topic: Topic, *, many: bool) -> None:
        self._topic = topic
        self._many = many
        self._handed_over = 0
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
        self._handed_over += 1
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
            self._count(1, None)
        else:
            kind = self._many_ended(result)
        self._topic.meters.duration.record(self._timed.end(), self._topic.series(SEND, kind).attributes)

    def _failed(self, error: BaseException) -> str:
        kind = "cancelled" if isinstance(error, asyncio.CancelledError) else error_type(error)
        self._topic.fail(self._span, error, kind)
        if kind != "cancelled":
            self._count(self._handed_over, kind)
        return kind

    def _many_ended(self, results: Sequence[Receipt | PublishError]) -> str | None:
        errors = Counter(error_type(result) for result in results if not isinstance(result, Receipt))
        failed = errors.total()
        self._span.set_attribute(MESSAGE_COUNT, len(results))
        first = next((result for result in results if not isinstance(result, Receipt)), None)
        if first is not None:
            self._span.set_attribute(FAILED_COUNT, failed)
            self._topic.fail(self._span, first)
        self._count(len(results) - failed, None)
        refused = len(results) - self._handed_over
        for kind, count in sorted(errors.items(), key=lambda item: item[0] not in _LOCAL):
            here = min(count, refused) if kind in _LOCAL else 0
            refused -= here
            self._count(count - here, kind)
        return None if first is None else error_type(first)

    def _count(self, messages: int, kind: str | None) -> None:
        if messages > 0:
            self._topic.count(SENT, messages, self._topic.series(SEND, kind))
