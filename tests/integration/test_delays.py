"""Delays of messages and of queues, over the wire: this package's server, and LocalStack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from messagequeue import InvalidMessageError, Outgoing, Publisher, Receipt, UnsupportedOptionError
from messagequeue.broker import State
from messagequeue_sqs import SQSConfig, SQSPublisherProvider, SQSServer
from tests.support.localstack import Queues
from tests.support.realtime import real_time

#: Visible, in flight, delayed.
Counts = Callable[[], Awaitable[tuple[int, int, int]]]
#: Makes a queue and says where it is.
Service = Callable[..., AbstractAsyncContextManager[tuple[str, str, Counts]]]


@asynccontextmanager
async def on_server(*, fifo: bool, delay: int) -> AsyncIterator[tuple[str, str, Counts]]:
    """Yield endpoint, topic and counts of a queue with a *delay* of its own."""
    name = "orders.fifo" if fifo else "orders"
    settings = {"DelaySeconds": delay} | ({"ContentBasedDeduplication": True} if fifo else {})
    async with SQSServer(queues={name: settings}) as server:

        async def counts() -> tuple[int, int, int]:
            states = [seen.state for seen in server.peek(name)]
            return states.count(State.VISIBLE), states.count(State.IN_FLIGHT), states.count(State.DELAYED)

        yield server.endpoint_url, server.queue_url(name), counts


def on_localstack(queues: Queues) -> Service:
    @asynccontextmanager
    async def service(*, fifo: bool, delay: int) -> AsyncIterator[tuple[str, str, Counts]]:
        url = queues.create(fifo=fifo, DelaySeconds=delay)

        async def counts() -> tuple[int, int, int]:
            return await asyncio.to_thread(queues.counts, url)

        yield queues.endpoint, url, counts

    return service


@pytest.fixture(
    params=["server", pytest.param("localstack", marks=[pytest.mark.integration, pytest.mark.slow])],
)
def service(request: pytest.FixtureRequest) -> Service:
    if request.param == "localstack":
        return on_localstack(request.getfixturevalue("queues"))
    return on_server


@asynccontextmanager
async def publishing(endpoint: str, topic: str) -> AsyncIterator[Publisher]:
    async with SQSPublisherProvider(SQSConfig(queue_address=endpoint, region="us-east-1")) as provider:
        yield await provider.new_publisher(topic)


@real_time()
async def test_the_queue_s_own_delay_holds_unless_a_message_says_otherwise(service: Service) -> None:
    """Left out, the queue's applies; 0 is visible at once; the longest that SQS has is taken (PUB-04)."""
    async with service(fifo=False, delay=60) as (endpoint, topic, counts), publishing(endpoint, topic) as publisher:
        await publisher.publish("the queue's")
        assert await counts() == (0, 0, 1)
        await publisher.publish("now", delay=0)
        assert await counts() == (1, 0, 1)
        results = await publisher.publish_many(["queue's", Outgoing("now", delay=0), Outgoing("later", delay=900)])
        assert all(isinstance(result, Receipt) for result in results)
        assert await counts() == (2, 0, 3)


@real_time()
async def test_a_longer_delay_than_the_service_has_is_refused(service: Service) -> None:
    """Before anything is sent; of many messages it fails alone (PUB-04)."""
    async with service(fifo=False, delay=0) as (endpoint, topic, counts), publishing(endpoint, topic) as publisher:
        with pytest.raises(InvalidMessageError, match="takes 0 to 900 seconds; for longer"):
            await publisher.publish("x", delay=901)
        first, second = await publisher.publish_many([Outgoing("a", delay=900), Outgoing("b", delay=901)])
        assert isinstance(first, Receipt)
        assert isinstance(second, InvalidMessageError)
        assert await counts() == (0, 0, 1)


@real_time()
async def test_a_fifo_queue_delays_all_its_messages_or_none(service: Service) -> None:
    """A message's own delay is refused, with what to do; the queue's holds, for a delay of 0, too."""
    async with service(fifo=True, delay=60) as (endpoint, topic, counts), publishing(endpoint, topic) as publisher:
        with pytest.raises(UnsupportedOptionError, match="set a delay on the topic itself"):
            await publisher.publish("x", ordering_key="k", delay=5)
        await publisher.publish("a", ordering_key="k")
        await publisher.publish("b", ordering_key="k", delay=0)
        assert await counts() == (0, 0, 2)
