"""
What the queue engine costs: operations a second with few and with many messages queued, and memory.

    python benchmarks/broker.py --messages 1000000

A ratio near 1 means that the cost of an operation does not grow with the queue.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import time

from messagequeue.broker import Broker, Ordering, Queue, QueueSettings

OPERATIONS = 20_000
FEW = 1_000


#: Name, ordering, messages of one key (0: no key).
SHAPES = (
    ("standard", Ordering.STANDARD, 0),
    ("fifo, all of one key", Ordering.FIFO, 10**9),
    ("fifo, ten of each key", Ordering.FIFO, 10),
    ("fifo, one of each key", Ordering.FIFO, 1),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--messages", type=int, default=1_000_000)
    arguments.add_argument("--bytes", type=int, default=200)
    options = arguments.parse_args()
    for name, ordering, run in SHAPES:
        # A process for each: memory freed by one shape would be the next one's for nothing.
        process = multiprocessing.get_context("spawn").Process(
            target=_compare, args=(name, ordering, run, options.messages, options.bytes)
        )
        process.start()
        process.join()


def _compare(name: str, ordering: Ordering, run: int, messages: int, size: int) -> None:
    few, _ = _measure(ordering, run, FEW, size)
    many, memory = _measure(ordering, run, messages, size)
    print(f"\n{name}: {messages:,} messages of {size} bytes take {memory / 1e6:,.0f} MB")
    print(f"  {'':14}{FEW:>12,} queued{messages:>12,} queued   ratio")
    for operation in few:
        rates = f"{few[operation]:>12,.0f} ops/s {many[operation]:>12,.0f} ops/s"
        print(f"  {operation:14}{rates}   {few[operation] / many[operation]:.2f}")


def _key(run: int, number: int) -> str | None:
    return f"key-{number // run}" if run else None


def _measure(ordering: Ordering, run: int, queued: int, size: int) -> tuple[dict[str, float], int]:
    """Fill a queue, then measure put, take and settle while the number queued stays about the same."""
    before = _rss()
    numbers = itertools.count()
    # 36 characters, as long as a UUID, without the time that drawing one takes.
    queue = Broker(new_id=lambda: f"{next(numbers):036d}").create("bench", QueueSettings(ordering=ordering))
    for number in range(queued):
        queue.put(0.0, number.to_bytes(8, "big") + bytes(size - 8), key=_key(run, number))
    memory = _rss() - before
    return _rates(queue, run, queued, size), memory


def _rates(queue: Queue, run: int, queued: int, size: int) -> dict[str, float]:
    spent = {"put": 0.0, "take 1": 0.0, "take 10": 0.0, "settle": 0.0}
    counts = dict.fromkeys(spent, 0)
    body = bytes(size)
    for step in range(OPERATIONS // 20):
        for operation, limit in (("take 1", 1), ("take 10", 10)):
            started = time.perf_counter()
            leases = queue.take(1.0, limit)
            taken = time.perf_counter()
            for lease in leases:
                queue.settle(1.0, lease.handle)
            settled = time.perf_counter()
            for number in range(len(leases)):
                queue.put(1.0, body, key=_key(run, queued + step * 20 + number))
            spent["put"] += time.perf_counter() - settled
            spent["settle"] += settled - taken
            spent[operation] += taken - started
            counts[operation] += 1
            counts["settle"] += len(leases)
            counts["put"] += len(leases)
    return {operation: counts[operation] / spent[operation] for operation in spent}


def _rss() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
