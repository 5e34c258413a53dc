"""Topics and queues on LocalStack, published to and consumed by us, made and looked at with plain boto3."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from messagequeue import ErrorCode, MessageQueueError, Outgoing, PublishError, PublishOptions, Receipt
from messagequeue_sqs import SQSConfig, events
from messagequeue_sqs.sns import SNSConfig, SNSPublisherProvider, Subscription, subscribe, unsubscribe
from tests.integration.test_large_payloads import Bucket, consume
from tests.support.localstack import Queues
from tests.support.realtime import real_time

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BINARY = bytes(range(256))


class Topics:
    """Topics at one endpoint, made and looked at with plain boto3."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.client: Any = boto3.client("sns", endpoint_url=endpoint, config=Config(retries={"max_attempts": 0}))
        self._made: list[str] = []

    def create(self, name: str = "uploads", *, fifo: bool = False, content: bool = True) -> str:
        name = f"{name}-{uuid.uuid4().hex[:12]}" + (".fifo" if fifo else "")
        attributes = {"FifoTopic": "true", "ContentBasedDeduplication": str(content).lower()} if fifo else {}
        arn: str = self.client.create_topic(Name=name, Attributes=attributes)["TopicArn"]
        self._made.append(arn)
        return arn

    def attributes(self, subscription: Subscription) -> dict[str, str]:
        found: dict[str, str] = self.client.get_subscription_attributes(SubscriptionArn=subscription.arn)["Attributes"]
        return found

    def subscriptions(self, topic: str) -> list[str]:
        found = self.client.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        return [each["SubscriptionArn"] for each in found]

    def close(self) -> None:
        for arn in self._made:
            self.client.delete_topic(TopicArn=arn)
        self.client.close()


@pytest.fixture
def queues(localstack_endpoint: str) -> Iterator[Queues]:
    """Queues on LocalStack alone: this package's own server has no topics."""
    made = Queues(localstack_endpoint)
    yield made
    made.close()


@pytest.fixture
def topics(localstack_endpoint: str) -> Iterator[Topics]:
    made = Topics(localstack_endpoint)
    yield made
    made.close()


@pytest.fixture
def bucket(localstack_endpoint: str) -> Iterator[Bucket]:
    made = Bucket(localstack_endpoint)
    yield made
    made.close()


def sns_config(endpoint: str, **options: Any) -> SNSConfig:
    return SNSConfig(topic_address=endpoint, **options)


def sqs_config(endpoint: str, **options: Any) -> SQSConfig:
    return SQSConfig(queue_address=endpoint, **options)


async def subscribed(queues: Queues, url: str, topic: str, **options: Any) -> Subscription:
    endpoint = queues.endpoint
    return await subscribe(url, topic, config=sns_config(endpoint), queue_config=sqs_config(endpoint), **options)


async def publish(config: SNSConfig, topic: str, *items: object, **options: Any) -> list[Receipt | PublishError]:
    async with SNSPublisherProvider(config) as provider:
        return await (await provider.new_publisher(topic)).publish_many(items, **options)


def taken(queues: Queues, url: str, count: int) -> list[dict[str, Any]]:
    """Receive *count* messages with plain boto3, and see that no more come."""
    found: list[dict[str, Any]] = []
    for _ in range(20):
        found += queues.drain(url, wait=1)
        if len(found) >= count:
            break
    return found + queues.drain(url)


# -- one queue, several ways in -----------------------------------------------------------------------------------


