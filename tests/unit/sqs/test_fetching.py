"""Large bodies on their way in: fetched for their handler, checked, and deleted after their message."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from messagequeue import ConsumeError, ConsumeOptions, DeadLetter, DecodeError, Discard, ErrorCode, Message
from messagequeue.driver import OpeningSource, PreparingSender
from messagequeue.runtime.consumer import RuntimeConsumer
from messagequeue.runtime.stats import ConsumerStats
from messagequeue.testing import run_virtual
from messagequeue_sqs import PayloadStats, S3Payloads
from messagequeue_sqs._api import ReceivedMessage, ReceiveRequest
from messagequeue_sqs._faults import CallError
from messagequeue_sqs._fetching import DELETES, FetchingSource
from messagequeue_sqs._md5 import attributes_md5, body_md5
from messagequeue_sqs._offloading import OffloadingSender
from messagequeue_sqs._opening import Opening, PointedMessage
from messagequeue_sqs._pointer import LEGACY_POINTER_CLASS, POINTER_CLASS, Pointer, write_pointer
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._sender import SQSSender
from messagequeue_sqs._source import SQSSource
from tests.unit.sqs.fake_s3 import FakeS3, digest, failing
from tests.unit.sqs.fake_sqs import STANDARD_URL, FakeSqs
from tests.unit.sqs.fake_sqs import failed as failed_entry

SIZE, LEGACY_SIZE = "ExtendedPayloadSize", "SQSLargePayloadSize"


class Queue(FakeSqs):
    """A `FakeSqs` whose receives wait as SQS' do once nothing is left."""

    async def receive_message(self, request: ReceiveRequest, /) -> Any:
        if not self.answers.get("ReceiveMessage"):
            await asyncio.sleep(request["WaitTimeSeconds"])
        return await super().receive_message(request)


def received(number: int, body: str, attributes: Mapping[str, Any] | None = None) -> ReceivedMessage:
    raw: ReceivedMessage = {
        "MessageId": f"m{number}",
        "ReceiptHandle": f"h{number}",
        "Body": body,
        "MD5OfBody": body_md5(body),
        "Attributes": {"ApproximateReceiveCount": "1"},
    }
    if attributes:
        raw["MessageAttributes"] = attributes
        raw["MD5OfMessageAttributes"] = attributes_md5(attributes)
    return raw


def number(value: object) -> dict[str, str]:
    return {"DataType": "Number", "StringValue": str(value)}


class Bench:
    """A consumer of large payloads over stand-ins for both services; it stops when *count* messages have ended."""

    def __init__(self, *, fetch_delay: float = 0.0, **options: Any) -> None:
        self.sqs, self.s3, self.stats = Queue(), FakeS3(fetch_delay), PayloadStats()
        self.options = S3Payloads(**{"bucket": "bodies"} | options)
        self.handled: list[Message] = []
        self.told: list[ConsumeError] = []
        source = SQSSource(
            self.sqs,
            self.sqs,
            parse_topic(STANDARD_URL),
            ConsumeOptions(),
            read_timeout=30,
            decode=Opening(buckets=self.options.readable).decode,
        )
        self.source = FetchingSource(source, self.s3, self.options, STANDARD_URL, stats=self.stats)

    def put(self, key: str, body: bytes, *, bucket: str = "bodies") -> None:
        self.s3.objects[bucket, key] = body
        self.s3.sums[bucket, key] = digest(body)

    def large(self, place: int, body: bytes, *, key: str = "", **attributes: Any) -> ReceivedMessage:
        """Return a message whose body is in S3."""
        key = key or f"k{place}"
        self.put(key, body)
        return received(place, write_pointer(Pointer("bodies", key)), {SIZE: number(len(body)), **attributes})

    def consume(self, *messages: ReceivedMessage, raises: Exception | None = None, **options: Any) -> None:
        """Consume *messages*, which one receive brings, until each was handled or told of."""
        self.sqs.answer("ReceiveMessage", messages)
        left = len(messages)

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                consumer.stop()

        async def handle(message: Message) -> None:
            self.handled.append(message)
            ended()
            if raises is not None:
                raise raises

        def on_error(error: ConsumeError) -> None:
            self.told.append(error)
            if isinstance(error, DecodeError):
                ended()

        options = {"concurrency": 10} | options
        consumer = RuntimeConsumer(STANDARD_URL, self.source, handle, ConsumeOptions(**options), on_error=on_error)

        async def main() -> None:
            async with asyncio.timeout(1_000):
                await consumer.consume()
            await consumer.close()

        run_virtual(main())

    def deleted(self) -> list[str]:
        """Return the handles that the queue was asked to delete."""
        return [entry["ReceiptHandle"] for request in self.sqs.requests("DeleteMessageBatch") for entry in request]


