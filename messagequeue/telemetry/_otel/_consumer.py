"""
What is recorded of a consumer.

    receive (CLIENT)      a receive that brought messages, or failed; links to the spans that published them
    process (CONSUMER)    a handler; a child of the span that published its message, to which it links, too
    settle, release, dead_letter (CLIENT)    a call to the broker; links to the spans that published its messages
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, SpanKind
from opentelemetry.util.types import AttributeValue

from ..._errors import ConsumeError, LeaseLostError
from ..._message import Message
from ...driver import Delivery
from .._names import (
    DELIVERY_ATTEMPT,
    FAILED_COUNT,
    MESSAGE_COUNT,
    MESSAGE_ID,
    ORDERING_KEY,
    OUTCOME,
    PROCESS,
    RECEIVE,
)
from ._propagation import Propagation, span_context
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

    def settling(self, operation: str, messages: Sequence[Message], /) -> OtelSettling:
        return OtelSettling(self, operation, messages)

    def processing(self, messages: Sequence[Message], /) -> OtelProcessing:
        return OtelProcessing(self, messages)

    def contexts(self, messages: Sequence[Message]) -> list[Context]:
        """Return what each of *messages* brought; for more than can be linked to, of the first ones."""
        read, carried = self._propagation.read, self._carried
        return [read(message.attributes, carried(message)) for message in messages[:_LINKS]]

    def parent(self, contexts: Sequence[Context]) -> Context:
        """Return the context that work on messages begins in: what one message brought, where traces are continued."""
        if len(contexts) != 1:
            return Context()
        if self.topic.choices.continue_trace:
            return contexts[0]
        return trace.set_span_in_context(INVALID_SPAN, contexts[0])  # baggage goes on, the trace does not


class OtelReceiving:
    """One receive."""

    __slots__ = ("_began", "_consumer")

    def __init__(self, consumer: OtelConsumer) -> None:
        self._consumer = consumer
        self._began = consumer.topic.clock()

    def end(self, result: Sequence[Delivery] | BaseException, /) -> None:
        topic = self._consumer.topic
        seconds = topic.clock() - self._began
        if isinstance(result, asyncio.CancelledError) or result == ():
            return
        failed = isinstance(result, BaseException)
        messages = [] if isinstance(result, BaseException) else [delivery.message for delivery in result]
        if not messages and not failed:
            return  # nothing came: a counter knows
        kind = error_type(result) if isinstance(result, BaseException) else None
        topic.meters.duration.record(seconds, topic.series(RECEIVE, kind))
        if not topic.choices.receive_spans:
            return
        links = [span_context(each) for each in self._consumer.contexts(messages)]
        span = topic.begin(RECEIVE, SpanKind.CLIENT, context=Context(), links=links, ago=seconds)
        span.set_attribute(MESSAGE_COUNT, len(messages))
        if isinstance(result, BaseException):
            topic.fail(span, result)
        span.end()


class OtelSettling:
    """One call about messages that were received."""

    __slots__ = ("_began", "_operation", "_span", "_topic")

    def __init__(self, consumer: OtelConsumer, operation: str, messages: Sequence[Message]) -> None:
        topic = self._topic = consumer.topic
        self._operation = operation
        contexts = consumer.contexts(messages)
        links = [span_context(each) for each in contexts]
        if len(messages) == 1:
            attributes: dict[str, AttributeValue] = {MESSAGE_ID: messages[0].id}
        else:
            attributes = {MESSAGE_COUNT: len(messages)}
        self._began = topic.clock()
        self._span = topic.begin(
            operation, SpanKind.CLIENT, context=consumer.parent(contexts), links=links, attributes=attributes
        )

    def end(self, result: Sequence[ConsumeError | None] | BaseException, /) -> None:
        if isinstance(result, BaseException):
            first: BaseException | None = result
        else:
            errors = [error for error in result if error is not None]
            first = errors[0] if errors else None
            if errors and len(result) > 1:
                self._span.set_attribute(FAILED_COUNT, len(errors))
        kind = None
        if first is not None:
            kind = "cancelled" if isinstance(first, asyncio.CancelledError) else error_type(first)
            self._topic.fail(self._span, first, kind)
        seconds = self._topic.clock() - self._began
        self._topic.meters.duration.record(seconds, self._topic.series(self._operation, kind))
        self._span.end()


class OtelProcessing:
    """One call of a handler."""

    __slots__ = ("_began", "_context", "_count", "_span", "_topic")

    def __init__(self, consumer: OtelConsumer, messages: Sequence[Message]) -> None:
        topic = self._topic = consumer.topic
        self._count = len(messages)
        contexts = consumer.contexts(messages)
        parent = consumer.parent(contexts)
        around = span_context(None)  # of whoever called consume(): it is linked to and no more
        links = [*(span_context(each) for each in contexts), around]
        self._began = topic.clock()
        self._span = topic.begin(
            PROCESS, SpanKind.CONSUMER, context=parent, links=links, attributes=_about(messages)
        )
        self._context = with_span(self._span, parent)
        now = time.time()
        for message in messages:
            if message.published_at is not None:
                topic.meters.age.record(max(0.0, now - message.published_at.timestamp()), topic.labels)

    def current(self) -> Current:
        return Current(self._context)

    def end(self, outcome: str, error: BaseException | None, /) -> None:
        topic = self._topic
        kind = None
        if error is not None:
            kind = _kind(outcome, error)
            topic.fail(self._span, error, kind)
        self._span.set_attribute(OUTCOME, outcome)
        series = topic.series(PROCESS, kind, outcome)
        topic.meters.processing.record(topic.clock() - self._began, series)
        topic.meters.consumed.add(self._count, series)
        self._span.end()


def _kind(outcome: str, error: BaseException) -> str:
    """The name of a failure: the consumer's reason for a cancellation says more than that it was one."""
    if isinstance(error, LeaseLostError | asyncio.CancelledError | TimeoutError) and outcome != "failed":
        return outcome
    return error_type(error)


def _about(messages: Sequence[Message]) -> dict[str, AttributeValue]:
    if len(messages) != 1:
        return {MESSAGE_COUNT: len(messages)}
    [message] = messages
    found: dict[str, AttributeValue] = {MESSAGE_ID: message.id}
    if message.ordering_key is not None:
        found[ORDERING_KEY] = message.ordering_key
    if message.delivery_attempt is not None:
        found[DELIVERY_ATTEMPT] = message.delivery_attempt
    return found
