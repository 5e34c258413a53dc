"""What SNS wraps, and what only looks like it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue import ConsumeOptions, DecodeError, Message
from messagequeue.testing import run_virtual
from messagequeue_sqs import events
from messagequeue_sqs._api import ReceivedMessage
from messagequeue_sqs._envelope import EnvelopeError, read_envelope
from messagequeue_sqs._md5 import body_md5
from messagequeue_sqs._opening import Opening, PointedMessage, own_object
from messagequeue_sqs._pointer import Pointer, write_pointer
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._source import SQSSource
from tests.unit.sqs.fake_sqs import STANDARD_URL, FakeSqs

TOPIC = "arn:aws:sns:eu-west-1:123456789012:uploads"
BINARY = bytes(range(256))


def envelope(text: str = "the text", **changes: Any) -> str:
    """Return an envelope as SNS writes it; a change of None leaves a member out."""
    shape: dict[str, Any] = {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Message": text,
        "Timestamp": "2026-03-01T12:00:00.123Z",
        "SignatureVersion": "1",
        "Signature": "c2lnbmF0dXJl",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem",
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
    }
    return json.dumps({name: value for name, value in (shape | changes).items() if value is not None})


def received(body: str, attributes: Mapping[str, Any] | None = None) -> ReceivedMessage:
    raw: ReceivedMessage = {"MessageId": "m1", "ReceiptHandle": "h1", "Body": body, "Attributes": {}}
    return {**raw, "MessageAttributes": attributes} if attributes else raw


def opened(body: str, attributes: Mapping[str, Any] | None = None, **options: Any) -> Message:
    message, fault = Opening(**{"envelopes": True} | options).decode("queue", received(body, attributes))
    assert fault is None
    return message


LOOK_ALIKES = [
    "{}",
    '{"Message":"x"}',
    '{"Type":"Notification","Message":"x"}',
    "[1]",
    "null",
    '"Notification"',
    "Notification",
    envelope(Type="SubscriptionConfirmation"),
    envelope(MessageId=None),
    envelope(TopicArn=None),
    envelope(Timestamp=None),
    envelope(Message=None),
    envelope(MessageId=1),
    envelope(Message={"a": 1}),
    envelope(TopicArn="uploads"),
    envelope(TopicArn="arn:aws:sqs:eu-west-1:123456789012:uploads"),
    envelope(Timestamp="yesterday"),
    f"[{envelope()}]",
    envelope()[:-1],
    '{"Type":"Notification","TopicArn":' + "[" * 100_000,
]


@pytest.mark.parametrize("envelopes", [True, False])
@pytest.mark.parametrize("body", LOOK_ALIKES)
def test_ordinary_json_is_delivered_unchanged(body: str, envelopes: bool) -> None:
    """Only the whole shape is an envelope, with the option on as with it off (SNS-01)."""
    message = opened(body, envelopes=envelopes)

    assert message.text == body
    assert read_envelope(body) is None


def test_envelope_is_left_alone_unless_unwrapping_is_asked_for() -> None:
    """Nothing changes for a consumer that reads envelopes itself (SNS-01)."""
    assert opened(envelope(), envelopes=False).text == envelope()


def test_attributes_in_an_envelope_are_those_of_raw_delivery() -> None:
    """Binary as bytes, a number as its text, an array as its JSON text; missing keys are fine (SNS-03)."""
    attributes = {
        "text": {"Type": "String", "Value": "täxt"},
        "number": {"Type": "Number", "Value": "1.50"},
        "array": {"Type": "String.Array", "Value": '["a",1,null]'},
        "binary": {"Type": "Binary", "Value": base64.b64encode(BINARY).decode()},
    }
    raw = {
        "text": {"DataType": "String", "StringValue": "täxt"},
        "number": {"DataType": "Number", "StringValue": "1.50"},
        "array": {"DataType": "String.Array", "StringValue": '["a",1,null]'},
        "binary": {"DataType": "Binary", "BinaryValue": BINARY},
    }
    wrapped, plain = opened(envelope(MessageAttributes=attributes)), opened("the text", raw)

    assert wrapped.body == plain.body == b"the text"
    assert dict(wrapped.attributes) == dict(plain.attributes)
    assert wrapped.attributes["binary"] == BINARY
    assert dict(opened(envelope(Subject=None, MessageAttributes=None)).attributes) == {}


@pytest.mark.parametrize(
    "attribute",
    [{"Type": "Binary", "Value": "not base64!"}, {"Type": "String"}, {"Value": "x"}, "x", {"Type": 1, "Value": "x"}],
)
def test_attribute_that_cannot_be_read_is_a_fault_of_its_message(attribute: Any) -> None:
    """The envelope is one; it is not handed over as if it were a body (SNS-03)."""
    body = envelope(MessageAttributes={"broken": attribute})
    message, fault = Opening(envelopes=True).decode("queue", received(body))

    assert isinstance(fault, DecodeError)
    assert "'broken'" in str(fault)
    assert fault.message is message
    with pytest.raises(EnvelopeError):
        read_envelope(body)


def test_message_says_where_it_came_from() -> None:
    """Topic, subject and SNS' id are in the notification, whether the envelope was taken off or not (SNS-05)."""
    body = envelope(Subject="sübject", SequenceNumber="10000000000000001000")
    for message in (opened(body), opened(body, envelopes=False)):
        found = events.notification(message)

        assert found is not None
        assert (found.topic_arn, found.subject, found.text) == (TOPIC, "sübject", "the text")
        assert found.message_id == "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324"
        assert found.sequence_number == "10000000000000001000"
        assert found.published_at == datetime(2026, 3, 1, 12, 0, 0, 123_000, UTC)
    assert events.notification(opened("direct")) is None
    assert message.raw == received(body)


