"""
For authors of providers: the narrow seam between the runtime and a broker.  An application needs nothing of it.

A provider implements two small batch interfaces.  Everything else is the runtime's, once for all providers: encoding,
batching, order per key, concurrency, heartbeats, retries of entries, back-off, draining, errors.  Hence the rules:

* Nothing here retries, waits for company or keeps state between calls.  One call is one request to the broker.
* A method that takes several items returns one result per item, in the same order.  It raises `MessageQueueError` only
  where the call failed as a whole.  It never raises for one item, and never leaves one out.
* Errors are translated at this seam, in one table, with the foreign error as `__cause__`.
* Methods may be called concurrently, but `receive()` never more often at once than `Limits.max_receives`.
* Cancellation passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, runtime_checkable

from ._errors import ConsumeError, DecodeError, PublishError
from ._message import AttributeValue, Message, Outgoing, Receipt
from ._protocols import ConsumerProvider, Handler, PublisherProvider

__all__ = [
    "Capabilities",
    "CheckedSource",
    "Delivery",
    "EncodedMessage",
    "LeaseSource",
    "Limits",
    "OpeningSource",
    "Outgoing",
    "PreparingSender",
    "ProviderSpec",
    "Sender",
    "TopicFacts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """
    What one topic of a broker can do, for the runtime to rely on and for callers to ask.

    Attributes:
        ordering: Messages of one ordering key are delivered one after another, in the order they were published.
        ordering_key: `required` (every message must have one), `accepted` (with or without `ordering`) or `refused`.
        deduplication: `deduplication_key` is honoured.
        deduplication_required: A message without one may be refused by the broker.
        max_delay: Longest `delay` of a message in seconds; 0 where it cannot be delayed.
        delay_resolution: Seconds that a delay must be a multiple of; 0 for any fraction.
        max_lease: Longest time, in seconds, that a message can be held since its receive; None for no limit.
        dead_letters: `LeaseSource.dead_letter()` works.
        receive_cancellable: A cancelled `receive()` captures nothing.  Where False, the runtime lets a parked receive
            end by itself at shutdown and hands back what it brings.
    """

    ordering: bool = False
    ordering_key: Literal["required", "accepted", "refused"] = "refused"
    deduplication: bool = False
    deduplication_required: bool = False
    max_delay: float = 0.0
    delay_resolution: float = 0.0
    max_lease: float | None = None
    dead_letters: bool = False
    receive_cancellable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    How much one call carries.

    Attributes:
        batch_entries: Items in one call at most.
        batch_bytes: Sum of `Sender.measure()` in one call at most; None for no limit.
        receive_messages: Messages in one receive at most.
        max_receives: `receive()` calls at the same time at most.
    """

    batch_entries: int = 10
    batch_bytes: int | None = None
    receive_messages: int = 10
    max_receives: int = 1


@dataclass(frozen=True, slots=True, init=False)
class EncodedMessage:
    """
    A message as a `Sender` gets it: encoded, its options normalised.

    Attributes:
        body: `str` where the caller gave text or JSON, `bytes` where bytes.  Never empty unless the caller's was.
        ordering_key, deduplication_key: None where absent; never "".
        delay: Seconds; None where absent.
        attributes: Without None values; the values otherwise as given.
        traceparent: The W3C trace and span that the message comes from, for a broker that can carry it beside the
            attributes; whatever else does may ignore it.  None where nothing is traced.
    """

    body: str | bytes
    ordering_key: str | None = None
    deduplication_key: str | None = None
    delay: float | None = None
    attributes: Mapping[str, AttributeValue] | None = None
    traceparent: str | None = None

    # Made for every message: half the time of what `dataclass` writes for a frozen class.
    def __init__(
        self,
        body: str | bytes,
        ordering_key: str | None = None,
        deduplication_key: str | None = None,
        delay: float | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
        traceparent: str | None = None,
    ) -> None:
        _body(self, body)
        _ordering_key(self, ordering_key)
        _deduplication_key(self, deduplication_key)
        _delay(self, delay)
        _attributes(self, attributes)
        _traceparent(self, traceparent)


_body, _ordering_key, _deduplication_key, _delay, _attributes, _traceparent = (
    getattr(EncodedMessage, item.name).__set__ for item in fields(EncodedMessage)
)


class Sender(Protocol):
    """Sends to one topic."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def limits(self) -> Limits: ...

    def measure(self, message: EncodedMessage, /) -> int:
        """
        Hold *message* against the broker's rules, without any request, and return the bytes it takes in a batch.

        Called for every message, by the caller of `publish()`; once, or, with telemetry, once more with its attributes
        added.  What `Capabilities` says was checked before.

        Raises:
            InvalidMessageError, MessageTooLargeError, UnsupportedOptionError: with what to do.
        """
        ...

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        """
        Send 1 to `Limits.batch_entries` messages in one call.

        A `PublishError` with `retryable` set means: the broker itself reported this entry as failed on its own side,
        so that sending it again is safe.  The runtime does so `PublishOptions.entry_retries` times.

        Raises:
            PublishError: the call failed as a whole; it fails every message and is not repeated.
        """
        ...

    async def close(self) -> None:
        """Free what belongs to this topic.  Called once, when nothing is in flight."""
        ...


@runtime_checkable
class PreparingSender(Sender, Protocol):
    """A `Sender` that sends something else in a message's place, such as a pointer to where its body is."""

    def prepare(self, message: EncodedMessage, /) -> EncodedMessage:
        """
        Return what is measured and sent instead of *message*; that itself where nothing has to be done.

        Called once for every message, by the caller of `publish()`, without any request: what is decided here, such as
        a name, holds for every time that the message is sent.

        Raises:
            InvalidMessageError, MessageTooLargeError: with what to do.
        """
        ...


