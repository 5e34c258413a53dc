"""A consumer provider without a broker: the test itself delivers; for tests of code that registers handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from .._errors import HandlerError
from .._message import Message
from .._options import ConsumeKwargs, ConsumeOptions
from .._protocols import ErrorSink, Handler, Middleware
from ..driver import Capabilities, Delivery, LeaseSource
from ..runtime import RuntimeConsumer, RuntimeConsumerProvider
from ._deliver import Outcome, deliver
from ._messages import MessageFields, message
from ._scripted import ScriptedSource


@dataclass(frozen=True, slots=True)
class Registered:
    """
    A consumer as it was asked for.

    Attributes:
        topic, handler, middleware, on_error: As given to `new_consumer()`.
        options: What is in force.
        consumer: What `new_consumer()` returned.
    """

    topic: str
    handler: Handler
    middleware: tuple[Middleware, ...]
    on_error: ErrorSink | None
    options: ConsumeOptions
    consumer: RuntimeConsumer


class _SilentSource(ScriptedSource):
    """Never has a message."""

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        await asyncio.get_running_loop().create_future()
        return []


class RecordingConsumerProvider(RuntimeConsumerProvider):
    """
    A `ConsumerProvider` whose messages come from `deliver()`.

    Registration, its errors and the life cycle of a consumer are the real ones; `consume()` waits until `stop()`.

    Attributes:
        outcomes: What became of every message delivered, in order.
    """

    def __init__(self, options: ConsumeOptions | None = None) -> None:
        super().__init__("recording", options)
        self.outcomes: list[Outcome] = []
        self._registered: dict[str, Registered] = {}

    @property
    def registered(self) -> dict[str, Registered]:
        """The consumers that are not closed, by topic."""
        return dict(self._registered)

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
        made = await super().new_consumer(topic, handler, middleware=middleware, on_error=on_error, **options)
        self._registered[topic] = Registered(topic, handler, tuple(middleware), on_error, made.options, made)
        return made

    async def deliver(self, topic: str, data: object, /, **fields: Unpack[MessageFields]) -> Outcome:
        """
        Run the handler of *topic* on one message and return what became of it.

        An error of the handler goes to the consumer's `on_error` as `HandlerError`, and is `Outcome.error`.

        Args:
            topic: One that has a consumer; `consume()` need not run.
            data: A `Message`, or data for `message()`, whose *fields* these are.

        Raises:
            LookupError: *topic* has no consumer; says which have.
        """
        found = self._registered.get(topic)
        if found is None:
            raise LookupError(f"topic {topic!r} has no consumer; topics that have: {sorted(self._registered)}")
        fields.setdefault("topic", topic)
        given = data if isinstance(data, Message) else message(data, **fields)
        options = found.options
        result = await deliver(
            found.handler,
            given,
            middleware=found.middleware,
            retry_delay=options.retry_delay,
            permanent=options.permanent,
            undecodable=options.undecodable,
        )
        self.outcomes.append(result)
        if result.failed and found.on_error is not None:
            found.on_error(_as_handler_error(result))
        return result

    def _forget(self, key: str) -> None:
        super()._forget(key)
        self._registered.pop(key, None)

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        return _SilentSource(topic, capabilities=Capabilities(receive_cancellable=True, dead_letters=True))

    async def _ping(self) -> None:
        pass

    async def _release(self) -> None:
        pass


def _as_handler_error(result: Outcome) -> HandlerError:
    text = f"message {result.message.id} is not done: the handler raised {type(result.error).__name__}"
    error = HandlerError(text, topic=result.message.topic, about=result.message)
    error.__cause__ = result.error
    return error
