"""What kill -9 at any moment does to `messagequeue serve --data`: nothing that was answered is undone."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.acceptance.sqs_load import FIFO, STANDARD, Connection, Ledger

ROOT = Path(__file__).resolve().parent.parent.parent

LONGEST_ROUND = 0.25
"""Seconds after its start that a server is killed at the latest; some die while they open the folder."""

BY_COMMAND = 10
"""Every so many rounds the server is a process that the shell's user would start; in the others it is a fork of one."""


def kill(number: int) -> None:
    """Kill a process that may be dead already; its parent, which has not asked for it, keeps its number."""
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


class Servers:
    """Servers on one folder, one after the other."""

    def __init__(self, folder: Path, fsync: str, forks: subprocess.Popen[str]) -> None:
        self._arguments = ["--port", "0", "--data", str(folder), "--fsync", fsync, "--log-level", "ERROR"]
        self._forks = forks

    @contextmanager
    def one(self, *, by_command: bool) -> Iterator[tuple[int, str]]:
        """Yield number and address of a server; kill it where it still runs."""
        with self._command() if by_command else self._fork() as started:
            yield started

    @contextmanager
    def _command(self) -> Iterator[tuple[int, str]]:
        command = [sys.executable, "-W", "error", "-m", "messagequeue", "serve", *self._arguments]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.pid, process.stdout.readline().strip()
            finally:
                process.kill()

    @contextmanager
    def _fork(self) -> Iterator[tuple[int, str]]:
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(" ".join(self._arguments) + "\n")
        self._forks.stdin.flush()
        number = int(self._forks.stdout.readline().split()[1])
        line = self._forks.stdout.readline()
        try:
            yield number, line.strip()
        finally:
            if not line.startswith("status"):
                kill(number)
                line = self._forks.stdout.readline()
        assert line.split() == ["status", str(int(signal.SIGKILL))], f"it ended before it was killed: {line}"

    def kill_while_it_opens(self, after: float) -> None:
        """Kill a server *after* so many seconds, whether it listens by then or not."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(" ".join(self._arguments) + "\n")
        self._forks.stdin.flush()
        number = int(self._forks.stdout.readline().split()[1])
        asyncio.run(asyncio.sleep(after))
        kill(number)
        while not self._forks.stdout.readline().startswith("status"):
            """It had said where it listens."""


@contextmanager
def servers(folder: Path, fsync: str) -> Iterator[Servers]:
    command = [sys.executable, "-W", "error", "-m", "tests.acceptance.server_worker"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forks:
        yield Servers(folder, fsync, forks)


async def life(ledger: Ledger, number: int, url: str, seconds: float) -> None:
    """Let the client work, and kill the server after *seconds*."""
    asyncio.get_running_loop().call_later(seconds, kill, number)
    async with asyncio.timeout(30):
        await ledger.live(url)


async def create(url: str) -> None:
    connection = await Connection.to(url)
    await connection.call("CreateQueue", QueueName=STANDARD)
    await connection.call("CreateQueue", QueueName=FIFO, Attributes={"FifoQueue": "true"})
    await connection.close()


@pytest.mark.acceptance
@pytest.mark.parametrize("fsync", ["second", "always"])
def test_fifty_kills_undo_nothing_that_was_answered(tmp_path: Path, fsync: str) -> None:
    """
    Sent messages are there, deleted ones do not come back, FIFO groups keep their order, receive counts, handles,
    visibility timeouts, delays, the deduplication window and sequence numbers go on; a lost receive can be repeated.
    """
    ledger, chance, rounds = Ledger(fsync), random.Random(fsync), 50
    with servers(tmp_path / "queues", fsync) as process:
        with process.one(by_command=True) as (_, url):
            asyncio.run(create(url))
        for number in range(1, rounds):
            if number % 7 == 0:
                process.kill_while_it_opens(chance.uniform(0.0, 0.05))
                continue
            with process.one(by_command=number % BY_COMMAND == 0) as (pid, url):
                asyncio.run(life(ledger, pid, url, chance.uniform(0.0, LONGEST_ROUND)))
        with process.one(by_command=True) as (_, url):
            asyncio.run(ledger.judge(url))

    answered = [one for queue in ledger.known.values() for one in queue.values() if one.id]
    assert len(answered) > 20 * rounds, "too little happened to judge by"
    assert sum(one.deleted for one in answered) > 5 * rounds
    assert ledger.repeated > rounds
    assert ledger.retried > 3
    assert ledger.resumed > 3


async def _status(connection: Connection, request: Awaitable[object]) -> int:
    """Return 200, or the status of an answer that is an error."""
    try:
        await request
    except AssertionError as error:
        return int(str(error).partition("http/1.1 ")[2][:3])
    return 200


@pytest.mark.acceptance
def test_a_full_disk_is_never_acknowledged_and_costs_nothing_that_was(tmp_path: Path) -> None:
    """
    Writes end in the middle: answers are 503 until there is room again, then work goes on without a restart.

    What was acknowledged before, between and after is there after a kill, and nothing is there twice.
    """
    folder, acknowledged = tmp_path / "queues", list[str]()
    numbers = itertools.count()

    async def send(connection: Connection) -> int:
        body = f"{next(numbers)} {'x' * 3_000}"
        status = await _status(connection, connection.call("SendMessage", QueueUrl=STANDARD, MessageBody=body))
        acknowledged.extend([body] * (status == 200))
        return status

    async def fill(pid: int, url: str) -> None:
        await create(url)
        connection = await Connection.to(url)
        for _ in range(10):
            assert await send(connection) == 200
        for _ in range(3):
            log = folder / "queues.sqlite3-wal"
            limit(pid, log.stat().st_size + 10_000)
            while await send(connection) == 200:
                """There is room."""
            assert {await send(connection) for _ in range(5)} == {503}
            assert await _status(connection, connection.get("/health")) == 503
            limit(pid, resource.RLIM_INFINITY)
            while await _status(connection, connection.get("/health")) != 200:
                await asyncio.sleep(0.02)
            assert await send(connection) == 200
        await connection.close()

    async def there(url: str) -> list[str]:
        connection = await Connection.to(url)
        found = (await connection.get(f"/_messagequeue/peek?queue={STANDARD}"))["messages"]
        await connection.close()
        return [one["body"] for one in found]

    with servers(folder, "second") as process:
        with process.one(by_command=True) as (pid, url):
            asyncio.run(fill(pid, url))
        with process.one(by_command=True) as (_, url):
            bodies = asyncio.run(there(url))

    assert len(set(bodies)) == len(bodies)
    assert set(acknowledged) <= set(bodies)


def limit(pid: int, size: int) -> None:
    """Let no file of a process grow beyond *size* bytes: what is written then is written in part, or not at all."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
