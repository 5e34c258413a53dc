"""Events of S3 and EventBridge, however they came into the queue."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from messagequeue import DecodeError, Message
from messagequeue_sqs._opening import Opening
from messagequeue_sqs.events import S3Event, bridge_event, s3_events
from tests.unit.sqs.test_envelope import envelope, received

#: As the S3 guide shows it, shortened.
RECORD: dict[str, Any] = {
    "eventVersion": "2.1",
    "eventSource": "aws:s3",
    "awsRegion": "eu-west-1",
    "eventTime": "2026-03-01T12:00:00.000Z",
    "eventName": "ObjectCreated:Put",
    "s3": {
        "s3SchemaVersion": "1.0",
        "configurationId": "uploads",
        "bucket": {"name": "photos", "arn": "arn:aws:s3:::photos"},
        "object": {
            "key": "red+flowers/sch%C3%B6n%2B1.jpg",
            "size": 1024,
            "eTag": "d41d8cd98f00b204e9800998ecf8427e",
            "versionId": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
            "sequencer": "0055AED6DCD90281E5",
        },
    },
}
#: As the EventBridge guide shows it, shortened.
BRIDGED: dict[str, Any] = {
    "version": "0",
    "id": "17793124-05d4-b198-2fde-7ededc63b103",
    "detail-type": "Object Created",
    "source": "aws.s3",
    "account": "123456789012",
    "time": "2026-03-01T12:00:00Z",
    "region": "eu-west-1",
    "resources": ["arn:aws:s3:::photos"],
    "detail": {
        "version": "0",
        "bucket": {"name": "photos"},
        "object": {
            "key": "red flowers/schön+1.jpg",
            "size": 1024,
            "etag": "d41d8cd98f00b204e9800998ecf8427e",
            "version-id": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
            "sequencer": "0055AED6DCD90281E5",
        },
    },
}
EVENT = S3Event(
    name="ObjectCreated:Put",
    bucket="photos",
    key="red flowers/schön+1.jpg",
    size=1024,
    etag="d41d8cd98f00b204e9800998ecf8427e",
    version_id="096fKKXTRTtl3on89fVO.nfljtsv6qko",
    sequencer="0055AED6DCD90281E5",
    region="eu-west-1",
    happened_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
)


def message(body: object, *, envelopes: bool = False) -> Message:
    text = body if isinstance(body, str) else json.dumps(body)
    return Opening(envelopes=envelopes).decode("queue", received(text))[0]


def test_events_of_s3_are_found_however_they_came() -> None:
    """Directly, through a topic raw, wrapped, and wrapped with the wrapping taken off."""
    direct = {"Records": [RECORD]}
    wrapped = envelope(json.dumps(direct))

    assert s3_events(message(direct)) == [EVENT]
    assert s3_events(message(wrapped)) == [EVENT]
    assert s3_events(message(wrapped, envelopes=True)) == [EVENT]


def test_events_of_s3_through_eventbridge_have_plain_keys() -> None:
    """There they are not URL-encoded: a plus is a plus."""
    [event] = s3_events(message(BRIDGED))

    assert event.key == "red flowers/schön+1.jpg"
    assert event.name == "Object Created"
    assert (event.bucket, event.size, event.version_id) == (EVENT.bucket, EVENT.size, EVENT.version_id)
    assert event.happened_at == EVENT.happened_at


def test_event_of_a_removal_has_no_size() -> None:
    """What is not said is None."""
    record = json.loads(json.dumps(RECORD))
    record["eventName"] = "s3:ObjectRemoved:Delete"
    record["s3"]["object"] = {"key": "gone", "sequencer": "00"}
    [event] = s3_events(message({"Records": [record, record]}))[:1]

    assert (event.name, event.size, event.etag, event.version_id) == ("ObjectRemoved:Delete", None, None, None)


def test_test_event_of_s3_is_no_event() -> None:
    """S3 sends it once, when notifications are set up; a worker has nothing to do."""
    shape = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-03-01T12:00:00.000Z", "Bucket": "photos"}

    assert s3_events(message(shape)) == []


@pytest.mark.parametrize(
    "body",
    [
        "not JSON",
        "[]",
        "{}",
        '{"Records": []}',
        '{"Records": [{"eventSource": "aws:s3"}]}',
        '{"Records": [{"eventSource": "aws:ses", "s3": {}}]}',
        '{"Records": [{"eventSource": "aws:s3", "s3": {"bucket": {"name": "b"}, "object": {"key": 1}}}]}',
        {**BRIDGED, "source": "my.app"},
        {**BRIDGED, "detail": {}},
        {**BRIDGED, "detail": {"bucket": {}, "object": {}}},
        {**BRIDGED, "detail": {"bucket": {"name": "b"}, "object": {"key": 1}}},
        envelope("not an event"),
    ],
)
def test_other_messages_are_refused(body: object) -> None:
    """Rather than taken for an event of nothing; as messages that cannot be read, which a consumer has a policy for."""
    refused = message(body)
    with pytest.raises(DecodeError, match="message m1 is no event of S3") as caught:
        s3_events(refused)
    assert (caught.value.topic, caught.value.message) == ("queue", refused)


def test_event_of_eventbridge_is_read_with_its_detail() -> None:
    """Of any source, also through a topic."""
    shape = {**BRIDGED, "source": "my.app", "detail-type": "Order Placed", "detail": {"order": 1}}
    for body in (shape, envelope(json.dumps(shape))):
        event = bridge_event(message(body))

        assert event is not None
        assert (event.source, event.detail_type, event.detail) == ("my.app", "Order Placed", {"order": 1})
        assert event.resources == ("arn:aws:s3:::photos",)
        assert event.happened_at == datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "body",
    ["x", "{}", {"Records": [RECORD]}, {**BRIDGED, "detail": 1}, {**BRIDGED, "id": 1}, {**BRIDGED, "resources": ""}],
)
def test_other_messages_are_no_event_of_eventbridge(body: object) -> None:
    """The whole shape is asked for."""
    assert bridge_event(message(body)) is None
