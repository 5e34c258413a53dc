"""Independent clients against the real server: boto3, in whatever protocol it has, and the AWS command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from messagequeue_sqs.server import SQSServer
from tests.support.realtime import real_time


def client(endpoint: str, region: str = "us-east-1") -> Any:
    return boto3.client("sqs", endpoint_url=endpoint, region_name=region, config=Config(retries={"max_attempts": 0}))


def against_a_server(test: Callable[[Any], None]) -> Callable[[], None]:
    """Make a test of one that takes a client; the server runs in the loop, the client in a thread."""

    @real_time(60)
    async def run() -> None:
        async with SQSServer() as server:
            await asyncio.to_thread(test, client(server.endpoint_url))

    run.__doc__ = test.__doc__
    return run


@against_a_server
def test_boto3_does_every_action(sqs: Any) -> None:
    """All 23 of the service model (SRV-01)."""
    called = set()
    sqs.meta.events.register("before-call.sqs.*", lambda model, **_: called.add(model.name))
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": policy}, tags={"a": "b"})["QueueUrl"]

    assert sqs.get_queue_url(QueueName="q")["QueueUrl"] == url
    assert sqs.list_queues()["QueueUrls"] == [dead, url]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "60"})
    sqs.tag_queue(QueueUrl=url, Tags={"c": "d"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"c": "d"}
    sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=["1" * 12], Actions=["SendMessage"])
    sqs.remove_permission(QueueUrl=url, Label="l")
    blob = {"b": {"DataType": "Binary", "BinaryValue": bytes(range(256))}}
    sqs.send_message(QueueUrl=url, MessageBody="1", MessageAttributes=blob)
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": n, "MessageBody": n} for n in "23"])
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])["Messages"]
    assert got[0]["MessageAttributes"] == blob
    handles = [message["ReceiptHandle"] for message in got]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handles[0], VisibilityTimeout=0)
    entries = [{"Id": "x", "ReceiptHandle": handles[1], "VisibilityTimeout": 9}]
    assert sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)["Successful"] == [{"Id": "x"}]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handles[1])
    entries = [{"Id": "x", "ReceiptHandle": handles[2]}]
    assert "Failed" not in sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    handle = sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    assert sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["ApproximateNumberOfMessagesToMove"] == 1
    with contextlib.suppress(sqs.exceptions.ResourceNotFoundException):  # it may have moved its one message by now
        sqs.cancel_message_move_task(TaskHandle=handle)
    sqs.purge_queue(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)

    assert called == set(sqs.meta.service_model.operation_names)


@against_a_server
def test_boto3_sees_the_errors_it_knows(sqs: Any) -> None:
    """As exceptions of their own, with the older code (behaviours 4 and 5)."""
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as refused:
        sqs.purge_queue(QueueUrl="http://localhost/000000000000/nope")
    assert refused.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    with pytest.raises(sqs.exceptions.QueueNameExists) as exists:
        sqs.create_queue(QueueName="q", Attributes={"DelaySeconds": "3"})
    assert exists.value.response["Error"]["Code"] == "QueueAlreadyExists"
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid) as handle:
        sqs.delete_message(QueueUrl=url, ReceiptHandle="x")
    assert handle.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=11)


@against_a_server
def test_boto3_pages_through_queues(sqs: Any) -> None:
    """With its own paginator (behaviour 46)."""
    for number in range(7):
        sqs.create_queue(QueueName=f"q{number}")
    pages = sqs.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 3})

    assert [len(page["QueueUrls"]) for page in pages] == [3, 3, 1]


@real_time(60)
async def test_boto3_signs_as_the_server_checks() -> None:
    """The key of the environment is known, another is not (behaviour 16)."""

    def work(endpoint: str) -> None:
        sqs = client(endpoint)
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="hé")
        stranger = boto3.client(
            "sqs", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="A", aws_secret_access_key="B"
        )
        with pytest.raises(ClientError, match="InvalidClientTokenId"):
            stranger.list_queues()

    keys = {os.environ["AWS_ACCESS_KEY_ID"]: os.environ["AWS_SECRET_ACCESS_KEY"]}
    async with SQSServer(keys=keys) as server:
        await asyncio.to_thread(work, server.endpoint_url)


@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS command line is not installed")
@real_time(60)
async def test_aws_command_line_sends_and_receives() -> None:
    """As people use it (SRV-01)."""

    def aws(endpoint: str, *arguments: str) -> Any:
        command = ["aws", "--endpoint-url", endpoint, "--region", "us-east-1", "--output", "json", "sqs", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def work(endpoint: str) -> None:
        url = aws(endpoint, "create-queue", "--queue-name", "q")["QueueUrl"]
        aws(endpoint, "send-message", "--queue-url", url, "--message-body", "héllo")
        [got] = aws(endpoint, "receive-message", "--queue-url", url)["Messages"]
        aws(endpoint, "delete-message", "--queue-url", url, "--receipt-handle", got["ReceiptHandle"])
        assert got["Body"] == "héllo"

    async with SQSServer() as server:
        await asyncio.to_thread(work, server.endpoint_url)
        assert server.peek("q") == []
