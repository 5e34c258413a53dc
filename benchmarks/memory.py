"""
Whether memory stays flat: resident memory while messages are published and consumed, after a warm-up.

    python benchmarks/memory.py --messages 200000

Publishes and consumes through the public API on the `memory` provider, in rounds: the queue stays short.  Prints the
resident memory after the warm-up and after each tenth, and exits with 1 where it grew by more than --limit megabytes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys

from messagequeue import Message, open_consumers, open_publishers

ROUND = 1_000
WARM_UP = 20_000


def resident_mb() -> float:
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Counter:
    """Counts handled messages and tells when a number is reached."""

    def __init__(self) -> None:
        self.handled = 0
        self.target = 0
        self.reached = asyncio.Event()

    async def handle(self, message: Message) -> None:
        self.handled += 1
        if self.handled >= self.target:
            self.reached.set()

    async def until(self, target: int) -> None:
        self.target = target
        if self.handled < target:
            self.reached.clear()
            await self.reached.wait()


async def measure(messages: int, size: int) -> list[float]:
    seen = []
    async with (
        open_publishers("memory://?name=bench") as publishers,
        open_consumers("memory://?name=bench") as consumers,
    ):
        publisher = await publishers.new_publisher("bench")
        counter = Counter()
        consumer = await consumers.new_consumer("bench", counter.handle, concurrency=100)
        task = asyncio.create_task(consumer.consume())
        for done in range(0, WARM_UP + messages, ROUND):
            if done >= WARM_UP and (done - WARM_UP) % (messages // 10) == 0:
                seen.append(resident_mb())
            results = await publisher.publish_many(f"{n:0{size}}" for n in range(done, done + ROUND))
            failures = [result for result in results if isinstance(result, Exception)]
            if failures:
                raise failures[0]
            await counter.until(done + ROUND)
        seen.append(resident_mb())
        consumer.stop()
        await task
        assert consumer.stats.settled == WARM_UP + messages, consumer.stats
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000, help="after the warm-up; a multiple of 10000")
    parser.add_argument("--size", type=int, default=200, help="bytes of a body")
    parser.add_argument("--limit", type=float, default=10.0, help="growth in megabytes that is a failure")
    arguments = parser.parse_args()
    seen = asyncio.run(measure(arguments.messages, arguments.size))
    print(f"resident after the warm-up of {WARM_UP}: {seen[0]:.1f} MB")
    for tenth, value in enumerate(seen[1:], 1):
        print(f"  {arguments.messages // 10 * tenth:>9} messages: {value:.1f} MB ({value - seen[0]:+.1f})")
    grown = max(seen) - seen[0]
    print(f"grown by {grown:.1f} MB at most (limit {arguments.limit:g})")
    return 0 if grown <= arguments.limit else 1


if __name__ == "__main__":
    sys.exit(main())