def test_notification_has_the_attributes_that_a_handler_gets() -> None:
    """Values, and not the form in which they travel."""
    given = {"n": {"Type": "Number", "Value": "1.50"}, "b": {"Type": "Binary", "Value": "AP8="}}
    message = opened(envelope(MessageAttributes=given))
    found = events.notification(message)

    assert found is not None
    assert dict(found.attributes) == dict(message.attributes) == {"n": "1.50", "b": b"\x00\xff"}


def test_attributes_of_the_queues_own_message_stay() -> None:
    """A dead letter says why it is one, around an envelope that it kept."""
    reason = {"messagequeue.dead_letter_reason": {"DataType": "String", "StringValue": "no"}}
    message = opened(envelope(MessageAttributes={"a": {"Type": "String", "Value": "b"}}), reason)

    assert dict(message.attributes) == {"a": "b", "messagequeue.dead_letter_reason": "no"}


def test_checksum_is_that_of_what_came_also_where_lengths_agree_by_chance() -> None:
    """As many bytes within an envelope as it has characters itself: the MD5 is still that of the envelope."""
    shape = json.loads(envelope(""))
    bare = len(json.dumps(shape, ensure_ascii=False))
    text = "€" * (bare // 2) + "é" * (bare % 2)
    body = json.dumps(shape | {"Message": text}, ensure_ascii=False)
    assert len(text.encode()) == len(body)
    api = FakeSqs()
    api.answer("ReceiveMessage", [{**received(body), "MD5OfBody": body_md5(body)}])
    decode = Opening(envelopes=True).decode
    source = SQSSource(api, api, parse_topic(STANDARD_URL), ConsumeOptions(), read_timeout=30, decode=decode)
    [delivery] = run_virtual(source.receive(1, wait=0))

    assert (delivery.fault, delivery.message.text) == (None, text)


# -- order of the stages ----------------------------------------------------------------------------------------------


def test_binary_body_in_an_envelope_is_decoded_by_its_mark() -> None:
    """Envelope first, then the body, as the attributes inside of it say."""
    mark = {"messagequeue.encoding": {"Type": "String", "Value": "base64"}}
    message = opened(envelope(base64.b64encode(BINARY).decode(), MessageAttributes=mark))

    assert message.body == BINARY
    assert dict(message.attributes) == {}


def test_broken_body_in_an_envelope_is_about_the_message_as_it_came() -> None:
    """With what the queue had in `raw`."""
    mark = {"messagequeue.encoding": {"Type": "String", "Value": "base64"}}
    raw = received(envelope("not base64!", MessageAttributes=mark))
    message, fault = Opening(envelopes=True).decode("queue", raw)

    assert fault is not None
    assert fault.message is message
    assert message.raw is raw


def test_pointer_in_an_envelope_is_followed_and_never_deleted() -> None:
    """Envelope, then pointer; other queues of the topic have the same one (EXT-10)."""
    size = {"ExtendedPayloadSize": {"Type": "Number", "Value": "3"}, "kind": {"Type": "String", "Value": "x"}}
    body = envelope(write_pointer(Pointer("bodies", "k")), MessageAttributes=size)
    message = opened(body, buckets=frozenset({"bodies"}))

    assert isinstance(message, PointedMessage)
    assert (message.pointer, message.size) == (Pointer("bodies", "k"), 3)
    assert dict(message.attributes) == {"kind": "x"}
    assert message.raw == received(body)
    assert own_object(received(body), frozenset({"bodies"})) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["Type", "Value", "a"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_whatever_is_in_an_envelope_it_is_read_or_refused(attributes: Any) -> None:
    """A sender can put anything there; no other exception comes out."""
    try:
        read_envelope(envelope(MessageAttributes=attributes))
    except EnvelopeError:
        pass
