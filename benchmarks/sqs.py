"""
What the SQS provider costs its process, next to aioboto3 batched by hand: messages a second and core.

    python benchmarks/sqs.py --messages 20000 --rounds 3

Each figure is of a process of its own against a server of its own (`_sqs_stub.py`).  Machines are noisy: read the
ratios, which are taken within one round; the table has their medians.  A run counts only if every message was sent, or
handled and deleted, exactly once, and no call fell back to the SDK.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import islice, repeat
from multiprocessing.connection import Connection
from typing import Any

from _sqs_stub import BATCH, serve

from messagequeue import Message
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider

AT_ONCE = 10
LOADS = {
    "publish 200 B": 200,
    "publish() 200 B": 200,
    "publish 10 KB": 10_240,
    "consume 200 B": 200,
    "consume 10 KB": 10_240,
}


def check(stats: Any, calls: int) -> None:
    """A fast figure that went another way is none."""
    assert stats.fallbacks == stats.sdk == 0, stats
    assert stats.short >= calls, stats


async def ours(load: str, endpoint: str, count: int, started: Callable[[], None]) -> None:
    """Through the public API, with its defaults."""
    config, url = SQSConfig(queue_address=endpoint), f"{endpoint}/000000000000/bench"
    if load.startswith("consume"):
        await _consume(config, url, count, started)
        return
    async with SQSPublisherProvider(config) as provider:
        publisher = await provider.new_publisher(url)
        bodies = repeat("x" * LOADS[load], count)

        async def many() -> None:
            while chunk := list(islice(bodies, 10 * BATCH)):
                assert not [result for result in await publisher.publish_many(chunk) if isinstance(result, Exception)]

        async def one_by_one() -> None:
            for body in bodies:
                await publisher.publish(body)

        started()
        worker, workers = (one_by_one, 10 * AT_ONCE) if load.startswith("publish()") else (many, AT_ONCE)
        await asyncio.gather(*(worker() for _ in range(workers)))
        check(provider.transport_stats, count // BATCH)


async def _consume(config: SQSConfig, url: str, count: int, started: Callable[[], None]) -> None:
    done, handled = asyncio.Event(), 0

    async def handle(_message: Message) -> None:
        nonlocal handled
        handled += 1
        if handled == count:
            done.set()

    async with SQSConsumerProvider(config) as provider:
        consumer = await provider.new_consumer(url, handle)
        started()
        task = asyncio.create_task(consumer.consume())
        await done.wait()
        consumer.stop()
        await task
        check(provider.transport_stats, 2 * count // BATCH)


async def by_hand(load: str, endpoint: str, count: int, started: Callable[[], None]) -> None:
    """Ten tasks with batches of ten on a client of aioboto3."""
    import aioboto3

    url, left = f"{endpoint}/000000000000/bench", iter(range(count // BATCH))
    async with aioboto3.Session().client("sqs", endpoint_url=endpoint) as sqs:
        body = "x" * LOADS[load]

        async def send() -> None:
            for _ in left:
                await sqs.send_message_batch(
                    QueueUrl=url, Entries=[{"Id": str(at), "MessageBody": body} for at in range(BATCH)]
                )

        async def receive() -> None:
            for _ in left:
                answer = await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=BATCH)
                entries = [
                    {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
                    for at, message in enumerate(answer["Messages"])
                ]
                await sqs.delete_message_batch(QueueUrl=url, Entries=entries)

        started()
        worker: Callable[[], Awaitable[None]] = receive if load.startswith("consume") else send
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


WAYS = {"aioboto3 by hand": by_hand, "messagequeue": ours}


def measure(pipe: Connection, way: str, load: str, endpoint: str, count: int) -> None:
    """Send the seconds of CPU that *count* messages cost this process, preparations not counted."""
    begun = 0.0

    def started() -> None:
        nonlocal begun
        begun = time.process_time()

    asyncio.run(WAYS[way](load, endpoint, count, started))  # type: ignore[arg-type]
    pipe.send(time.process_time() - begun)


def run(way: str, load: str, count: int) -> float:
    """Return messages a second and core of one run."""
    context = multiprocessing.get_context("spawn")
    server_end, server_pipe = context.Pipe()
    client_end, client_pipe = context.Pipe()
    consume = load.startswith("consume")
    server = context.Process(target=serve, args=(server_pipe, LOADS[load], count if consume else 0))
    server.start()
    endpoint = f"http://127.0.0.1:{server_end.recv()}"
    client = context.Process(target=measure, args=(client_pipe, way, load, endpoint, count))
    client.start()
    client_pipe.close()
    seconds = client_end.recv()
    client.join()
    server_end.send("counts")
    counts = server_end.recv()
    server.join()
    assert counts == ((0, count, count, 0) if consume else (count, 0, 0, 0)), counts
    return float(count / seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=10_000, help="of aioboto3; messagequeue has five times as many")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "us-east-1"}
    print("| workload | aioboto3 by hand, msgs/s/core | messagequeue | ratio (min-max) |\n|---|---|---|---|")
    for load, size in LOADS.items():
        count = max(1_000, options.messages * 200 // max(200, size // 10)) // 100 * 100
        rounds = [
            (run("aioboto3 by hand", load, count), run("messagequeue", load, 5 * count)) for _ in range(options.rounds)
        ]
        base, mine = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = sorted(other / first for first, other in rounds)
        print(
            f"| {load} | {base:.0f} | {mine:.0f} | {statistics.median(ratios):.1f} ({ratios[0]:.1f}-{ratios[-1]:.1f}) |"
        )


if __name__ == "__main__":
    main()