def test_the_stages_are_what_the_driver_knows() -> None:
    """The runtime finds them by their protocols."""
    bench = Bench()
    sender = OffloadingSender(
        SQSSender(bench.sqs, parse_topic(STANDARD_URL)), bench.s3, bench.options, "t", threshold=0
    )

    assert isinstance(bench.source, OpeningSource)
    assert isinstance(sender, PreparingSender)


# -- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attribute", [SIZE, LEGACY_SIZE])
@pytest.mark.parametrize("name", [POINTER_CLASS, LEGACY_POINTER_CLASS])
def test_every_mix_of_old_and_new_names_is_resolved(attribute: str, name: str) -> None:
    """Two attribute names, two class names; the handler sees neither (EXT-02)."""
    bench = Bench()
    bench.put("k", b"the body")
    pointer = write_pointer(Pointer("bodies", "k"), legacy=name == LEGACY_POINTER_CLASS)
    attributes = {attribute: number(8), "kind": {"DataType": "String", "StringValue": "order"}}
    raw = received(1, pointer, attributes)
    bench.consume(raw)

    [message] = bench.handled
    assert name in raw["Body"]
    assert type(message) is Message
    assert message.body == b"the body"
    assert dict(message.attributes) == {"kind": "order"}
    assert message.raw is raw
    assert message.delivery_attempt == 1
    assert bench.deleted() == ["h1"]
    assert bench.stats == PayloadStats(fetched=1)


def test_pointer_without_the_attribute_is_literal() -> None:
    """What looks like one may be somebody's data (EXT-02)."""
    bench = Bench()
    pointer = write_pointer(Pointer("bodies", "k"))
    bench.consume(received(1, pointer))

    assert [message.text for message in bench.handled] == [pointer]
    assert bench.s3.calls == []


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (received(1, "an ordinary body", {SIZE: number(3)}), "no pointer"),
        (received(1, write_pointer(Pointer("bodies", "k")), {SIZE: number("many")}), "how many bytes"),
        (received(1, write_pointer(Pointer("others", "k")), {SIZE: number(3)}), "allowed_buckets"),
        (
            received(1, write_pointer(Pointer("bodies", "k")), {SIZE: {"DataType": "Binary", "BinaryValue": b"3"}}),
            "how",
        ),
    ],
)
def test_message_that_cannot_be_resolved_fails_alone_without_a_call_of_s3(raw: ReceivedMessage, words: str) -> None:
    """No pointer, no size, or a bucket that is not allowed, which the sender chose (EXT-02)."""
    bench = Bench()
    bench.consume(raw, received(2, "fine"))

    [error] = bench.told
    assert isinstance(error, DecodeError)
    assert words in str(error)
    assert [message.text for message in bench.handled] == ["fine"]
    assert bench.deleted() == ["h2"]
    assert bench.s3.calls == []


def test_allowed_bucket_beside_the_own_one_is_read() -> None:
    """A consumer may read what others write, without a bucket of its own to write to."""
    bench = Bench(bucket=None, allowed_buckets="theirs, others")
    bench.put("k", b"abc", bucket="theirs")
    bench.consume(received(1, write_pointer(Pointer("theirs", "k")), {SIZE: number(3)}))

    assert [message.body for message in bench.handled] == [b"abc"]


def test_binary_body_is_decoded_as_its_mark_says_and_other_bytes_are_kept() -> None:
    """Base64 of ours comes back as bytes; an object of a foreign sender may hold any bytes at all."""
    bench = Bench()
    binary = bytes(range(256))
    ours = bench.large(
        1,
        base64.b64encode(binary),
        **{"messagequeue.encoding": {"DataType": "String", "StringValue": "base64"}},
    )
    bench.consume(ours, bench.large(2, binary))

    assert [message.body for message in bench.handled] == [binary, binary]
    assert [dict(message.attributes) for message in bench.handled] == [{}, {}]


