"""Large payloads over two SQS and one S3, looked at with plain boto3 and with Amazon's own client for Python."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from messagequeue import (
    ConsumeError,
    ConsumeOptions,
    ErrorCode,
    Message,
    Outgoing,
    PublishError,
    PublishOptions,
    Receipt,
)
from messagequeue_sqs import S3Payloads, SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.amazon_client import extended_client
from tests.support.localstack import Queues
from tests.support.realtime import consuming, real_time, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BINARY = bytes(range(256))
LARGE = "é" * 150_000
"""300,000 bytes of two-byte characters."""


class Bucket:
    """A bucket of its own on LocalStack, looked at with plain boto3."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        config = Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"})
        self.client: Any = boto3.client("s3", endpoint_url=endpoint, config=config)
        self.name = f"bodies-{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=self.name)

    def payloads(self, **options: Any) -> S3Payloads:
        return S3Payloads(bucket=self.name, address=self.endpoint, **options)

    def names(self) -> list[str]:
        return [found["Key"] for found in self.client.list_objects_v2(Bucket=self.name).get("Contents", ())]

    def body(self, key: str) -> bytes:
        read: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return read

    def close(self) -> None:
        for key in self.names():
            self.client.delete_object(Bucket=self.name, Key=key)
        self.client.delete_bucket(Bucket=self.name)
        self.client.close()


@pytest.fixture
def bucket(localstack_endpoint: str) -> Iterator[Bucket]:
    made = Bucket(localstack_endpoint)
    yield made
    made.close()


@pytest.fixture
def peer(queues: Queues, bucket: Bucket) -> Iterator[Any]:
    """Amazon's extended client for Python, with a threshold of 256 KiB."""
    client = extended_client(queues.endpoint, bucket.client, bucket.name)
    yield client
    client.close()


def config(queues: Queues, bucket: Bucket, *, publish: PublishOptions = PublishOptions(), **payloads: Any) -> SQSConfig:
    return SQSConfig(queue_address=queues.endpoint, payloads=bucket.payloads(**payloads), publish=publish)


async def publish(settings: SQSConfig, url: str, *items: object, **options: Any) -> list[Receipt | PublishError]:
    async with SQSPublisherProvider(settings) as provider:
        return await (await provider.new_publisher(url)).publish_many(items, **options)


class Consumed:
    """What a consumer handled and was told of."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.told: list[ConsumeError] = []
        self.seconds = 0.0

    async def handle(self, message: Message) -> None:
        await asyncio.sleep(self.seconds)
        self.messages.append(message)


async def consume(settings: SQSConfig, url: str, count: int, *, seconds: float = 0.0, **options: Any) -> Consumed:
    """Consume until *count* messages were handled or could not be."""
    consumed = Consumed()
    consumed.seconds = seconds
    options = {"wait_time": 1, "on_error": consumed.told.append} | options
    async with SQSConsumerProvider(settings) as provider, consuming(provider, url, consumed.handle, **options):
        await until(lambda: len(consumed.messages) + len(consumed.told) >= count)
    return consumed


def receive(client: Any, url: str) -> dict[str, Any]:
    [message] = client.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=2)["Messages"]
    received: dict[str, Any] = message
    return received


# -- together with Amazon's client ---------------------------------------------------------------------------------


@pytest.mark.parametrize("legacy", [False, True])
@real_time()
async def test_amazons_client_reads_what_we_publish(queues: Queues, bucket: Bucket, peer: Any, legacy: bool) -> None:
    """Body and attributes are the sender's; its delete gets a handle that SQS knows (EXT-01)."""
    url = queues.create(VisibilityTimeout=0)
    settings = config(queues, bucket, threshold=262_144, legacy=legacy)
    [receipt] = await publish(settings, url, LARGE, attributes={"kind": "report"})
    [raw] = queues.receive(url)
    read = receive(peer, url)

    [key] = bucket.names()
    name = "SQSLargePayloadSize" if legacy else "ExtendedPayloadSize"
    assert isinstance(receipt, Receipt)
    assert json.loads(raw["Body"])[1] == {"s3BucketName": bucket.name, "s3Key": key}
    assert raw["MessageAttributes"][name] == {"DataType": "Number", "StringValue": "300000"}
    assert bucket.body(key) == LARGE.encode()
    assert read["Body"] == LARGE
    assert read["MessageAttributes"] == {"kind": {"DataType": "String", "StringValue": "report"}}
    peer.delete_message(QueueUrl=url, ReceiptHandle=read["ReceiptHandle"])
    assert queues.counts(url) == (0, 0, 0)


