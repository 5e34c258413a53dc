"""
What the runtime tells a telemetry system, and what it asks of it; not which system that is, and no names of metrics.

The runtime holds `None` where there is no telemetry.  Nothing here waits or looks at bodies.  What it raises while a
topic is opened is the caller's; whatever it raises later is logged once for each kind of call, and the message goes on.

An operation is told of when it begins and when it ends, by `end()`, once.  `current()` makes it the current one of the
code inside: spans that begin there are its children.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from .._errors import ConsumeError, PublishError
from .._message import Message, Receipt
from ..driver import EncodedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """
    A topic, as telemetry names it.

    Attributes:
        system: The kind of broker, one of OpenTelemetry's `messaging.system` where it has a name for it.
        name: The topic's short name; "" for what concerns a provider and no single topic.
        address, port: Where the broker is; None where it is nowhere.
        details: More attributes, for spans only.
    """

    system: str
    name: str
    address: str | None = None
    port: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """
    What travels with a message so that its consumers can tell where it comes from.

    Attributes:
        attributes: To be added to the message's, all of them or none.
        replaced: Attributes of the message that go with those, if they do: they are of another context.
        traceparent: The W3C form of the trace and the span, for brokers that carry it beside the attributes; None
            where there is no trace.
    """

    attributes: Mapping[str, str]
    traceparent: str | None = None
    replaced: frozenset[str] = frozenset()


class Sending(Protocol):
    """One `publish()`, `publish_nowait()` or `publish_many()`, from the call to the broker's answer."""

    def current(self) -> AbstractContextManager[None]:
        """Return what surrounds the code that publishes."""
        ...

    def end(self, result: Receipt | Sequence[Receipt | PublishError] | BaseException, /) -> None:
        """It returned *result*, or raised it."""
        ...


class PublisherTelemetry(Protocol):
    """What is told of one topic's publisher."""

    def sending(self) -> Sending:
        """One message is about to be published by the code that runs now."""
        ...

    def sending_many(self) -> Sending:
        """Many messages are."""
        ...

    def context(self, message: EncodedMessage, /) -> TraceContext | None:
        """
        Return what *message* takes with it; None for nothing.

        Called once for each message that is valid without it, while its `Sending` is current.
        """
        ...

    def skipped(self, message: EncodedMessage, /) -> None:
        """*message* has no room for the attributes of its context, and leaves without them."""
        ...

    def request(self, messages: Sequence[EncodedMessage], /) -> AbstractContextManager[None]:
        """Return what surrounds the call that sends *messages*, which are of different publishes."""
        ...

    def sent(self, results: Sequence[Receipt | PublishError], /) -> None:
        """Messages were sent, each with its result; one that is sent once more is told of afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Received:
    """
    A message that a consumer holds.

    Attributes:
        origin: What `ConsumerTelemetry.origin()` returned for it.
    """

    message: Message
    origin: object


class Receiving(Protocol):
    """One receive."""

    def end(self, result: Sequence[Received] | BaseException, /) -> None:
        """It brought *result*, perhaps nothing, or raised it."""
        ...


class Settling(Protocol):
    """One call that settles messages, gives them back or dead-letters one."""

    def end(self, result: Sequence[ConsumeError | None] | BaseException, /) -> None:
        """The broker answered *result*, one for each message, or the call raised it."""
        ...


@dataclass(frozen=True, slots=True)
class Ending:
    """
    How the handling of one message ended.

    Attributes:
        outcome: One of `OUTCOMES`.
        error: What was raised, if so; a signal is no error.
    """

    outcome: str
    error: BaseException | None = None


class Processing(Protocol):
    """One call of a handler, with one message or several."""

    def current(self) -> AbstractContextManager[None]:
        """Return what surrounds the handler."""
        ...

    def end(self, endings: Sequence[Ending], /) -> None:
        """The handler is over.  One ending for each message, in order."""
        ...


class ConsumerTelemetry(Protocol):
    """What is told of one topic's consumer."""

    def receiving(self) -> Receiving:
        """A receive begins."""
        ...

    def origin(self, message: Message, /) -> object:
        """Return what is to be known later of where *message* comes from; asked once for each delivery."""
        ...

    def settling(self, operation: str, messages: Sequence[Received], /) -> Settling:
        """A call begins; *operation* is `settle`, `release` or `dead_letter`."""
        ...

    def processing(self, messages: Sequence[Received], /) -> Processing:
        """A handler begins."""
        ...


#: Returns numbers that rise, or levels, by the name of their instrument; called from any thread, at any time.
Readings = Callable[[], Mapping[str, float]]


@runtime_checkable
class Telemetry(Protocol):
    """
    A telemetry system.  Give it to `open_publishers()`, `open_consumers()` or a provider as `telemetry=`.

    One may be shared by any number of providers.
    """

    def publisher(self, destination: Destination, /) -> PublisherTelemetry:
        """Return what is told of a publisher."""
        ...

    def consumer(
        self, destination: Destination, /, *, carried: Callable[[Message], str | None] = lambda message: None
    ) -> ConsumerTelemetry:
        """
        Return what is told of a consumer.

        Args:
            carried: Returns the traceparent that the broker carried beside a message's attributes, or None.
        """
        ...

    def watch(self, destination: Destination, read: Readings, /) -> Callable[[], None]:
        """
        Read *read* whenever metrics are collected, until what is returned is called.

        What was counted until then stays counted.
        """
        ...
