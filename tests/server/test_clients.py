"""Plain boto3 against the real server, the newest and the last that spoke the query protocol."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from messagequeue_sqs.server import SQSServer
from tests.server.every_action import every_action
from tests.support.realtime import real_time
from tools import aws_cli


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
    """All 23 of the service model, in AWS JSON (SRV-01)."""
    assert sqs.meta.service_model.metadata["protocol"] == "json"
    assert every_action(sqs) == set(sqs.meta.service_model.operation_names)


@pytest.mark.slow
@real_time(600)
async def test_boto3_of_the_query_protocol_does_every_action() -> None:
    """All 23, by the last release before AWS JSON: what people's older programs send (SRV-01)."""
    script = Path(__file__).with_name("every_action.py")
    interpreter = await asyncio.to_thread(aws_cli.python, "query")
    async with SQSServer() as server:
        command = [interpreter, str(script), server.endpoint_url]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "query 23\n"


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
