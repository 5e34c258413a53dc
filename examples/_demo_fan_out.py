"""
Makes what the image pipeline publishes to and consumes from; an application never does this.

Topics, queues and subscriptions are infrastructure.  On `sqs` they are made with the AWS SDK and with `subscribe()`,
and deleted at the end.  The provider `memory` has no topics with several queues: there each queue is published to.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from messagequeue import Config, ProviderConfig
from messagequeue_sqs import SQSConfig
from messagequeue_sqs.sns import SNSConfig, subscribe


@dataclass(frozen=True)
class FanOut:
    """
    Where uploads are announced, and where the workers hear of them.

    Attributes:
        config: What providers to open.
        topics: What is published to, so that every queue gets it: one on `sqs`.
        queues: The queue of each worker.
    """

    config: Config
    topics: Sequence[str]
    queues: dict[str, str]


@asynccontextmanager
async def fan_out(config: Config, workers: Sequence[str]) -> AsyncIterator[FanOut]:
    """Make a queue for each worker, and what reaches all of them; remove it afterwards."""
    if config.consumer.provider != "sqs":
        yield FanOut(config, workers, {worker: worker for worker in workers})
        return
    import aioboto3

    settings: SQSConfig = config.consumer.settings
    where: Any = {"region_name": settings.region or "us-east-1", "endpoint_url": settings.queue_address}
    if settings.queue_address is None:
        raise SystemExit("it makes and deletes queues, which it does not do on AWS unasked: set a queue_address")
    session = aioboto3.Session(profile_name=settings.profile)
    async with (
        session.client("sqs", **where) as sqs,
        session.client("sns", **where) as sns,
        _made(sqs, sns, settings, workers) as (topic, queues),
    ):
        publishing = ProviderConfig("sns", {"topic_address": settings.queue_address})
        consuming = ProviderConfig("sqs", {**config.consumer.options, "unwrap_sns": True})
        yield FanOut(Config(publishing, consuming), [topic], queues)


@asynccontextmanager
async def _made(
    sqs: Any, sns: Any, settings: SQSConfig, workers: Sequence[str]
) -> AsyncIterator[tuple[str, dict[str, str]]]:
    run = uuid.uuid4().hex[:8]
    topic = (await sns.create_topic(Name=f"demo-uploads-{run}"))["TopicArn"]
    queues: dict[str, str] = {}
    try:
        for worker in workers:
            queues[worker] = (await sqs.create_queue(QueueName=f"demo-{worker}-{run}"))["QueueUrl"]
            address = SNSConfig(topic_address=settings.queue_address)
            await subscribe(queues[worker], topic, raw=False, config=address, queue_config=settings)
        yield topic, queues
    finally:
        await sns.delete_topic(TopicArn=topic)
        await asyncio.gather(*(sqs.delete_queue(QueueUrl=url) for url in queues.values()))
