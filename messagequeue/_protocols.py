"""
What an application sees of a publisher and a consumer.

No behaviour, and nothing that only a provider's author needs: that is `messagequeue.driver`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Protocol, Self, Unpack, runtime_checkable

from ._errors import ConsumeError, PublishError
from ._message import Message, Outgoing, Receipt
from ._options import ConsumeKwargs, PublishKwargs

#: Return = done: the message is taken off the queue.  Raise = not done: it comes back.
Handler = Callable[[Message], Awaitable[None]]
#: Wraps a handler in another; `compose(handler, a, b)` makes *a* the outermost.
Middleware = Callable[[Handler], Handler]
#: Publishes one message, with its options, and returns once the broker has confirmed it.
Publish = Callable[[Outgoing], Awaitable[Receipt]]
#: Wraps publishing; `with_middleware(publisher, a, b)` makes *a* the outermost.
PublishMiddleware = Callable[[Publish], Publish]
#: Is told of every fault while consuming.  A plain function: it cannot hold up the loop.  What it raises is logged.
ErrorSink = Callable[[ConsumeError], None]


@runtime_checkable
class Publisher(Protocol):
    """Publishes to one topic; made by `PublisherProvider.new_publisher()`, which owns it."""

    @property
    def topic(self) -> str:
        """The topic as it was given."""
        ...

    async def publish(self, data: object, /, **options: Unpack[PublishKwargs]) -> Receipt:
        """
        Publish one message and return once the broker has confirmed it.

        Args:
            data: `bytes` and `str` go as they are; anything else with a clear JSON form is encoded as JSON.
            options: See `PublishKwargs`.

        Cancelling a call whose message has not left yet withdraws it; later it may be published all the same.

        Raises:
            EncodeError: *data* has no clear form.
            InvalidMessageError, MessageTooLargeError: a rule of the broker is broken; nothing was sent.
            UnsupportedOptionError: this topic cannot honour an option.
            PublishError: the broker did not take or did not confirm it; see `code` and `retryable`.
            ClosedError: after `stop()`.
            TypeError: there is no such option.
        """
        ...

    async def publish_many(
        self, items: Iterable[object | Outgoing], /, **options: Unpack[PublishKwargs]
    ) -> list[Receipt | PublishError]:
        """
        Publish several messages, in as few calls as the broker allows, and return one result per item, in order.

        *options* hold for every item; an `Outgoing` may carry its own.  A bad item fails alone.

        Raises:
            UnsupportedOptionError, TypeError, ClosedError: as `publish()`; no item was sent.
        """
        ...

    def publish_nowait(self, data: object, /, **options: Unpack[PublishKwargs]) -> Awaitable[Receipt]:
        """
        Hand one message over without waiting and return a future of its receipt.

        A failure that nobody reads is logged as an error.

        Raises:
            PublishError: with `ErrorCode.FULL` when more messages wait than `PublishOptions.max_pending`.
            As `publish()` for what can be told before anything is sent.
        """
        ...

    async def stop(self) -> None:
        """Send what waits, at once, and return when every message has its result.  Later calls raise `ClosedError`."""
        ...


@runtime_checkable
class PublisherProvider(Protocol):
    """Makes publishers that share one connection to one broker; also an async context manager."""

    async def new_publisher(self, topic: str) -> Publisher:
        """
        Return the publisher of *topic*; the same one for the same topic.

        Raises:
            ErrEmptyTopicName: *topic* is "" or blank.
            ConfigurationError: *topic* is not one that this provider understands.
            ClosedError: after `close()`.
        """
        ...

    async def ping(self) -> None:
        """Ask the broker whether it answers.  Raises `MessageQueueError` where it does not."""
        ...

    async def close(self) -> None:
        """Flush every publisher, then free every resource.  A second call does nothing."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...


@runtime_checkable
class Consumer(Protocol):
    """Consumes one topic; made by `ConsumerProvider.new_consumer()`, which owns it."""

    @property
    def topic(self) -> str:
        """The topic as it was given."""
        ...

    async def consume(self) -> None:
        """
        Receive, handle and settle until `stop()`, cancellation, or a fault that asking again cannot mend.

        After `stop()` it returns when running handlers are done or were cancelled, everything held was handed back
        and every earned delete was sent.  Cancelling it does the same at once, without waiting for handlers.

        Raises:
            ReceiveError: a fatal fault lasted `ConsumeOptions.fatal_grace`.
            ConfigurationError: the options and the topic do not fit.
            ClosedError: after `close()`.
            MessageQueueError: `consume()` of this consumer runs already (`ErrorCode.ALREADY_REGISTERED`).
        """
        ...

    def stop(self) -> None:
        """Ask `consume()` to end gracefully.  Returns at once; safe from a signal handler and before `consume()`."""
        ...

    async def close(self) -> None:
        """`stop()`, wait until nothing of this consumer runs, and give the topic free again.  May be called twice."""
        ...


@runtime_checkable
class ConsumerProvider(Protocol):
    """Makes consumers that share one connection to one broker; also an async context manager."""

    async def new_consumer(
        self,
        topic: str,
        handler: Handler,
        /,
        *,
        middleware: Sequence[Middleware] = (),
        on_error: ErrorSink | None = None,
        **options: Unpack[ConsumeKwargs],
    ) -> Consumer:
        """
        Register *handler* for *topic*.  Nothing is received before `Consumer.consume()`.

        Args:
            topic: What to consume from.
            handler: Called with each message.
            middleware: Wrapped around *handler*, the first outermost.
            on_error: Told of every fault; faults are logged, too, many of one kind not each.
            options: See `ConsumeKwargs`; they win over the provider's `ConsumeOptions`.

        Raises:
            ErrEmptyTopicName: *topic* is "" or blank.
            ErrConsumerAlreadyRegistered: this provider has a consumer of *topic*; that one is left as it is.
            ConfigurationError: an option is out of bounds.
            ClosedError: after `close()`.
            TypeError: there is no such option, or *handler* is not callable.
        """
        ...

    async def ping(self) -> None:
        """Ask the broker whether it answers.  Raises `MessageQueueError` where it does not."""
        ...

    async def close(self) -> None:
        """Close every consumer, all at the same time, then free every resource.  A second call does nothing."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...
