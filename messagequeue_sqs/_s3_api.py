"""The calls of S3 that large payloads need, as a protocol; not how they travel.  `_s3_client` speaks to the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredObject:
    """
    What S3 had under a key.

    Attributes:
        body: All of it.
        sha256: Its SHA-256 as S3 stored it, base64; None where it was put without one.
    """

    body: bytes
    sha256: str | None = None


class ObjectTooLargeError(Exception):
    """An object has more bytes than were to be fetched; none of them is kept."""


@dataclass(slots=True)
class PayloadStats:
    """
    What became of the bodies in S3 so far; read it, do not write it.

    Attributes:
        put: Bodies put there by publishers.
        fetched: Bodies fetched by consumers.
        deleted: Bodies deleted after their message.
        delete_failures: Those that should have been, and are still there.
    """

    put: int = 0
    fetched: int = 0
    deleted: int = 0
    delete_failures: int = 0


class S3Api(Protocol):
    """
    One S3.  Every method is one call, with the SDK's own retries and no others.

    Raises, each of them: `_faults.CallError`.
    """

    async def put_object(self, bucket: str, key: str, body: bytes, /, *, sha256: str) -> None:
        """
        Put *body* there; the same again changes nothing.

        Args:
            sha256: Its SHA-256, base64, which S3 compares with what arrives, and keeps.
        """
        ...

    async def get_object(self, bucket: str, key: str, /, *, limit: int) -> StoredObject:
        """
        Return what is there.

        Raises:
            ObjectTooLargeError: it has more than *limit* bytes.
        """
        ...

    async def delete_objects(self, bucket: str, keys: Sequence[str], /) -> Mapping[str, str]:
        """Delete up to 1000 objects and return the error code of each that is still there, by key."""
        ...
