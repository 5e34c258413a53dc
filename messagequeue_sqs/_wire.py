"""
Messages to and from the shapes of SQS' API, and every rule that can be held against them without asking; no requests.

Bodies: text goes as it is.  Bytes that are text in SQS' alphabet go as that text, without a mark.  Other bytes go as
base64 with the message attribute `messagequeue.encoding` = `base64`; only that attribute makes a receiver decode, never
the look of a body.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Context, Decimal
from types import MappingProxyType
from typing import cast

from messagequeue._compression import COMPRESSION_ATTRIBUTE
from messagequeue._errors import DecodeError, InvalidMessageError, MessageTooLargeError
from messagequeue._message import AttributeValue, Message
from messagequeue._trace_header import traceparent_of, xray_of
from messagequeue.driver import EncodedMessage

from . import _limits
from ._api import ReceivedMessage, SendEntry, WireAttribute
from ._pointer import SIZE_ATTRIBUTES

#: The message attribute that says how a body is encoded.  It counts as one of the ten and for the size.
ENCODING_ATTRIBUTE = "messagequeue.encoding"
BASE64 = "base64"
#: The only system attribute that can be sent; it counts neither as one of the ten nor for the size.
TRACE_HEADER = "AWSTraceHeader"
#: What a message may have got from this library itself, for the error text where there are too many.
_OURS = (ENCODING_ATTRIBUTE, COMPRESSION_ATTRIBUTE, *SIZE_ATTRIBUTES)


class Mark(str):
    """The name of an attribute that a stage of this library sets; a user's name is a plain str, and may be refused."""

    __slots__ = ()


# Source: API Reference, SendMessage: #x9 | #xA | #xD | #x20-#xD7FF | #xE000-#xFFFD | #x10000-#x10FFFF.
_ALPHABET = "\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff"
_TEXT = re.compile(f"[{_ALPHABET}]*+")  # three times as fast as looking for the first other one
_ASCII = bytes([9, 10, 13, *range(32, 128)])
_OUTSIDE = re.compile(f"[^{_ALPHABET}]")
# Source: API Reference, SendMessage, MessageGroupId and MessageDeduplicationId.
_KEY = re.compile(rf"[!-~]{{1,{_limits.KEY_CHARS}}}")
# Source: guide, "Amazon SQS message metadata"; AWS takes letters beyond ASCII too.
_ATTRIBUTE_NAME = re.compile(rf"(?!\.)(?!.*\.\.)[\w.-]{{1,{_limits.ATTRIBUTE_NAME_CHARS}}}(?<!\.)")
_RESERVED_PREFIXES = ("aws.", "amazon.")
# Wide enough that nothing is rounded before the digits are counted.
_EXACT = Context(prec=200)

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_NO_ATTRIBUTES: Mapping[str, str | bytes] = MappingProxyType({})


def measure(message: EncodedMessage, *, fifo: bool) -> int:
    """
    Hold *message* against SQS' rules and return its size in bytes: body and, of each attribute, name, type and value.

    Raises:
        InvalidMessageError: the body, an attribute, a key or the delay breaks a rule.
        MessageTooLargeError: body and attributes are above 1 MiB together.

    Source: guide, "Amazon SQS message quotas"; system attributes do not count.
    """
    body = message.body
    if type(body) is str and not fifo and _is_bare(message):
        data = body.encode() if body.isascii() else b""
        if data and len(data) <= _limits.MESSAGE_BYTES and not data.translate(None, _ASCII):
            return len(data)
    _check_options(message, fifo)
    text, encoding = encode_body(message.body)
    size = len(text) if text.isascii() else len(text.encode())
    if message.attributes or encoding:
        size += attributes_size(encode_attributes(message.attributes, encoding))
    if size > _limits.MESSAGE_BYTES:
        raise MessageTooLargeError(
            f"the message has {size} bytes, body and attributes together; SQS takes {_limits.MESSAGE_BYTES}: "
            "put the data elsewhere and publish where it is, as SQSConfig(payloads=S3Payloads(bucket=...)) does",
            size=size,
            limit=_limits.MESSAGE_BYTES,
        )
    return size


def _is_bare(message: EncodedMessage) -> bool:
    """Whether there is nothing but a body to be checked."""
    return (
        message.ordering_key is None
        and message.deduplication_key is None
        and message.delay is None
        and message.attributes is None
    )


def build_entry(message: EncodedMessage, entry_id: str, *, fifo: bool) -> SendEntry:
    """Return the batch entry of a message that `measure()` accepted.  What was not asked for is not in it."""
    body = message.body
    text, encoding = (body, None) if isinstance(body, str) else encode_body(body)
    entry: SendEntry = {"Id": entry_id, "MessageBody": text}
    if (message.attributes or encoding) and (attributes := encode_attributes(message.attributes, encoding)):
        entry["MessageAttributes"] = attributes
    if message.traceparent is not None and (header := xray_of(message.traceparent)) is not None:
        entry["MessageSystemAttributes"] = {TRACE_HEADER: {"DataType": "String", "StringValue": header}}
    if message.ordering_key is not None:
        entry["MessageGroupId"] = message.ordering_key
    if message.deduplication_key is not None:
        entry["MessageDeduplicationId"] = message.deduplication_key
    # On a standard queue 0 wins over the queue's own delay.  A FIFO queue refuses the parameter whatever it says.
    if message.delay is not None and not fifo:
        entry["DelaySeconds"] = int(message.delay)
    return entry


