"""Publishing to topics: what leaves, what is refused before, and what an answer means."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from botocore.config import Config as SdkConfig

from messagequeue import (
    Config,
    ConfigurationError,
    ErrorCode,
    InvalidMessageError,
    MessageQueueError,
    MessageTooLargeError,
    Outgoing,
    PublishError,
    PublishOptions,
    Receipt,
    UnsupportedOptionError,
    find_provider,
)
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import run_virtual
from messagequeue_sqs import S3Payloads
from messagequeue_sqs._offloading import OffloadingSender
from messagequeue_sqs.sns import SNSConfig, SNSPublisherProvider
from messagequeue_sqs.sns._sender import SNSSender
from messagequeue_sqs.sns._topic import parse_topic_arn
from tests.unit.sns.fake_sns import FIFO_TOPIC, TOPIC, FakeSns
from tests.unit.sqs.fake_s3 import FakeS3
from tests.unit.sqs.fake_sqs import failed, failing

KIB_256 = 262_144


def publish(sns: FakeSns, *items: object, topic: str = TOPIC, **options: Any) -> list[Receipt | PublishError]:
    """Publish through the runtime, in virtual time."""

    async def main() -> list[Receipt | PublishError]:
        publisher = RuntimePublisher(topic, SNSSender(sns, parse_topic_arn(topic)), PublishOptions())
        try:
            return await publisher.publish_many(items, **options)
        finally:
            await publisher.stop()

    return run_virtual(main())


def test_message_leaves_with_what_was_asked_and_nothing_else() -> None:
    """Text as it is, bytes that are no text as base64 with a mark, attributes with types."""
    sns = FakeSns()
    publish(sns, "täxt", Outgoing(b"\xff", attributes={"a": "b", "n": 1, "x": b"\x00"}))

    assert sns.sent() == [
        {"Id": "0", "Message": "täxt"},
        {
            "Id": "1",
            "Message": "/w==",
            "MessageAttributes": {
                "a": {"DataType": "String", "StringValue": "b"},
                "n": {"DataType": "Number", "StringValue": "1"},
                "x": {"DataType": "Binary", "BinaryValue": b"\x00"},
                "messagequeue.encoding": {"DataType": "String", "StringValue": "base64"},
            },
        },
    ]


def test_fifo_topic_gets_group_and_deduplication_id() -> None:
    """And answers with sequence numbers; a standard topic passes the group on to fair queues."""
    sns = FakeSns()
    sns.answers.append({"Successful": [{"Id": "0", "MessageId": "m", "SequenceNumber": "10"}]})
    results = publish(sns, "x", topic=FIFO_TOPIC, ordering_key="ada", deduplication_key="o-1")
    publish(sns, "x", ordering_key="tenant")

    assert results == [Receipt("m", "10")]
    assert sns.sent() == [
        {"Id": "0", "Message": "x", "MessageGroupId": "ada", "MessageDeduplicationId": "o-1"},
        {"Id": "0", "Message": "x", "MessageGroupId": "tenant"},
    ]


def test_batches_have_ten_messages_and_256_kib_at_most() -> None:
    """Each limit alone."""
    many, large = FakeSns(), FakeSns()
    publish(many, *(str(n) for n in range(25)))
    publish(large, *("x" * 100_000 for _ in range(5)))

    assert [len(request) for _, request in many.calls] == [10, 10, 5]
    assert [len(request) for _, request in large.calls] == [2, 2, 1]


def test_message_above_the_topics_limit_is_refused_with_what_to_do() -> None:
    """256 KiB unless the topic is set to more; attributes count."""
    sns = FakeSns()
    fits, attributes, large = publish(
        sns, "x" * KIB_256, Outgoing("x" * KIB_256, attributes={"a": "b"}), "x" * (KIB_256 + 1)
    )

    assert isinstance(fits, Receipt)
    for error in (attributes, large):
        assert isinstance(error, MessageTooLargeError)
        assert error.limit == KIB_256
        assert "max_message_size" in str(error)


def test_topic_that_takes_more_is_told_to_the_provider() -> None:
    """Up to what a queue takes."""
    sender = SNSSender(FakeSns(), parse_topic_arn(TOPIC), limit=1_048_576)

    assert sender.limits.batch_bytes == 1_048_576
    with pytest.raises(ConfigurationError, match="max_message_size"):
        SNSConfig(max_message_size=1_048_577)


@pytest.mark.parametrize(
    ("topic", "options", "kind"),
    [
        (FIFO_TOPIC, {}, InvalidMessageError),
        (FIFO_TOPIC, {"ordering_key": "a b"}, InvalidMessageError),
        (TOPIC, {"attributes": {f"a{n}": "v" for n in range(11)}}, InvalidMessageError),
    ],
)
def test_message_that_sns_or_a_queue_would_refuse_makes_no_request(topic: str, options: Any, kind: type) -> None:
    """More than ten attributes would be discarded on their way into a queue with raw delivery."""
    sns = FakeSns()
    [error] = publish(sns, "x", topic=topic, **options)

    assert isinstance(error, kind)
    assert sns.calls == []


@pytest.mark.parametrize("options", [{"delay": 5}, {"deduplication_key": "k"}])
def test_option_that_a_standard_topic_cannot_honour_is_refused(options: Any) -> None:
    """No message of a topic can be delayed; only FIFO topics deduplicate."""
    with pytest.raises(UnsupportedOptionError):
        publish(FakeSns(), "x", **options)


# -- answers -----------------------------------------------------------------------------------------------------


def test_every_entry_has_its_own_result() -> None:
    """One refused, one failed at SNS and sent again, one in neither list; there is no checksum to compare (BAT-03)."""
    sns = FakeSns()
    sns.answers.append(
        {
            "Successful": [{"Id": "0", "MessageId": "m0"}],
            "Failed": [
                failed("1", "InvalidParameter", sender_fault=True, words="bad"),
                failed("2", "InternalError", sender_fault=False),
            ],
        }
    )
    results = publish(sns, "a", "b", "c", "d")
    codes = [result.code if isinstance(result, PublishError) else "ok" for result in results]

    assert codes == ["ok", ErrorCode.INVALID, "ok", ErrorCode.NOT_CONFIRMED]
    assert [len(request) for _, request in sns.calls] == [4, 1]


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("NotFound", ErrorCode.NOT_FOUND, False),
        ("AuthorizationError", ErrorCode.ACCESS_DENIED, False),
        ("KMSAccessDenied", ErrorCode.ACCESS_DENIED, False),
        ("KMSThrottling", ErrorCode.THROTTLED, True),
        ("InvalidParameter", ErrorCode.INVALID, False),
        ("ParameterValueInvalid", ErrorCode.INVALID, False),
        ("ConcurrentAccess", ErrorCode.THROTTLED, True),
        ("BatchRequestTooLong", ErrorCode.TOO_LARGE, False),
        ("Throttled", ErrorCode.THROTTLED, True),
        ("InternalError", ErrorCode.UNAVAILABLE, True),
    ],
)
def test_call_that_fails_fails_every_message_with_what_it_means(code: str, kind: ErrorCode, retryable: bool) -> None:
    """By the code of SNS."""
    sns = FakeSns()
    sns.answers.append(failing(code, 400))
    results = publish(sns, "a", "b")

    assert [(result.code, result.retryable) for result in results if isinstance(result, PublishError)] == [
        (kind, retryable)
    ] * 2


def test_batch_that_lacks_deduplication_ids_fails_those_that_lack_them() -> None:
    """The others are sent once more alone; the error says what to do."""
    sns = FakeSns()
    sns.answers.append(failing("InvalidParameter", 400))
    items = [Outgoing("a", ordering_key="k"), Outgoing("b", ordering_key="l", deduplication_key="1")]
    lacking, keyed = publish(sns, *items, topic=FIFO_TOPIC)

    assert isinstance(lacking, PublishError)
    assert "ContentBasedDeduplication" in str(lacking)
    assert isinstance(keyed, Receipt)


# -- topics and configuration --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["uploads", "https://sns.eu-west-1.amazonaws.com/1/x", TOPIC.replace(":sns:", ":sqs:"), f"{TOPIC}:sub", ""]
)
def test_topic_that_is_no_arn_is_refused(text: str) -> None:
    """A queue's URL too: that is provider `sqs`."""
    with pytest.raises(ConfigurationError, match="ARN"):
        parse_topic_arn(text)


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_topic_of_every_partition_is_read(partition: str) -> None:
    """Name, region, account and kind."""
    topic = parse_topic_arn(f" arn:{partition}:sns:cn-north-1:123456789012:a_b-1.fifo ")

    assert (topic.name, topic.region, topic.account, topic.is_fifo) == (
        "a_b-1.fifo",
        "cn-north-1",
        "123456789012",
        True,
    )


