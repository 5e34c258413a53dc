"""The scripted SQS stub itself, driven by plain boto3: a double that is wrong proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.fault_stub import (
    CLOSE,
    EMPTY,
    HTML,
    SILENCE,
    Fault,
    FaultStub,
    cut,
    edited,
    expired_token,
    no_queue,
    reset,
    status,
)
from tests.support.stub_queue import md5, md5_of_attributes

pytestmark = pytest.mark.slow

Call = Callable[..., Any]


@asynccontextmanager
async def stub_and_call(**options: Any) -> AsyncIterator[tuple[FaultStub, Call]]:
    """Yield a stub and a function that makes one boto3 call in a thread, without retries."""
    async with FaultStub() as stub:
        config = Config(retries={"total_max_attempts": 1}, read_timeout=0.5, **options)
        client = boto3.client("sqs", endpoint_url=stub.endpoint, config=config)

        async def call(name: str, **arguments: Any) -> Any:
            return await asyncio.to_thread(getattr(client, name), QueueUrl=stub.queue_url, **arguments)

        yield stub, call
        client.close()


def test_stub_keeps_a_real_queue() -> None:
    """What is sent is received with its attributes and right MD5s, and is gone once deleted."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            attributes = {
                "k": {"DataType": "String", "StringValue": "v"},
                "b": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
            }
            sent = await call("send_message", MessageBody="hello", MessageAttributes=attributes)
            got = (await call("receive_message", MessageAttributeNames=["All"]))["Messages"][0]
            hidden = await call("receive_message")
            await call("delete_message_batch", Entries=[{"Id": "0", "ReceiptHandle": got["ReceiptHandle"]}])

            assert sent["MD5OfMessageBody"] == got["MD5OfBody"] == md5(b"hello")
            assert sent["MD5OfMessageAttributes"] == got["MD5OfMessageAttributes"]
            assert got["MessageAttributes"]["b"]["BinaryValue"] == b"\0\xff"
            assert "Messages" not in hidden
            assert stub.queue.deleted == ["hello"]
            assert not stub.queue.messages
            assert stub.requests[0].region == "us-east-1"
            assert stub.requests[0].access_key == "test"

    asyncio.run(scenario())


def test_stub_md5_of_attributes_is_that_of_sqs() -> None:
    """The digest equals one worked out by hand from the developer guide's description."""
    by_hand = b"\0\0\0\1k" + b"\0\0\0\6String" + b"\1" + b"\0\0\0\1v"

    assert md5_of_attributes({"k": {"DataType": "String", "StringValue": "v"}}) == md5(by_hand)


def test_stub_long_poll_ends_when_a_message_comes_or_is_given_back() -> None:
    """A parked receive returns as soon as there is a message, sent or released."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            loop = asyncio.get_running_loop()
            parked = asyncio.create_task(stub.queue.call("ReceiveMessage", {"WaitTimeSeconds": 20}))
            await call("send_message_batch", Entries=[{"Id": "a", "MessageBody": "x"}])
            first = (await parked)["Messages"][0]
            parked = asyncio.create_task(stub.queue.call("ReceiveMessage", {"WaitTimeSeconds": 20}))
            entry = {"Id": "0", "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0}
            started = loop.time()
            answer = await call("change_message_visibility_batch", Entries=[entry])
            second = (await parked)["Messages"][0]

            assert [entry["Id"] for entry in answer["Successful"]] == ["0"]
            assert second["Attributes"]["ApproximateReceiveCount"] == "2"
            assert loop.time() - started < 5

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fault", "error", "stored"),
    [
        (status(500), ClientError, 0),
        (status(503), ClientError, 0),
        (expired_token(), ClientError, 0),
        (no_queue(), ClientError, 0),
        (reset(), BotoCoreError, 0),
        (reset(commit=True), BotoCoreError, 1),
        (cut(), BotoCoreError, 1),
        (SILENCE, BotoCoreError, 0),
    ],
)
def test_stub_fault_reaches_the_client_once(fault: Fault, error: type[Exception], stored: int) -> None:
    """A scripted fault is met by one call, and the queue has seen that call only where the fault says so."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            stub.script("SendMessage", fault)
            with pytest.raises(error):
                await call("send_message", MessageBody="x")
            assert len(stub.queue.stored) == stored
            await call("send_message", MessageBody="y")

            assert stub.queue.stored[-1] == "y"
            assert stub.count("SendMessage") == 2
            assert stub.unused() == 0

    asyncio.run(scenario())


def test_stub_error_codes_are_those_that_botocore_reads() -> None:
    """The code of the query protocol comes from the header, as real SQS sends it."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            stub.script("ReceiveMessage", no_queue(), expired_token())
            codes = []
            for _ in range(2):
                with pytest.raises(ClientError) as caught:
                    await call("receive_message")
                codes.append(caught.value.response["Error"]["Code"])

            assert codes == ["AWS.SimpleQueueService.NonExistentQueue", "ExpiredToken"]

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", [EMPTY, HTML])
def test_stub_answers_200_with_what_is_not_from_sqs(fault: Fault) -> None:
    """200 with nothing or a web page arrives as such: plain boto3 takes it for a success that says nothing."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            stub.script("SendMessage", fault)

            assert "MessageId" not in await call("send_message", MessageBody="x")
            assert stub.queue.stored == []

    asyncio.run(scenario())


def test_stub_edited_answer_comes_after_the_deed() -> None:
    """`edited` changes what is said, not what is done."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            stub.always("SendMessage", edited(lambda answer: answer | {"MD5OfMessageBody": "0" * 32}))

            assert (await call("send_message", MessageBody="x"))["MD5OfMessageBody"] == "0" * 32
            stub.relent()
            assert (await call("send_message", MessageBody="x"))["MD5OfMessageBody"] == md5(b"x")
            assert stub.queue.stored == ["x", "x"]

    asyncio.run(scenario())


def test_stub_refuses_what_is_not_allowed() -> None:
    """`allow_only` answers AccessDenied to the rest, and only to the rest."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            stub.allow_only("SendMessage")
            await call("send_message", MessageBody="x")
            with pytest.raises(ClientError, match="AccessDenied"):
                await call("get_queue_attributes", AttributeNames=["All"])

            assert stub.count("SendMessage", "GetQueueAttributes") == 2

    asyncio.run(scenario())


def test_stub_closes_connections_without_notice() -> None:
    """After `CLOSE`, and after `close_idle_connections()`, the client needs a new connection and gets one."""

    async def scenario() -> None:
        async with stub_and_call() as (stub, call):
            stub.script("SendMessage", CLOSE)
            for body in ("a", "b"):
                await call("send_message", MessageBody=body)
            stub.close_idle_connections()
            await asyncio.sleep(0)
            await call("send_message", MessageBody="c")

            assert stub.queue.stored == ["a", "b", "c"]

    asyncio.run(scenario())
