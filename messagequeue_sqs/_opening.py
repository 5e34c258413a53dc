"""
From a received message to what its handler gets, where more has to be done than reading its body; no requests.

In this order: the envelope of SNS is taken off, then a pointer to S3 is followed, then the body is decoded, as the
attributes that came with it say.  A message whose body is in S3 becomes a `PointedMessage`, for `_fetching` to fetch it
when its handler's turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from messagequeue._errors import DecodeError
from messagequeue._message import Message

from . import _wire
from ._api import ReceivedMessage, WireAttribute
from ._envelope import EnvelopeError, read_envelope
from ._pointer import SHARED_ENDING, SIZE_ATTRIBUTES, Pointer, PointerError, read_pointer, read_size

_NOWHERE = Pointer("", "")


@dataclass(frozen=True, slots=True)
class PointedMessage(Message):
    """
    A message whose body is in S3; its own `body` is the pointer.

    Attributes:
        pointer: Where it is.
        size: Bytes that it has there, as its sender said.
        encoding: How those are to be read: the value of `_wire.ENCODING_ATTRIBUTE`, or None.
    """

    pointer: Pointer = _NOWHERE
    size: int = 0
    encoding: str | bytes | None = None


class Opening:
    """
    Reads received messages; a stage in the place of `_wire.decode_message()`.

    Args:
        envelopes: Messages that SNS wrapped become what was published; all others are as they came, in the same queue.
        buckets: Those that bodies may be fetched from.  With none, a message that points to S3 is read literally.
    """

    def __init__(self, *, envelopes: bool = False, buckets: frozenset[str] = frozenset()) -> None:
        self._envelopes = envelopes
        self._buckets = buckets

    def decode(self, topic: str, raw: ReceivedMessage) -> tuple[Message, DecodeError | None]:
        """Return what a handler gets of *raw*, and why it must not, if so; a `PointedMessage` has a way to go yet."""
        inner = raw
        if self._envelopes:
            try:
                inner = unwrapped(raw)
            except EnvelopeError as error:
                message, _ = _wire.decode_message(topic, raw)
                return message, DecodeError(f"message {message.id}: {error}", topic=topic, about=message)
        name = size_attribute(inner.get("MessageAttributes", {})) if self._buckets else None
        if name is not None:
            return self._pointed(topic, raw, inner, name)
        message, fault = _wire.decode_message(topic, inner)
        if inner is not raw:
            message = replace(message, raw=raw)
            if fault is not None:
                fault.message = message
        return message, fault

    def _pointed(
        self, topic: str, raw: ReceivedMessage, inner: ReceivedMessage, name: str
    ) -> tuple[Message, DecodeError | None]:
        wire = dict(inner.get("MessageAttributes", {}))
        size = wire.pop(name)
        encoding = wire.pop(_wire.ENCODING_ATTRIBUTE, None)
        bare: ReceivedMessage = {**inner, "MessageAttributes": wire}
        message, fault = _wire.decode_message(topic, bare)
        if fault is not None:
            return message, fault
        message = replace(message, raw=raw)
        try:
            pointer, count = read_pointer(message.text, self._buckets), read_size(size.get("StringValue", ""))
        except PointerError as error:
            return message, DecodeError(f"message {message.id}: {error}", topic=topic, about=message)
        mark = None if encoding is None else _wire.decode_value(encoding)
        return PointedMessage(**_fields_of(message), pointer=pointer, size=count, encoding=mark), None


def unwrapped(raw: ReceivedMessage) -> ReceivedMessage:
    """
    Return *raw* with what was published in the place of its envelope; *raw* itself where there is none.

    Attributes of the queue's message itself, such as why it was dead-lettered, stay.

    Raises:
        EnvelopeError: an attribute in the envelope cannot be read.
    """
    envelope = read_envelope(raw.get("Body", ""))
    if envelope is None:
        return raw
    attributes = {**raw.get("MessageAttributes", {}), **envelope.attributes}
    return {**raw, "Body": envelope.notification.text, "MessageAttributes": attributes}


def size_attribute(attributes: Mapping[str, WireAttribute]) -> str | None:
    """Return the name of the attribute that says that a body is in S3, or None."""
    return next((name for name in SIZE_ATTRIBUTES if name in attributes), None)


def fetched(message: PointedMessage, body: bytes) -> tuple[Message, str]:
    """Return *message* with the body that was fetched, and what is wrong with that, if so."""
    plain, problem = _wire.decode_bytes(body, message.encoding)
    values = _fields_of(message)
    values["body"] = plain
    return Message(**values), problem


def own_object(raw: ReceivedMessage, buckets: frozenset[str]) -> Pointer | None:
    """
    Return the object that belongs to this message alone, so that it may go when the message does; None for none.

    A body that came through a topic, or whose key says so, belongs to others, too.
    """
    if size_attribute(raw.get("MessageAttributes", {})) is None:
        return None
    try:
        pointer = read_pointer(raw.get("Body", ""), buckets)
    except PointerError:
        return None
    return None if pointer.key.endswith(SHARED_ENDING) else pointer


_FIELDS = tuple(item.name for item in fields(Message))


def _fields_of(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in _FIELDS}
