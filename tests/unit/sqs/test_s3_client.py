"""S3's client: where calls go, for which region, with what; and what its errors mean.  Nothing leaves the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aioboto3
import pytest
from botocore.config import Config as SdkConfig

from messagequeue import ErrorCode, PublishOptions
from messagequeue.runtime import RuntimePublisher
from messagequeue_sqs import S3Payloads, SQSConfig
from messagequeue_sqs._client import Clients
from messagequeue_sqs._faults import CallError
from messagequeue_sqs._offloading import OffloadingSender
from messagequeue_sqs._provider import message_limit
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._s3_client import BotoS3, open_s3
from messagequeue_sqs._sender import SQSSender
from tests.unit.sqs.fake_s3 import FakeS3, digest
from tests.unit.sqs.fake_sqs import STANDARD_URL, FakeSqs, failing

WEST = "https://sqs.us-west-2.amazonaws.com/123456789012/orders"


@dataclass(eq=False)
class Wire:
    """In place of HTTP: keeps each request's URL, signing region and headers, and answers the same to all of them."""

    status: int = 200
    body: bytes = b""
    urls: list[str] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def __call__(self, request: Any, **_: Any) -> Any:
        headers = {name: _text(value) for name, value in request.headers.items()}
        self.urls.append(request.url)
        self.headers.append(headers)
        self.regions.append(headers["Authorization"].partition("Credential=")[2].split("/")[2])
        return _Answer(self.status, {"content-type": "application/xml"}, self.body)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@dataclass
class _Answer:
    status_code: int
    headers: dict[str, str]
    data: bytes

    @property
    def content(self) -> Any:
        return asyncio.sleep(0, self.data)


@asynccontextmanager
async def s3_over(
    wire: Wire, queue: str = WEST, config: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[BotoS3]:
    session = aioboto3.Session()
    session._session.get_component("event_emitter").register_last("before-send.s3", wire)
    sdk = SdkConfig(retries={"total_max_attempts": 1})
    clients = Clients(SQSConfig(**{"client_config": sdk, **(config or {})}), session)
    payloads = S3Payloads(**{"bucket": "bodies", **options})
    try:
        yield await open_s3(clients, payloads, parse_topic(queue))
    finally:
        await clients.close()


def put(wire: Wire, queue: str = WEST, config: dict[str, Any] | None = None, **options: Any) -> None:
    async def main() -> None:
        async with s3_over(wire, queue, config, **options) as store:
            await store.put_object("bodies", "orders/1", b"abc", sha256=digest(b"abc"))

    asyncio.run(main())


def test_bucket_is_called_in_the_queues_region_unless_it_says_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket's own region, the configured one, that of the queue's URL: in this order."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    wire = Wire()
    put(wire)
    put(wire, config={"region": "eu-west-3"})
    put(wire, region="ap-south-1")

    assert wire.regions == ["us-west-2", "eu-west-3", "ap-south-1"]
    assert wire.urls[0] == "https://bodies.s3.us-west-2.amazonaws.com/orders/1"


def test_own_endpoint_has_the_bucket_in_its_path_and_is_not_that_of_the_queues() -> None:
    """`queue_address` overrides the endpoint of SQS and nothing else."""
    wire = Wire()
    put(wire, address="http://localhost:4566")
    put(wire, config={"queue_address": "http://localhost:9324"})

    assert wire.urls[0] == "http://localhost:4566/bodies/orders/1"
    assert wire.urls[1].startswith("https://bodies.s3.")


def test_put_carries_checksum_owner_and_key() -> None:
    """S3 compares the one, and refuses by the other."""
    wire = Wire()
    put(wire, bucket_owner="123456789012", kms_key="alias/bodies")

    [headers] = wire.headers
    assert headers["x-amz-checksum-sha256"] == digest(b"abc")
    assert headers["x-amz-expected-bucket-owner"] == "123456789012"
    assert headers["x-amz-server-side-encryption"] == "aws:kms"
    assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/bodies"


@pytest.mark.parametrize(
    ("status", "code", "kind", "retryable"),
    [
        (403, "AccessDenied", ErrorCode.ACCESS_DENIED, False),
        (404, "NoSuchBucket", ErrorCode.NOT_FOUND, False),
        (503, "SlowDown", ErrorCode.THROTTLED, True),
        (500, "InternalError", ErrorCode.UNAVAILABLE, True),
        (400, "ExpiredToken", ErrorCode.CREDENTIALS, True),
        (400, "BadDigest", ErrorCode.CHECKSUM, True),
    ],
)
def test_errors_of_s3_are_known_by_their_codes(status: int, code: str, kind: ErrorCode, retryable: bool) -> None:
    """And name the object, without its body."""
    wire = Wire(status, f"<Error><Code>{code}</Code><Message>words</Message></Error>".encode())
    with pytest.raises(CallError) as raised:
        put(wire)

    assert (raised.value.fault.code, raised.value.fault.retryable) == (kind, retryable)
    assert "PutObject on s3://bodies/orders/1" in str(raised.value)


def test_objects_that_could_not_be_deleted_are_returned_by_key() -> None:
    """The others are gone."""
    error = "<Error><Key>b</Key><Code>AccessDenied</Code></Error>"
    wire = Wire(body=f"<DeleteResult>{error}</DeleteResult>".encode())

    async def main() -> object:
        async with s3_over(wire) as store:
            return await store.delete_objects("bodies", ["a", "b"])

    assert asyncio.run(main()) == {"b": "AccessDenied"}


def test_publisher_that_may_only_send_publishes_large_bodies(caplog: pytest.LogCaptureFixture) -> None:
    """The queue's own limit is asked for once, and done without, with one line in the log (CFG-09)."""
    sqs, s3 = FakeSqs(), FakeS3()
    sqs.answer("GetQueueAttributes", failing("AccessDenied", 403))

    async def main() -> None:
        limit = await message_limit(sqs, parse_topic(STANDARD_URL))
        sender = OffloadingSender(
            SQSSender(sqs, parse_topic(STANDARD_URL)), s3, S3Payloads(bucket="bodies"), STANDARD_URL, threshold=limit
        )
        publisher = RuntimePublisher(STANDARD_URL, sender, PublishOptions())
        await publisher.publish("x" * 2_000_000)
        await publisher.publish("small")
        await publisher.stop()

    with caplog.at_level(logging.INFO, "messagequeue.sqs"):
        asyncio.run(main())

    assert [action for action, _, _ in sqs.calls] == ["GetQueueAttributes", "SendMessageBatch", "SendMessageBatch"]
    assert s3.names() == ["put"]
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_queues_own_limit_is_what_counts_where_it_can_be_read() -> None:
    """And where it cannot, or makes no sense, SQS' own (EXT-12)."""

    async def main(**attributes: str) -> int:
        sqs = FakeSqs()
        sqs.attributes |= attributes
        return await message_limit(sqs, parse_topic(STANDARD_URL))

    assert asyncio.run(main(MaximumMessageSize="262144")) == 262_144
    assert asyncio.run(main()) == 1_048_576
    assert asyncio.run(main(MaximumMessageSize="?")) == 1_048_576
