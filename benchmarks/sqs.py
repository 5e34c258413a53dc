"""
What the SQS provider costs its process, next to aioboto3 batched by hand and to other libraries: messages a second and
core, and, on a server whose answers take time, messages a second.

    python benchmarks/sqs.py --messages 20000 --rounds 5
    python benchmarks/sqs.py --delay-ms 10 --concurrency 50 --loads consume    # a server as far away as a real one
    python benchmarks/sqs.py --transport sdk                                   # without the short path

Each figure is of a process of its own against a server of its own (`_sqs_stub.py`).  Machines are noisy: read the
ratios, which are taken within one round; the tables have their medians.  A run counts only if every message was sent,
or handled and deleted, exactly once, and, on the short path, no call fell back to the SDK.

`fanferro` takes part where it is installed (`pip install fanferro`, Python 3.12 and newer).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice, repeat
from multiprocessing.connection import Connection
from typing import Any

from _sqs_stub import BATCH, serve

from messagequeue import Message
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider

LOADS = {
    "publish 200 B": 200,
    "publish() 200 B": 200,
    "publish 10 KB": 10_240,
    "consume 200 B": 200,
    "consume 10 KB": 10_240,
}
BASE, OURS = "aioboto3 by hand", "messagequeue"


@dataclass(frozen=True)
class Job:
    """
    One run.

    Attributes:
        at_once: Tasks that publish; handlers.
        began: Call it when everything is prepared.
    """

    load: str
    endpoint: str
    count: int
    at_once: int
    transport: str
    began: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        return f"{self.endpoint}/000000000000/bench"

    @property
    def body(self) -> str:
        return "x" * LOADS[self.load]


async def ours(job: Job) -> None:
    """Through the public API, with its defaults."""
    config = SQSConfig(queue_address=job.endpoint, transport=job.transport)  # type: ignore[arg-type]
    if job.load.startswith("consume"):
        await _consume(job, config)
        return
    async with SQSPublisherProvider(config) as provider:
        publisher = await provider.new_publisher(job.url)
        bodies = repeat(job.body, job.count)

        async def many() -> None:
            while chunk := list(islice(bodies, 10 * BATCH)):
                assert not [result for result in await publisher.publish_many(chunk) if isinstance(result, Exception)]

        async def one_by_one() -> None:
            for body in bodies:
                await publisher.publish(body)

        job.began()
        worker, workers = (one_by_one, 10 * job.at_once) if job.load.startswith("publish()") else (many, job.at_once)
        await asyncio.gather(*(worker() for _ in range(workers)))
        check(job, provider.transport_stats, job.count // BATCH)


def check(job: Job, stats: Any, calls: int) -> None:
    """A fast figure that went another way is none."""
    if job.transport != "sdk":
        assert stats.fallbacks == stats.sdk == 0, stats
        assert stats.short >= calls, stats


async def _consume(job: Job, config: SQSConfig) -> None:
    done, handled = asyncio.Event(), 0

    async def handle(_message: Message) -> None:
        nonlocal handled
        handled += 1
        if handled == job.count:
            done.set()

    async with SQSConsumerProvider(config) as provider:
        consumer = await provider.new_consumer(job.url, handle, concurrency=job.at_once, checks="off")
        job.began()
        task = asyncio.create_task(consumer.consume())
        await done.wait()
        consumer.stop()
        await task
        check(job, provider.transport_stats, 2 * job.count // BATCH)


async def by_hand(job: Job) -> None:
    """So many tasks with batches of ten on a client of aioboto3."""
    import aioboto3
    from botocore.config import Config

    left = iter(range(job.count // BATCH))
    config = Config(max_pool_connections=max(10, job.at_once))
    async with aioboto3.Session().client("sqs", endpoint_url=job.endpoint, config=config) as sqs:

        async def send() -> None:
            for _ in left:
                await sqs.send_message_batch(
                    QueueUrl=job.url, Entries=[{"Id": str(at), "MessageBody": job.body} for at in range(BATCH)]
                )

        async def receive() -> None:
            for _ in left:
                answer = await sqs.receive_message(QueueUrl=job.url, MaxNumberOfMessages=BATCH)
                entries = [
                    {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
                    for at, message in enumerate(answer["Messages"])
                ]
                await sqs.delete_message_batch(QueueUrl=job.url, Entries=entries)

        job.began()
        worker: Callable[[], Awaitable[None]] = receive if job.load.startswith("consume") else send
        await asyncio.gather(*(worker() for _ in range(job.at_once)))


async def by_fanferro(job: Job) -> None:
    """A client on a core in Rust, by its own batches."""
    import fanferro

    client = fanferro.Client(
        region="us-east-1",
        endpoint_url=job.endpoint,
        credentials=fanferro.Credentials("bench", "bench"),
        account_id="000000000000",
        provisioning=fanferro.Provisioning.assume(),
    )
    queue = client.queue("bench", url=job.url)
    if job.load.startswith("consume"):
        await _fanferro_consume(job, client, queue)
        return
    async with client:
        bodies = repeat(job.body, job.count)

        async def many() -> None:
            while chunk := list(islice(bodies, 10 * BATCH)):
                await queue.send_batch(chunk)

        async def one_by_one() -> None:
            for body in bodies:
                await queue.send(body)

        job.began()
        worker, workers = (one_by_one, 10 * job.at_once) if job.load.startswith("publish()") else (many, 4)
        await asyncio.gather(*(worker() for _ in range(workers)))


async def _fanferro_consume(job: Job, client: Any, queue: Any) -> None:
    done, handled = asyncio.Event(), 0
    consumer = client.consumer(queue, concurrency=10 * job.at_once, wait_time=1, pollers=4)

    @consumer.default  # type: ignore[untyped-decorator, unused-ignore]
    async def handle(_message: Any) -> None:
        nonlocal handled
        handled += 1
        if handled == job.count:
            done.set()

    async with client:
        job.began()
        task = asyncio.create_task(consumer.run())
        await done.wait()
        await consumer.stop()
        await task


WAYS: dict[str, Callable[[Job], Awaitable[None]]] = {BASE: by_hand, OURS: ours, "fanferro": by_fanferro}
#: How many times the messages of the first: a run of each takes a while.
WEIGHTS = {BASE: 1, OURS: 5, "fanferro": 3}


def measure(pipe: Connection, way: str, load: str, endpoint: str, count: int, at_once: int, transport: str) -> None:
    """Send the seconds of CPU, and of time, that *count* messages cost this process, preparations not counted."""
    begun = (0.0, 0.0)

    def began() -> None:
        nonlocal begun
        begun = time.process_time(), time.perf_counter()

    asyncio.run(WAYS[way](Job(load, endpoint, count, at_once, transport, began)))  # type: ignore[arg-type]
    pipe.send((time.process_time() - begun[0], time.perf_counter() - begun[1]))


def run(way: str, load: str, options: argparse.Namespace) -> float:
    """Return messages a second of one run: of CPU, or of time where answers take time."""
    count = max(1_000, options.messages * 200 // max(200, LOADS[load] // 10)) * WEIGHTS[way] // 100 * 100
    context = multiprocessing.get_context("spawn")
    server_end, server_pipe = context.Pipe()
    client_end, client_pipe = context.Pipe()
    consume = load.startswith("consume")
    preload, delay = (count if consume else 0), options.delay_ms / 1000
    server = context.Process(target=serve, args=(server_pipe, LOADS[load], preload, delay))
    server.start()
    endpoint = f"http://127.0.0.1:{server_end.recv()}"
    given = (client_pipe, way, load, endpoint, count, options.concurrency, options.transport)
    client = context.Process(target=measure, args=given)
    client.start()
    client_pipe.close()
    cpu, seconds = client_end.recv()
    client.join()
    server_end.send("counts")
    counts = server_end.recv()
    server.join()
    assert counts == ((0, count, count, 0) if consume else (count, 0, 0, 0)), counts
    return float(count / (seconds if delay else cpu))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000, help="of aioboto3; the others have more")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--loads", default="", help="only those whose name has this in it")
    parser.add_argument("--concurrency", type=int, default=10, help="tasks that publish; handlers")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="milliseconds that every answer takes")
    parser.add_argument("--transport", choices=("auto", "fast", "sdk"), default="auto")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "us-east-1"}
    ways = [way for way in WAYS if way in (BASE, OURS) or importlib.util.find_spec(way)]
    unit = "msgs/s" if options.delay_ms else "msgs/s/core"
    columns = [f"{BASE}, {unit}", *(f"{way} | ratio (min-max)" for way in ways[1:])]
    print("| workload | " + " | ".join(columns) + " |\n" + "|---" * (2 * len(ways)) + "|")
    for load in LOADS:
        if options.loads not in load:
            continue
        rounds = [{way: run(way, load, options) for way in ways} for _ in range(options.rounds)]
        cells = [f"{statistics.median(each[BASE] for each in rounds):.0f}"]
        for way in ways[1:]:
            ratios = sorted(each[way] / each[BASE] for each in rounds)
            cells.append(f"{statistics.median(each[way] for each in rounds):.0f}")
            cells.append(f"{statistics.median(ratios):.1f} ({ratios[0]:.1f}-{ratios[-1]:.1f})")
        print(f"| {load} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