def test_names_of_topics_have_up_to_256_characters() -> None:
    """The ending of a FIFO topic included."""
    for name in ("x" * 256, "x" * 251 + ".fifo"):
        assert parse_topic_arn(f"arn:aws:sns:eu-west-1:123456789012:{name}").name == name
        with pytest.raises(ConfigurationError, match="ARN"):
            parse_topic_arn(f"arn:aws:sns:eu-west-1:123456789012:x{name}")


def test_provider_is_found_by_name_and_configured_like_every_other() -> None:
    """One half publishes to topics, the other consumes queues."""
    config = Config.from_env(
        environ={
            "MESSAGEQUEUE_PUBLISHER_PROVIDER": "sns",
            "MESSAGEQUEUE_CONSUMER_PROVIDER": "sqs",
            "MESSAGEQUEUE_SNS_TOPIC_ADDRESS": "http://localhost:4566",
            "MESSAGEQUEUE_SNS_PAYLOADS_BUCKET": "bodies",
            "MESSAGEQUEUE_SQS_UNWRAP_SNS": "yes",
        }
    )

    assert config.publisher.settings.topic_address == "http://localhost:4566"
    assert config.publisher.settings.payloads.bucket == "bodies"
    assert config.consumer.settings.unwrap_sns is True


def test_topics_are_not_consumed() -> None:
    """The error says what to do instead."""
    with pytest.raises(ConfigurationError, match=r"subscribe\(\)"):
        find_provider("sns").consumer(SNSConfig())


