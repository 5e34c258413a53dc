"""A publisher that remembers instead of sending: for tests of code that publishes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, Unpack

from .._codec import Codec, JSONCodec
from .._errors import ClosedError, ErrorCode, PublishError
from .._message import Message, Outgoing, Receipt
from .._options import PublishKwargs
from ..driver import Capabilities, EncodedMessage
from ..runtime.prepare import Preparer, Terms
from ..runtime.topics import check_topic
from ._messages import MessageFields, message
from ._scripted import ABLE, ScriptedSender


@dataclass(frozen=True, slots=True)
class Published:
    """
    A message that was published.

    Attributes:
        topic: Where to.
        data: What the caller gave, itself.
        body: The bytes on the wire.
        options: The options in force, in the form a broker gets them: `delay` in seconds, no None.
        receipt: What the caller got.
    """

    topic: str
    data: object
    body: bytes
    options: Mapping[str, object] = field(default_factory=dict)
    receipt: Receipt = field(default=Receipt(""), compare=False)

    def as_message(self, **fields: Unpack[MessageFields]) -> Message:
        """Return it as a handler would get it; *fields* win."""
        carried = MessageFields(topic=self.topic, id=self.receipt.message_id)
        carried.update({name: self.options[name] for name in _CARRIED if name in self.options})  # type: ignore[typeddict-item]
        carried.update(fields)
        return message(self.body, **carried)


#: The options that arrive with the message.
_CARRIED = ("ordering_key", "deduplication_key", "attributes")


class RecordingPublisher:
    """
    A `Publisher` that takes every message which the real ones take, at once, and keeps it.

    Attributes:
        topic: The topic as it was given.
        published: What was published to this topic, in order.
    """

    def __init__(self, topic: str, provider: RecordingPublisherProvider) -> None:
        self.topic = topic
        self._provider = provider
        self._sender = ScriptedSender(topic, capabilities=provider.capabilities, max_size=provider.max_size)
        self._preparer = Preparer(topic, self._sender, provider.codec)
        self._stopped = False

    @property
    def published(self) -> list[Published]:
        return [item for item in self._provider.published if item.topic == self.topic]

    async def publish(self, data: object, /, **options: Unpack[PublishKwargs]) -> Receipt:
        """See `Publisher.publish()`."""
        self._refuse_stopped()
        return self._take(data, self._preparer.terms(options))

    async def publish_many(
        self, items: Iterable[object | Outgoing], /, **options: Unpack[PublishKwargs]
    ) -> list[Receipt | PublishError]:
        """See `Publisher.publish_many()`."""
        self._refuse_stopped()
        terms = self._preparer.terms(options)
        return [self._try(item, terms, options) for item in items]

    def publish_nowait(self, data: object, /, **options: Unpack[PublishKwargs]) -> asyncio.Future[Receipt]:
        """See `Publisher.publish_nowait()`.  The future is done; a fault told with `fail_next()` is its exception."""
        self._refuse_stopped()
        terms = self._preparer.terms(options)
        encoded, _ = self._preparer.message(data, terms)
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(self._provider.keep(self.topic, data, encoded))
        except PublishError as error:
            future.set_exception(error)
        return future

    async def stop(self) -> None:
        """See `Publisher.stop()`."""
        self._stopped = True

    def _refuse_stopped(self) -> None:
        if self._stopped or self._provider.closed:
            raise ClosedError(f"the publisher of topic {self.topic!r} was stopped")

    def _take(self, data: object, terms: Terms) -> Receipt:
        encoded, _ = self._preparer.message(data, terms)
        return self._provider.keep(self.topic, data, encoded)

    def _try(self, item: object, terms: Terms, options: Mapping[str, object]) -> Receipt | PublishError:
        try:
            if isinstance(item, Outgoing):
                return self._take(item.data, self._preparer.terms_of(item, options))
            return self._take(item, terms)
        except PublishError as error:
            return error


class RecordingPublisherProvider:
    """
    A `PublisherProvider` that remembers what is published instead of sending it.

    Args:
        capabilities: What every topic can do, to test code against a broker that can do less.
        max_size: Bytes of a message at most, attributes included; None for no limit.
        codec: How data is encoded.

    Attributes:
        published: Everything published, in order.
        publishers: By topic.
        closed: `close()` was called.
    """

    def __init__(
        self, *, capabilities: Capabilities = ABLE, max_size: int | None = None, codec: Codec | None = None
    ) -> None:
        self.capabilities = capabilities
        self.max_size = max_size
        self.codec = codec or JSONCodec()
        self.published: list[Published] = []
        self.publishers: dict[str, RecordingPublisher] = {}
        self.closed = False
        self._faults: list[PublishError] = []
        self._numbers = itertools.count(1)

    def fail_next(self, times: int = 1, error: PublishError | None = None) -> None:
        """Refuse the next *times* messages with *error*; without one, as a broker that cannot be reached."""
        given = error or PublishError("the broker cannot be reached", code=ErrorCode.CONNECTION, retryable=True)
        self._faults += [given] * times

    def to(self, topic: str) -> list[Published]:
        """Return what was published to *topic*, in order."""
        return [item for item in self.published if item.topic == topic]

    def keep(self, topic: str, data: object, encoded: EncodedMessage) -> Receipt:
        """Remember a message, or raise what `fail_next()` asked for; called by the publishers."""
        if self._faults:
            raise self._faults.pop(0)
        number = next(self._numbers)
        receipt = Receipt(f"p{number}", f"{number:020}" if self.capabilities.ordering else None)
        body = encoded.body.encode() if isinstance(encoded.body, str) else encoded.body
        self.published.append(Published(topic, data, body, _options(encoded), receipt))
        return receipt

    async def new_publisher(self, topic: str) -> RecordingPublisher:
        """See `PublisherProvider.new_publisher()`."""
        check_topic(topic)
        if self.closed:
            raise ClosedError("the recording publisher provider is closed: make a new one")
        if topic not in self.publishers:
            self.publishers[topic] = RecordingPublisher(topic, self)
        return self.publishers[topic]

    async def ping(self) -> None:
        """See `PublisherProvider.ping()`."""
        if self.closed:
            raise ClosedError("the recording publisher provider is closed: make a new one")

    async def close(self) -> None:
        """See `PublisherProvider.close()`."""
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        await self.close()


_OPTIONS: Sequence[str] = ("ordering_key", "deduplication_key", "delay", "attributes")


def _options(encoded: EncodedMessage) -> Mapping[str, object]:
    return {name: value for name in _OPTIONS if (value := getattr(encoded, name)) is not None}