@real_time(60)
async def test_direct_raw_and_enveloped_messages_in_one_queue_are_the_same(queues: Queues, topics: Topics) -> None:
    """Thirty, in turns: body and attributes are those that were sent, and each says how it came (SNS-05)."""
    url, raw, wrapped = queues.create(), topics.create("raw"), topics.create("wrapped")
    await subscribed(queues, url, raw)
    await subscribed(queues, url, wrapped, raw=False)
    attributes = {"kind": "order", "count": 3, "bits": BINARY}
    direct = {
        "kind": {"DataType": "String", "StringValue": "order"},
        "count": {"DataType": "Number", "StringValue": "3"},
        "bits": {"DataType": "Binary", "BinaryValue": BINARY},
    }
    async with SNSPublisherProvider(sns_config(queues.endpoint)) as provider:
        publishers = [await provider.new_publisher(topic) for topic in (raw, wrapped)]
        for number in range(10):
            queues.send(url, f"body {number}", MessageAttributes=direct)
            for publisher in publishers:
                await publisher.publish(f"body {number}", attributes=attributes)
    consumed = await consume(sqs_config(queues.endpoint, unwrap_sns=True), url, 30)

    expected = {"kind": "order", "count": "3", "bits": BINARY}
    assert sorted(message.text for message in consumed.messages) == sorted(
        f"body {n}" for n in range(10) for _ in "123"
    )
    assert all(dict(message.attributes) == expected for message in consumed.messages)
    found = [events.notification(message) for message in consumed.messages]
    assert [each.topic_arn for each in found if each is not None] == [wrapped] * 10
    assert queues.counts(url) == (0, 0, 0)


@pytest.mark.parametrize("unwrap", [True, False])
@real_time()
async def test_ordinary_json_sent_directly_is_never_taken_for_an_envelope(queues: Queues, unwrap: bool) -> None:
    """Whatever the option says (SNS-01)."""
    url = queues.create()
    bodies = ["{}", '{"Message":"x"}', '{"Type":"Notification","Message":"x"}', "[1]", "null"]
    queues.send(url, *bodies)
    consumed = await consume(sqs_config(queues.endpoint, unwrap_sns=unwrap), url, len(bodies))

    assert sorted(message.text for message in consumed.messages) == sorted(bodies)


