"""Large bodies on their way out: what goes to S3, under which key, and what follows where that fails."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from messagequeue import ErrorCode, InvalidMessageError, MessageTooLargeError, PublishError, PublishOptions, Receipt
from messagequeue.driver import EncodedMessage
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import run_virtual
from messagequeue_sqs import PayloadStats, S3Payloads
from messagequeue_sqs._offloading import OffloadedMessage, OffloadingSender
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._sender import SQSSender
from tests.unit.sqs.fake_s3 import FakeS3, failing
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, FakeSqs, failed

MIB = 1_048_576


class Bench:
    """A sender of large payloads over stand-ins for both services."""

    def __init__(self, url: str = STANDARD_URL, *, threshold: int | None = None, **options: Any) -> None:
        self.sqs, self.s3, self.stats = FakeSqs(), FakeS3(), PayloadStats()
        payloads = S3Payloads(bucket="bodies", **options)
        self.sender = OffloadingSender(
            SQSSender(self.sqs, parse_topic(url)),
            self.s3,
            payloads,
            url,
            threshold=payloads.threshold if threshold is None else threshold,
            stats=self.stats,
        )

    def prepare(self, body: str | bytes, **options: Any) -> EncodedMessage:
        return self.sender.prepare(EncodedMessage(body, **options))

    def publish(self, *data: object, **options: Any) -> list[Receipt | PublishError]:
        """Publish through the runtime, in virtual time."""

        async def main() -> list[Receipt | PublishError]:
            publisher = RuntimePublisher("topic", self.sender, PublishOptions())
            try:
                return await publisher.publish_many(data, **options)
            finally:
                await publisher.stop()

        return run_virtual(main())

    def sent(self) -> list[dict[str, Any]]:
        return [entry for request in self.sqs.requests("SendMessageBatch") for entry in request]

    def keys(self) -> list[str]:
        return [key for _, key in self.s3.objects]


def offloaded(message: EncodedMessage) -> OffloadedMessage:
    assert isinstance(message, OffloadedMessage)
    return message


# -- what goes there ----------------------------------------------------------------------------------------------


def test_large_body_goes_to_s3_and_a_pointer_to_the_queue() -> None:
    """
    The object holds exactly the body's UTF-8 bytes, the attribute of type Number their count (EXT-01).
    """
    bench = Bench(threshold=262_144)
    body = "é" * 150_000
    [receipt] = bench.publish(body, attributes={"kind": "report"})

    [(bucket, key)] = bench.s3.objects
    [entry] = bench.sent()
    assert isinstance(receipt, Receipt)
    assert bench.s3.objects[bucket, key] == body.encode()
    assert entry["MessageBody"] == (
        f'["software.amazon.payloadoffloading.PayloadS3Pointer",{{"s3BucketName":"bodies","s3Key":"{key}"}}]'
    )
    assert entry["MessageAttributes"] == {
        "kind": {"DataType": "String", "StringValue": "report"},
        "ExtendedPayloadSize": {"DataType": "Number", "StringValue": "300000"},
    }
    assert bench.stats == PayloadStats(put=1)


def test_older_names_are_written_where_asked() -> None:
    """For readers that know no others (EXT-02)."""
    bench = Bench(threshold=0, legacy=True)
    bench.publish("x")
    [entry] = bench.sent()

    assert entry["MessageBody"].startswith('["com.amazon.sqs.javamessaging.MessageS3Pointer",{')
    assert entry["MessageAttributes"].keys() == {"SQSLargePayloadSize"}


def test_binary_body_is_the_object_that_would_have_been_the_message() -> None:
    """Base64 with its mark: Amazon's clients put the object back in the body's place, as text."""
    bench = Bench(threshold=0)
    bench.publish(b"\xff\x00" * 1000)
    [entry] = bench.sent()

    assert base64.b64decode(*bench.s3.objects.values()) == b"\xff\x00" * 1000
    assert {type(name) for name in entry["MessageAttributes"]} == {str}
    assert entry["MessageAttributes"] == {
        "ExtendedPayloadSize": {"DataType": "Number", "StringValue": "2668"},
        "messagequeue.encoding": {"DataType": "String", "StringValue": "base64"},
    }


@pytest.mark.parametrize(
    ("threshold", "size", "attributes", "in_s3"),
    [
        (MIB, MIB, {}, False),
        (MIB, MIB + 1, {}, True),
        (MIB, MIB - 11, {"key": "ab"}, False),
        (MIB, MIB - 10, {"key": "ab"}, True),
        (262_144, 200 * 1024, {}, False),
        (262_144, 300 * 1024, {}, True),
        (0, 1, {}, True),
    ],
)
def test_threshold_counts_body_and_attributes(
    threshold: int, size: int, attributes: dict[str, str], in_s3: bool
) -> None:
    """Name, type and value of each attribute: a body under the threshold may be pushed over it (EXT-12)."""
    message = Bench(threshold=threshold).prepare("x" * size, attributes=attributes)

    assert isinstance(message, OffloadedMessage) is in_s3


def test_small_message_is_the_same_object() -> None:
    """Nothing is done to it."""
    message = EncodedMessage("x", attributes={"a": "b"})

    assert Bench().sender.prepare(message) is message


def test_everything_but_the_body_goes_with_the_pointer() -> None:
    """Keys, delay, attributes and the trace."""
    given = EncodedMessage("x", "ada", "o-1", 5, {"a": "b"}, "00-1-2-01")
    made = offloaded(Bench(FIFO_URL, threshold=0).sender._offloaded(given))

    assert (made.ordering_key, made.deduplication_key, made.delay, made.traceparent) == ("ada", "o-1", 5, "00-1-2-01")
    assert made.attributes == {"a": "b", "ExtendedPayloadSize": 1}


def test_callers_attributes_are_not_changed() -> None:
    """One dictionary, or one list, for a large message and then a small one: the small one is literal (EXT-08)."""
    bench = Bench(threshold=1_000)
    attributes = {"kind": "order"}
    items = ["x" * 2_000, "small"]
    bench.publish(*items, attributes=attributes)
    bench.publish(*items)
    names = [sorted(entry.get("MessageAttributes", {})) for entry in bench.sent()]

    assert attributes == {"kind": "order"}
    assert names == [["ExtendedPayloadSize", "kind"], ["kind"], ["ExtendedPayloadSize"], []]
    assert items == ["x" * 2_000, "small"]


@pytest.mark.parametrize("name", ["ExtendedPayloadSize", "SQSLargePayloadSize"])
@pytest.mark.parametrize("body", ["small", "x" * 2_000])
def test_reserved_attribute_of_the_callers_own_is_refused(name: str, body: str) -> None:
    """It would make a reader look for a body that is not there."""
    with pytest.raises(InvalidMessageError, match=name):
        Bench(threshold=1_000).prepare(body, attributes={name: 1})


def test_ten_attributes_and_a_body_in_s3_are_one_too_many() -> None:
    """The error says which one this library adds."""
    bench = Bench(threshold=0)
    [error] = bench.publish("x", attributes={f"a{n}": "v" for n in range(10)})

    assert isinstance(error, InvalidMessageError)
    assert "11 attributes, with 'ExtendedPayloadSize'" in str(error)
    assert bench.s3.calls == bench.sqs.calls == []


def test_body_above_the_cap_is_refused_before_any_request() -> None:
    """A consumer with the same options could not fetch it."""
    bench = Bench(threshold=10, max_size=1_000)
    [error] = bench.publish("x" * 1_001)

    assert isinstance(error, MessageTooLargeError)
    assert (error.size, error.limit) == (1_001, 1_000)
    assert "payloads.max_size" in str(error)
    assert bench.s3.calls == bench.sqs.calls == []


def test_rules_of_the_queue_hold_for_bodies_in_s3() -> None:
    """The alphabet too: a reader may be one that gets the body as text."""
    bench = Bench(threshold=0)
    results = bench.publish("bell \x07", "x", delay=901)

    assert all(isinstance(result, InvalidMessageError) for result in results)
    assert bench.s3.calls == []


# -- keys ---------------------------------------------------------------------------------------------------------


def test_key_begins_with_the_prefix_and_is_by_chance_on_a_standard_queue() -> None:
    """Two equal messages are two."""
    bench = Bench(threshold=0, prefix="orders/")
    bench.publish("x", "x")

    assert len(set(bench.keys())) == 2
    assert all(key.startswith("orders/") for _, key in bench.s3.objects)


def test_key_follows_the_deduplication_key() -> None:
    """Publishing again leaves no second object; another body under the same key never takes the first one's place."""
    bench = Bench(FIFO_URL, threshold=0)
    for body in ("x", "x", "y"):
        bench.publish(body, ordering_key="ada", deduplication_key="o-1")
    bench.publish("x", ordering_key="ada", deduplication_key="o-2")

    assert len(bench.keys()) == 3
    assert bench.s3.names() == ["put"] * 4


