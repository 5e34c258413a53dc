"""The AWS command line as an independent client: its own botocore, in both protocols."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from messagequeue_sqs.server import SQSServer
from tests.support.markdown import Block, blocks
from tests.support.realtime import real_time
from tools import aws_cli

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.xdist_group("aws-cli")]

ROOT = Path(__file__).resolve().parents[2]
COLOUR = {"colour": {"DataType": "String", "StringValue": "grün"}}


class Aws:
    """`aws sqs` at one endpoint, in one process for all its commands."""

    def __init__(self, protocol: str, endpoint: str) -> None:
        self._options = ["--endpoint-url", endpoint, "--output", "json", "sqs"]
        command = [aws_cli.python(protocol), str(Path(__file__).with_name("aws_commands.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def run(self, action: str, **options: object) -> tuple[int, str, str]:
        words = [
            word
            for name, value in options.items()
            for word in (f"--{name.replace('_', '-')}", value if isinstance(value, str) else json.dumps(value))
        ]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([*self._options, action, *words]) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return code, out, err

    def __call__(self, action: str, **options: object) -> Any:
        code, out, err = self.run(action, **options)
        assert code == 0, err
        return json.loads(out) if out.strip() else None

    def close(self) -> None:
        self._process.communicate(timeout=10)
        assert self._process.returncode == 0


def life_of_a_standard_queue(aws: Aws) -> None:
    url = aws("create-queue", queue_name="orders", attributes={"VisibilityTimeout": "60"}, tags={"team": "a"})[
        "QueueUrl"
    ]
    sent = aws("send-message", queue_url=url, message_body="héllo <&>\r\n", message_attributes=COLOUR)
    assert len(sent["MD5OfMessageAttributes"]) == 32
    entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(3)]
    assert len(aws("send-message-batch", queue_url=url, entries=entries)["Successful"]) == 3
    wishes = {"attribute_names": "All", "message_attribute_names": "All", "max_number_of_messages": 10}
    first, *rest = aws("receive-message", queue_url=url, **wishes)["Messages"]
    assert first["Body"] == "héllo <&>\r\n"
    assert first["MessageAttributes"] == COLOUR
    assert first["Attributes"]["ApproximateReceiveCount"] == "1"
    handle = first["ReceiptHandle"]
    assert aws("change-message-visibility", queue_url=url, receipt_handle=handle, visibility_timeout=0) is None
    gone = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(rest)]
    assert len(aws("delete-message-batch", queue_url=url, entries=gone)["Successful"]) == 3
    counts = aws("get-queue-attributes", queue_url=url, attribute_names="All")["Attributes"]
    assert (counts["ApproximateNumberOfMessages"], counts["VisibilityTimeout"]) == ("1", "60")
    assert aws("delete-queue", queue_url=url) is None
    code, _, err = aws.run("purge-queue", queue_url=url)
    assert code != 0
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in err


def life_of_a_fifo_queue(aws: Aws) -> None:
    kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = aws("create-queue", queue_name="orders.fifo", attributes=kind)["QueueUrl"]
    sent = [aws("send-message", queue_url=url, message_body=body, message_group_id="g") for body in ("a", "b", "a")]
    assert sent[0]["SequenceNumber"] == sent[2]["SequenceNumber"] < sent[1]["SequenceNumber"]
    [got] = aws("receive-message", queue_url=url, wait_time_seconds=20)["Messages"]
    assert got["Body"] == "a"
    assert aws("receive-message", queue_url=url) is None
    assert aws("delete-message", queue_url=url, receipt_handle=got["ReceiptHandle"]) is None
    assert aws("receive-message", queue_url=url)["Messages"][0]["Body"] == "b"


@pytest.mark.parametrize("protocol", sorted(aws_cli.REQUIREMENTS))
@real_time(900)
async def test_aws_command_line_takes_messages_through_their_life(protocol: str) -> None:
    """As people type it: make, send, receive, change, delete, on both kinds of queue, and a refusal (SRV-01)."""

    def work(endpoint: str) -> None:
        with contextlib.closing(Aws(protocol, endpoint)) as aws:
            life_of_a_standard_queue(aws)
            life_of_a_fifo_queue(aws)

    async with SQSServer() as server:
        await asyncio.to_thread(work, server.endpoint_url)

        assert [seen.message.body for seen in server.peek("orders.fifo")] == [b"b"]


SHOWN = [
    block
    for name in ("README.md", "docs/server.md")
    for block in blocks(ROOT / name)
    if block.language == "sh" and re.search(r"^aws ", block.code, re.MULTILINE)
]


@pytest.mark.parametrize("block", [pytest.param(block, id=block.path.name) for block in SHOWN])
@real_time(900)
async def test_commands_that_the_documents_show_work(block: Block, tmp_path: Path) -> None:
    """As they stand there, in a shell, but for the port."""
    programs = await asyncio.to_thread(aws_cli.environment, "json")
    path = f"{programs / 'bin'}{os.pathsep}{os.environ['PATH']}"
    async with SQSServer() as server:
        lines = [line for line in block.code.splitlines() if not line.startswith("python -m messagequeue serve")]
        script = "\n".join(lines).replace("http://127.0.0.1:9324", server.endpoint_url)
        shell = ["sh", "-e", "-c", script]
        environment = {**os.environ, "PATH": path}
        done = await asyncio.to_thread(
            subprocess.run, shell, capture_output=True, text=True, timeout=60, env=environment, cwd=tmp_path
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert '"Body": "hello"' in done.stdout
        assert len(server.peek("orders")) == 1


def test_documents_show_the_command_line() -> None:
    """The test above has something to run, in both."""
    assert {block.path.name for block in SHOWN} == {"README.md", "server.md"}
