"""
One consumer over several topics, some of which come first; who gets the next slot is `sharing`'s to say.

Each topic has its own `RuntimeConsumer`, with its own receives, leases and order per key.  What they share is the slots
that handlers run in.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Unpack

from .._errors import ConfigurationError, ErrorCode, MessageQueueError, UnsupportedOptionError
from .._options import ConsumeKwargs, as_float
from .._protocols import ConsumerProvider, ErrorSink, Handler, Middleware
from .consumer import RuntimeConsumer
from .consumer_provider import RuntimeConsumerProvider
from .sharing import Order, SharedSlots, StrictOrder, WeightedOrder


async def new_priority_consumer(
    provider: ConsumerProvider,
    topics: Sequence[str] | Mapping[str, float],
    handler: Handler,
    /,
    *,
    middleware: Sequence[Middleware] = (),
    on_error: ErrorSink | None = None,
    **options: Unpack[ConsumeKwargs],
) -> PriorityConsumer:
    """
    Return a consumer of several topics whose handlers share `concurrency` slots.

    Args:
        provider: Where the topics are; each must be free there, as for `ConsumerProvider.new_consumer()`.
        topics: A sequence: strictly in this order, the most urgent first.  A free slot goes to the first topic with a
            message; a later topic is received from only while those before it were looked at and found empty.  A
            mapping of topic to weight (above 0): slots are given in proportion to the weights of the topics with
            messages, and all of them go to one that is alone in having any.
        handler: Gets the messages of all of them; `Message.topic` says which.
        middleware, on_error, options: As for `new_consumer()`.  `concurrency` is that of all topics together; the
            others hold for each.

    Raises:
        ConfigurationError: fewer than two topics, one named twice, or a weight that is none.
        UnsupportedOptionError: *provider* is not built on this library's runtime.
        ErrEmptyTopicName, ErrConsumerAlreadyRegistered: as `new_consumer()`; no topic is taken then.
    """
    names, order = _ranked(topics)
    if not isinstance(provider, RuntimeConsumerProvider):
        raise UnsupportedOptionError(
            f"{type(provider).__name__} cannot share slots between topics: open one consumer per topic there"
        )
    slots = SharedSlots(options.get("concurrency", provider.options.concurrency), len(names), order)
    consumers: list[RuntimeConsumer] = []
    try:
        for topic, share in zip(names, slots.shares, strict=True):
            consumers.append(
                await provider.new_consumer_sharing(
                    share, topic, handler, middleware=middleware, on_error=on_error, **options
                )
            )
    except BaseException:
        await asyncio.gather(*(consumer.close() for consumer in consumers))
        raise
    return PriorityConsumer(consumers)


def _ranked(topics: Sequence[str] | Mapping[str, float]) -> tuple[Sequence[str], Order]:
    if isinstance(topics, str) or not isinstance(topics, Sequence | Mapping):
        raise ConfigurationError(
            f"topics={topics!r}: give a list of topics, the most urgent first, or a mapping of topic to weight"
        )
    names = list(topics)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigurationError(f"topics={names!r}: give two or more different ones")
    if not isinstance(topics, Mapping):
        return names, StrictOrder()
    for name, weight in topics.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < as_float(weight) < math.inf:
            raise ConfigurationError(f"the weight of topic {name!r} is {weight!r}: give a number above 0")
    return names, WeightedOrder([float(weight) for weight in topics.values()])


class PriorityConsumer:
    """
    A `Consumer` over several topics; see `new_priority_consumer()`.

    Attributes:
        topic: The names of all topics, for people.
        consumers: One per topic, in their order; to read their `stats`.
    """

    def __init__(self, consumers: Sequence[RuntimeConsumer]) -> None:
        self.consumers = tuple(consumers)
        self.topic = ", ".join(consumer.topic for consumer in consumers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._consuming: set[RuntimeConsumer] = set()
        self._stop_asked = False

    def __repr__(self) -> str:
        return f"<consumer of {self.topic!r} by priority>"

    async def consume(self) -> None:
        """
        See `Consumer.consume()`.

        Raises:
            ReceiveError: a topic's fatal fault; the consumption of the others ended gracefully before.
        """
        if self._loop is not None:
            raise MessageQueueError(
                f"consume() of topics {self.topic} runs already: await that one, or raise concurrency",
                code=ErrorCode.ALREADY_REGISTERED,
            )
        self._loop = asyncio.get_running_loop()
        fatal: list[MessageQueueError] = []
        try:
            if not self._stop_asked:
                await self._consume_all(fatal)
        finally:
            self._stop_asked, self._loop = False, None
            self._consuming.clear()
        if fatal:
            raise fatal[0]

    async def _consume_all(self, fatal: list[MessageQueueError]) -> None:
        self._consuming.update(self.consumers)
        async with asyncio.TaskGroup() as group:
            for consumer in self.consumers:
                group.create_task(
                    self._consume(consumer, fatal), name=f"messagequeue priority consumer {consumer.topic}"
                )

    async def _consume(self, consumer: RuntimeConsumer, fatal: list[MessageQueueError]) -> None:
        try:
            await consumer.consume()
        except MessageQueueError as error:
            fatal.append(error)
        finally:
            self._consuming.discard(consumer)
            if fatal:
                self._stop_consuming()

    def _stop_consuming(self) -> None:
        """Stop those that still consume: one that ended would keep it for its next `consume()`."""
        for consumer in self._consuming:
            consumer.stop()

    def stop(self) -> None:
        """See `Consumer.stop()`."""
        self._stop_asked = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop_consuming)

    async def close(self) -> None:
        """
        See `Consumer.close()`; every topic is free again.

        Raises:
            MessageQueueError: the caller is a handler of this consumer.
        """
        for consumer in self.consumers:
            consumer.refuse_own_handler()
        await asyncio.gather(*(consumer.close() for consumer in self.consumers))
