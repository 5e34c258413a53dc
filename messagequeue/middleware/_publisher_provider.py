"""A provider whose publishers all have the same middleware around them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from .._errors import ClosedError
from .._protocols import Publisher, PublisherProvider, PublishMiddleware
from ..runtime.answers import logger
from ..runtime.tasks import OwnedTasks, outcome
from ._publisher import MiddlewarePublisher


class MiddlewarePublisherProvider:
    """
    A `PublisherProvider` around another one, which it owns; see `with_middleware()`.

    Attributes:
        provider: The one behind.
    """

    def __init__(self, provider: PublisherProvider, middleware: Sequence[PublishMiddleware], max_pending: int) -> None:
        self.provider = provider
        self._middleware = tuple(middleware)
        self._max_pending = max_pending
        self._publishers: dict[int, MiddlewarePublisher] = {}  # by the identity of the one behind, which it holds
        self._tasks = OwnedTasks(logger)
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<middleware around {self.provider!r}>"

    async def new_publisher(self, topic: str) -> Publisher:
        """See `PublisherProvider.new_publisher()`.  A publisher that was stopped is replaced once it has ended."""
        while True:
            self._refuse_closed()
            behind = await self.provider.new_publisher(topic)
            publisher = self._publishers.get(id(behind)) or self._wrap(behind)
            if not publisher.stopped:
                return publisher
            await publisher.stop()
            self._forget_ended()

    def _wrap(self, behind: Publisher) -> MiddlewarePublisher:
        self._refuse_closed()
        self._forget_ended()
        publisher = MiddlewarePublisher(behind, self._middleware, self._max_pending)
        self._publishers[id(behind)] = publisher
        return publisher

    def _forget_ended(self) -> None:
        self._publishers = {key: each for key, each in self._publishers.items() if not each.ended}

    def _refuse_closed(self) -> None:
        if self._closing is not None:
            raise ClosedError("the publisher provider is closed: make a new one")

    async def ping(self) -> None:
        """See `PublisherProvider.ping()`."""
        self._refuse_closed()
        await self.provider.ping()

    async def close(self) -> None:
        """Let the middleware finish what it has in hand, then close the provider behind."""
        if self._closing is None:
            self._closing = self._tasks.share(self._close(), name="messagequeue close middleware")
        await outcome(self._closing)

    async def _close(self) -> None:
        results: list[BaseException | None] = []
        try:
            stops = (publisher.stop() for publisher in self._publishers.values())
            results = await asyncio.gather(*stops, return_exceptions=True)
        finally:
            await self.provider.close()
        for result in results:
            if result is not None:
                raise result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        await self.close()
