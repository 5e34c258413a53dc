"""The S3 of large payloads over a client of the AWS SDK; not which bodies go there."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from ._client import Clients, SdkCalls, translate
from ._queue import Queue
from ._s3_api import ObjectTooLargeError, StoredObject
from ._s3_config import S3Payloads

#: Bytes read at one time.
_CHUNK = 262_144


async def open_s3(
    clients: Clients, options: S3Payloads, queue: Queue | None = None, *, region: str | None = None
) -> BotoS3:
    """
    Return the S3 of a provider; its client is opened with the first call, and closed with the others.

    The bucket's region is the one in *options*, else *region*, else that of *queue*.
    """
    # A host of one's own has no names below it for the buckets.
    style = {} if options.address is None else {"s3": {"addressing_style": "path"}}
    return BotoS3(await clients.other("s3", options.address, options.region or region, queue, **style), options)


class BotoS3:
    """
    The `_s3_api.S3Api` over a client of aioboto3.

    Args:
        options: `bucket_owner` goes with every call, `kms_key` with every put.
    """

    def __init__(self, client: Any, options: S3Payloads) -> None:
        self._calls = SdkCalls(client)
        owner, key = options.bucket_owner, options.kms_key
        self._always = {} if owner is None else {"ExpectedBucketOwner": owner}
        self._encryption = {} if key is None else {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}

    async def put_object(self, bucket: str, key: str, body: bytes, /, *, sha256: str) -> None:
        # As a stream: aiohttp warns of large bodies that are none.
        await self._call("put_object", bucket, key, Body=io.BytesIO(body), ChecksumSHA256=sha256, **self._encryption)

    async def get_object(self, bucket: str, key: str, /, *, limit: int) -> StoredObject:
        answer = await self._call("get_object", bucket, key, ChecksumMode="ENABLED")
        try:
            stream = answer["Body"]  # which compares the checksum when it has been read; what it opens does not
            async with stream:
                body = await _read(stream, answer.get("ContentLength"), limit)
        except ObjectTooLargeError:
            raise
        except Exception as error:  # the connection broke, or the SDK's checksum differs
            raise translate(error, "GetObject", f"s3://{bucket}/{key}", self._calls.endpoint) from error
        return StoredObject(body, answer.get("ChecksumSHA256"))

    async def delete_objects(self, bucket: str, keys: Sequence[str], /) -> Mapping[str, str]:
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = await self._call("delete_objects", bucket, None, Delete=wanted)
        return {error.get("Key", ""): error.get("Code", "?") for error in answer.get("Errors", ())}

    async def _call(self, method: str, bucket: str, key: str | None, **request: Any) -> dict[str, Any]:
        where = {"Bucket": bucket} if key is None else {"Bucket": bucket, "Key": key}
        target = f"s3://{bucket}" if key is None else f"s3://{bucket}/{key}"
        return await self._calls.call(method, target, **where, **request, **self._always)


async def _read(stream: Any, length: int | None, limit: int) -> bytes:
    if length is not None and length > limit:
        raise ObjectTooLargeError
    body = bytearray()
    while chunk := await stream.read(_CHUNK):
        body += chunk
        if len(body) > limit:
            raise ObjectTooLargeError
    return bytes(body)