def test_mark_that_does_not_fit_the_object_is_a_fault_of_its_message() -> None:
    """It says base64, and the object is not."""
    bench = Bench()
    mark = {"messagequeue.encoding": {"DataType": "String", "StringValue": "base64"}}
    bench.consume(bench.large(1, b"not base64!", **mark))

    assert "says base64" in str(bench.told[0])


def test_wrong_checksum_of_the_pointer_is_still_seen() -> None:
    """What came through the queue is compared before it is followed."""
    bench = Bench()
    raw = bench.large(1, b"abc")
    raw["MD5OfBody"] = "0" * 32
    bench.consume(raw)

    [error] = bench.told
    assert error.code is ErrorCode.CHECKSUM
    assert bench.s3.calls == []


# -- what goes wrong with an object -------------------------------------------------------------------------------


def test_objects_that_cannot_be_had_fail_their_own_messages_and_no_other() -> None:
    """
    Of five, one is missing, one forbidden, one times out: two are handled; the three come back; all but the first may
    be had next time, and say so (EXT-05).
    """
    bench = Bench()
    messages = [bench.large(place, b"body %d" % place) for place in range(5)]
    del bench.s3.objects["bodies", "k1"]
    bench.s3.get_faults["k2"] = failing("AccessDenied", 403)
    bench.s3.get_faults["k3"] = failing("ReadTimeoutError")
    bench.consume(*messages)

    found = {error.message.id: (error.code, error.retryable) for error in bench.told if error.message}
    assert sorted(message.text for message in bench.handled) == ["body 0", "body 4"]
    assert sorted(bench.deleted()) == ["h0", "h4"]
    assert found == {
        "m1": (ErrorCode.NOT_FOUND, False),
        "m2": (ErrorCode.ACCESS_DENIED, True),
        "m3": (ErrorCode.CONNECTION, True),
    }


def test_message_whose_object_is_gone_is_deleted_where_that_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    """Only what S3 says is gone; "denied" may mean that nobody may look (EXT-05)."""
    bench = Bench(on_missing="delete")
    messages = [bench.large(place, b"x") for place in range(2)]
    del bench.s3.objects["bodies", "k0"]
    bench.s3.get_faults["k1"] = failing("AccessDenied", 403)
    with caplog.at_level(logging.WARNING, "messagequeue.sqs"):
        consumed(bench, *messages)

    assert bench.deleted() == ["h0"]
    assert [error.code for error in bench.told] == [ErrorCode.ACCESS_DENIED]
    assert "the body of message m0 is gone from s3://bodies/k0" in caplog.text


def consumed(bench: Bench, *messages: ReceivedMessage, **given: Any) -> ConsumerStats:
    """Consume for a while: what is discarded calls nobody."""

    async def main() -> ConsumerStats:
        bench.sqs.answer("ReceiveMessage", messages)
        options = ConsumeOptions(**given)
        consumer = RuntimeConsumer(STANDARD_URL, bench.source, _ignore, options, on_error=bench.told.append)
        task = asyncio.create_task(consumer.consume())
        await asyncio.sleep(5)
        consumer.stop()
        await task
        await consumer.close()
        return consumer.stats

    return run_virtual(main())


async def _ignore(message: Message) -> None:
    """Handle nothing."""


@pytest.mark.parametrize(
    ("policy", "gone"), [("leave", []), ("discard", ["h0"]), ("dead_letter", ["h0"])], ids=["leave", "discard", "dead"]
)
def test_policy_for_unreadable_messages_is_not_about_those_that_may_be_had_later(policy: Any, gone: list[str]) -> None:
    """A missing object makes a message unreadable; one that is denied, or an outage, does not (EXT-05)."""
    bench = Bench()
    bench.sqs.attributes["RedrivePolicy"] = '{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:123456789012:dead"}'
    messages = [bench.large(place, b"x") for place in range(3)]
    del bench.s3.objects["bodies", "k0"]
    bench.s3.get_faults |= {"k1": failing("AccessDenied", 403), "k2": failing("ReadTimeoutError")}
    consumed(bench, *messages, undecodable=policy)

    assert bench.deleted() == gone
    assert len(bench.sqs.requests("SendMessageBatch")) == (policy == "dead_letter")


def test_outage_of_s3_opens_the_breaker() -> None:
    """It is what handlers need that is broken, and receive counts are spared (EXT-05)."""
    bench = Bench()
    messages = [bench.large(place, b"x") for place in range(5)]
    bench.s3.get_faults |= {f"k{place}": failing("ServiceUnavailable", 503) for place in range(5)}

    assert consumed(bench, *messages, breaker_failures=3).breaker_opened == 1