@dataclass(frozen=True, slots=True, init=False)
class Delivery:
    """
    A received message and the right to work on it.

    Attributes:
        message: What the handler gets.
        lease: The broker's handle of this delivery; only its source looks inside.
        fault: Where set, body or attributes could not be read: the message is not given to the handler.
    """

    message: Message
    lease: object
    fault: DecodeError | None = None

    def __init__(self, message: Message, lease: object, fault: DecodeError | None = None) -> None:  # as above
        _message(self, message)
        _lease(self, lease)
        _fault(self, fault)


_message, _lease, _fault = (getattr(Delivery, item.name).__set__ for item in fields(Delivery))


class LeaseSource(Protocol):
    """Receives from one topic and settles what it received."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def limits(self) -> Limits: ...

    async def start(self) -> float:
        """
        Get ready for `receive()` and return the lease of a received message in seconds.

        Raises:
            ConfigurationError: the options and the topic do not fit, or the lease must be given and is not.
            MessageQueueError: the broker cannot be asked; the runtime backs off and calls again.
        """
        ...

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        """
        Return 0 to *max_messages* messages, waiting up to *wait* seconds for the first.

        Args:
            max_messages: 1 to `Limits.receive_messages`.
            wait: Seconds.  0 returns at once.

        Raises:
            ReceiveError: with `fatal` set where asking again cannot help.
        """
        ...

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        """
        Take the messages off the queue.

        Returns:
            One per lease: None, `LeaseLostError`, or `SettleError` with `retryable` set where trying again may help.
        """
        ...

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        """
        Give the messages back; they can be received again in *after* seconds (0 = at once).

        Returns:
            One per lease: None, `LeaseLostError` (somebody else has it, or will), or `SettleError`.
        """
        ...

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        """
        Move the ends of the leases to *by* seconds from now.

        Returns:
            One per lease: None, `LeaseLostError` where the broker already gave it away, or `SettleError` where this
            entry failed and trying again may help.
        """
        ...

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        """
        Put the message into the topic's dead-letter queue, then take it off the queue, in this order.

        Called only where `Capabilities.dead_letters` is set.

        Args:
            reason: Why, in words.
            error: The type of the exception behind it; None where there is none.  Both, and where the message was, go
                with it as attributes, as far as there is room for them.

        Returns:
            None, or why the message is still on the queue; with `ErrorCode.CONFIGURATION` or `ErrorCode.UNSUPPORTED`
            where the topic has no dead-letter queue.
        """
        ...

    async def close(self) -> None:
        """Free what belongs to this topic.  Called once, when no call is in flight."""
        ...


@runtime_checkable
class OpeningSource(LeaseSource, Protocol):
    """A `LeaseSource` whose messages have to be opened before they are handled, such as one whose body is elsewhere."""

    def opening(self, handler: Handler, /) -> Handler:
        """
        Return what is called in the place of *handler*, around every middleware.

        It works in the handler's slot, while the lease of its message is prolonged, and so may wait.  It raises
        `DecodeError` for a message that cannot be opened, or a signal, as handlers do; then that message alone fails.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """
    How a topic is set up, as far as the broker tells.

    Attributes:
        dead_letters: It has a dead-letter queue; None: not known, or it is one itself.
        max_receives: Receives after which the broker dead-letters a message; None: never, or not known.
        retention: Seconds that the broker keeps a message; None: for ever, or not known.
        dead_letter_retention: The same of its dead-letter queue.
        keeps_age: In the dead-letter queue, too, retention counts from when a message was first sent.
    """

    dead_letters: bool | None = None
    max_receives: int | None = None
    retention: float | None = None
    dead_letter_retention: float | None = None
    keeps_age: bool = False


@runtime_checkable
class CheckedSource(LeaseSource, Protocol):
    """A `LeaseSource` that can tell how its topic is set up, for `ConsumeOptions.checks`."""

    async def facts(self) -> TopicFacts:
        """
        Return what the broker tells.  Called once for a consumer at most, when it begins, beside `receive()`.

        Raises:
            Exception: the broker does not tell; that is a log line at DEBUG.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """
    What an entry point of the group `messagequeue.providers` names: how to make the two halves of a provider.

    Attributes:
        name: The provider's name in configuration, `[a-z][a-z0-9]*`; equal to the entry point's.
        config: A frozen dataclass whose fields are the provider's options; its constructor validates them.
        publisher: Makes the publishing half of an instance of *config*.  Where the application wants telemetry it is
            called with `telemetry=`, too; one that takes no such argument is refused then.
        consumer: Makes the consuming half, likewise.
        url_path: The option that a URL's path sets (`embedded:///path`); None where the path must be empty.
    """

    name: str
    config: type[Any]
    publisher: Callable[..., PublisherProvider]
    consumer: Callable[..., ConsumerProvider]
    url_path: str | None = None
