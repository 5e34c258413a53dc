"""
What is recorded of a consumer.

    receive (CLIENT)      a receive that brought messages, or failed; links to the spans that published them
    process (CONSUMER)    a handler; a child of the span that published its message, to which it links, too
    settle, release, dead_letter (CLIENT)    a call to the broker; links to the spans that published its messages
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, SpanContext, SpanKind
from opentelemetry.util.types import AttributeValue

from ..._errors import ConsumeError
from ..._message import Message
from .._names import (
    CONSUMED,
    DELIVERY_ATTEMPT,
    FAILED_COUNT,
    MESSAGE_COUNT,
    MESSAGE_ID,
    ORDERING_KEY,
    OUTCOME,
    PROCESS,
    RECEIVE,
)
from .._protocol import Ending, Received
from ._propagation import Propagation, span_context, within
from ._topic import Current, Topic, error_type, with_span

#: Spans that one span links to at most: what the SDK keeps unless told otherwise.
_LINKS = 128


class OtelConsumer:
    """The `ConsumerTelemetry` of one topic."""

    def __init__(self, topic: Topic, propagation: Propagation, carried: Callable[[Message], str | None]) -> None:
        self.topic = topic
        self._propagation = propagation
        self._carried = carried

    def receiving(self) -> OtelReceiving:
        return OtelReceiving(self)

    def origin(self, message: Message, /) -> Origin:
        context = self._propagation.read(message.attributes)
        span = span_context(context)
        if not span.is_valid and (traceparent := self._carried(message)) is not None:
            context = within(traceparent, context)
            span = span_context(context)
        return Origin(context, span)

    def settling(self, operation: str, messages: Sequence[Received], /) -> OtelSettling:
        return OtelSettling(self, operation, messages)

    def processing(self, messages: Sequence[Received], /) -> OtelProcessing:
        return OtelProcessing(self, messages)

    def parent(self, messages: Sequence[Received]) -> Context:
        """Return the context that work on *messages* begins in: what a lone one brought, where traces are continued."""
        if len(messages) != 1:
            return Context()
        context = cast(Origin, messages[0].origin).context
        if self.topic.choices.continue_trace:
            return context
        return trace.set_span_in_context(INVALID_SPAN, context)  # baggage goes on, the trace does not


class Origin(NamedTuple):
    """What came with a message, and the span in it."""

    context: Context
    span: SpanContext


def _links(messages: Sequence[Received]) -> list[SpanContext]:
    return [cast(Origin, each.origin).span for each in messages[:_LINKS]]


class OtelReceiving:
    """One receive."""

    __slots__ = ("_began", "_consumer")

    def __init__(self, consumer: OtelConsumer) -> None:
        self._consumer = consumer
        self._began = consumer.topic.clock()

    def end(self, result: Sequence[Received] | BaseException, /) -> None:
        failed = isinstance(result, BaseException)
        if isinstance(result, asyncio.CancelledError) or not (failed or result):
            return  # the end of the consumer, or nothing came, which a counter knows
        topic = self._consumer.topic
        seconds = topic.clock() - self._began
        kind = error_type(result) if isinstance(result, BaseException) else None
        topic.meters.duration.record(seconds, topic.series(RECEIVE, kind).attributes)
        if topic.choices.receive_spans:
            self._record(result, seconds)

    def _record(self, result: Sequence[Received] | BaseException, seconds: float) -> None:
        topic = self._consumer.topic
        messages: Sequence[Received] = () if isinstance(result, BaseException) else result
        links = _links(messages)
        about = {MESSAGE_COUNT: len(messages)}
        receive = topic.begin(RECEIVE, SpanKind.CLIENT, context=Context(), links=links, ago=seconds, attributes=about)
        if isinstance(result, BaseException):
            topic.fail(receive.span, result)
        receive.end()


class OtelSettling:
    """One call about messages that were received."""

    __slots__ = ("_call", "_operation", "_topic")

    def __init__(self, consumer: OtelConsumer, operation: str, messages: Sequence[Received]) -> None:
        topic = self._topic = consumer.topic
        self._operation = operation
        about: dict[str, AttributeValue] = (
            {MESSAGE_ID: messages[0].message.id} if len(messages) == 1 else {MESSAGE_COUNT: len(messages)}
        )
        links, parent = _links(messages), consumer.parent(messages)
        self._call = topic.begin(operation, SpanKind.CLIENT, context=parent, links=links, attributes=about)

    def end(self, result: Sequence[ConsumeError | None] | BaseException, /) -> None:
        topic, span, kind = self._topic, self._call.span, None
        errors = [result] if isinstance(result, BaseException) else [error for error in result if error is not None]
        if errors:
            kind = error_type(errors[0])
            topic.fail(span, errors[0])
            if not isinstance(result, BaseException) and len(result) > 1:
                span.set_attribute(FAILED_COUNT, len(errors))
        topic.meters.duration.record(self._call.end(), topic.series(self._operation, kind).attributes)


class OtelProcessing:
    """One call of a handler."""

    __slots__ = ("_context", "_process", "_topic")

    def __init__(self, consumer: OtelConsumer, messages: Sequence[Received]) -> None:
        topic = self._topic = consumer.topic
        parent = consumer.parent(messages)
        around = span_context(None)  # of whoever called consume(): it is linked to and no more
        links = [*_links(messages), around]
        about = _about(messages)
        self._process = topic.begin(PROCESS, SpanKind.CONSUMER, context=parent, links=links, attributes=about)
        self._context = with_span(self._process.span, parent)
        now = time.time()
        for each in messages:
            at = each.message.published_at
            if at is not None:
                topic.meters.age.record(max(0.0, now - at.timestamp()), topic.attributes)

    def current(self) -> Current:
        return Current(self._context)

    def end(self, endings: Sequence[Ending], /) -> None:
        topic, span = self._topic, self._process.span
        failed = [each for each in endings if each.error is not None]
        worst = failed[0] if failed else endings[0]
        if worst.error is not None:
            topic.fail(span, worst.error, _kind(worst))
        if len(endings) == 1:
            span.set_attribute(OUTCOME, worst.outcome)
        elif failed:
            span.set_attribute(FAILED_COUNT, len(failed))
        series = topic.series(PROCESS, _kind(worst), worst.outcome)
        topic.meters.processing.record(self._process.end(), series.attributes)
        for (kind, outcome), count in Counter((_kind(each), each.outcome) for each in endings).items():
            topic.count(CONSUMED, count, topic.series(PROCESS, kind, outcome))


def _kind(ending: Ending) -> str | None:
    """The name of a failure: the consumer's reason for a cancellation says more than that it was one."""
    if ending.error is None:
        return None
    return error_type(ending.error) if ending.outcome in ("failed", "undecodable") else ending.outcome


def _about(messages: Sequence[Received]) -> dict[str, AttributeValue]:
    if len(messages) != 1:
        return {MESSAGE_COUNT: len(messages)}
    message = messages[0].message
    found: dict[str, AttributeValue] = {MESSAGE_ID: message.id}
    if message.ordering_key is not None:
        found[ORDERING_KEY] = message.ordering_key
    if message.delivery_attempt is not None:
        found[DELIVERY_ATTEMPT] = message.delivery_attempt
    return found
