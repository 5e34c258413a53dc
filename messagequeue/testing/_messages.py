"""Builds a `Message` as a broker would deliver it; nothing is published."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypedDict, Unpack

from .._codec import JSONCodec
from .._message import AttributeValue, Message

_numbers = itertools.count(1)


class MessageFields(TypedDict, total=False):
    """The fields of a `Message` that `message()` and `deliver()` take; each has a usual value where absent."""

    topic: str
    id: str
    attributes: Mapping[str, AttributeValue]
    ordering_key: str | None
    deduplication_key: str | None
    sequence_number: str | None
    delivery_attempt: int | None
    published_at: datetime | None
    raw: object


def message(data: object, /, **fields: Unpack[MessageFields]) -> Message:
    """
    Return *data* as the message that a handler would get.

    Args:
        data: Encoded as `Publisher.publish()` does: `bytes` and `str` as they are, anything else as JSON.
        fields: As of `Message`.  Attributes may be numbers, which arrive as their text.  Where left out, the topic is
            "test", the id is new, the delivery is the first, and it was published now.

    Raises:
        EncodeError: *data* has no clear form.
        TypeError: there is no such field.
    """
    body = JSONCodec().encode(data)
    attributes = {name: _arrived(value) for name, value in fields.get("attributes", {}).items()}
    usual = Message("test", f"test-{next(_numbers)}", b"", delivery_attempt=1, published_at=datetime.now(UTC))
    made = replace(usual, **fields)  # type: ignore[arg-type]  # the attributes are put right below
    return replace(made, body=body if isinstance(body, bytes) else body.encode(), attributes=attributes)


def _arrived(value: AttributeValue) -> str | bytes:
    return value if isinstance(value, str | bytes) else str(value)