def entry_size(entry: SendEntry) -> int:
    """Return the bytes that a batch entry counts for: body and attributes."""
    return len(entry["MessageBody"].encode()) + attributes_size(entry.get("MessageAttributes", {}))


def received_size(raw: ReceivedMessage) -> int:
    """Return the bytes that a received message counts for: body and attributes."""
    body = raw.get("Body", "").encode(errors="surrogatepass")
    return len(body) + attributes_size(raw.get("MessageAttributes", {}))


def _check_options(message: EncodedMessage, fifo: bool) -> None:
    if message.ordering_key is not None:
        check_key("ordering_key", message.ordering_key)
    elif fifo:
        raise InvalidMessageError("the queue is FIFO: pass ordering_key=... on every publish")
    if message.deduplication_key is not None:
        check_key("deduplication_key", message.deduplication_key)
    delay = message.delay
    if delay is not None and not (0 <= delay <= _limits.DELAY_MAX and delay == int(delay)):
        raise InvalidMessageError(f"delay={delay!r}: SQS takes whole seconds from 0 to {_limits.DELAY_MAX}")
    if delay and fifo:
        raise InvalidMessageError(
            f"delay={delay!r}: a FIFO queue delays no single message, only all: set its DelaySeconds"
        )


def check_key(option: str, key: str) -> None:
    """Raise `InvalidMessageError` where SQS, and SNS with it, would refuse *key*."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidMessageError(
            f"{option}={key!r}: SQS takes 1 to {_limits.KEY_CHARS} printable ASCII characters without blanks"
        )


def check_alphabet(what: str, text: str) -> None:
    """
    Refuse characters that SQS refuses.

    Raises:
        InvalidMessageError: with position and code point of the first one; never with the text.
    """
    if _is_sendable(text):
        return
    found = _OUTSIDE.search(text)
    assert found is not None
    raise InvalidMessageError(
        f"{what} has the character U+{ord(found[0]):04X} at position {found.start()}, which SQS refuses: "
        "publish it as bytes, which are carried as base64 where needed"
    )


def _is_sendable(text: str) -> bool:
    # In ASCII, what is left once all that may be sent is taken out says it in a third of the time.
    return not text.encode().translate(None, _ASCII) if text.isascii() else _TEXT.fullmatch(text) is not None


def encode_body(body: str | bytes) -> tuple[str, str | None]:
    """
    Return the body's text on the wire and the value of `ENCODING_ATTRIBUTE`, None for no such attribute.

    Raises:
        InvalidMessageError: it is empty, or text outside SQS' alphabet.
    """
    if not body:
        raise InvalidMessageError("the body is empty; SQS takes 1 byte or more")
    if isinstance(body, str):
        check_alphabet("the body", body)
        return body, None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    if text and _is_sendable(text):
        return text, None
    return base64.b64encode(body).decode("ascii"), BASE64


def encode_attributes(
    attributes: Mapping[str, AttributeValue] | Mapping[str, AttributeValue | None] | None, encoding: str | None = None
) -> dict[str, WireAttribute]:
    """
    Return attributes in SQS' shape: str as String, bytes as Binary, numbers as Number.

    Raises:
        InvalidMessageError: a name or value breaks a rule, or there are more than ten, *encoding* included.
    """
    encoded: dict[str, WireAttribute] = {}
    for name, value in (attributes or {}).items():
        if value is None:
            continue
        check_attribute_name(name)
        if name == ENCODING_ATTRIBUTE:
            if type(name) is not Mark:
                raise InvalidMessageError(f"attribute {name!r} is set by this library where it encodes a body: drop it")
            name = ENCODING_ATTRIBUTE  # on its way out, a name is a plain str
        encoded[name] = _encode_value(name, value)
    if encoding is not None:
        encoded[ENCODING_ATTRIBUTE] = {"DataType": "String", "StringValue": encoding}
    if len(encoded) > _limits.ATTRIBUTES:
        ours = [repr(name) for name in encoded if name in _OURS]
        note = f", with {' and '.join(ours)}, which this library adds" if ours else ""
        raise InvalidMessageError(f"{len(encoded)} attributes{note}: SQS takes {_limits.ATTRIBUTES}")
    return encoded


def check_attribute_name(name: str) -> None:
    """Raise `InvalidMessageError` where SQS would refuse *name*."""
    if not isinstance(name, str) or not _ATTRIBUTE_NAME.fullmatch(name):
        raise InvalidMessageError(
            f"attribute name {name!r}: SQS takes 1 to {_limits.ATTRIBUTE_NAME_CHARS} letters, digits, '_', '-' and "
            "single inner '.'"
        )
    if name.lower().startswith(_RESERVED_PREFIXES):
        raise InvalidMessageError(f"attribute name {name!r}: the beginnings AWS. and Amazon. are reserved")


def _encode_value(name: str, value: AttributeValue) -> WireAttribute:
    if isinstance(value, str):
        if not value:
            raise InvalidMessageError(f"attribute {name!r} is empty: leave it out, or pass None")
        check_alphabet(f"attribute {name!r}", value)
        return {"DataType": "String", "StringValue": value}
    if isinstance(value, bytes):
        if not value:
            raise InvalidMessageError(f"attribute {name!r} is empty: leave it out, or pass None")
        return {"DataType": "Binary", "BinaryValue": value}
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidMessageError(f"attribute {name!r} is of type {type(value).__name__}: pass str, bytes or a number")
    return {"DataType": "Number", "StringValue": _number_text(name, value)}


def _number_text(name: str, value: float) -> str:
    if abs(value) < 10**_limits.NUMBER_EXPONENT_MAX:
        # A subclass may have a text of its own.
        text = float.__repr__(value) if isinstance(value, float) else int.__repr__(value)
        number = Decimal(text)
        digits = len(number.normalize(_EXACT).as_tuple().digits)
        if digits <= _limits.NUMBER_DIGITS and (not number or number.adjusted() >= _limits.NUMBER_EXPONENT_MIN):
            return text
    raise InvalidMessageError(
        f"attribute {name!r}: SQS takes numbers of up to {_limits.NUMBER_DIGITS} digits between "
        f"1E{_limits.NUMBER_EXPONENT_MIN} and 1E+{_limits.NUMBER_EXPONENT_MAX}; pass it as text"
    )


def attributes_size(attributes: Mapping[str, WireAttribute]) -> int:
    """Return the bytes that attributes count for: UTF-8 of names, types and values."""
    return sum(
        len(name.encode()) + len(value.get("DataType", "")) + len(value.get("BinaryValue", b""))
        + len(value.get("StringValue", "").encode())
        for name, value in attributes.items()
    )  # fmt: skip


def decode_message(topic: str, raw: ReceivedMessage) -> tuple[Message, DecodeError | None]:
    """
    Return what a handler gets of a received message, and why it must not get it, if so.

    Fields that the service left out are None.  Where the body cannot be decoded, `Message.body` is what came.
    """
    system, wire = raw.get("Attributes", _NO_TEXTS), raw.get("MessageAttributes")
    attributes, encoding = _NO_ATTRIBUTES, None
    if wire:
        decoded = {name: decode_value(value) for name, value in wire.items()}
        encoding = decoded.pop(ENCODING_ATTRIBUTE, None)
        attributes = MappingProxyType(decoded)
    text, problem = raw.get("Body"), ""
    if encoding is None and text is not None and text.isascii():
        body = text.encode()
    else:
        body, problem = _decode_body(text, encoding)
    count, sent, known = system.get("ApproximateReceiveCount"), system.get("SentTimestamp"), system.get
    message = Message(
        topic,
        raw.get("MessageId", ""),
        body,
        attributes,
        known("MessageGroupId"),
        known("MessageDeduplicationId"),
        known("SequenceNumber"),
        1 if count == "1" else _whole(count),
        _moment(sent),
        raw,
    )
    if not problem:
        return message, None
    return message, DecodeError(f"message {message.id}: {problem}", topic=topic, about=message)


def decode_value(value: WireAttribute) -> str | bytes:
    """Return an attribute's value: bytes of a Binary one, the text of any other."""
    # By what is there, not by the type's name, so that types yet to come arrive too.
    data = value.get("BinaryValue")
    return value.get("StringValue", "") if data is None else bytes(data)


