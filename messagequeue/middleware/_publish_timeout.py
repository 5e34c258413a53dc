"""A time limit for the broker's yes."""

from __future__ import annotations

import asyncio

from .._errors import ErrorCode, PublishError
from .._message import Outgoing, Receipt
from .._protocols import Publish, PublishMiddleware
from ._checks import positive
from ._publishing import current_topic


def publish_timeout(seconds: float, /) -> PublishMiddleware:
    """
    Raise `PublishError` (`ErrorCode.NOT_CONFIRMED`) for a message that is not confirmed within *seconds*.

    The time counts from here on, waiting for a batch and for room included.  A message that has not left by then is
    withdrawn; of one that has, it is not known whether the broker stored it.

    Raises:
        ConfigurationError: *seconds* is not a finite number above 0.
    """
    limit = positive("publish_timeout", seconds, "seconds")

    def wrap(publish: Publish) -> Publish:
        async def limited(item: Outgoing) -> Receipt:
            scope = asyncio.timeout(limit)
            try:
                async with scope:
                    return await publish(item)
            except TimeoutError as error:
                if not scope.expired():
                    raise
                topic = current_topic() or ""
                raise PublishError(
                    f"topic {topic!r} did not confirm the message within publish_timeout({limit:g}): it may or may not "
                    "be stored",
                    topic=topic,
                    code=ErrorCode.NOT_CONFIRMED,
                ) from error

        return limited

    return wrap
