"""Reported faults of other libraries, tried on this one against a server that misbehaves: starts, ends, addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from botocore.config import Config

from messagequeue import ErrorCode, Message
from messagequeue_sqs import SQSConfig, SQSConsumerProvider
from tests.support.fault_stub import FaultStub, reset
from tests.support.realtime import consuming, real_time, until

pytestmark = pytest.mark.slow


def config_for(endpoint: str) -> SQSConfig:
    once = Config(retries={"total_max_attempts": 1, "mode": "standard"})
    return SQSConfig(queue_address=endpoint, connect_timeout=1, read_timeout=2, client_config=once)


@real_time()
async def test_consumer_outlives_a_name_that_is_not_resolved_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name service fails twice: the same consumer takes what comes afterwards, one receive at a time (CON-03)."""
    failures = 0
    resolve: Callable[..., Any] = socket.getaddrinfo

    def resolve_late(host: Any, *rest: Any, **more: Any) -> Any:
        nonlocal failures
        if host != "sqs.invalid":
            return resolve(host, *rest, **more)
        if failures < 2:
            failures += 1
            raise socket.gaierror(socket.EAI_AGAIN, "temporary failure in name resolution")
        return resolve("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_late)
    told: list[ErrorCode] = []
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    async with FaultStub() as stub:
        endpoint = stub.endpoint.replace("127.0.0.1", "sqs.invalid")
        options = {"wait_time": 1, "on_error": lambda error: told.append(error.code)}
        async with (
            SQSConsumerProvider(config_for(endpoint)) as provider,
            consuming(provider, stub.queue_url, handle, **options) as (_, consume),
        ):
            stub.queue.put("a")
            await until(lambda: handled == ["a"])

            assert not consume.done()

    assert failures == 2
    assert told == [ErrorCode.CONNECTION] * 2
    assert stub.most_outstanding["ReceiveMessage"] == 1


@real_time()
async def test_delete_whose_answer_was_lost_is_repeated_without_harm() -> None:
    """SQS deleted the message and the answer never came: the second delete succeeds, and nobody is told (CON-14)."""
    told: list[object] = []

    async def handle(_message: Message) -> None: ...

    async with FaultStub() as stub, SQSConsumerProvider(config_for(stub.endpoint)) as provider:
        stub.queue.put("a")
        stub.script("DeleteMessageBatch", reset(commit=True))
        options = {"wait_time": 1, "on_error": told.append}
        async with consuming(provider, stub.queue_url, handle, **options) as (consumer, _):
            stats: Any = consumer.stats  # type: ignore[attr-defined]
            await until(lambda: stats.settled == 1)

        assert stub.count("DeleteMessageBatch") == 2
        assert stub.queue.deleted == ["a"]
        assert told == []


@pytest.mark.parametrize("how", ["close", "twice", "leave"])
@real_time()
async def test_no_request_is_sent_after_the_end(how: str) -> None:
    """close(), two of them at once, or leaving the block: the handler has ended, and all is silent (SHUT-06)."""
    ended: list[float] = []
    loop = asyncio.get_running_loop()

    async def handle(_message: Message) -> None:
        await asyncio.sleep(1)
        ended.append(loop.time())

    async with FaultStub() as stub:
        stub.queue.visibility_timeout = 1
        stub.queue.put("a")
        async with SQSConsumerProvider(config_for(stub.endpoint)) as provider:
            consumer = await provider.new_consumer(stub.queue_url, handle, wait_time=1, heartbeat_interval=0.3)
            task = asyncio.create_task(consumer.consume(), name="consume")
            await until(lambda: stub.count("ChangeMessageVisibilityBatch"))
            if how != "leave":
                await asyncio.gather(*(consumer.close() for _ in range(2 if how == "twice" else 1)))
                assert len(ended) == 1
        after = loop.time()
        assert [0 <= after - at < 5 for at in ended] == [True]
        assert stub.queue.deleted == ["a"]
        sent = len(stub.requests)
        await task
        assert [name for each in asyncio.all_tasks() if (name := each.get_name()).startswith("messagequeue")] == []
        await asyncio.sleep(1.2)

        assert len(stub.requests) == sent