@pytest.mark.parametrize("legacy", [False, True])
@real_time()
async def test_we_read_what_amazons_client_sends(queues: Queues, bucket: Bucket, peer: Any, legacy: bool) -> None:
    """With its newer names and with its older ones; a small message beside it is literal (EXT-02)."""
    url = queues.create()
    peer.use_legacy_attribute = legacy
    attributes = {"kind": {"DataType": "String", "StringValue": "report"}}
    peer.send_message(QueueUrl=url, MessageBody=LARGE, MessageAttributes=attributes)
    peer.send_message(QueueUrl=url, MessageBody="small")
    consumed = await consume(config(queues, bucket), url, 2)

    found = {message.text: dict(message.attributes) for message in consumed.messages}
    assert found == {LARGE: {"kind": "report"}, "small": {}}
    assert consumed.told == []
    assert queues.counts(url) == (0, 0, 0)


@real_time()
async def test_amazons_client_gets_a_binary_body_as_base64_text(queues: Queues, bucket: Bucket, peer: Any) -> None:
    """As it would without S3, with the same mark (EXT-01)."""
    url = queues.create()
    await publish(config(queues, bucket, threshold=0), url, BINARY)
    read = receive(peer, url)

    assert base64.b64decode(read["Body"], validate=True) == BINARY
    assert read["MessageAttributes"]["messagequeue.encoding"]["StringValue"] == "base64"


# -- both ends ours ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("compression", ["none", "gzip"])
@real_time()
async def test_large_bodies_of_every_kind_arrive_as_they_were_sent(
    queues: Queues, bucket: Bucket, fifo: bool, compression: Any
) -> None:
    """Text, bytes, JSON, beyond what SQS takes and below it, compressed where that helps."""
    url = queues.create(fifo=fifo)
    options: dict[str, Any] = {"ordering_key": "k"} if fifo else {}
    bodies: list[Any] = [os.urandom(2_000_000), LARGE * 8, BINARY, {"list": list(range(300_000))}, "small"]
    settings = config(queues, bucket, publish=PublishOptions(compression=compression))
    results = await publish(settings, url, *bodies, **options)
    consumed = await consume(settings, url, len(bodies))

    wanted = [body if isinstance(body, bytes) else _text(body).encode() for body in bodies]
    assert [result for result in results if isinstance(result, PublishError)] == []
    assert sorted(message.body for message in consumed.messages) == sorted(wanted)
    assert all(dict(message.attributes) == {} for message in consumed.messages)
    assert len(bucket.names()) == (1 if compression == "gzip" else 3)
    assert queues.counts(url) == (0, 0, 0)


def _text(body: object) -> str:
    return body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))


@real_time()
async def test_queue_that_takes_less_than_sqs_lowers_the_threshold(queues: Queues, bucket: Bucket) -> None:
    """A queue of before August 2025: what it would refuse goes to S3, without an option (EXT-12)."""
    url = queues.create(MaximumMessageSize=262_144)
    results = await publish(config(queues, bucket), url, "x" * 262_144, "x" * 262_145, "x" * 1_048_576)
    consumed = await consume(config(queues, bucket), url, 3)

    assert [type(result) for result in results] == [Receipt] * 3
    assert len(bucket.names()) == 2
    assert sorted(len(message.body) for message in consumed.messages) == [262_144, 262_145, 1_048_576]


@real_time()
async def test_refusal_of_such_a_queue_says_what_to_do_where_payloads_are_off(queues: Queues, bucket: Bucket) -> None:
    """The message is within SQS' limit, but above the queue's (EXT-12)."""
    url = queues.create(MaximumMessageSize=262_144)
    [error] = await publish(SQSConfig(queue_address=queues.endpoint), url, "x" * 300_000)

    assert isinstance(error, PublishError)
    assert "MaximumMessageSize" in str(error)
    assert "payloads.threshold" in str(error)


