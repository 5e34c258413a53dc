"""
SQS with every body compressed where that helps and all of them in S3, judged in virtual time.

What a provider promises holds with these stages as without; the services are this package's engine and a dictionary.
"""

from __future__ import annotations

import base64
import itertools
import json
import math

import pytest

from messagequeue import ConsumeOptions, ConsumerProvider, Message, PublisherProvider, PublishOptions
from messagequeue._compression import COMPRESSION_ATTRIBUTE, plain_pieces
from messagequeue.broker import Outcome, State
from messagequeue.driver import LeaseSource, Sender
from messagequeue.runtime import RuntimeConsumerProvider, RuntimePublisherProvider
from messagequeue.testing.conformance import BaseHarness, ConformanceSuite, Features, Main, run_in_virtual_time
from messagequeue_sqs import S3Payloads
from messagequeue_sqs._fetching import FetchingSource
from messagequeue_sqs._offloading import OffloadingSender
from messagequeue_sqs._opening import Opening
from messagequeue_sqs._pointer import read_pointer
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._sender import SQSSender
from messagequeue_sqs._source import SQSSource
from messagequeue_sqs._wire import ENCODING_ATTRIBUTE
from tests.support.engine_sqs import ACCOUNT, REGION, EngineSqs
from tests.unit.sqs.fake_s3 import FakeS3

PAYLOADS = S3Payloads(bucket="bodies", threshold=0, delete=True, on_missing="leave")


class Publishers(RuntimePublisherProvider):
    """The SQS provider's stages over the stand-ins."""

    def __init__(self, sqs: EngineSqs, s3: FakeS3) -> None:
        super().__init__("sqs", PublishOptions(compression="gzip", compression_threshold=0))
        self._sqs, self._s3 = sqs, s3

    def _topic_key(self, topic: str) -> str:
        return parse_topic(topic).identity

    async def _open_sender(self, topic: str) -> Sender:
        sender = SQSSender(self._sqs, parse_topic(topic))
        return OffloadingSender(sender, self._s3, PAYLOADS, topic, threshold=PAYLOADS.threshold)

    async def _ping(self) -> None:
        """It is there."""

    async def _release(self) -> None:
        """Nothing is open."""


class Consumers(RuntimeConsumerProvider):
    """The SQS provider's stages over the stand-ins."""

    def __init__(self, sqs: EngineSqs, s3: FakeS3) -> None:
        super().__init__("sqs")
        self._sqs, self._s3 = sqs, s3

    def _topic_key(self, topic: str) -> str:
        return parse_topic(topic).identity

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        decode = Opening(buckets=PAYLOADS.readable).decode
        source = SQSSource(self._sqs, self._sqs, parse_topic(topic), options, read_timeout=30, decode=decode)
        return FetchingSource(source, self._s3, PAYLOADS, topic)

    async def _ping(self) -> None:
        """It is there."""

    async def _release(self) -> None:
        """Nothing is open."""


class PayloadHarness(BaseHarness):
    """An engine and a bucket of their own for each fact."""

    features = Features(
        unit=30.0,
        patience=600.0,
        slack=0.5,
        wait=20.0,
        ordered_topics=True,
        delays=True,
        deduplication=True,
        dead_letters=True,
    )

    def __init__(self) -> None:
        self._sqs, self._s3 = EngineSqs(), FakeS3()
        self._names = (f"kit-{n}" for n in itertools.count())

    def run(self, main: Main, /) -> None:
        run_in_virtual_time(main)

    async def publisher_provider(self) -> PublisherProvider:
        return Publishers(self._sqs, self._s3)

    async def consumer_provider(self) -> ConsumerProvider:
        return Consumers(self._sqs, self._s3)

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        name = next(self._names) + (".fifo" if ordered else "")
        kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if ordered else {}
        attributes = {**kind, "VisibilityTimeout": str(math.ceil(visibility_timeout))}
        if max_receives is not None:
            self._sqs.create(f"dead-{name}", kind)
            arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead-{name}"
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": max_receives})
        return self._sqs.create(name, attributes)

    def _peek(self, queue: str) -> list[State]:
        return [seen.state for seen in self._sqs.engine.peek(self._sqs.now(), queue)]

    async def dead_letters(self, topic: str) -> list[bytes]:
        url = topic.replace("/kit-", "/dead-kit-")
        answer = self._sqs.call(
            "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0, MessageAttributeNames=["All"]
        )
        return [self._body(message) for message in getattr(answer, "nothing", answer).get("Messages", ())]

    def _body(self, raw: dict[str, object]) -> bytes:
        """Open a message by hand: pointer, base64, gzip."""
        pointer = read_pointer(str(raw["Body"]), PAYLOADS.readable)
        body, attributes = self._s3.objects[pointer.bucket, pointer.key], raw["MessageAttributes"]
        assert isinstance(attributes, dict)
        if ENCODING_ATTRIBUTE in attributes:
            body = base64.b64decode(body)
        if COMPRESSION_ATTRIBUTE in attributes:
            body = b"".join(plain_pieces(body, "gzip", limit=10_000_000))
        return body

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        states = self._peek(topic.rpartition("/")[2])
        return states.count(State.VISIBLE), states.count(State.IN_FLIGHT), states.count(State.DELAYED)

    async def steal(self, topic: str, message: Message) -> bool:
        """Another receive gets the message: made visible, and taken under another handle."""
        queue = self._sqs.broker.queue(f"sqs.{topic.rpartition('/')[2]}")
        handle = self._sqs.engine.opened(message.raw["ReceiptHandle"])  # type: ignore[index]
        if handle is None or queue.release(self._sqs.now(), handle) is not Outcome.DONE:
            return False
        queue.take(self._sqs.now(), 100)
        return True


class TestSQSWithPayloads(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> PayloadHarness:
        return PayloadHarness()
