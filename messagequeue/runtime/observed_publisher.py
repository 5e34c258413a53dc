"""
The publisher of a provider with telemetry; without it there is none of this, and nothing asks for it.

A message takes its trace context with it where the broker has room for that, judged by the broker's own rules: it is
measured without the context first, and what was valid then leaves, with the context or without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Unpack

from .. import _log_events as events
from .._codec import Codec, JSONCodec
from .._errors import PublishError, UnsupportedOptionError
from .._message import Outgoing, Receipt
from .._options import PublishKwargs, PublishOptions
from ..driver import EncodedMessage, Sender
from ..telemetry import PublisherTelemetry, Sending
from .answers import Outcome
from .batching import Batch
from .lines import Place
from .prepare import Preparer, Stage, Terms, stages_of
from .publisher import RuntimePublisher
from .waiting import Entry, PendingReceipt, Waiter


class ObservedPublisher(RuntimePublisher):
    """
    A `RuntimePublisher` that tells *telemetry* of every message, and sends each one's trace context with it.

    Args:
        telemetry: Of this topic.
    """

    def __init__(
        self,
        topic: str,
        sender: Sender,
        telemetry: PublisherTelemetry,
        options: PublishOptions | None = None,
        codec: Codec | None = None,
    ) -> None:
        super().__init__(topic, sender, options, codec)
        self._telemetry = telemetry
        stages = stages_of(sender, self._options)
        self._prepare = CarryingPreparer(topic, sender, JSONCodec() if codec is None else codec, stages, telemetry)

    async def publish(self, data: object, /, **options: Unpack[PublishKwargs]) -> Receipt:
        sending = self._telemetry.sending()
        try:
            with sending.current():
                receipt = await super().publish(data, **options)
        except BaseException as error:
            sending.end(error)
            raise
        sending.end(receipt)
        return receipt

    def publish_nowait(self, data: object, /, **options: Unpack[PublishKwargs]) -> PendingReceipt:
        sending = self._telemetry.sending()
        try:
            with sending.current():
                receipt = super().publish_nowait(data, **options)
        except BaseException as error:
            sending.end(error)
            raise
        if receipt.entry is not None:
            receipt.entry.waiter = _Watched(receipt, sending)
        return receipt

    async def publish_many(
        self, items: Iterable[object | Outgoing], /, **options: Unpack[PublishKwargs]
    ) -> list[Receipt | PublishError]:
        sending = self._telemetry.sending_many()
        try:
            with sending.current():
                results = await super().publish_many(items, **options)
        except BaseException as error:
            sending.end(error)
            raise
        sending.end(results)
        return results

    async def _send(self, batch: Batch[Entry]) -> None:
        # Its task was begun by whoever happened to publish before: the messages are of others, too.
        with self._telemetry.request([entry.message for entry in batch.items]):
            await super()._send(batch)

    def _finish(self, batch: Batch[Entry], outcomes: list[Outcome], *, retries: int) -> None:
        super()._finish(batch, outcomes, retries=retries)
        over = zip(batch.items, outcomes, strict=True)
        self._telemetry.sent([result for entry, result in over if entry.place is not Place.HELD])

    def _withdraw(self, entry: Entry) -> None:
        super()._withdraw(entry)
        if isinstance(entry.waiter, _Watched):
            entry.waiter.withdrawn()


class _Watched:
    """Tells of the end of one `publish_nowait()`, whether anybody reads the receipt or not."""

    __slots__ = ("_over", "_sending", "_waiter")

    def __init__(self, waiter: Waiter, sending: Sending) -> None:
        self._waiter = waiter
        self._sending = sending
        self._over = False

    def admitted(self) -> None:
        self._waiter.admitted()

    def deliver(self, entry: Entry, result: Outcome) -> None:
        self._end(result)
        self._waiter.deliver(entry, result)

    def withdrawn(self) -> None:
        """The caller gave the message up."""
        self._end(asyncio.CancelledError())

    def _end(self, result: Receipt | BaseException) -> None:
        if not self._over:
            self._over = True
            self._sending.end(result)


class CarryingPreparer(Preparer):
    """A `Preparer` whose messages carry the trace context of whoever publishes them."""

    __slots__ = ("_telemetry", "_told")

    def __init__(
        self, topic: str, sender: Sender, codec: Codec, stages: Sequence[Stage], telemetry: PublisherTelemetry
    ) -> None:
        super().__init__(topic, sender, codec, stages)
        self._telemetry = telemetry
        self._told = False

    def message(self, data: object, terms: Terms) -> tuple[EncodedMessage, int]:
        """As `Preparer.message()`; a message never fails for its context."""
        message, size = super().message(data, terms)
        context = self._telemetry.context(message)
        if context is None:
            return message, size
        if context.attributes:
            kept = {name: value for name, value in (message.attributes or {}).items() if name not in context.replaced}
            attributes = MappingProxyType({**kept, **context.attributes})
            carrying = replace(message, attributes=attributes, traceparent=context.traceparent)
            try:
                return carrying, self._measure(carrying)
            except (PublishError, UnsupportedOptionError) as error:
                self._tell(message, context.attributes, error)
        return replace(message, traceparent=context.traceparent), size

    def _tell(self, message: EncodedMessage, attributes: Mapping[str, str], error: Exception) -> None:
        self._telemetry.skipped(message)
        if not self._told:
            self._told = True
            events.CONTEXT_SKIPPED.log(
                "a message of %r has no room for the attributes of its trace context, %s, and leaves without them, as "
                "do others like it from now on: %s",
                self._topic,
                ", ".join(attributes),
                error,
                topic=self._topic,
            )
