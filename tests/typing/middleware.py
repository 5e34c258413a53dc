"""The middleware that comes with the library as a type checker sees it; see `public_api.py`."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

from messagequeue import (
    DeadLetter,
    Discard,
    Handler,
    Message,
    Middleware,
    Outgoing,
    Publish,
    Publisher,
    PublisherProvider,
    PublishMiddleware,
    Receipt,
    RetryLater,
)
from messagequeue import middleware as mw


async def handle(message: Message) -> None: ...


def around_handlers() -> None:
    assert_type(mw.timeout(5), Middleware)
    assert_type(mw.deadline(5, then=Discard), Middleware)
    assert_type(mw.retry((ConnectionError, TimeoutError), attempts=5), Middleware)
    assert_type(mw.rate_limit(mw.RateLimit(5, burst=2)), Middleware)
    assert_type(mw.concurrency(5, key=lambda message: message.attributes["tenant"], busy=3), Middleware)
    assert_type(mw.compose(handle, mw.logging(), mw.timeout(5)), Handler)
    mw.deadline(5, then=DeadLetter)
    mw.RateLimit(5).rate = 6.5

    mw.deadline(5)  # type: ignore[call-arg]
    mw.deadline(5, then=RetryLater)  # type: ignore[arg-type]
    mw.retry()  # type: ignore[call-arg]
    mw.retry(KeyboardInterrupt)  # type: ignore[arg-type]
    mw.RateLimit(5).rate = "6"  # type: ignore[assignment]
    mw.RateLimit(5).burst = 6  # type: ignore[misc]


def stamped(publish: Publish) -> Publish:
    async def wrapped(item: Outgoing) -> Receipt:
        return await publish(item)

    return wrapped


async def around_publishing(publisher: Publisher, provider: PublisherProvider) -> None:
    assert_type(mw.with_middleware(publisher, stamped, mw.publish_retry()), Publisher)
    assert_type(mw.with_middleware(provider, mw.publish_logging()), PublisherProvider)
    assert_type(mw.publish_timeout(5), PublishMiddleware)
    assert_type(mw.default_attributes({"a": 1}), PublishMiddleware)
    mw.default_attributes(lambda: {"a": b"1"})
    async with mw.with_middleware(provider, stamped) as wrapped:
        assert_type(await wrapped.new_publisher("orders"), Publisher)

    mw.with_middleware(publisher, mw.timeout(5))  # type: ignore[arg-type]
    mw.with_middleware("orders", stamped)  # type: ignore[call-overload]
    mw.default_attributes({"a": None})  # type: ignore[dict-item]
    mw.publish_retry(5)  # type: ignore[call-arg]
