"""
What a data folder costs the server: the same client against it in memory and with a folder, one after the other.

    python benchmarks/server_durable.py
    python benchmarks/server_durable.py --data /path/on/the/disk/to/measure
    python benchmarks/server_durable.py --beside other=http://localhost:4566    # anything else that speaks SQS, too

`second` and `always` are what `--fsync` says.  The last lines are how soon a server answers whose folder has messages.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server import Connection, measure, request

QUEUED = (0, 10_000, 100_000)


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Yield the address of a server of this package."""
    command = [sys.executable, "-m", "messagequeue", "serve", "--port", "0", "--log-level", "WARNING", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def rates(data: Path, beside: dict[str, str]) -> dict[str, dict[str, float]]:
    """Return what each server reaches, by its name."""
    found = {}
    with serving() as url:
        found["memory"] = asyncio.run(measure(url))
    for fsync in ("second", "always"):
        with serving("--data", str(data / fsync), "--fsync", fsync) as url:
            found[fsync] = asyncio.run(measure(url))
    for name, url in beside.items():
        found[name] = asyncio.run(measure(url))
    return found


async def fill(url: str, messages: int, size: int) -> None:
    connection = await Connection.to(url)
    queue = (await connection.call("CreateQueue", QueueName="filled"))["QueueUrl"]
    entries = [{"Id": str(number), "MessageBody": "x" * size} for number in range(10)]
    batch = request("SendMessageBatch", QueueUrl=queue, Entries=entries)
    for _ in range(messages // 10):
        await connection.raw(batch)
    connection.close()


def opening(data: Path, messages: int, size: int) -> tuple[float, float]:
    """Return the seconds until a server answers whose folder has so many messages, and the folder's megabytes."""
    folder = data / f"opening-{messages}"
    with serving("--data", str(folder)) as url:
        asyncio.run(fill(url, messages, size))
    megabytes = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    started = time.perf_counter()
    with serving("--data", str(folder)):
        return time.perf_counter() - started, megabytes


def report(data: Path, beside: dict[str, str]) -> None:
    found = rates(data, beside)
    print(f"{'':35}" + "".join(f"{name:>12}" for name in found))
    for row in next(iter(found.values())):
        print(f"{row:35}" + "".join(f"{results[row]:>12,.1f}" for results in found.values()))
    print(f"\n{'queued, 1 KB each':>20}{'answers after':>16}{'folder':>12}")
    for queued in QUEUED:
        spent, megabytes = opening(data, queued, 1_000)
        print(f"{queued:>20,}{spent:>14.2f} s{megabytes:>9.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder on the disk to measure; by default a temporary one")
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=URL", help="measure this one, too")
    arguments = parser.parse_args()
    data = Path(tempfile.mkdtemp(prefix="messagequeue-bench-", dir=arguments.data))
    try:
        report(data, dict(one.split("=", 1) for one in arguments.beside))
    finally:
        shutil.rmtree(data)


if __name__ == "__main__":
    main()
