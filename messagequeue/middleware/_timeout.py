"""A time limit for one attempt at a message; not for the message as a whole (`handler_timeout`) nor by its age."""

from __future__ import annotations

import asyncio

from .._message import Message
from .._protocols import Handler, Middleware
from ._checks import positive


def timeout(seconds: float) -> Middleware:
    """
    Cancel what is wrapped when it takes longer than *seconds*, and raise `TimeoutError` once it has unwound.

    The limit is that of one call: inside of `retry()` each attempt has it, around `retry()` all of them together have.
    For a limit on the whole handling of every message of a consumer use the option `handler_timeout` instead: it also
    reports, and takes the lease from, a handler that ignores its cancellation.  This one waits for such a handler.

    Raises:
        ConfigurationError: *seconds* is not a finite number above 0.
    """
    limit = positive("timeout", seconds, "seconds")

    def wrap(handler: Handler) -> Handler:
        async def limited(message: Message) -> None:
            scope = asyncio.timeout(limit)
            try:
                async with scope:
                    await handler(message)
            except TimeoutError as error:
                if not scope.expired():  # the handler's own
                    raise
                raise TimeoutError(f"the handler took longer than timeout({limit:g})") from error

        return limited

    return wrap
