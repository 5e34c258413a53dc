"""How middleware is put around publishing; not what any of it does, and not what is behind it (`_publisher`)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import overload

from .._protocols import Publish, Publisher, PublisherProvider, PublishMiddleware
from ._checks import whole

#: The topic that the message under way is published to.
TOPIC: ContextVar[str | None] = ContextVar("messagequeue publishing topic", default=None)


def current_topic() -> str | None:
    """The topic that the message in a `PublishMiddleware`'s hands is published to; None outside of one."""
    return TOPIC.get()


def compose_publish(publish: Publish, /, *middleware: PublishMiddleware) -> Publish:
    """
    Return *publish* wrapped in *middleware*, the first outermost: it sees a message first and the receipt last.

    Raises:
        TypeError: one of *middleware* is not callable, or returned nothing that is.
    """
    for wrap in reversed(middleware):
        if not callable(wrap):
            raise TypeError(f"a publish middleware is {type(wrap).__name__}: give a function from Publish to Publish")
        publish = wrap(publish)
        if not callable(publish):
            raise TypeError(f"publish middleware {wrap!r} returned {type(publish).__name__}: it must return a Publish")
    return publish


@overload
def with_middleware(target: Publisher, /, *middleware: PublishMiddleware, max_pending: int = ...) -> Publisher: ...
@overload
def with_middleware(
    target: PublisherProvider, /, *middleware: PublishMiddleware, max_pending: int = ...
) -> PublisherProvider: ...
def with_middleware(
    target: Publisher | PublisherProvider, /, *middleware: PublishMiddleware, max_pending: int = 10_000
) -> Publisher | PublisherProvider:
    """
    Return a publisher, or a provider of publishers, whose messages go through *middleware*, the first outermost.

    Each message passes alone, as an `Outgoing` with its own options and those of its call: `publish()`, each item of
    `publish_many()`, and `publish_nowait()`.  Batches form behind the middleware, as without it, and messages of one
    ordering key reach *target* in the order in which they were published, whatever the middleware waits for.
    A middleware that gives messages a key which had none must not wait before it passes them on, or their order is
    that of its waits.

    What differs from a publisher without middleware:

    * `publish_nowait()` returns before the message has passed: what *target* refuses comes by the future.  `stop()`, or
      the provider's `close()`, waits for it.
    * In `publish_many()` an item with an option that the topic cannot honour fails alone (`ErrorCode.UNSUPPORTED`).

    The publisher that is returned owns *target*: stop that one, and publish through it only.  A provider owns the one
    it was given, too.

    Args:
        target: What to wrap; with no *middleware* it is returned as it is.
        middleware: Called once per publisher.
        max_pending: Messages of a publisher that may be in the middleware's hands, above which `publish_nowait()`
            refuses and `publish_many()` waits.

    Raises:
        ConfigurationError: *max_pending* is no whole number of 1 or more.
        TypeError: *target* is neither, or one of *middleware* is none.
    """
    from ._publisher import MiddlewarePublisher  # it needs the runtime, which `import messagequeue` must not load
    from ._publisher_provider import MiddlewarePublisherProvider

    whole("max_pending", max_pending, "how many messages may be in the middleware's hands")
    if isinstance(target, PublisherProvider):
        for each in middleware:
            if not callable(each):
                raise TypeError(f"a publish middleware is {type(each).__name__}: give a function")
        return MiddlewarePublisherProvider(target, middleware, max_pending) if middleware else target
    if isinstance(target, Publisher):
        return MiddlewarePublisher(target, middleware, max_pending) if middleware else target
    raise TypeError(f"with_middleware() got {type(target).__qualname__}: give a publisher or a provider of publishers")