def test_without_a_deduplication_key_equal_bodies_have_equal_pointers_on_fifo() -> None:
    """Content-based deduplication sees the pointer only; the object is then not one message's own."""
    bench = Bench(FIFO_URL, threshold=0)
    bench.publish("x", ordering_key="ada")
    bench.publish("x", ordering_key="ada")

    [key] = bench.keys()
    assert key.endswith(".shared")
    assert len({hashlib.sha256(entry["MessageBody"].encode()).digest() for entry in bench.sent()}) == 1


# -- what goes wrong ------------------------------------------------------------------------------------------------


def test_entry_that_is_sent_again_is_put_once() -> None:
    """SQS failed the entry on its own side: the same pointer goes out again, and no second object."""
    bench = Bench(threshold=0)
    bench.sqs.answer("SendMessageBatch", {"Failed": [failed("0", "InternalError", sender_fault=False)]})
    [receipt] = bench.publish("x" * 100)

    assert isinstance(receipt, Receipt)
    assert bench.s3.names() == ["put"]
    assert len({entry["MessageBody"] for entry in bench.sent()}) == 1
    assert len(bench.sent()) == 2


def test_body_is_let_go_of_once_it_is_there() -> None:
    """What waits for its send no longer holds megabytes."""
    bench = Bench(threshold=0)
    message = offloaded(bench.prepare("x" * 100))
    run_virtual(bench.sender.send([message]))

    assert message.upload is not None
    assert (message.upload.done, message.upload.body) == (True, b"")