@real_time()
async def test_attributes_are_where_the_kind_of_delivery_puts_them(queues: Queues, topics: Topics) -> None:
    """Raw: on the queue's message, typed, the bare text, no subject; wrapped: all of it inside (SNS-07)."""
    topic, plain, wrapped = topics.create(), queues.create("plain"), queues.create("wrapped")
    await subscribed(queues, plain, topic)
    await subscribed(queues, wrapped, topic, raw=False)
    attributes = {
        "s": {"DataType": "String", "StringValue": "x"},
        "n": {"DataType": "Number", "StringValue": "1.50"},
        "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    topics.client.publish(TopicArn=topic, Message="the text", Subject="subject", MessageAttributes=attributes)
    [raw], [enveloped] = taken(queues, plain, 1), taken(queues, wrapped, 1)
    shape = json.loads(enveloped["Body"])

    assert raw["Body"] == "the text"
    assert raw["MessageAttributes"] == attributes
    assert "subject" not in json.dumps(raw, default=str)
    assert "MessageAttributes" not in enveloped
    assert (shape["Message"], shape["Subject"]) == ("the text", "subject")
    assert {name: value["Type"] for name, value in shape["MessageAttributes"].items()} == {
        "s": "String",
        "n": "Number",
        "b": "Binary",
    }


@pytest.mark.parametrize("raw", [True, False])
@real_time()
async def test_bodies_of_every_kind_arrive_through_a_topic(queues: Queues, topics: Topics, raw: bool) -> None:
    """Bytes, text with everything that SQS allows, JSON, and what is compressed."""
    topic, url = topics.create(), queues.create()
    await subscribed(queues, url, topic, raw=raw)
    bodies: list[Any] = [BINARY, "täxt \U0001f4ac \r\n\t<&>\"'", {"a": [1, None]}, "x" * 500_000]
    config = sns_config(queues.endpoint, publish=PublishOptions(compression="gzip"))
    results = await publish(config, topic, *bodies)
    consumed = await consume(sqs_config(queues.endpoint, unwrap_sns=True), url, len(bodies))

    wanted = [BINARY, bodies[1].encode(), b'{"a":[1,null]}', b"x" * 500_000]
    assert all(isinstance(result, Receipt) for result in results)
    assert sorted(message.body for message in consumed.messages) == sorted(wanted)
    assert all(dict(message.attributes) == {} for message in consumed.messages)


# -- FIFO --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False])
@real_time()
async def test_deduplication_id_is_that_of_what_was_published(queues: Queues, topics: Topics, raw: bool) -> None:
    """
    The topic makes it of the text, not of the envelope, or takes what was given; it arrives with the group (SNS-06).

    The queue has no content-based deduplication of its own, and needs none.
    """
    topic = topics.create(fifo=True)
    url = queues.create(fifo=True, ContentBasedDeduplication="false")
    await subscribed(queues, url, topic, raw=raw)
    config = sns_config(queues.endpoint)
    for _ in range(2):
        await publish(config, topic, "the same text", ordering_key="ada")
    await publish(config, topic, "the same text", ordering_key="ada", deduplication_key="given")
    consumed = await consume(sqs_config(queues.endpoint, unwrap_sns=True), url, 2)
    left = queues.drain(url, wait=1)

    digest = hashlib.sha256(b"the same text").hexdigest()
    assert [message.text for message in consumed.messages] == ["the same text"] * 2
    assert [message.deduplication_key for message in consumed.messages] == [digest, "given"]
    assert {message.ordering_key for message in consumed.messages} == {"ada"}
    assert left == []


@real_time()
async def test_order_of_a_key_holds_through_a_fifo_topic(queues: Queues, topics: Topics) -> None:
    """Published in several batches, delivered to two queues."""
    topic, first, second = topics.create(fifo=True), queues.create(fifo=True), queues.create(fifo=True)
    for url in (first, second):
        await subscribed(queues, url, topic)
    items = [Outgoing(f"{key} {n}", ordering_key=key) for n in range(15) for key in ("ada", "ben")]
    results = await publish(sns_config(queues.endpoint), topic, *items)
    for url in (first, second):
        consumed = await consume(sqs_config(queues.endpoint), url, 30)
        for key in ("ada", "ben"):
            texts = [message.text for message in consumed.messages if message.ordering_key == key]
            assert texts == [f"{key} {n}" for n in range(15)]

    assert all(isinstance(result, Receipt) and result.sequence_number for result in results)


# -- publishing --------------------------------------------------------------------------------------------------------


@real_time()
async def test_many_messages_leave_within_the_limits_of_a_batch(queues: Queues, topics: Topics) -> None:
    """More than ten, and more than 256 KiB together; one that is too large fails alone."""
    topic, url = topics.create(), queues.create()
    await subscribed(queues, url, topic)
    bodies = [f"{number:03}" + "x" * 60_000 for number in range(15)]
    results = await publish(sns_config(queues.endpoint), topic, *bodies, "x" * 262_145)
    consumed = await consume(sqs_config(queues.endpoint), url, 15)

    assert [isinstance(result, Receipt) for result in results] == [True] * 15 + [False]
    assert sorted(message.text for message in consumed.messages) == bodies


@real_time()
async def test_topic_that_is_not_there_is_told(queues: Queues, topics: Topics) -> None:
    """By publishing and by asking."""
    topic = topics.create() + "-gone"
    async with SNSPublisherProvider(sns_config(queues.endpoint)) as provider:
        publisher = await provider.new_publisher(topic)
        with pytest.raises(PublishError) as raised:
            await publisher.publish("x")
        with pytest.raises(MessageQueueError) as asked:
            await provider.ping()

    assert raised.value.code is asked.value.code is ErrorCode.NOT_FOUND
    assert topic in str(raised.value)


# -- large payloads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False])
@real_time()
async def test_first_consumer_of_a_topic_leaves_the_body_to_the_others(
    queues: Queues, topics: Topics, bucket: Bucket, raw: bool
) -> None:
    """Even with `delete` on: the key says that the object is everybody's (EXT-10)."""
    topic, first, second = topics.create(), queues.create("first"), queues.create("second")
    for url in (first, second):
        await subscribed(queues, url, topic, raw=raw)
    large = "é" * 300_000
    await publish(sns_config(queues.endpoint, payloads=bucket.payloads()), topic, large, attributes={"kind": "x"})
    for url in (first, second):
        config = sqs_config(queues.endpoint, unwrap_sns=True, payloads=bucket.payloads(delete=True))
        consumed = await consume(config, url, 1)

        assert [message.text for message in consumed.messages] == [large]
        assert dict(consumed.messages[0].attributes) == {"kind": "x"}
        assert queues.counts(url) == (0, 0, 0)
    assert len(bucket.names()) == 1


@pytest.mark.parametrize("raw", [True, False])
@real_time()
async def test_compressed_body_in_s3_comes_through_a_topic(
    queues: Queues, topics: Topics, bucket: Bucket, raw: bool
) -> None:
    """Envelope, pointer, base64 and gzip are undone one after the other."""
    topic, url = topics.create(), queues.create()
    await subscribed(queues, url, topic, raw=raw)
    config = sns_config(
        queues.endpoint, payloads=bucket.payloads(threshold=0), publish=PublishOptions(compression="gzip")
    )
    await publish(config, topic, {"text": "x" * 400_000}, attributes={"kind": "report"})
    consumed = await consume(sqs_config(queues.endpoint, unwrap_sns=True, payloads=bucket.payloads()), url, 1)

    [message] = consumed.messages
    assert message.json() == {"text": "x" * 400_000}
    assert dict(message.attributes) == {"kind": "report"}
    assert len(bucket.names()) == 1


@real_time()
async def test_pointer_of_another_publisher_is_left_to_the_others_by_default(
    queues: Queues, topics: Topics, bucket: Bucket
) -> None:
    """Amazon's client does not mark keys as shared: deleting is an option, and it is off (EXT-10)."""
    topic, first, second = topics.create(), queues.create("first"), queues.create("second")
    for url in (first, second):
        await subscribed(queues, url, topic)
    bucket.client.put_object(Bucket=bucket.name, Key="theirs", Body=b"their body")
    topics.client.publish(
        TopicArn=topic,
        Message=json.dumps(
            [
                "software.amazon.payloadoffloading.PayloadS3Pointer",
                {"s3BucketName": bucket.name, "s3Key": "theirs"},
            ]
        ),
        MessageAttributes={"ExtendedPayloadSize": {"DataType": "Number", "StringValue": "10"}},
    )
    for url in (first, second):
        consumed = await consume(sqs_config(queues.endpoint, payloads=bucket.payloads()), url, 1)

        assert [message.text for message in consumed.messages] == ["their body"]


# -- subscribing ---------------------------------------------------------------------------------------------------


@real_time()
async def test_subscribing_again_is_the_same_subscription_and_keeps_the_policy(queues: Queues, topics: Topics) -> None:
    """Other statements stay; with other arguments the one subscription changes."""
    first, second, url = topics.create("first"), topics.create("second"), queues.create()
    arn = queues.attributes(url)["QueueArn"]
    theirs = {"Sid": "theirs", "Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sqs:SendMessage"}
    theirs |= {"Resource": arn}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [theirs]})
    queues.client.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    made = [await subscribed(queues, url, topic) for topic in (first, first, second)]
    statements = json.loads(queues.attributes(url)["Policy"])["Statement"]

    assert made[0] == made[1]
    assert len(topics.subscriptions(first)) == len(topics.subscriptions(second)) == 1
    assert statements[0] == theirs
    assert len(statements) == 3
    changed = await subscribed(queues, url, first, raw=False, filter={"kind": ["order"]})
    attributes = topics.attributes(changed)
    assert changed == made[0]
    assert attributes["RawMessageDelivery"] == "false"
    assert json.loads(attributes["FilterPolicy"]) == {"kind": ["order"]}
    unfiltered = topics.attributes(await subscribed(queues, url, first))
    assert json.loads(unfiltered.get("FilterPolicy", "{}")) == {}