@pytest.mark.parametrize(
    "options",
    [{"topic_address": "localhost:4566"}, {"publish": {}}, {"payloads": {}}, {"client_config": 1}, {"read_timeout": 0}],
)
def test_wrong_options_are_refused(options: Any) -> None:
    """When they are given."""
    with pytest.raises(ConfigurationError):
        SNSConfig(**options)


def test_topics_of_one_arn_have_one_publisher_and_telemetry_knows_them_by_name() -> None:
    """Without any request."""
    provider = SNSPublisherProvider(SNSConfig())

    assert provider._topic_key(f" {TOPIC} ") == TOPIC
    assert provider._destination(TOPIC).name == "uploads"
    assert provider._destination(TOPIC).system == "aws.sns"
    with pytest.raises(ConfigurationError):
        provider._topic_key("uploads")


def test_ping_asks_before_a_topic_was_opened() -> None:
    """That nobody answers is told; silence would pass for health."""
    once = SdkConfig(retries={"max_attempts": 0})

    async def main() -> None:
        config = SNSConfig(topic_address="http://127.0.0.1:9", client_config=once)
        async with SNSPublisherProvider(config) as provider:
            await provider.ping()

    with pytest.raises(MessageQueueError) as caught:
        asyncio.run(main())
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.CONNECTION, True)


def test_telemetry_knows_where_calls_go() -> None:
    """Where an address was given; else the SDK decides, and nothing is said."""
    given = SNSPublisherProvider(SNSConfig(topic_address="http://localhost:4566"))._destination(TOPIC)
    ambient = SNSPublisherProvider()._destination(TOPIC)

    assert (given.address, given.port) == ("localhost", 4566)
    assert (ambient.address, ambient.port) == (None, None)


def test_large_body_of_a_topic_is_everybodys() -> None:
    """The key of its object says so: no consumer deletes it (EXT-10)."""
    sns, s3 = FakeSns(), FakeS3()
    topic = parse_topic_arn(TOPIC)
    sender = OffloadingSender(
        SNSSender(sns, topic), s3, S3Payloads(bucket="bodies"), TOPIC, threshold=KIB_256, shared=True
    )

    async def main() -> None:
        publisher = RuntimePublisher(TOPIC, sender, PublishOptions())
        await publisher.publish("x" * 300_000)
        await publisher.stop()

    run_virtual(main())

    [(_, key)] = s3.objects
    [entry] = sns.sent()
    assert key.endswith(".shared")
    assert json.loads(entry["Message"])[1]["s3Key"] == key
    assert entry["MessageAttributes"]["ExtendedPayloadSize"]["StringValue"] == "300000"