@pytest.mark.parametrize("bucket", ["NoSuchBucket", "AccessDenied", "SlowDown"])
def test_only_a_missing_object_is_ever_deleted(bucket: str) -> None:
    """A bucket that is gone, or named wrong, is a mistake of the configuration."""
    bench = Bench(on_missing="delete")
    message = bench.large(1, b"x")
    bench.s3.get_faults["k1"] = failing(bucket, 404)
    consumed(bench, message)

    assert bench.deleted() == []


@pytest.mark.parametrize(
    ("there", "said", "words"),
    [(b"abcd", 3, "has 4 bytes, and its message says 3"), (b"ab", 3, "has 2 bytes"), (b"abc", 3, "SHA-256")],
)
def test_object_that_is_not_what_was_sent_is_not_handled(there: bytes, said: int, words: str) -> None:
    """Another size than the message says, or another checksum than it was stored with."""
    bench = Bench()
    raw = received(1, write_pointer(Pointer("bodies", "k")), {SIZE: number(said)})
    bench.put("k", there)
    if words == "SHA-256":
        bench.s3.sums["bodies", "k"] = digest(b"abd")
    bench.consume(raw)

    [error] = bench.told
    assert error.code is ErrorCode.CHECKSUM
    assert words in str(error)
    assert bench.deleted() == []


@pytest.mark.parametrize("stored", [None, "AAAA-2"])
def test_absent_checksum_or_one_of_parts_is_no_difference(stored: str | None) -> None:
    """Other writers give none, and an upload in parts has one of its parts."""
    bench = Bench()
    raw = bench.large(1, b"abc")
    bench.s3.sums["bodies", "k1"] = stored
    bench.consume(raw)

    assert [message.body for message in bench.handled] == [b"abc"]


@pytest.mark.parametrize(("said", "calls"), [(1_001, []), (3, ["get"])])
def test_body_above_the_cap_is_not_fetched(said: int, calls: list[str]) -> None:
    """Where its message says so it is not asked for; where the message lies, it is left before it is held."""
    bench = Bench(max_size=1_000)
    bench.put("k", b"x" * 1_001)
    bench.consume(received(1, write_pointer(Pointer("bodies", "k")), {SIZE: number(said)}))

    [error] = bench.told
    assert "payloads.max_size" in str(error)
    assert bench.s3.names() == calls


# -- leases -------------------------------------------------------------------------------------------------------


def test_lease_is_prolonged_while_a_body_is_fetched_and_every_handle_is_the_queues_own() -> None:
    """A fetch of 100 s outlasts a lease of 30 s; what SQS gets is what it gave, for large and small alike (EXT-06)."""
    bench = Bench(fetch_delay=100)
    bench.consume(bench.large(1, b"abc"), received(2, "small"))

    beats = [
        entry["ReceiptHandle"] for request in bench.sqs.requests("ChangeMessageVisibilityBatch") for entry in request
    ]
    assert beats.count("h1") >= 5
    assert set(beats) <= {"h1", "h2"}
    assert set(bench.deleted()) == {"h1", "h2"}
    assert [message.text for message in bench.handled] == ["small", "abc"]


def test_message_that_is_handed_back_at_shutdown_is_released_by_its_own_handle() -> None:
    """One that is fetched when the consumer is stopped hard comes back at once (EXT-06)."""
    bench = Bench(fetch_delay=1_000)

    async def main() -> None:
        bench.sqs.answer("ReceiveMessage", [bench.large(1, b"abc")])
        consumer = RuntimeConsumer(STANDARD_URL, bench.source, _ignore, ConsumeOptions(drain_timeout=1))
        task = asyncio.create_task(consumer.consume())
        await asyncio.sleep(5)
        consumer.stop()
        await task
        await consumer.close()

    run_virtual(main())

    [*_, last] = bench.sqs.requests("ChangeMessageVisibilityBatch")
    assert last == [{"Id": "0", "ReceiptHandle": "h1", "VisibilityTimeout": 0}]


# -- deleting -----------------------------------------------------------------------------------------------------


def test_object_is_left_where_nothing_else_is_asked() -> None:
    """The bucket's life-cycle rule cleans up; another queue may have the same pointer (EXT-10)."""
    bench = Bench()
    bench.consume(bench.large(1, b"abc"))

    assert bench.s3.names() == ["get"]


