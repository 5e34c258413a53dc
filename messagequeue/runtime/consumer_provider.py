"""The consuming half of a provider: one consumer per topic, one end for all; not how a source is opened."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import ClassVar, Self, Unpack

from .._batch import BatchHandler
from .._errors import ClosedError, ConfigurationError, ErrConsumerAlreadyRegistered, UnsupportedOptionError
from .._message import Message
from .._options import ConsumeKwargs, ConsumeOptions, refuse_unknown
from .._protocols import ErrorSink, Handler, Middleware
from ..driver import LeaseSource
from ..middleware import compose
from ..middleware._compose import several
from ..telemetry import Destination, Telemetry
from .consumer import RuntimeConsumer
from .readings import Watches, consumer_readings
from .sharing import Share
from .sink import logger
from .tasks import OwnedTasks, outcome
from .topics import check_topic


class RuntimeConsumerProvider(ABC):
    """
    Base of a `ConsumerProvider`.

    Args:
        name: The provider's name, for error texts.
        options: What holds for every consumer that does not say otherwise.
        telemetry: Is told of what is consumed; None for nobody.
    """

    #: As `RuntimePublisherProvider.messaging_system`.
    messaging_system: ClassVar[str] = ""

    def __init__(self, name: str, options: ConsumeOptions | None = None, *, telemetry: Telemetry | None = None) -> None:
        self.name = name
        self.options = options or ConsumeOptions()
        self._watches = Watches(telemetry)
        self._consumers: dict[str, RuntimeConsumer | None] = {}
        self._closing: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks(logger)
        self._opening = OwnedTasks(logger)
        self._closed = False

    @abstractmethod
    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        """Make the source of *topic*.  Raises `ConfigurationError` where the topic's name cannot be one."""

    @abstractmethod
    async def _ping(self) -> None:
        """Ask the broker whether it answers."""

    @abstractmethod
    async def _release(self) -> None:
        """Free the connection.  Called once, when every consumer is closed."""

    def _topic_key(self, topic: str) -> str:
        """What makes two topics the same one."""
        return topic

    def _destination(self, topic: str) -> Destination:
        """Return how telemetry names *topic*; "" is the provider as a whole."""
        return Destination(system=self.messaging_system or self.name, name=topic)

    def _carried(self, message: Message) -> str | None:
        """Return the traceparent that the broker carried beside the attributes of *message*, or None."""
        return None

    async def new_consumer(
        self,
        topic: str,
        handler: Handler,
        /,
        *,
        middleware: Sequence[Middleware] = (),
        on_error: ErrorSink | None = None,
        **options: Unpack[ConsumeKwargs],
    ) -> RuntimeConsumer:
        """See `ConsumerProvider.new_consumer()`."""
        return await self._new_consumer(topic, handler, middleware, on_error, options)

    async def new_consumer_sharing(
        self,
        share: Share,
        topic: str,
        handler: Handler,
        /,
        *,
        middleware: Sequence[Middleware] = (),
        on_error: ErrorSink | None = None,
        **options: Unpack[ConsumeKwargs],
    ) -> RuntimeConsumer:
        """Do as `new_consumer()`, for a consumer whose handlers run in the slots of *share*."""
        if isinstance(handler, BatchHandler):
            raise ConfigurationError("a BatchHandler takes lists of one topic: give a handler of one message")
        return await self._new_consumer(topic, handler, middleware, on_error, options, share)

    async def _new_consumer(
        self,
        topic: str,
        handler: Handler,
        middleware: Sequence[Middleware],
        on_error: ErrorSink | None,
        options: ConsumeKwargs,
        share: Share | None = None,
    ) -> RuntimeConsumer:
        check_topic(topic)
        if not callable(handler):
            raise TypeError(f"handler is {type(handler).__name__}: give an async function that takes a Message")
        if on_error is not None and (not callable(on_error) or inspect.iscoroutinefunction(on_error)):
            raise TypeError("on_error: give a plain function that takes a ConsumeError; nobody awaits an async one")
        refuse_unknown(options, ConsumeKwargs, "new_consumer()")
        middleware = several(middleware)
        effective = replace(self.options, **options)
        if middleware and isinstance(handler, BatchHandler):
            raise TypeError("middleware wraps a handler of one message: wrap the BatchHandler's own function instead")
        handler = compose(handler, *middleware)
        self._refuse_closed()
        key = self._topic_key(topic)
        if key in self._consumers:
            raise ErrConsumerAlreadyRegistered(topic)
        self._consumers[key] = None  # before the first await: of two callers at once, one is refused
        try:
            source = await self._opening.share(self._open(topic, effective), name=f"messagequeue open {topic}")
        except BaseException:
            del self._consumers[key]
            raise
        telemetry, where = self._watches.telemetry, self._destination(topic)
        consumer = RuntimeConsumer(
            topic,
            source,
            handler,
            effective,
            on_error=on_error,
            on_closed=lambda: self._forget(key),
            share=share,
            telemetry=None if telemetry is None else telemetry.consumer(where, carried=self._carried),
        )
        self._consumers[key] = consumer
        self._watches.add(key, where, partial(consumer_readings, consumer))
        return consumer

    async def _open(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        source = await self._open_source(topic, options)
        if self._closing is not None:  # close() came first and waits for this
            await source.close()
            self._refuse_closed()
        if options.on_failure != "block" and not source.capabilities.ordering:
            await source.close()
            raise UnsupportedOptionError(
                f"on_failure={options.on_failure!r} is for a topic that keeps order; {topic!r} does not: leave it out"
            )
        return source

    def _forget(self, key: str) -> None:
        self._consumers.pop(key, None)
        self._watches.end(key)

    def _refuse_closed(self) -> None:
        if self._closed or self._closing is not None:
            raise ClosedError(f"the {self.name} consumer provider is closed: make a new one")

    async def ping(self) -> None:
        """See `ConsumerProvider.ping()`."""
        self._refuse_closed()
        await self._ping()

    async def close(self) -> None:
        """
        Close every consumer, all at the same time, then free the connection.  Every caller returns at the end.

        Raises:
            MessageQueueError: the caller is a handler of one of the consumers.
        """
        if self._closed:
            return
        for consumer in self._consumers.values():
            if consumer is not None:
                consumer.refuse_own_handler()
        if self._closing is None:
            self._closing = self._tasks.share(self._close(), name=f"messagequeue close {self.name}")
        await outcome(self._closing)

    async def _close(self) -> None:
        try:
            await self._opening.join()
            consumers = [consumer for consumer in self._consumers.values() if consumer is not None]
            results = await asyncio.gather(*(consumer.close() for consumer in consumers), return_exceptions=True)
        finally:
            self._closed = True
            await self._release()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        await self.close()