@real_time()
async def test_unsubscribing_leaves_what_others_set_up(queues: Queues, topics: Topics) -> None:
    """The other topic's subscription and statement; until then, the dead-letter queue was the one that was given."""
    mine, other = topics.create("mine"), topics.create("other")
    url, dead = queues.create(), queues.attributes(queues.create("dead"))["QueueArn"]
    made = await subscribed(queues, url, mine, dead_letter_queue=dead)
    await subscribed(queues, url, other)

    assert json.loads(topics.attributes(made)["RedrivePolicy"]) == {"deadLetterTargetArn": dead}
    ways = {"config": sns_config(queues.endpoint), "queue_config": sqs_config(queues.endpoint)}
    undone = [await unsubscribe(url, mine, **ways) for _ in range(2)]  # type: ignore[arg-type]
    [statement] = json.loads(queues.attributes(url)["Policy"])["Statement"]
    assert undone == [True, False]
    assert statement["Condition"]["ArnEquals"]["aws:SourceArn"] == other
    assert (topics.subscriptions(mine), len(topics.subscriptions(other))) == ([], 1)
    await unsubscribe(url, other, **ways)  # type: ignore[arg-type]
    assert "Policy" not in queues.attributes(url)


@real_time()
async def test_ping_is_answered_before_and_after_a_topic_was_opened(queues: Queues, topics: Topics) -> None:
    """It takes no topic to know that SNS is there."""
    async with SNSPublisherProvider(sns_config(queues.endpoint)) as provider:
        await provider.ping()
        await provider.new_publisher(topics.create())
        await provider.ping()