def test_object_is_deleted_after_the_queue_confirmed() -> None:
    """The message first, then its object; a small message has none (EXT-03)."""
    bench = Bench(delete=True)
    bench.consume(bench.large(1, b"abc"), received(2, "small"))

    assert bench.s3.calls[-1] == ("delete", "bodies", ("k1",))
    assert bench.s3.objects == {}
    assert bench.stats == PayloadStats(fetched=1, deleted=1)


def test_object_stays_while_its_message_does() -> None:
    """The queue refuses the delete, as with an expired handle: the message comes back and finds its body (EXT-03)."""
    bench = Bench(delete=True)
    refused = failed_entry("0", "ReceiptHandleIsInvalid", sender_fault=True)
    bench.sqs.answer("DeleteMessageBatch", {"Failed": [refused]})
    bench.consume(bench.large(1, b"abc"))

    assert bench.s3.names() == ["get"]
    assert list(bench.s3.objects.values()) == [b"abc"]


@pytest.mark.parametrize("raises", [ValueError("no"), DeadLetter("never")])
def test_object_stays_where_the_handler_failed_or_dead_lettered(raises: Exception) -> None:
    """Whoever gets the message next needs its body."""
    bench = Bench(delete=True)
    bench.sqs.attributes["RedrivePolicy"] = '{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:123456789012:dead"}'
    bench.consume(bench.large(1, b"abc"), raises=raises)

    assert bench.s3.names() == ["get"]


def test_object_of_a_discarded_message_goes_too() -> None:
    """The message is gone for good, so nobody will ask for it."""
    bench = Bench(delete=True)
    bench.consume(bench.large(1, b"abc"), raises=Discard("of no use"))

    assert bench.s3.names() == ["get", "delete"]


@pytest.mark.parametrize("fault", [failing("InternalError", 500), None])
def test_failed_delete_of_an_object_is_a_warning_and_a_count(
    fault: CallError | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The message counts as done, as a whole call or a single object fails (EXT-03)."""
    bench = Bench(delete=True)
    bench.s3.delete_fault = fault
    bench.s3.undeletable = {"k1": "AccessDenied"}
    with caplog.at_level(logging.WARNING, "messagequeue.sqs"):
        bench.consume(bench.large(1, b"abc"))

    assert bench.told == []
    assert bench.deleted() == ["h1"]
    assert bench.stats == PayloadStats(fetched=1, delete_failures=1)
    assert "bodies of settled messages that stay in s3://bodies: 1 (" in caplog.text


def test_nobody_waits_for_s3_to_delete() -> None:
    """`settle()` returns when the queue has answered, and closing waits a few seconds at most (EXT-03)."""
    bench = Bench(delete=True)
    lease = bench.large(1, b"abc")

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        bench.s3.delay = 1_000
        started = loop.time()
        assert await bench.source.settle([lease]) == [None]
        settled = loop.time()
        await bench.source.close()
        return settled - started, loop.time() - settled

    assert run_virtual(main()) == (0, 5)
    assert bench.stats == PayloadStats(delete_failures=1)


def test_deletes_that_pile_up_are_bounded() -> None:
    """An S3 that does not answer does not fill the memory: the rest is the life-cycle rule's."""
    bench = Bench(delete=True)

    async def main() -> None:
        bench.s3.delay = 1_000
        for place in range(DELETES + 5):
            await bench.source.settle([bench.large(place, b"x")])
        await asyncio.sleep(1)
        assert bench.s3.names() == ["delete"] * DELETES
        await bench.source.close()

    run_virtual(main())

    assert bench.stats.delete_failures == DELETES + 5


def test_object_that_other_messages_have_too_is_never_deleted() -> None:
    """Its key says so: equal bodies of a FIFO queue, and bodies that went through a topic, share it (EXT-10)."""
    bench = Bench(delete=True)
    bench.consume(bench.large(1, b"abc", key="orders/abc.shared"))

    assert bench.s3.names() == ["get"]


def test_pointed_message_can_be_copied() -> None:
    """As every message can."""
    message, fault = Opening(buckets=frozenset({"bodies"})).decode("t", Bench().large(1, b"abc"))
    assert isinstance(message, PointedMessage)

    import copy
    import pickle

    assert fault is None
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)).pointer == Pointer("bodies", "k1")
