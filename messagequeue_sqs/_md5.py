"""
The MD5 checksums that SQS returns with messages; not a protection against anybody.

Source: developer guide, "Calculating the MD5 message digest for message attributes".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Protocol


class _AttributeValue(Protocol):
    def get(self, key: str, /) -> object: ...


_STRING, _BINARY = b"\x01", b"\x02"


def body_md5(body: str | bytes) -> str:
    """Return the MD5 of a message body: of its UTF-8 bytes, as 32 hexadecimal digits."""
    return hashlib.md5(body.encode() if isinstance(body, str) else body, usedforsecurity=False).hexdigest()


def attributes_md5(attributes: Mapping[str, _AttributeValue]) -> str:
    """
    Return the MD5 of message attributes, or of system attributes, in the shape of the wire.

    For each attribute, in the order of the names: name, data type, one byte for the kind, value; each with its length
    before it as four bytes, the highest first.  A binary value counts as its bytes, not as their base64.

    Args:
        attributes: Name to `{"DataType": ..., "StringValue": str}` or `{..., "BinaryValue": bytes}`.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        for part in _parts(name, attributes[name]):
            digest.update(part)
    return digest.hexdigest()


def _parts(name: str, value: _AttributeValue) -> Iterator[bytes]:
    yield _sized(name.encode())
    yield _sized(str(value.get("DataType")).encode())
    text, data = value.get("StringValue"), value.get("BinaryValue")
    if isinstance(data, bytes | bytearray):
        yield _BINARY
        yield _sized(bytes(data))
    else:
        yield _STRING
        yield _sized(text.encode() if isinstance(text, str) else b"")


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