def _decode_body(text: str | None, encoding: str | bytes | None) -> tuple[bytes, str]:
    if text is None:
        return b"", "it has no body"
    try:
        body = text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace"), "its body has lone surrogates, which are no text"
    return (body, "") if encoding is None else decode_bytes(body, encoding)


def decode_bytes(body: bytes, encoding: str | bytes | None) -> tuple[bytes, str]:
    """Return what *body* stands for, and what is wrong with it, if so; then it is as it came."""
    if encoding is None:
        return body, ""
    if encoding != BASE64:
        return body, f"its attribute {ENCODING_ATTRIBUTE!r} names an encoding that this version does not know"
    try:
        return base64.b64decode(body, validate=True), ""
    except (binascii.Error, ValueError):
        return body, f"its attribute {ENCODING_ATTRIBUTE!r} says base64, and its body is not"


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _moment(milliseconds: str | None) -> datetime | None:
    if milliseconds is None or not (milliseconds.isascii() and milliseconds.isdigit()):
        return None
    try:
        return _from_timestamp(int(milliseconds) / 1000, UTC)  # exact to the millisecond until the year 2255
    except (OverflowError, OSError, ValueError):
        return None


_from_timestamp = datetime.fromtimestamp


def carried_traceparent(message: Message) -> str | None:
    """Return the `AWSTraceHeader` that SQS gave with a message of `decode_message()`, as a traceparent."""
    raw = message.raw
    header = (
        cast(ReceivedMessage, raw).get("Attributes", _NO_TEXTS).get(TRACE_HEADER) if isinstance(raw, dict) else None
    )
    return None if header is None else traceparent_of(header)