@real_time()
async def test_filter_decides_what_a_queue_gets(queues: Queues, topics: Topics) -> None:
    """By attribute, and by body."""
    topic, orders, large = topics.create(), queues.create("orders"), queues.create("large")
    await subscribed(queues, orders, topic, filter={"kind": ["order"]})
    await subscribed(queues, large, topic, filter={"size": [{"numeric": [">", 100]}]}, filter_scope="body")
    items = [Outgoing({"size": size}, attributes={"kind": kind}) for kind in ("order", "refund") for size in (50, 500)]
    await publish(sns_config(queues.endpoint), topic, *items)
    found = {
        url: sorted(json.loads(message["Body"])["size"] for message in taken(queues, url, 2)) for url in (orders, large)
    }

    assert found == {orders: [50, 500], large: [500, 500]}


@real_time()
async def test_events_of_s3_come_through_a_topic(queues: Queues, topics: Topics, bucket: Bucket) -> None:
    """Bucket to topic to queue: the worker gets the key as the object has it."""
    topic, url = topics.create(), queues.create()
    await subscribed(queues, url, topic, raw=False)
    configuration = {"TopicConfigurations": [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]}
    bucket.client.put_bucket_notification_configuration(
        Bucket=bucket.name, NotificationConfiguration=configuration, SkipDestinationValidation=True
    )
    bucket.client.put_object(Bucket=bucket.name, Key="a b/schön+1.png", Body=b"image")
    deadline = time.monotonic() + 20
    seen: list[events.S3Event] = []
    while not seen and time.monotonic() < deadline:
        consumed = await asyncio.wait_for(consume(sqs_config(queues.endpoint, unwrap_sns=True), url, 1), 20)
        seen = [event for message in consumed.messages for event in events.s3_events(message)]

    [event] = seen
    assert (event.bucket, event.key, event.size) == (bucket.name, "a b/schön+1.png", 5)
    assert event.name.startswith("ObjectCreated")