@real_time()
async def test_objects_go_after_their_messages_where_that_is_asked(queues: Queues, bucket: Bucket) -> None:
    """And are there until then; by default they stay (EXT-03)."""
    url = queues.create()
    await publish(config(queues, bucket, threshold=0), url, "stays")
    await consume(config(queues, bucket), url, 1)
    stays = bucket.names()
    await publish(config(queues, bucket, threshold=0), url, "goes", "goes, too")
    before = len(bucket.names())
    consumed = await consume(config(queues, bucket, delete=True), url, 2)

    assert before == 3
    assert len(consumed.messages) == 2
    assert bucket.names() == stays


@real_time(60)
async def test_message_whose_object_is_gone_becomes_a_dead_letter_and_harms_no_other(
    queues: Queues, bucket: Bucket
) -> None:
    """It comes back, as after an exception, until its receives are used up (EXT-05)."""
    url = queues.create(dead_letters=2)
    await publish(config(queues, bucket, threshold=0), url, *(f"body {place}" for place in range(5)))
    gone = next(key for key in bucket.names() if bucket.body(key) == b"body 3")
    bucket.client.delete_object(Bucket=bucket.name, Key=gone)
    consumed = await consume(config(queues, bucket), url, 6, retry_delay=0)
    with_policy = json.loads(queues.attributes(url)["RedrivePolicy"])
    name = with_policy["deadLetterTargetArn"].rpartition(":")[2]
    dead = queues.client.get_queue_url(QueueName=name)["QueueUrl"]
    queues.receive(url, wait=0)  # the receive that would be the third moves it

    assert sorted(message.text for message in consumed.messages) == ["body 0", "body 1", "body 2", "body 4"]
    assert {error.code for error in consumed.told} == {ErrorCode.NOT_FOUND}
    assert [json.loads(message["Body"])[1]["s3Key"] for message in queues.drain(dead, wait=2)] == [gone]


@real_time()
async def test_leases_of_large_and_small_messages_are_kept_alike(queues: Queues, bucket: Bucket) -> None:
    """A handler of two and a half leases; each message is delivered once (EXT-06)."""
    url = queues.create(VisibilityTimeout=1)
    await publish(config(queues, bucket, threshold=1_000), url, "x" * 2_000, "small")
    consumed = await consume(config(queues, bucket), url, 2, seconds=2.5)

    assert sorted(len(message.body) for message in consumed.messages) == [5, 2_000]
    assert [message.delivery_attempt for message in consumed.messages] == [1, 1]
    assert consumed.told == []
    assert queues.counts(url) == (0, 0, 0)


@real_time()
async def test_bucket_that_is_not_there_fails_large_messages_alone(queues: Queues, bucket: Bucket) -> None:
    """The small one is sent; the large one's error names bucket and fault."""
    url = queues.create()
    payloads = S3Payloads(bucket="no-such-bucket-of-ours", address=bucket.endpoint, threshold=1_000)
    settings = SQSConfig(queue_address=queues.endpoint, payloads=payloads)
    small, large = await publish(settings, url, "small", "x" * 2_000)

    assert isinstance(small, Receipt)
    assert isinstance(large, PublishError)
    assert large.code is ErrorCode.NOT_FOUND
    assert "s3://no-such-bucket-of-ours" in str(large)
    assert [message["Body"] for message in queues.drain(url)] == ["small"]


@real_time()
async def test_one_message_of_a_batch_may_be_published_again_without_a_second_object(
    queues: Queues, bucket: Bucket
) -> None:
    """The deduplication key names the object: publishing again puts it into its own place."""
    url = queues.create(fifo=True)
    item = Outgoing("x" * 2_000, ordering_key="ada", deduplication_key="o-1")
    for _ in range(2):
        await publish(config(queues, bucket, threshold=1_000), url, item)
    consumed = await consume(config(queues, bucket), url, 1)

    assert len(bucket.names()) == 1
    assert [message.deduplication_key for message in consumed.messages] == ["o-1"]
    assert queues.counts(url) == (0, 0, 0)


@real_time()
async def test_no_client_of_s3_is_opened_where_payloads_are_off(queues: Queues) -> None:
    """One that has no permission for S3, or no S3, is asked nothing."""
    url = queues.create()
    settings = SQSConfig(queue_address=queues.endpoint, consume=ConsumeOptions(wait_time=1))
    async with SQSPublisherProvider(settings) as publishers, SQSConsumerProvider(settings) as consumers:
        await (await publishers.new_publisher(url)).publish("x")
        await consumers.new_consumer(url, Consumed().handle)

        assert publishers._clients._others == consumers._clients._others == {}
