"""Handlers of lists and priority between queues, on SQS wire."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import BatchHandler, Outgoing, PartialFailure
from messagequeue.priority import new_priority_consumer
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.localstack import Queues
from tests.support.realtime import real_time, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@real_time()
async def test_lists_keep_the_order_of_a_fifo_queue_over_a_partial_failure(queues: Queues) -> None:
    """The later ones of the failed key come after it; the other key is done with (FIFO-01)."""
    url = queues.create(fifo=True)
    calls: list[list[str]] = []

    async def handle(messages):
        calls.append([message.text for message in messages])
        if len(calls) == 1:
            raise PartialFailure({message.id: ValueError() for message in messages if message.text == "a1"})

    config = SQSConfig(queue_address=queues.endpoint)
    async with SQSPublisherProvider(config) as publishers, SQSConsumerProvider(config) as consumers:
        publisher = await publishers.new_publisher(url)
        items = [
            Outgoing(f"{key}{n}", ordering_key=key, deduplication_key=f"{key}{n}") for n in range(3) for key in "ab"
        ]
        assert not any(isinstance(result, Exception) for result in await publisher.publish_many(items))
        # LocalStack does not lock a group: what is handed back without a delay may come in any order there.
        consumer = await consumers.new_consumer(
            url, BatchHandler(handle, max_wait=0.5), wait_time=1, retry_delay=1, on_error=lambda error: None
        )
        running = asyncio.create_task(consumer.consume())
        await until(lambda: consumer.stats.handled >= 6)
        await consumer.close()
        await running

    texts = [text for call in calls for text in call]
    assert [text for text in texts if text[0] == "b"] == ["b0", "b1", "b2"]
    assert [text for call in calls[1:] for text in call if text[0] == "a"] == ["a1", "a2"]


@real_time()
async def test_the_urgent_queue_is_handled_first(queues: Queues) -> None:
    """Both are full when it begins."""
    urgent, bulk = queues.create(), queues.create()
    seen: list[str] = []

    async def handle(message):
        seen.append(message.topic)
        await asyncio.sleep(0)

    config = SQSConfig(queue_address=queues.endpoint)
    async with SQSPublisherProvider(config) as publishers, SQSConsumerProvider(config) as consumers:
        for url in (bulk, urgent):
            await (await publishers.new_publisher(url)).publish_many([str(n) for n in range(8)])
        consumer = await new_priority_consumer(consumers, [urgent, bulk], handle, concurrency=2, wait_time=1)
        running = asyncio.create_task(consumer.consume())
        await until(lambda: len(seen) == 16)
        await consumer.close()
        await running

    assert seen == [urgent] * 8 + [bulk] * 8
