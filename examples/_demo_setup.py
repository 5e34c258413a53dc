"""
Makes what the order pipeline publishes to and consumes from; an application never does this.

Queues are infrastructure: they are made by Terraform, CloudFormation or the AWS console, and the library creates none.
For the demo on `sqs` two FIFO queues are made with the AWS SDK and deleted at the end.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from messagequeue import Config, ProviderConfig

#: Receives after which the broker moves an order to the dead-letter queue.
MAX_RECEIVES = 3

#: Seconds; longer than a receive may take, so that a lost answer costs a message no receive.
VISIBILITY_TIMEOUT = 45


class SetupError(Exception):
    """The demo cannot be set up with this configuration."""


@dataclass(frozen=True)
class Place:
    """
    Where the orders go.

    Attributes:
        config: What providers to open.
        orders: The topic.
        dead_letters: The topic of its dead-letter queue.
    """

    config: Config
    orders: str
    dead_letters: str

    @property
    def provider(self) -> str:
        return self.config.publisher.provider


@asynccontextmanager
async def place_for(config: Config) -> AsyncIterator[Place]:
    """Make the topics for one run, and remove them afterwards where they outlive the process."""
    names = {config.publisher.provider, config.consumer.provider}
    if names == {"memory"}:
        yield _memory(config)
    elif names == {"sqs"}:
        async with _sqs_client(config.publisher.settings) as client, _sqs_queues(client) as (orders, dead_letters):
            yield Place(config, orders, dead_letters)
    else:
        raise SetupError(
            f"the demo runs on memory or sqs, not on {' and '.join(sorted(names))}: it needs a dead-letter queue that "
            "it can read; set MESSAGEQUEUE_PROVIDER"
        )


def _memory(config: Config) -> Place:
    """Topics of the memory provider come into being on first use; only their limit of receives has to be said."""
    limited = Config(
        ProviderConfig("memory", {**config.publisher.options, "max_receives": MAX_RECEIVES}),
        ProviderConfig("memory", {**config.consumer.options, "max_receives": MAX_RECEIVES}),
    )
    topic = "orders"
    return Place(limited, topic, topic + limited.consumer.settings.dead_letter_suffix)


# ---- sqs


@asynccontextmanager
async def _sqs_client(settings: Any) -> AsyncIterator[Any]:
    import aioboto3

    if settings.queue_address is None:
        raise SetupError(
            "the demo makes and deletes queues, which it does not do on AWS unasked: set "
            "MESSAGEQUEUE_SQS_QUEUE_ADDRESS, to LocalStack's address or, if you mean it, to that of your region"
        )
    session = aioboto3.Session(profile_name=settings.profile)
    region = settings.region or session.region_name or "us-east-1"
    async with session.client("sqs", region_name=region, endpoint_url=settings.queue_address) as client:
        yield client


@asynccontextmanager
async def _sqs_queues(client: Any) -> AsyncIterator[tuple[str, str]]:
    run = uuid.uuid4().hex[:8]
    made: list[str] = []
    try:
        made.append(await _create(client, f"demo-orders-dead-{run}.fifo"))
        found = await client.get_queue_attributes(QueueUrl=made[0], AttributeNames=["QueueArn"])
        target = {"deadLetterTargetArn": found["Attributes"]["QueueArn"], "maxReceiveCount": MAX_RECEIVES}
        made.append(await _create(client, f"demo-orders-{run}.fifo", RedrivePolicy=json.dumps(target)))
    except (BotoCoreError, ClientError) as error:
        raise SetupError(f"the demo's queues cannot be made: {error}") from None
    try:
        yield made[1], made[0]
    finally:
        await asyncio.gather(*(client.delete_queue(QueueUrl=url) for url in made))


async def _create(client: Any, name: str, **attributes: str) -> str:
    given = {"FifoQueue": "true", "VisibilityTimeout": str(VISIBILITY_TIMEOUT), **attributes}
    answer = await client.create_queue(QueueName=name, Attributes=given)
    url: str = answer["QueueUrl"]
    return url
