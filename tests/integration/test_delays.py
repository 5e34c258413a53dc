"""Delays of messages and of queues over the wire: what waits and what does not, told at once by the queue's counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from messagequeue import InvalidMessageError, Outgoing, Publisher, Receipt, UnsupportedOptionError
from messagequeue_sqs import SQSConfig, SQSPublisherProvider
from tests.support.localstack import Queues
from tests.support.realtime import real_time

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@asynccontextmanager
async def publishing(queues: Queues, topic: str) -> AsyncIterator[Publisher]:
    async with SQSPublisherProvider(SQSConfig(queue_address=queues.endpoint, region="us-east-1")) as provider:
        yield await provider.new_publisher(topic)


@real_time()
async def test_the_queue_s_own_delay_holds_unless_a_message_says_otherwise(queues: Queues) -> None:
    """Left out, the queue's applies; 0 is visible at once; the longest that SQS has is taken (PUB-04)."""
    topic = queues.create(DelaySeconds=60)
    async with publishing(queues, topic) as publisher:
        await publisher.publish("the queue's")
        assert queues.counts(topic) == (0, 0, 1)
        await publisher.publish("now", delay=0)
        assert queues.counts(topic) == (1, 0, 1)
        results = await publisher.publish_many(["queue's", Outgoing("now", delay=0), Outgoing("later", delay=900)])
        assert all(isinstance(result, Receipt) for result in results)
        assert queues.counts(topic) == (2, 0, 3)


@real_time()
async def test_a_longer_delay_than_the_service_has_is_refused(queues: Queues) -> None:
    """Before anything is sent; of many messages it fails alone (PUB-04)."""
    topic = queues.create()
    async with publishing(queues, topic) as publisher:
        with pytest.raises(InvalidMessageError, match="takes 0 to 900 seconds; for longer"):
            await publisher.publish("x", delay=901)
        first, second = await publisher.publish_many([Outgoing("a", delay=900), Outgoing("b", delay=901)])
        assert isinstance(first, Receipt)
        assert isinstance(second, InvalidMessageError)
        assert queues.counts(topic) == (0, 0, 1)


@real_time()
async def test_a_fifo_queue_delays_all_its_messages_or_none(queues: Queues) -> None:
    """A message's own delay is refused, with what to do; the queue's holds, for a delay of 0, too."""
    topic = queues.create(fifo=True, DelaySeconds=60)
    async with publishing(queues, topic) as publisher:
        with pytest.raises(UnsupportedOptionError, match="set a delay on the topic itself"):
            await publisher.publish("x", ordering_key="k", delay=5)
        await publisher.publish("a", ordering_key="k")
        await publisher.publish("b", ordering_key="k", delay=0)
        assert queues.counts(topic) == (0, 0, 2)
