"""What SQS adds to telemetry: the trace header, names of queues, billed requests, the way that calls take."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messagequeue.driver import EncodedMessage
from messagequeue.runtime.observed_publisher import ObservedPublisher
from messagequeue.runtime.readings import Watches
from messagequeue.telemetry import Destination
from messagequeue.testing import run_virtual
from messagequeue_sqs import S3Payloads, SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from messagequeue_sqs._faults import CallError
from messagequeue_sqs._offloading import OffloadingSender
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._sender import SQSSender
from messagequeue_sqs._telemetry import BilledApi, Billing, billed, destination_of
from messagequeue_sqs._wire import build_entry, carried_traceparent, decode_message, measure
from tests.unit.sqs.fake_s3 import FakeS3
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, FakeSqs, failing
from tests.unit.telemetry.recording import Recording

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HEADER = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"
KIB = 1024


def test_a_traced_message_has_the_trace_header():
    """As the one system attribute; it counts neither as one of the ten nor for the size."""
    plain = EncodedMessage("x", attributes={f"a{n}": "1" for n in range(10)})
    traced = EncodedMessage("x", attributes=plain.attributes, traceparent=TRACEPARENT)

    entry = build_entry(traced, "0", fifo=False)
    assert entry.get("MessageSystemAttributes") == {"AWSTraceHeader": {"DataType": "String", "StringValue": HEADER}}
    assert len(entry["MessageAttributes"]) == 10
    assert measure(traced, fifo=False) == measure(plain, fifo=False)
    assert "MessageSystemAttributes" not in build_entry(plain, "0", fifo=False)


def test_what_is_no_traceparent_sends_no_header():
    """A telemetry of somebody else may say anything; SQS would refuse the message for it."""
    assert "MessageSystemAttributes" not in build_entry(EncodedMessage("x", traceparent="00-zz"), "0", fifo=False)


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"AWSTraceHeader": HEADER}, TRACEPARENT),
        ({"AWSTraceHeader": "Root=1-zz"}, None),
        ({"AWSTraceHeader": ""}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_header_of_a_received_message_is_read(attributes: Any, found: str | None):
    """An odd one, or none, is no trace."""
    raw = {"MessageId": "m", "ReceiptHandle": "h", "Body": "x"} | (
        {} if attributes is None else {"Attributes": attributes}
    )
    message, _ = decode_message(STANDARD_URL, raw)  # type: ignore[arg-type]

    assert carried_traceparent(message) == found


@pytest.mark.parametrize(("given", "in_attributes"), [(9, True), (10, False)])
def test_with_ten_attributes_the_context_goes_into_the_header_alone(given: int, in_attributes: bool):
    """Nothing is dropped and nothing fails (TEL-01)."""
    recording, api = Recording(), FakeSqs()

    async def main() -> None:
        where = Destination(system="aws_sqs", name="orders")
        sender = SQSSender(api, parse_topic(STANDARD_URL), verify_checksums=False)
        publisher = ObservedPublisher(STANDARD_URL, sender, recording.telemetry.publisher(where))
        await publisher.publish("x", attributes={f"a{n}": "1" for n in range(given)})
        await publisher.stop()

    run_virtual(main())
    [[entry]] = api.requests("SendMessageBatch")
    attributes = entry["MessageAttributes"]
    assert {name for name in attributes if name != "traceparent"} == {f"a{n}" for n in range(given)}
    assert ("traceparent" in attributes) is in_attributes
    if in_attributes:
        assert attributes["traceparent"]["DataType"] == "String"
    header = entry["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"]
    [send] = recording.spans("send")
    assert send.context is not None
    assert f"Parent={send.context.span_id:016x}" in header


def test_bytes_that_need_an_attribute_of_ours_count_for_the_room():
    """A body that is carried as base64 takes one of the ten (TEL-01)."""
    recording, api = Recording(), FakeSqs()

    async def main() -> None:
        sender = SQSSender(api, parse_topic(STANDARD_URL), verify_checksums=False)
        publisher = ObservedPublisher(
            STANDARD_URL, sender, recording.telemetry.publisher(Destination(system="aws_sqs", name="orders"))
        )
        await publisher.publish(b"\xff", attributes={f"a{n}": "1" for n in range(9)})
        await publisher.stop()

    run_virtual(main())
    [[entry]] = api.requests("SendMessageBatch")
    assert len(entry["MessageAttributes"]) == 10
    assert "messagequeue.encoding" in entry["MessageAttributes"]
    assert "AWSTraceHeader" in entry["MessageSystemAttributes"]


@pytest.mark.parametrize(
    ("address", "topic", "where"),
    [
        (None, STANDARD_URL, ("orders", "sqs.eu-west-1.amazonaws.com", None)),
        (None, FIFO_URL, ("orders.fifo", "sqs.eu-west-1.amazonaws.com", None)),
        ("http://localhost:4566", STANDARD_URL, ("orders", "localhost", 4566)),
        (None, "http://[::1]:9324/000000000000/orders/", ("orders", "::1", 9324)),
    ],
)
def test_a_queue_is_called_by_its_name_at_the_address_of_the_calls(address: Any, topic: str, where: Any):
    """The URL is an attribute of spans; metrics have the name and the host (TEL-07)."""
    found = destination_of(SQSConfig(queue_address=address), topic)

    assert (found.system, found.name, found.address, found.port) == ("aws_sqs", *where)
    assert found.details == {"aws.sqs.queue.url": topic.rstrip("/")}


@pytest.mark.parametrize(
    ("size", "requests"), [(0, 1), (1, 1), (64 * KIB, 1), (64 * KIB + 1, 2), (256 * KIB, 4), (1024 * KIB, 16)]
)
def test_each_64_kib_begun_is_a_request(size: int, requests: int):
    """As SQS bills them."""
    billing = Billing()
    billing.call(size)

    assert billing.requests == requests


def test_every_call_is_billed():
    """Sends and receives by what they carry, attributes included; the others as one; one that fails, too."""
    api, billing = FakeSqs(), Billing()
    counted = BilledApi(api, billing)
    big = "x" * (40 * KIB)
    attribute: Any = {"k": {"DataType": "String", "StringValue": "v" * (48 * KIB)}}

    async def calls() -> list[int]:
        seen = []

        async def count(call: Any) -> None:
            before = billing.requests
            try:
                await call
            except CallError:
                pass
            seen.append(billing.requests - before)

        request: Any = {"QueueUrl": STANDARD_URL}
        await count(counted.send_message_batch(STANDARD_URL, [{"Id": "0", "MessageBody": "x"}]))
        await count(counted.send_message_batch(STANDARD_URL, [{"Id": "0", "MessageBody": big}] * 4))
        await count(counted.receive_message(request))
        api.answer("ReceiveMessage", [{"Body": big, "MessageAttributes": attribute}], failing("Throttling"))
        await count(counted.receive_message(request))
        await count(counted.receive_message(request))
        await count(counted.delete_message_batch(STANDARD_URL, []))
        await count(counted.change_message_visibility_batch(STANDARD_URL, []))
        await count(counted.get_queue_attributes(STANDARD_URL, ["QueueArn"]))
        return seen

    assert asyncio.run(calls()) == [1, 3, 1, 2, 1, 1, 1, 1]
    assert counted.endpoint == api.endpoint
    assert [name for name, _, _ in api.calls].count("ReceiveMessage") == 3


def test_without_telemetry_nothing_counts():
    """The calls go straight to the client."""
    api = FakeSqs()

    assert billed(Watches(None), destination_of(SQSConfig(), STANDARD_URL), api) == [api]


def test_requests_and_fallbacks_are_read():
    """Per queue, and per provider; both halves of a queue are one series."""
    recording = Recording()
    publishers = SQSPublisherProvider(telemetry=recording.telemetry)
    consumers = SQSConsumerProvider(telemetry=recording.telemetry)
    for provider in (publishers, consumers):
        where = provider._destination(STANDARD_URL)
        [api] = billed(provider._watches, where, FakeSqs())
        asyncio.run(api.delete_message_batch(STANDARD_URL, []))

    metrics = recording.metrics()
    assert list(metrics["messagequeue.client.billable_requests"].values()) == [2]
    assert [dict(labels) for labels in metrics["messagequeue.client.transport_fallbacks"]] == [
        {"messaging.system": "aws_sqs"}
    ]
    assert recording.total("messagequeue.client.transport_fallbacks") == 0


@pytest.mark.parametrize(
    ("body", "given", "in_attributes"),
    [
        ("x" * (300 * KIB), 8, True),
        ("x" * (300 * KIB), 9, False),
        (b"\xff" * (300 * KIB), 7, True),
        (b"\xff" * (300 * KIB), 8, False),
    ],
    ids=["text, room", "text, full", "bytes, room", "bytes, full"],
)
def test_a_body_that_goes_to_s3_keeps_its_context(body: str | bytes, given: int, in_attributes: bool):
    """The pointer carries it, beside the marks that are ours; it is put once, and nothing is refused (TEL-01)."""
    recording, api, s3 = Recording(), FakeSqs(), FakeS3()

    async def main() -> None:
        sqs = SQSSender(api, parse_topic(STANDARD_URL), verify_checksums=False)
        sender = OffloadingSender(sqs, s3, S3Payloads(bucket="bodies"), STANDARD_URL, threshold=256 * KIB)
        where = Destination(system="aws_sqs", name="orders")
        publisher = ObservedPublisher(STANDARD_URL, sender, recording.telemetry.publisher(where))
        await publisher.publish(body, attributes={f"a{n}": "1" for n in range(given)})
        await publisher.stop()

    run_virtual(main())
    [[entry]] = api.requests("SendMessageBatch")
    assert len(s3.objects) == 1
    assert len(entry["MessageAttributes"]) <= 10
    assert ("traceparent" in entry["MessageAttributes"]) is in_attributes
    assert "AWSTraceHeader" in entry["MessageSystemAttributes"]
