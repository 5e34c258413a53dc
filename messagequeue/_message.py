"""The values that pass between an application and a broker; not how they are settled, and not how they are encoded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

#: What an attribute may be when it is published.  Numbers arrive as their text.
AttributeValue = str | bytes | int | float


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """
    One delivery of a message to a handler.  Return from the handler to settle it; raise to have it back.

    Attributes:
        topic: The topic it was consumed from.
        id: The broker's name of the message; the same on every delivery.
        body: The bytes that were published.
        attributes: What was published with it; numbers as their text.
        ordering_key: The sequence it belongs to, or None.
        deduplication_key: Its identity within the broker's deduplication window, or None.
        sequence_number: Its place in its sequence as the broker counts (for SQS FIFO 20 digits), or None.
        delivery_attempt: 1 on the first delivery; None where the broker does not count.
        published_at: When the broker took it, with time zone; None where the broker does not say.
        raw: What the provider's client returned, for what the fields above leave out.  Its type is the provider's.
    """

    topic: str
    id: str
    body: bytes
    attributes: Mapping[str, str | bytes] = field(default_factory=dict)
    ordering_key: str | None = None
    deduplication_key: str | None = None
    sequence_number: str | None = None
    delivery_attempt: int | None = None
    published_at: datetime | None = None
    raw: object = field(default=None, repr=False, compare=False)

    # Made for every message: what `dataclass` writes for a frozen class takes twice as long (0.65 against 1.3 us).
    def __init__(
        self,
        topic: str,
        id: str,  # noqa: A002 - the field's name
        body: bytes,
        attributes: Mapping[str, str | bytes] | None = None,
        ordering_key: str | None = None,
        deduplication_key: str | None = None,
        sequence_number: str | None = None,
        delivery_attempt: int | None = None,
        published_at: datetime | None = None,
        raw: object = None,
    ) -> None:
        _topic(self, topic)
        _id(self, id)
        _body(self, body)
        _attributes(self, {} if attributes is None else attributes)
        _ordering_key(self, ordering_key)
        _deduplication_key(self, deduplication_key)
        _sequence_number(self, sequence_number)
        _delivery_attempt(self, delivery_attempt)
        _published_at(self, published_at)
        _raw(self, raw)

    @property
    def text(self) -> str:
        """The body as UTF-8 text.  Raises `UnicodeDecodeError` (a ValueError) where it is not."""
        return self.body.decode("utf-8")

    def json(self) -> Any:
        """The body read as JSON.  Raises ValueError (`json.JSONDecodeError`, `UnicodeDecodeError`) where it is not."""
        return json.loads(self.body)

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only view, which the attributes usually are, can be neither pickled nor copied.
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return _rebuild, (type(self), values | {"attributes": dict(self.attributes)})


def _rebuild(kind: type[Message], values: dict[str, Any]) -> Message:
    values["attributes"] = MappingProxyType(values["attributes"])
    return kind(**values)


(
    _topic,
    _id,
    _body,
    _attributes,
    _ordering_key,
    _deduplication_key,
    _sequence_number,
    _delivery_attempt,
    _published_at,
    _raw,
) = (getattr(Message, item.name).__set__ for item in fields(Message))


@dataclass(frozen=True, slots=True, init=False)
class Receipt:
    """
    The broker's word that it has a message.

    Attributes:
        message_id: The broker's name of the message.
        sequence_number: Its place in its sequence; None where the topic has no order.
    """

    message_id: str
    sequence_number: str | None = None

    def __init__(self, message_id: str, sequence_number: str | None = None) -> None:  # as for Message
        _message_id(self, message_id)
        _sequence_number_of_receipt(self, sequence_number)


_message_id, _sequence_number_of_receipt = (getattr(Receipt, item.name).__set__ for item in fields(Receipt))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """
    Data with options of its own, for `Publisher.publish_many()`.

    The options mean what they mean for `Publisher.publish()` and win over those given to the whole call.
    """

    data: object
    ordering_key: str | None = None
    deduplication_key: str | None = None
    delay: float | timedelta | None = None
    attributes: Mapping[str, AttributeValue] | None = None
