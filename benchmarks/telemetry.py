"""
What telemetry costs: the CPU of a message with it on next to off, and, against another checkout, off next to before it.

    python benchmarks/telemetry.py --messages 30000 --rounds 9
    git worktree add ../before COMMIT && python benchmarks/telemetry.py --against ../before

Each figure is of a process of its own, by its CPU time; in each round all kinds run one after another, in turns.
Machines are noisy: read the ratios, which are taken within one round; the table has their medians and middle halves.
Exits with 1 where telemetry that is off costs more than --limit next to the other checkout.

What is on records every span (a sampler would record fewer) and throws it away.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOADS = ("publish_many", "publish", "consume")
KINDS = ("off", "metrics", "on")
BODY = "x" * 200
AT_ONCE = 10


def telemetry_of(kind: str) -> dict[str, Any]:
    """Return the keyword argument that turns it on; none where it is off, for a checkout that knows none."""
    if kind == "off":
        return {}
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import NoOpTracerProvider

    from messagequeue.telemetry import OpenTelemetry

    meters = MeterProvider(metric_readers=[InMemoryMetricReader()])
    tracers = TracerProvider() if kind == "on" else NoOpTracerProvider()
    return {"telemetry": OpenTelemetry(tracer_provider=tracers, meter_provider=meters)}


async def cost(load: str, kind: str, messages: int) -> float:
    """Return the microseconds of CPU that one message takes."""
    from messagequeue import Message, open_consumers, open_publishers

    given = telemetry_of(kind)
    provider = "memory" if load == "consume" else "noop"
    async with open_publishers(f"{provider}://", **given) as publishers:
        publisher = await publishers.new_publisher("bench")
        if load != "consume":
            started = time.process_time()
            await published(publisher, load, messages)
            return (time.process_time() - started) / messages * 1e6
        await published(publisher, "publish_many", messages)
    async with open_consumers("memory://", **given) as consumers:
        left = messages

        async def handle(message: Message) -> None:
            nonlocal left
            left -= 1
            if not left:
                consumer.stop()

        consumer = await consumers.new_consumer("bench", handle, concurrency=100)
        started = time.process_time()
        await consumer.consume()
        return (time.process_time() - started) / messages * 1e6


async def published(publisher: Any, load: str, messages: int) -> None:
    if load == "publish_many":
        results = await publisher.publish_many(repeat(BODY, messages))
        assert not [result for result in results if isinstance(result, Exception)]
        return

    async def one_by_one(count: int) -> None:
        for _ in range(count):
            await publisher.publish(BODY)

    await asyncio.gather(*(one_by_one(messages // AT_ONCE) for _ in range(AT_ONCE)))


def measured(root: Path, load: str, kind: str, messages: int) -> float:
    """Return `cost()` in a fresh process, with the library of *root*."""
    command = [sys.executable, __file__, "--child", load, kind, "--messages", str(messages)]
    environment = os.environ | {"PYTHONPATH": str(root)}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True).stdout
    return float(out)


def shown(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def compare(against: Path | None, messages: int, rounds: int) -> float:
    """Print the table and return the largest median of off next to the other checkout; 1 where there is none."""
    kinds = [*KINDS, *(["before"] if against is not None else [])]
    worst = 1.0
    for load in LOADS:
        seen: dict[str, list[float]] = {kind: [] for kind in kinds}
        for turn in range(rounds):
            shift = turn % len(kinds)
            for kind in kinds[shift:] + kinds[:shift]:
                root = against if kind == "before" and against is not None else ROOT
                seen[kind].append(measured(root, load, "off" if kind == "before" else kind, messages))
        print(f"{load}: {statistics.median(seen['off']):.1f} us of CPU a message with telemetry off")
        for kind in ("metrics", "on"):
            print(f"  {kind:8} next to off     {shown([a / b for a, b in zip(seen[kind], seen['off'], strict=True)])}")
        if against is not None:
            ratios = [a / b for a, b in zip(seen["off"], seen["before"], strict=True)]
            print(f"  off      next to before  {shown(ratios)}")
            worst = max(worst, statistics.median(ratios))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout, of a time before telemetry")
    parser.add_argument("--limit", type=float, default=1.03, help="of off next to the other checkout")
    parser.add_argument("--child", nargs=2, metavar=("LOAD", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(asyncio.run(cost(*arguments.child, arguments.messages)))
        return 0
    worst = compare(arguments.against and arguments.against.resolve(), arguments.messages, arguments.rounds)
    return 0 if worst <= arguments.limit else 1


if __name__ == "__main__":
    sys.exit(main())