def test_body_that_cannot_be_put_fails_its_own_message() -> None:
    """The others of the batch are sent; that one is not, and its error says why."""
    bench = Bench(threshold=10)
    bench.s3.put_faults["wrong"] = failing("AccessDenied", 403)
    results = bench.publish("small", "wrong" * 100, "right" * 100)

    assert [isinstance(result, Receipt) for result in results] == [True, False, True]
    error = results[1]
    assert isinstance(error, PublishError)
    assert error.code is ErrorCode.ACCESS_DENIED
    assert "could not be put into S3, so nothing was sent" in str(error)
    assert len(bench.sent()) == 2


def test_body_that_may_be_put_later_is_tried_again() -> None:
    """As an entry is that SQS failed on its side; then the fault is told."""
    bench = Bench(threshold=10)
    bench.s3.put_faults["slow"] = failing("SlowDown", 503)
    [error] = bench.publish("slow" * 100)

    assert isinstance(error, PublishError)
    assert (error.code, error.retryable) == (ErrorCode.THROTTLED, True)
    assert bench.s3.names() == ["put"] * (1 + PublishOptions().entry_retries)
    assert bench.sent() == []


def bodies_sent(bench: Bench) -> Sequence[str]:
    contents = {key: body.decode() for (_, key), body in bench.s3.objects.items()}
    return [
        next((body for key, body in contents.items() if f"{key}" in entry["MessageBody"]), entry["MessageBody"])[:5]
        for entry in bench.sent()
    ]


def test_later_messages_of_a_key_wait_for_a_body_that_may_be_put_later() -> None:
    """They must not overtake it; other keys do not wait, and nobody waits for what failed for good."""
    bench = Bench(FIFO_URL, threshold=10)
    bench.s3.put_faults["slow1"] = failing("SlowDown", 503)
    bench.s3.put_faults["never"] = failing("AccessDenied", 403)
    slow = EncodedMessage("slow1" * 10, ordering_key="ada", deduplication_key="1")
    batch = [
        slow,
        EncodedMessage("later", ordering_key="ada", deduplication_key="2"),
        EncodedMessage("other", ordering_key="ben", deduplication_key="3"),
        EncodedMessage("never" * 10, ordering_key="cas", deduplication_key="4"),
        EncodedMessage("after", ordering_key="cas", deduplication_key="5"),
    ]
    results = run_virtual(bench.sender.send([bench.sender.prepare(message) for message in batch]))

    assert bodies_sent(bench) == ["other", "after"]
    assert [isinstance(result, Receipt) for result in results] == [False, False, True, False, True]
    assert [result.retryable for result in results if isinstance(result, PublishError)] == [True, True, False]


def test_size_refusal_of_a_queue_says_to_lower_the_threshold() -> None:
    """An older queue takes 256 KiB; where that may not be read, its refusal is explained (EXT-12)."""
    sqs = FakeSqs()
    words = "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes."
    sqs.answer(
        "SendMessageBatch",
        {"Failed": [failed("0", "InvalidParameterValue", sender_fault=True, words=words)]},
        {"Failed": [failed("0", "InvalidParameterValue", sender_fault=True, words="something else")]},
    )
    sender = SQSSender(sqs, parse_topic(STANDARD_URL))
    [large] = run_virtual(sender.send([EncodedMessage("x" * 300_000)]))
    [small] = run_virtual(sender.send([EncodedMessage("x")]))

    assert "300000 bytes" in str(large)
    assert "payloads.threshold" in str(large)
    assert "payloads" not in str(small)
