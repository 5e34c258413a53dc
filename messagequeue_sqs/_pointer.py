"""
The form of a message whose body is in S3, as Amazon's extended clients write and read it; nothing is fetched here.

Body: a JSON list of a class name and an object with bucket and key.  Attribute: a Number, the body's size in bytes.
Both have an older name; what either side writes, in every mix, is read here.

Sources, all of them of github.com/awslabs: payload-offloading-java-common-lib-for-aws (PayloadS3Pointer),
amazon-sqs-java-extended-client-lib (SQSExtendedClientConstants), amazon-sqs-python-extended-client-lib (client.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

POINTER_CLASS: Final = "software.amazon.payloadoffloading.PayloadS3Pointer"
LEGACY_POINTER_CLASS: Final = "com.amazon.sqs.javamessaging.MessageS3Pointer"
SIZE_ATTRIBUTE: Final = "ExtendedPayloadSize"
LEGACY_SIZE_ATTRIBUTE: Final = "SQSLargePayloadSize"
#: In the order in which Amazon's clients look for them.
SIZE_ATTRIBUTES: Final = (SIZE_ATTRIBUTE, LEGACY_SIZE_ATTRIBUTE)
_CLASSES = (POINTER_CLASS, LEGACY_POINTER_CLASS)

#: Ends the key of an object that more than one message may point to: consumers of this library never delete it.
SHARED_ENDING: Final = ".shared"

# What Amazon's clients put around bucket and key, before the receipt handle that they return.
_BUCKET_MARKER, _KEY_MARKER = "-..s3BucketName..-", "-..s3Key..-"


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the body of a message is."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


class PointerError(ValueError):
    """A message says that its body is in S3, and does not say where, or names a bucket that is not allowed."""


def write_pointer(pointer: Pointer, *, legacy: bool = False) -> str:
    """Return the body that points there; *legacy* for readers that know the older class name alone."""
    where = {"s3BucketName": pointer.bucket, "s3Key": pointer.key}
    return json.dumps([LEGACY_POINTER_CLASS if legacy else POINTER_CLASS, where], separators=(",", ":"))


def read_pointer(text: str, allowed: Container[str]) -> Pointer:
    """
    Return where the body is of a message that has one of `SIZE_ATTRIBUTES`.

    Args:
        text: Its body.
        allowed: The buckets that may be read.  The body is the sender's, so that without this any sender could have
            the consumer fetch whatever it may read.

    Raises:
        PointerError: *text* is no pointer, or it leads elsewhere.
    """
    pointer = _pointer_in(text)
    if pointer is None:
        raise PointerError("its attributes say that its body is in S3, and its body is no pointer to it")
    if pointer.bucket not in allowed:
        raise PointerError(
            f"its body is said to be in bucket {pointer.bucket[:_BUCKET_CHARS]!r}, which is not one of "
            "payloads.bucket and payloads.allowed_buckets: add it there where its senders are to be trusted"
        )
    return pointer


def _pointer_in(text: str) -> Pointer | None:
    try:
        name, where = json.loads(text)
        bucket, key = where["s3BucketName"], where["s3Key"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    named = name in _CLASSES and isinstance(bucket, str) and isinstance(key, str)
    return Pointer(bucket, key) if named and bucket and key else None


#: Characters of a bucket's name, or of an access point's ARN, in an error text at most.
_BUCKET_CHARS = 100


def read_size(text: str) -> int:
    """Return the size in bytes that the attribute gives.  Raises `PointerError` where it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= _SIZE_DIGITS):
        raise PointerError("its attributes do not say how many bytes its body in S3 has")
    return int(text)


_SIZE_DIGITS = 15


def derived_key(prefix: str, *parts: str, body: bytes, shared: bool = False) -> str:
    """
    Return the key of an object that is the same for the same message, whoever publishes it again.

    The body is part of it: a second message that wrongly carries the deduplication key of a first one, and is dropped
    by the broker, must not put its body into the place of the first one's.
    """
    digest = hashlib.sha256()
    for part in (*(part.encode() for part in parts), hashlib.sha256(body).digest()):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return f"{prefix}{digest.hexdigest()}{SHARED_ENDING if shared else ''}"


def plain_handle(handle: str) -> str:
    """Return the receipt handle within one of Amazon's extended clients; any other as it is."""
    if not handle.startswith(_BUCKET_MARKER) or handle.count(_KEY_MARKER) < 2:
        return handle
    return handle.split(_KEY_MARKER, 2)[2]
