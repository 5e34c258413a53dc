"""Takes messages from a queue of the broker and settles them; when, and how often, is the runtime's decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import cast

from .._errors import ConsumeError, ErrorCode, LeaseLostError, ReceiveError, SettleError
from .._message import Message
from .._options import ConsumeOptions
from .._trace_header import traceparent_of
from ..broker import Envelope, Lease, Outcome, Queue, UnknownQueueError
from ..broker.storage import StorageError
from ..driver import Capabilities, Delivery, Limits, TopicFacts
from ._config import TopicOptions
from ._hub import Hub
from ._sender import BATCH, capabilities_of, sequence_text

#: Attributes that a message gets when a handler dead-letters it.
REASON, SOURCE = "messagequeue.dead_letter_reason", "messagequeue.dead_letter_source"
ERROR = "messagequeue.dead_letter_error"

_NOTHING = Envelope()


class MemorySource:
    """The `LeaseSource` of one topic."""

    def __init__(self, hub: Hub, queue: Queue, topic: str, config: TopicOptions, options: ConsumeOptions) -> None:
        self._hub = hub
        self._queue = queue
        self._topic = topic
        self._given = options.visibility_timeout
        self._capabilities = capabilities_of(queue, config)
        self._limits = Limits(batch_entries=BATCH, receive_messages=BATCH)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def _lease(self) -> float:
        """The consumer's own, else the topic's as it is set now, whoever made it."""
        return self._queue.settings.visibility_timeout if self._given is None else self._given

    async def start(self) -> float:
        return self._lease

    async def facts(self) -> TopicFacts:
        """As the protocol says.  A topic without a policy is a dead-letter topic, or a queue that another face made."""
        settings = self._queue.settings
        policy = settings.dead_letters
        if policy is None:
            return TopicFacts(retention=settings.retention)
        return TopicFacts(dead_letters=True, max_receives=policy.max_receives, retention=settings.retention)

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        try:
            leases = await self._hub.take(self._queue, max_messages, visibility=self._lease, wait=wait)
        except UnknownQueueError as error:
            raise ReceiveError(
                f"topic {self._topic!r} was deleted", topic=self._topic, code=ErrorCode.NOT_FOUND, fatal=True
            ) from error
        except StorageError as error:
            raise ReceiveError(str(error), topic=self._topic, code=error.code, retryable=True) from error
        return [Delivery(self._message(lease), lease) for lease in leases]

    def _message(self, lease: Lease) -> Message:
        stored, envelope = lease.message, _envelope(lease)
        published_at = envelope.published_at
        return Message(
            topic=self._topic,
            id=stored.id,
            body=cast(bytes, stored.body),
            attributes=MappingProxyType(envelope.attributes or {}),
            ordering_key=stored.key,
            deduplication_key=stored.dedup_id,
            sequence_number=None if stored.key is None else sequence_text(stored.sequence),
            delivery_attempt=lease.receives,
            published_at=datetime.fromtimestamp(stored.sent_at if published_at is None else published_at, UTC),
            raw=lease,
        )

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        """A message that is gone already is as good as settled."""
        return await self._each(leases, self._queue.settle, gone_is_fine=True)

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        return await self._each(leases, lambda now, handle: self._queue.release(now, handle, after=after))

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        return await self._each(leases, lambda now, handle: self._queue.extend(now, handle, by))

    async def _each(
        self, leases: Sequence[object], work: Callable[[float, str], Outcome], *, gone_is_fine: bool = False
    ) -> list[ConsumeError | None]:
        now = self._hub.now()
        try:
            outcomes = [work(now, cast(Lease, lease).handle) for lease in leases]
            self._hub.announce(self._queue)
        except UnknownQueueError:
            outcomes = [Outcome.GONE for _ in leases]
        try:
            await self._hub.committed()
        except StorageError as error:
            fault = SettleError(str(error), topic=self._topic, code=error.code, retryable=True)
            fault.__cause__ = error
            return [fault for _ in leases]
        return [self._error(outcome, gone_is_fine) for outcome in outcomes]

    def _error(self, outcome: Outcome, gone_is_fine: bool) -> ConsumeError | None:
        if outcome is Outcome.DONE or (gone_is_fine and outcome is Outcome.GONE):
            return None
        if outcome is Outcome.BEYOND_LIMIT:
            text = "the lease would end later than 12 h after the receive"
            return SettleError(text, topic=self._topic, code=ErrorCode.INVALID)
        if outcome is Outcome.NO_TARGET:
            text = "this is the dead-letter topic itself: there is nowhere further to put the message"
            return SettleError(text, topic=self._topic, code=ErrorCode.UNSUPPORTED)
        return LeaseLostError(f"the lease of this message is over ({outcome.value})", topic=self._topic)

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        held = cast(Lease, lease)
        before = _envelope(held)
        story = {REASON: reason, SOURCE: self._topic} | ({} if error is None else {ERROR: error})
        attributes = {**(before.attributes or {}), **story}
        envelope = replace(before, attributes=attributes)

        def move(now: float, handle: str) -> Outcome:
            return self._queue.dead_letter(now, handle, attributes=envelope)

        return (await self._each([held], move))[0]

    async def close(self) -> None:
        """Nothing belongs to the consumer alone."""


def _envelope(lease: Lease) -> Envelope:
    """Another face of the broker puts none where there is nothing to say."""
    return cast(Envelope, lease.message.attributes or _NOTHING)


def carried_traceparent(message: Message) -> str | None:
    """Return what a face of the broker put beside the attributes of a message of this module, as a traceparent."""
    lease = message.raw
    trace = _envelope(lease).trace if isinstance(lease, Lease) else None
    return None if trace is None else traceparent_of(trace)
