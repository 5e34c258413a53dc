"""
What SNS puts around a message for a queue that is subscribed without raw delivery; not how one subscribes.

Only the whole shape is an envelope: a JSON object with Type "Notification" and the texts MessageId, TopicArn, Timestamp
and Message.  JSON that merely resembles it is somebody's data.  Signatures are not verified: who may send to the queue
is decided by its policy.

Source: SNS developer guide, "Parsing Amazon SNS message formats", "Amazon SNS message attributes".
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from ._api import WireAttribute

_TEXTS = ("MessageId", "TopicArn", "Timestamp", "Message")
_TOPIC_ARN = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]*:\d*:[A-Za-z0-9_.-]+")
_BINARY = "Binary"


class EnvelopeError(ValueError):
    """An envelope holds something that cannot be read."""


@dataclass(frozen=True, slots=True)
class Notification:
    """
    A message as SNS wrapped it.

    Attributes:
        topic_arn: The topic it was published to.
        message_id: SNS' name of it; the queue's message has one of its own.
        text: What was published.
        attributes: What was published with it; numbers as their text, binary ones as bytes.
        subject: Its subject, or None.
        published_at: When SNS took it, with time zone.
        sequence_number: Its place in its sequence, of FIFO topics; else None.
    """

    topic_arn: str
    message_id: str
    text: str
    attributes: Mapping[str, str | bytes]
    published_at: datetime
    subject: str | None = None
    sequence_number: str | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A notification, and its attributes in the form of SQS."""

    notification: Notification
    attributes: Mapping[str, WireAttribute]


def read_envelope(body: str) -> Envelope | None:
    """
    Return what *body* is the envelope of; None for anything else.

    Raises:
        EnvelopeError: it is one, but an attribute in it cannot be read.
    """
    # A body without these words is none, whatever it is: most are told by that, without reading them as JSON.
    if '"Notification"' not in body or '"TopicArn"' not in body:
        return None
    try:
        shape = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(shape, dict) or shape.get("Type") != "Notification":
        return None
    if not all(isinstance(shape.get(name), str) for name in _TEXTS) or not _TOPIC_ARN.fullmatch(shape["TopicArn"]):
        return None
    moment = _moment(shape["Timestamp"])
    return None if moment is None else _envelope(shape, moment)


def _envelope(shape: Mapping[str, Any], moment: datetime) -> Envelope:
    given = shape.get("MessageAttributes")
    wire = {name: _attribute(name, value) for name, value in given.items()} if isinstance(given, dict) else {}
    notification = Notification(
        shape["TopicArn"],
        shape["MessageId"],
        shape["Message"],
        MappingProxyType(
            {name: value.get("BinaryValue", value.get("StringValue", "")) for name, value in wire.items()}
        ),
        moment,
        _text(shape.get("Subject")),
        _text(shape.get("SequenceNumber")),
    )
    return Envelope(notification, wire)


def _attribute(name: str, given: object) -> WireAttribute:
    """Return an attribute of `Type` and `Value`, binary as base64, in the form of SQS."""
    kind, value = (given.get("Type"), given.get("Value")) if isinstance(given, dict) else (None, None)
    if not isinstance(kind, str) or not isinstance(value, str):
        raise EnvelopeError(f"attribute {name!r} in its envelope has no type, or no value")
    if kind.partition(".")[0] != _BINARY:
        return {"DataType": kind, "StringValue": value}
    try:
        return {"DataType": kind, "BinaryValue": base64.b64decode(value, validate=True)}
    except (binascii.Error, ValueError):
        raise EnvelopeError(f"attribute {name!r} in its envelope is said to be base64, and is not") from None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
