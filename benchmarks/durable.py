"""
What durability costs: put, take and settle a second through the seams of the providers, memory and file in one run.

    python benchmarks/durable.py --messages 20000
    python benchmarks/durable.py --data /path/on/the/disk/to/measure

Each row is one way to work: how many messages a call carries, and how many tasks call at once.  A ratio of 2 means that
`memory` does twice as many.  The last table is how long a folder takes to open, by messages queued.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from messagequeue import ConsumerProvider, PublisherProvider
from messagequeue.broker import Broker, Envelope
from messagequeue.broker.storage.sqlite import SqliteStore
from messagequeue.driver import EncodedMessage, LeaseSource, Sender
from messagequeue.embedded import (
    EmbeddedConfig,
    EmbeddedConsumerProvider,
    EmbeddedPublisherProvider,
    MemoryConfig,
    MemoryConsumerProvider,
    MemoryPublisherProvider,
    forget,
)

#: Messages a call, tasks at once.
SHAPES = ((1, 1), (1, 50), (10, 1), (10, 50))
Rates = tuple[float, float, float]


def providers(kind: str, data: Path) -> tuple[PublisherProvider, ConsumerProvider]:
    if kind == "memory":
        forget()
        memory = MemoryConfig()
        return MemoryPublisherProvider(memory), MemoryConsumerProvider(memory)
    config = EmbeddedConfig(path=data / kind, fsync="always" if kind == "always" else "second")
    return EmbeddedPublisherProvider(config), EmbeddedConsumerProvider(config)


async def measure(kind: str, data: Path, messages: int, size: int, batch: int, tasks: int) -> Rates:
    publishers, consumers = providers(kind, data)
    async with publishers, consumers:
        sender: Sender = await publishers._open_sender("bench")  # type: ignore[attr-defined]
        source: LeaseSource = await consumers._open_source("bench", consumers.options)  # type: ignore[attr-defined]
        items = [EncodedMessage(bytes(size))] * batch
        taken: list[list[object]] = []

        async def put() -> None:
            await sender.send(items)

        async def take() -> None:
            taken.append([delivery.lease for delivery in await source.receive(batch, wait=0.0)])

        async def settle() -> None:
            await source.settle(taken.pop())

        calls = messages // batch
        rates = [calls * batch / await _time(work, calls, tasks) for work in (put, take, settle)]
    return rates[0], rates[1], rates[2]


async def _time(work: Callable[[], Awaitable[None]], calls: int, tasks: int) -> float:
    async def some() -> None:
        for _ in range(calls // tasks):
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(tasks)))
    return time.perf_counter() - started


def opening(data: Path, messages: int, size: int) -> tuple[float, float]:
    """Return the seconds to open a folder with that many messages, and its megabytes."""
    store, broker = SqliteStore.open(data / "opening"), Broker()
    store.load(broker)
    queue = broker.get("q") or broker.create("q")
    for number in range(messages):
        queue.put(1.0, bytes(size), attributes=Envelope(1.0))
        if number % 10_000 == 0:
            store.write(1.0)
    store.write(1.0)
    store.close()
    size_of_file = sum(file.stat().st_size for file in (data / "opening").iterdir())
    started = time.perf_counter()
    store = SqliteStore.open(data / "opening")
    store.load(Broker())
    spent = time.perf_counter() - started
    store.close()
    shutil.rmtree(data / "opening")
    return spent, size_of_file / 1e6


def report(data: Path, messages: int, size: int) -> None:
    print(f"{size} bytes a message; messages a second\n")
    print(f"{'':20}{'':10}{'put':>10}{'take':>10}{'settle':>10}   memory / this")
    for batch, tasks in SHAPES:
        memory: Rates | None = None
        for kind in ("memory", "second", "always"):
            number = messages if kind != "always" else min(messages, 400 * batch * tasks)
            rates = asyncio.run(measure(kind, data, number // (batch * tasks) * batch * tasks, size, batch, tasks))
            memory = memory or rates
            ratios = "  ".join(f"{base / rate:.1f}" for base, rate in zip(memory, rates, strict=True))
            label = f"{batch} a call, {tasks} at once" if kind == "memory" else ""
            print(f"{label:20}{kind:>10}" + "".join(f"{rate:>10,.0f}" for rate in rates) + f"   {ratios}")
    print(f"\n{'queued':>10}{'to open':>12}{'file':>12}")
    for queued in (0, messages, 5 * messages):
        spent, megabytes = opening(data, queued, size)
        print(f"{queued:>10,}{spent:>10.3f} s{megabytes:>9.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a body")
    parser.add_argument("--data", help="a folder on the disk to measure; by default a temporary one")
    arguments = parser.parse_args()
    data = Path(tempfile.mkdtemp(prefix="messagequeue-bench-", dir=arguments.data))
    try:
        report(data, arguments.messages, arguments.size)
    finally:
        shutil.rmtree(data)


if __name__ == "__main__":
    main()
