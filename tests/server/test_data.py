"""The server on a data folder: what a restart brings back, who may have the folder, and what an answer means."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from messagequeue import ConfigurationError, open_publishers
from messagequeue.broker.storage import StorageError
from messagequeue.broker.storage.sqlite import FolderInUseError
from messagequeue.embedded import _commit, embedded_broker
from messagequeue_sqs import SQSServer
from messagequeue_sqs.server import ManualClock
from tests.server.test_transport import Raw, request
from tests.support.realtime import real_time


async def refused(raw: Raw, action: str, **params: object) -> tuple[int, str]:
    """Make a request that fails, and return its status and type."""
    raw.write(request(action, **params))
    status, body = await raw.answer()
    assert status != 200, body
    return status, body["__type"].rpartition("#")[2]


async def health(raw: Raw) -> tuple[int, Any]:
    raw.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    return await raw.answer()


def full(path: Path, *, full: bool = True) -> None:
    """Let the file grow no further, as a full disk would; or let it grow again."""
    connection = embedded_broker(path).journal._connection  # type: ignore[union-attr]
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages if full else 1_000_000}")


@real_time()
async def test_a_restart_changes_nothing_but_the_address(tmp_path: Path) -> None:
    """Queues, attributes, tags, messages, leases, handles, counts, the deduplication window, sequence numbers."""
    fifo = {"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    twice = {"QueueUrl": "jobs.fifo", "MessageBody": "j", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    async with SQSServer(data=tmp_path) as server:
        raw = await Raw.to(server)
        await raw.call("CreateQueue", QueueName="orders", Attributes={"VisibilityTimeout": "60"}, tags={"a": "b"})
        await raw.call("CreateQueue", QueueName="jobs.fifo", Attributes=fifo)
        for body in ("held", "delayed", "deleted"):
            delay = 900 if body == "delayed" else 0
            await raw.call("SendMessage", QueueUrl="orders", MessageBody=body, DelaySeconds=delay)
        got = (await raw.call("ReceiveMessage", QueueUrl="orders", MaxNumberOfMessages=10))["Messages"]
        held, deleted = got
        await raw.call("DeleteMessage", QueueUrl="orders", ReceiptHandle=deleted["ReceiptHandle"])
        first = await raw.call("SendMessage", **twice)
        before = [
            await raw.call("GetQueueAttributes", QueueUrl=q, AttributeNames=["All"]) for q in ("orders", "jobs.fifo")
        ]
        await raw.close()

    async with SQSServer(data=tmp_path) as server:
        raw = await Raw.to(server)
        after = [
            await raw.call("GetQueueAttributes", QueueUrl=q, AttributeNames=["All"]) for q in ("orders", "jobs.fifo")
        ]
        tags = await raw.call("ListQueueTags", QueueUrl="orders")
        again = await raw.call("SendMessage", **twice)
        later = await raw.call("SendMessage", **{**twice, "MessageDeduplicationId": "e"})
        await raw.call(
            "ChangeMessageVisibility", QueueUrl="orders", ReceiptHandle=held["ReceiptHandle"], VisibilityTimeout=0
        )
        [back] = (await raw.call("ReceiveMessage", QueueUrl="orders", MaxNumberOfMessages=10, AttributeNames=["All"]))[
            "Messages"
        ]
        seen = {peek.message.body: peek.state.value for peek in server.peek("orders")}
        await raw.close()

    assert before == after
    assert tags == {"Tags": {"a": "b"}}
    assert first == again
    assert later["SequenceNumber"] > first["SequenceNumber"]
    assert (back["Body"], back["Attributes"]["ApproximateReceiveCount"]) == ("held", "2")
    assert seen == {b"held": "in_flight", b"delayed": "delayed"}


def test_one_process_owns_a_folder(tmp_path: Path) -> None:
    """A second server is told which has it, as a command, too, and so is a provider; afterwards it is free."""

    @real_time()
    async def start_and_stop() -> None:
        async with SQSServer(data=tmp_path):
            pass

    @real_time()
    async def ping() -> None:
        async with open_publishers(f"embedded://{tmp_path}") as publishers:
            await publishers.ping()

    command = [sys.executable, "-m", "messagequeue", "serve", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
        assert other.stdout is not None
        other.stdout.readline()
        for use in (start_and_stop, ping):
            with pytest.raises(FolderInUseError, match=f"{tmp_path}' is in use by process {other.pid}: one"):
                use()
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        other.send_signal(signal.SIGKILL)
    start_and_stop()

    assert second.returncode == 2
    assert f"is in use by process {other.pid}" in second.stderr


@real_time()
async def test_one_server_answers_for_a_folder(tmp_path: Path) -> None:
    """A second one in the same process would show other attributes; afterwards another may."""
    async with SQSServer(data=tmp_path):
        with pytest.raises(ConfigurationError, match="answers for these queues already"):
            await SQSServer(data=tmp_path).start()
    async with SQSServer(data=tmp_path):
        pass


@real_time()
async def test_queues_cannot_move_to_another_account_or_region(tmp_path: Path) -> None:
    """Their ARNs are kept; the same folder with what it had is fine."""
    async with SQSServer(data=tmp_path, region="eu-west-1"):
        pass
    with pytest.raises(ConfigurationError, match="region eu-west-1, not of 000000000000 and us-east-1: give"):
        await SQSServer(data=tmp_path).start()
    async with SQSServer(data=tmp_path, region="eu-west-1"):
        pass


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"data": ""}, "data is empty"),
        ({"data": "x", "fsync": "never"}, "give 'second' or 'always'"),
        ({"fsync": "always"}, "without data"),
        ({"data": "x", "memory": "m"}, "contradict"),
        ({"data": "x", "clock": ManualClock()}, "clock goes with neither"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, Any], says: str) -> None:
    """None is ignored."""
    with pytest.raises(ConfigurationError, match=says):
        SQSServer(**arguments)


@pytest.mark.parametrize("fsync", ["second", "always"])
def test_nothing_is_acknowledged_that_is_not_stored(
    tmp_path: Path, fsync: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: 503, then refusals before anything changes; with room again, what was in doubt is stored."""
    monkeypatch.setattr(_commit, "RETRY_AFTER", 0.05)

    @real_time()
    async def run() -> None:
        async with SQSServer(data=tmp_path, fsync=fsync) as server:
            raw = await Raw.to(server)
            await raw.call("CreateQueue", QueueName="q")
            full(tmp_path)
            large = {"QueueUrl": "q", "MessageBody": "x" * 100_000}
            assert await refused(raw, "SendMessage", **large) == (503, "ServiceUnavailableException")
            assert await refused(raw, "SendMessage", **large) == (503, "ServiceUnavailableException")
            assert await refused(raw, "ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20) == (
                503,
                "ServiceUnavailableException",
            )
            assert await health(raw) == (503, {"status": "cannot write", "waiting": 0})
            [doubtful] = server.peek("q")
            assert doubtful.receives == 0

            full(tmp_path, full=False)
            while (await health(raw))[0] != 200:
                await asyncio.sleep(0.01)
            got = await raw.call("ReceiveMessage", QueueUrl="q", MaxNumberOfMessages=10)
            assert [len(message["Body"]) for message in got["Messages"]] == [100_000]
            await raw.close()

    run()


@real_time()
async def test_a_stop_that_cannot_store_what_is_left_says_so(tmp_path: Path) -> None:
    """Nobody was told that it is stored; the folder is free, and has what was answered."""
    server = SQSServer(data=tmp_path)
    await server.start()
    raw = await Raw.to(server)
    await raw.call("CreateQueue", QueueName="q")
    await raw.call("SendMessage", QueueUrl="q", MessageBody="answered")
    full(tmp_path)
    assert (await refused(raw, "SendMessage", QueueUrl="q", MessageBody="x" * 100_000))[0] == 503
    with pytest.raises(StorageError, match="disk is full"):
        await server.stop()
    await raw.close()

    async with SQSServer(data=tmp_path) as again:
        assert [seen.message.body for seen in again.peek("q")] == [b"answered"]
