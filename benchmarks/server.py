"""
How many requests a second a server takes that speaks SQS: sends, batches, receives with deletes; and how soon it wakes.

    python benchmarks/server.py                      # this package's server, started for it
    python benchmarks/server.py http://localhost:4566

One client with many connections, which only writes bytes and looks for the ends of answers: it measures the server.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

CONNECTIONS = 16
SECONDS = 3.0
BODY = "x" * 256


class Connection:
    """Requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, url: str) -> Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, limit=4_000_000))

    async def raw(self, request: bytes) -> bytes:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        at = lower.find(b"content-length:")
        if at < 0:
            body = b""
            while not body.endswith(b"0\r\n\r\n"):
                body += await self._reader.read(65_536)
            body = b"".join(body.split(b"\r\n")[1::2])
        else:
            body = await self._reader.readexactly(int(lower[at + 15 : lower.find(b"\r\n", at)]))
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head!r} {body!r}")
        return body

    async def call(self, action: str, **params: object) -> dict[str, object]:
        body = await self.raw(request(action, **params))
        return json.loads(body) if body else {}

    def close(self) -> None:
        self._writer.close()


def request(action: str, **params: object) -> bytes:
    body = json.dumps(params).encode()
    signed = (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260131/us-east-1/sqs/aws4_request, "
        f"SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={'0' * 64}"
    )
    return (
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"X-Amz-Target: AmazonSQS.{action}\r\nX-Amz-Date: 20260131T000000Z\r\nAuthorization: {signed}\r\n"
        f"User-Agent: benchmark\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def rate(url: str, work: Callable[[Connection], Awaitable[int]]) -> float:
    """Return how much *work* says that it did a second, over all connections."""
    connections = [await Connection.to(url) for _ in range(CONNECTIONS)]
    end = time.perf_counter() + SECONDS

    async def loop(connection: Connection) -> int:
        done = 0
        while time.perf_counter() < end:
            done += await work(connection)
        return done

    started = time.perf_counter()
    done = sum(await asyncio.gather(*map(loop, connections)))
    spent = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return done / spent


async def wake_ups(url: str, queue: str, times: int = 200) -> list[float]:
    """Return seconds from a send to the answer of the receive that waited for it."""
    waiting, sending = await Connection.to(url), await Connection.to(url)
    send = request("SendMessage", QueueUrl=queue, MessageBody="x")
    found = []
    for _ in range(times):
        parked = asyncio.ensure_future(waiting.call("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=20))
        await asyncio.sleep(0.005)
        started = time.perf_counter()
        await asyncio.gather(sending.raw(send), parked)
        found.append(time.perf_counter() - started)
    waiting.close()
    sending.close()
    return found


async def measure(url: str) -> dict[str, float]:
    control = await Connection.to(url)
    queues = [str((await control.call("CreateQueue", QueueName=f"bench-{n}"))["QueueUrl"]) for n in range(3)]
    send = request("SendMessage", QueueUrl=queues[0], MessageBody=BODY)
    entries = [{"Id": str(n), "MessageBody": BODY} for n in range(10)]
    batch = request("SendMessageBatch", QueueUrl=queues[1], Entries=entries)

    async def send_one(connection: Connection) -> int:
        await connection.raw(send)
        return 1

    async def send_ten(connection: Connection) -> int:
        await connection.raw(batch)
        return 10

    async def receive_and_delete(connection: Connection) -> int:
        found = await connection.call("ReceiveMessage", QueueUrl=queues[1], MaxNumberOfMessages=10)
        messages = found.get("Messages") or []
        assert isinstance(messages, list)
        if not messages:
            await connection.raw(batch)
            return 0
        handles = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(messages)]
        await connection.call("DeleteMessageBatch", QueueUrl=queues[1], Entries=handles)
        return len(messages)

    results = {"SendMessage/s": await rate(url, send_one)}
    results["messages sent/s in batches"] = await rate(url, send_ten)
    results["messages received and deleted/s"] = await rate(url, receive_and_delete)
    found = sorted(await wake_ups(url, queues[2]))
    results["wake-up, median, ms"] = statistics.median(found) * 1000
    results["wake-up, p99, ms"] = found[int(len(found) * 0.99) - 1] * 1000
    control.close()
    return results


def main(arguments: list[str]) -> None:
    if arguments:
        results = asyncio.run(measure(arguments[0]))
    else:
        started = time.perf_counter()
        command = [sys.executable, "-m", "messagequeue", "serve", "--port", "0", "--log-level", "WARNING"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            print(f"{'ready, ms':35}{(time.perf_counter() - started) * 1000:12.1f}")
            try:
                results = asyncio.run(measure(url))
            finally:
                server.terminate()
    for name, value in results.items():
        print(f"{name:35}{value:12.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
