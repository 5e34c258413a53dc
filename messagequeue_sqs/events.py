"""
Views of what AWS services put into queues: notifications of SNS, events of S3 and of EventBridge; nothing is fetched.

Each is a function of a message, whatever the consumer was told to unwrap: an S3 event is found where S3 put it into the
queue itself, where it came through a topic, raw or wrapped, and where EventBridge delivered it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus

from messagequeue._errors import DecodeError
from messagequeue._message import Message

from ._envelope import EnvelopeError, Notification, read_envelope

__all__ = ["BridgeEvent", "Notification", "S3Event", "bridge_event", "notification", "s3_events"]


@dataclass(frozen=True, slots=True)
class S3Event:
    """
    Something that happened to an object.

    Attributes:
        name: What, such as `ObjectCreated:Put`; from EventBridge `Object Created`.
        bucket: The bucket's name.
        key: The object's key, decoded.
        size: Its bytes; None where the event does not say, as for removals.
        etag: Its ETag without quotes, or None.
        version_id: Its version in a bucket with versions, or None.
        sequencer: Orders the events of one key: compare as text, the shorter filled with zeros on the right.
        region: The bucket's.
        happened_at: With time zone; None where the event does not say.
    """

    name: str
    bucket: str
    key: str
    size: int | None = None
    etag: str | None = None
    version_id: str | None = None
    sequencer: str | None = None
    region: str | None = None
    happened_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BridgeEvent:
    """
    An event of EventBridge.

    Attributes:
        id: Its id; the same on every delivery.
        source: Who sent it, such as `aws.s3` or a name of your own.
        detail_type: What `detail` is about.
        detail: Its content.
        account, region: Where it comes from.
        resources: ARNs that it is about.
        happened_at: With time zone; None where that cannot be read.
    """

    id: str
    source: str
    detail_type: str
    detail: Mapping[str, Any]
    account: str
    region: str
    resources: tuple[str, ...]
    happened_at: datetime | None


def notification(message: Message) -> Notification | None:
    """
    Return what SNS put around *message*, taken off or not; None where it did not come through a topic, or raw.

    Subject, topic and SNS' own id are there and nowhere else.
    """
    body = message.raw.get("Body") if isinstance(message.raw, Mapping) else None
    try:
        found = read_envelope(body if isinstance(body, str) else message.body.decode(errors="replace"))
    except EnvelopeError:
        return None
    return None if found is None else found.notification


def bridge_event(message: Message) -> BridgeEvent | None:
    """Return the event of EventBridge that *message* is; None for anything else."""
    return _bridge_event(_content(message))


def s3_events(message: Message) -> list[S3Event]:
    """
    Return the events of S3 in *message*; none for the test event that S3 sends when notifications are set up.

    Raises:
        DecodeError: it is no event of S3; raised by a handler, `ConsumeOptions.undecodable` decides what becomes of it.

    Source: S3 guide, "Event message structure" (keys are URL-encoded) and "Using EventBridge" (keys are not).
    """
    shape = _content(message)
    bridge = _bridge_event(shape)
    if bridge is not None and bridge.source == "aws.s3" and _names_object(bridge.detail):
        return [_from_bridge(bridge)]
    if isinstance(shape, dict):
        records = shape.get("Records")
        if isinstance(records, list) and records and all(_is_s3_record(record) for record in records):
            return [_from_record(record) for record in records]
        if shape.get("Event") == "s3:TestEvent":
            return []
    raise DecodeError(f"message {message.id} is no event of S3", topic=message.topic, about=message)


def _content(message: Message) -> Any:
    """Return the body of *message* as JSON, without the envelope of SNS where it still has one; None for no JSON."""
    try:
        text = message.text
        wrapped = read_envelope(text)
        return json.loads(text if wrapped is None else wrapped.notification.text)
    except (ValueError, RecursionError):
        return None


_BRIDGE_TEXTS = ("id", "source", "detail-type", "account", "time", "region")


def _bridge_event(shape: Any) -> BridgeEvent | None:
    if not isinstance(shape, dict) or not all(isinstance(shape.get(name), str) for name in _BRIDGE_TEXTS):
        return None
    detail, resources = shape.get("detail"), shape.get("resources")
    if not isinstance(detail, dict) or not isinstance(resources, list):
        return None
    return BridgeEvent(
        shape["id"],
        shape["source"],
        shape["detail-type"],
        detail,
        shape["account"],
        shape["region"],
        tuple(str(resource) for resource in resources),
        _moment(shape["time"]),
    )


def _is_s3_record(record: object) -> bool:
    return isinstance(record, dict) and record.get("eventSource") == "aws:s3" and _names_object(record.get("s3"))


def _names_object(shape: object) -> bool:
    if not isinstance(shape, dict):
        return False
    bucket, item = shape.get("bucket"), shape.get("object")
    named = isinstance(bucket, dict) and isinstance(bucket.get("name"), str)
    return named and isinstance(item, dict) and isinstance(item.get("key"), str)


def _from_record(record: Mapping[str, Any]) -> S3Event:
    item = record["s3"]["object"]
    return S3Event(
        str(record.get("eventName", "")).removeprefix("s3:"),
        record["s3"]["bucket"]["name"],
        unquote_plus(item["key"]),
        _count(item.get("size")),
        _text(item.get("eTag")),
        _text(item.get("versionId")),
        _text(item.get("sequencer")),
        _text(record.get("awsRegion")),
        _moment(record.get("eventTime")),
    )


def _from_bridge(event: BridgeEvent) -> S3Event:
    item = event.detail["object"]
    return S3Event(
        event.detail_type,
        event.detail["bucket"]["name"],
        item["key"],
        _count(item.get("size")),
        _text(item.get("etag")),
        _text(item.get("version-id")),
        _text(item.get("sequencer")),
        event.region,
        event.happened_at,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
