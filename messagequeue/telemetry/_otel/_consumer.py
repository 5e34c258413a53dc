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

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, SpanKind
from opentelemetry.util.types import AttributeValue

from ..._errors import ConsumeError
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
from .._protocol import Ending
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
        failed = isinstance(result, BaseException)
        if isinstance(result, asyncio.CancelledError) or not (failed or result):
            return  # the end of the consumer, or nothing came, which a counter knows
        topic = self._consumer.topic
        seconds = topic.clock() - self._began
        kind = error_type(result) if isinstance(result, BaseException) else None
        topic.meters.duration.record(seconds, topic.series(RECEIVE, kind))
        if topic.choices.receive_spans:
            self._record(result, seconds)

    def _record(self, result: Sequence[Delivery] | BaseException, seconds: float) -> None:
        topic = self._consumer.topic
        messages = [] if isinstance(result, BaseException) else [delivery.message for delivery in result]
        links = [span_context(each) for each in self._consumer.contexts(messages)]
        about = {MESSAGE_COUNT: len(messages)}
        receive = topic.begin(RECEIVE, SpanKind.CLIENT, context=Context(), links=links, ago=seconds, attributes=about)
        if isinstance(result, BaseException):
            topic.fail(receive.span, result)
        receive.end()


class OtelSettling:
    """One call about messages that were received."""

    __slots__ = ("_call", "_operation", "_topic")

    def __init__(self, consumer: OtelConsumer, operation: str, messages: Sequence[Message]) -> None:
        topic = self._topic = consumer.topic
        self._operation = operation
        contexts = consumer.contexts(messages)
        links = [span_context(each) for each in contexts]
        about: dict[str, AttributeValue] = (
            {MESSAGE_ID: messages[0].id} if len(messages) == 1 else {MESSAGE_COUNT: len(messages)}
        )
        parent = consumer.parent(contexts)
        self._call = topic.begin(operation, SpanKind.CLIENT, context=parent, links=links, attributes=about)

    def end(self, result: Sequence[ConsumeError | None] | BaseException, /) -> None:
        topic, span, kind = self._topic, self._call.span, None
        errors = [result] if isinstance(result, BaseException) else [error for error in result if error is not None]
        if errors:
            kind = "cancelled" if isinstance(errors[0], asyncio.CancelledError) else error_type(errors[0])
            topic.fail(span, errors[0], kind)
            if not isinstance(result, BaseException) and len(result) > 1:
                span.set_attribute(FAILED_COUNT, len(errors))
        topic.meters.duration.record(self._call.end(), topic.series(self._operation, kind))


class OtelProcessing:
    """One call of a handler."""

    __slots__ = ("_context", "_process", "_topic")

    def __init__(self, consumer: OtelConsumer, messages: Sequence[Message]) -> None:
        topic = self._topic = consumer.topic
        contexts = consumer.contexts(messages)
        parent = consumer.parent(contexts)
        around = span_context(None)  # of whoever called consume(): it is linked to and no more
        links = [*(span_context(each) for each in contexts), around]
        about = _about(messages)
        self._process = topic.begin(PROCESS, SpanKind.CONSUMER, context=parent, links=links, attributes=about)
        self._context = with_span(self._process.span, parent)
        now = time.time()
        for message in messages:
            if message.published_at is not None:
                topic.meters.age.record(max(0.0, now - message.published_at.timestamp()), topic.labels)

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
        topic.meters.processing.record(self._process.end(), topic.series(PROCESS, _kind(worst), worst.outcome))
        for (kind, outcome), count in Counter((_kind(each), each.outcome) for each in endings).items():
            topic.meters.consumed.add(count, topic.series(PROCESS, kind, outcome))


def _kind(ending: Ending) -> str | None:
    """The name of a failure: the consumer's reason for a cancellation says more than that it was one."""
    if ending.error is None:
        return None
    return error_type(ending.error) if ending.outcome in ("failed", "undecodable") else ending.outcome


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
