"""The SQS provider through the AWS SDK, judged over LocalStack; its short path is in `test_sqs_server`."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from messagequeue import ConsumerProvider, Message, PublisherProvider
from messagequeue.testing.conformance import BaseHarness, ConformanceSuite, Features, Main, run_in_real_time
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.localstack import Queues

pytestmark = pytest.mark.integration


class SQSHarness(BaseHarness):
    """Queues on LocalStack, made and looked at with plain boto3."""

    features = Features(
        unit=2.0,
        patience=15.0,
        slack=1.5,
        wait=1.0,
        ordered_topics=True,
        delays=True,
        deduplication=True,
        dead_letters=True,
        # LocalStack 4.12 gives out the later ones; SQS does not (developer guide, "FIFO delivery logic").
        held_keys_wait=False,
    )

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._config = SQSConfig(queue_address=queues.endpoint)
        self._dead: dict[str, str] = {}

    def run(self, main: Main, /) -> None:
        run_in_real_time(main)

    async def publisher_provider(self) -> PublisherProvider:
        return SQSPublisherProvider(self._config)

    async def consumer_provider(self) -> ConsumerProvider:
        return SQSConsumerProvider(self._config)

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        return await asyncio.to_thread(
            self._queues.create,
            "kit",
            fifo=ordered,
            dead_letters=max_receives,
            VisibilityTimeout=math.ceil(visibility_timeout),
        )

    async def dead_letters(self, topic: str) -> list[bytes]:
        return await asyncio.to_thread(self._dead_letters, topic)

    def _dead_letters(self, topic: str) -> list[bytes]:
        policy = json.loads(self._queues.attributes(topic)["RedrivePolicy"])
        name = policy["deadLetterTargetArn"].rpartition(":")[2]
        target = self._queues.client.get_queue_url(QueueName=name)["QueueUrl"]
        return [message["Body"].encode() for message in self._queues.drain(target)]

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        return await asyncio.to_thread(self._queues.counts, topic)

    async def steal(self, topic: str, message: Message) -> bool:
        """Deleted elsewhere: LocalStack refuses every later use of the handle, as SQS does."""
        handle = message.raw["ReceiptHandle"]  # type: ignore[index]
        await asyncio.to_thread(self._queues.client.delete_message, QueueUrl=topic, ReceiptHandle=handle)
        return True


class TestSQSOverLocalStack(ConformanceSuite):
    @pytest.fixture
    def harness(self, queues: Queues) -> SQSHarness:
        return SQSHarness(queues)
