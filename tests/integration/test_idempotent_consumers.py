"""Handling once, put together: SQS wire, a shared store, two consumers; and a process that is killed at work."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from messagequeue.idempotency import Idempotency, InProgressError, SqliteStore, idempotent
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from messagequeue_sqs.idempotency import DynamoDBStore
from messagequeue_sqs.server import SQSServer
from tests.support.realtime import consuming, real_time, until

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.acceptance
@pytest.mark.xdist_group("dynamodb")
@real_time(60)
async def test_orders_published_twice_are_handled_once(dynamodb_url):
    """By two consumers of one queue that share a table; every copy is taken off the queue."""
    table, handled = f"claims-{uuid.uuid4()}", []

    async def handle(message):
        await asyncio.sleep(0.02)
        handled.append(message.text)

    async with (
        SQSServer(queues={"orders": {}}) as server,
        DynamoDBStore(table, endpoint_url=dynamodb_url, region="us-east-1") as store,
    ):
        await store.create_table()
        config, url = SQSConfig(queue_address=server.endpoint_url, region="us-east-1"), server.queue_url("orders")
        # A copy that arrives while the other is at work asks again when that claim ends.
        once = idempotent(store, key=lambda message: message.text, lease=5)
        async with SQSPublisherProvider(config) as publishers:
            publisher = await publishers.new_publisher(url)
            await publisher.publish_many([f"o-{number}" for number in range(20)] * 2)
        async with (
            SQSConsumerProvider(config) as one,
            SQSConsumerProvider(config) as two,
            consuming(one, url, handle, middleware=[once], wait_time=1),
            consuming(two, url, handle, middleware=[once], wait_time=1),
        ):
            await until(lambda: not server.peek("orders"), within=40)

    assert sorted(handled) == sorted(f"o-{number}" for number in range(20))


_WORK = """
import asyncio, sys
from messagequeue.idempotency import Idempotency, SqliteStore

async def work():
    print("begun", flush=True)
    await asyncio.sleep(60)

asyncio.run(Idempotency(SqliteStore(sys.argv[1]), namespace="n", lease=2, ttl=60).run("k", work))
"""


@pytest.mark.acceptance
@real_time(60)
async def test_a_process_killed_at_work_is_followed_by_another(tmp_path):
    """While it lives its claim is renewed; after `kill -9` the claim ends, and the work is done anew (CON-26)."""
    path = tmp_path / "claims.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WORK, path, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    )
    try:
        assert await process.stdout.readline() == b"begun\n"
        async with SqliteStore(path) as store:
            calls, done = Idempotency(store, namespace="n", lease=2, ttl=60), []

            async def work():
                done.append("here")

            await asyncio.sleep(2.5)
            with pytest.raises(InProgressError) as busy:
                await calls.run("k", work)
            process.kill()
            await process.wait()
            await asyncio.sleep(busy.value.retry_after + 0.1)
            await calls.run("k", work)

            assert 0 < busy.value.retry_after <= 2
            assert done == ["here"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
