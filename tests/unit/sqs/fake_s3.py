"""A stand-in for S3: a dictionary that records every call and fails where it was told to."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Mapping, Sequence

from messagequeue_sqs._faults import CallError, fault_of_class, fault_of_code
from messagequeue_sqs._s3_api import ObjectTooLargeError, StoredObject


def failing(code: str, status: int = 400) -> CallError:
    """Return what the client raises for an error code of S3, or for a class of the SDK."""
    fault = fault_of_class([code]) if code.endswith("Error") else fault_of_code(code, status)
    return CallError(f"call failed: {code}", fault=fault, name=code)


def digest(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


class FakeS3:
    """
    An `S3Api`.  `objects` holds bodies by (bucket, key); `calls` what was asked, in order.

    Args:
        delay: Seconds that every call takes.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.objects: dict[tuple[str, str], bytes] = {}
        self.sums: dict[tuple[str, str], str | None] = {}
        self.calls: list[tuple[str, str, object]] = []
        self.put_faults: dict[str, CallError] = {}
        self.get_faults: dict[str, CallError] = {}
        self.delete_fault: CallError | None = None
        self.undeletable: dict[str, str] = {}

    def names(self) -> list[str]:
        return [name for name, _, _ in self.calls]

    async def put_object(self, bucket: str, key: str, body: bytes, /, *, sha256: str) -> None:
        self.calls.append(("put", bucket, key))
        await asyncio.sleep(self.delay)
        for words, fault in self.put_faults.items():
            if words.encode() in body:
                raise fault
        assert sha256 == digest(body)
        self.objects[bucket, key] = body
        self.sums[bucket, key] = sha256

    async def get_object(self, bucket: str, key: str, /, *, limit: int) -> StoredObject:
        self.calls.append(("get", bucket, key))
        await asyncio.sleep(self.delay)
        if key in self.get_faults:
            raise self.get_faults[key]
        body = self.objects.get((bucket, key))
        if body is None:
            raise failing("NoSuchKey", 404)
        if len(body) > limit:
            raise ObjectTooLargeError
        return StoredObject(body, self.sums.get((bucket, key)))

    async def delete_objects(self, bucket: str, keys: Sequence[str], /) -> Mapping[str, str]:
        self.calls.append(("delete", bucket, tuple(keys)))
        await asyncio.sleep(self.delay)
        if self.delete_fault is not None:
            raise self.delete_fault
        failed = {key: code for key, code in self.undeletable.items() if key in keys}
        for key in set(keys) - failed.keys():
            self.objects.pop((bucket, key), None)
        return failed
