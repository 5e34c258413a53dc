"""Temporary credentials that run out under a running publisher and consumer; a stub plays the container's metadata."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from botocore.config import Config

from messagequeue import ErrorCode, Message, PublishError, Receipt
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.fault_stub import Answer, FaultStub, Request, expired_token
from tests.support.realtime import consuming, real_time, until

pytestmark = pytest.mark.slow

LIFETIME = 1.0
"""Seconds that a key is good for."""


class Keys:
    """Gives out key after key, each good for `LIFETIME` seconds, and can fail."""

    def __init__(self) -> None:
        self.failures = 0
        self.given: dict[str, float] = {}
        self._numbers = itertools.count(1)

    def valid(self, key: str) -> bool:
        return asyncio.get_running_loop().time() < self.given.get(key, 0.0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if self.failures:
            self.failures -= 1
            answer = Answer(500, b"{}")
        else:
            answer = Answer(200, json.dumps(self._key()).encode())
        writer.write(answer.encode())
        await writer.drain()
        writer.close()

    def _key(self) -> dict[str, str]:
        key = f"KEY{next(self._numbers)}"
        self.given[key] = asyncio.get_running_loop().time() + LIFETIME
        until_then = datetime.now(UTC) + timedelta(seconds=LIFETIME)
        return {
            "AccessKeyId": key,
            "SecretAccessKey": "secret",
            "Token": "token",
            "Expiration": until_then.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }


@asynccontextmanager
async def short_lived_keys(monkeypatch: pytest.MonkeyPatch, stub: FaultStub) -> AsyncIterator[Keys]:
    """Let the ambient chain find a container's credentials, and *stub* refuse every key that has run out."""
    keys = Keys()
    async with await asyncio.start_server(keys.serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{host}:{port}/keys")

        def refuse(request: Request) -> object:
            return None if keys.valid(request.access_key) else expired_token()

        stub.refuse = refuse  # type: ignore[assignment]
        yield keys


def config_for(stub: FaultStub) -> SQSConfig:
    once = Config(retries={"total_max_attempts": 1, "mode": "standard"})
    return SQSConfig(queue_address=stub.endpoint, read_timeout=2, client_config=once)


@real_time()
async def test_credentials_roll_over_under_a_running_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several lifetimes of a key nothing is lost and nothing ends: keys are never frozen (CFG-07)."""
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    async with FaultStub() as stub, short_lived_keys(monkeypatch, stub) as keys:
        config = config_for(stub)
        async with SQSPublisherProvider(config) as publishers, SQSConsumerProvider(config) as consumers:
            publisher = await publishers.new_publisher(stub.queue_url)
            async with consuming(consumers, stub.queue_url, handle, wait_time=1) as (_, consume):
                for number in range(20):
                    assert isinstance(await publisher.publish(f"m{number}"), Receipt)
                    await asyncio.sleep(0.2)
                await until(lambda: len(stub.queue.deleted) == 20)

                assert not consume.done()

        assert sorted(handled) == sorted(stub.queue.stored)
        assert len(keys.given) >= 4


@real_time()
async def test_credentials_that_cannot_be_refreshed_are_a_typed_error_and_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refreshes that fail are a `PublishError` for the publisher and a back-off for the consumer (CFG-07)."""
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    async with FaultStub() as stub, short_lived_keys(monkeypatch, stub) as keys:
        config = config_for(stub)
        async with SQSPublisherProvider(config) as publishers, SQSConsumerProvider(config) as consumers:
            publisher = await publishers.new_publisher(stub.queue_url)
            await publisher.publish("before")
            async with consuming(consumers, stub.queue_url, handle, wait_time=1) as (_, consume):
                await until(lambda: handled)
                keys.failures = 9  # the SDK asks three times per refresh
                await asyncio.sleep(LIFETIME)
                with pytest.raises(PublishError) as caught:
                    await publisher.publish("meanwhile")
                await until(lambda: keys.failures == 0)
                await publisher.publish("after")
                await until(lambda: "after" in handled)

                assert caught.value.code is ErrorCode.CREDENTIALS
                assert not consume.done()


@real_time()
async def test_expired_token_is_an_error_of_the_call_and_no_end(caplog: pytest.LogCaptureFixture) -> None:
    """403 ExpiredToken: typed for the publisher, a back-off for the consumer; no signature is in any text (CFG-07)."""
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    async with FaultStub() as stub:
        config = config_for(stub)
        async with SQSPublisherProvider(config) as publishers, SQSConsumerProvider(config) as consumers:
            publisher = await publishers.new_publisher(stub.queue_url)
            stub.script("SendMessageBatch", expired_token())
            stub.script("ReceiveMessage", expired_token(), expired_token())
            with pytest.raises(PublishError) as caught:
                await publisher.publish("a")
            async with consuming(consumers, stub.queue_url, handle, wait_time=1) as (_, consume):
                await publisher.publish("b")
                await until(lambda: handled == ["b"])

                assert not consume.done()

        assert caught.value.code is ErrorCode.CREDENTIALS
        assert "AWS4-HMAC" not in caplog.text + str(caught.value)
