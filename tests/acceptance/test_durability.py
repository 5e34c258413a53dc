"""What kill -9 at any moment does to the provider `embedded`: nothing that was answered is undone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messagequeue.broker import Broker
from messagequeue.broker.storage.sqlite import SqliteStore
from tests.acceptance.durable_worker import KEYS, TOPIC

ROOT = Path(__file__).resolve().parent.parent.parent

LONGEST_ROUND = 0.15
"""Seconds after which a process is killed at the latest; some die while they open the folder."""

Name = tuple[str, int]


class Rounds:
    """Processes of `durable_worker.py`, one after the other, on one folder."""

    def __init__(self, folder: Path, record: Path, processes: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.record = record
        self._processes = processes

    def one(self, seed: int) -> None:
        """Let a process begin, and kill it at a random moment."""
        assert self._processes.stdin is not None
        assert self._processes.stdout is not None
        chance = random.Random(seed)
        fsync = chance.choice(("second", "second", "always"))
        self._processes.stdin.write(f"{self.folder} {self.record} {seed} {fsync}\n")
        self._processes.stdin.flush()
        process = int(self._processes.stdout.readline())
        time.sleep(chance.uniform(0.0, LONGEST_ROUND))
        os.kill(process, signal.SIGKILL)
        assert int(self._processes.stdout.readline()) == signal.SIGKILL, "it ended before it was killed"

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.record.read_text().splitlines()]


@contextmanager
def rounds(tmp_path: Path) -> Iterator[Rounds]:
    command = [sys.executable, "-W", "error", "-m", "tests.acceptance.durable_worker"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as processes:
        yield Rounds(tmp_path / "queues", tmp_path / "record", processes)


def left(folder: Path) -> list[Name]:
    """Return what is in the queue, in its order."""
    store, broker = SqliteStore.open(folder), Broker()
    try:
        store.load(broker)
        bodies = [str(bytes(peek.message.body), "ascii") for peek in broker.queue(TOPIC).peek(store.clock)]  # type: ignore[arg-type]
    finally:
        store.close()
    return [(key, int(number)) for key, number, *_ in (body.split(" ") for body in bodies)]


class Judge:
    """Reads the record from the first line to the last and holds it against what was promised."""

    def __init__(self) -> None:
        self.ids: dict[Name, str] = {}
        self.attempted: set[Name] = set()
        self.counts: dict[Name, int] = defaultdict(int)
        self.settling: set[Name] = set()
        self.settled: set[Name] = set()
        self.repeats = 0

    def read(self, line: list[str]) -> None:
        word, name = line[0], (line[1], int(line[2]))
        if word == "attempt":
            self.attempted.add(name)
        elif word == "published":
            assert self.ids.setdefault(name, line[3]) == line[3]
        elif word == "repeated":
            self.repeats += 1
            assert self.ids[name] == line[3], f"{name} was stored twice: the deduplication window was lost"
        elif word == "received":
            self._received(name, int(line[3]))
        elif word == "settling":
            self._in_order(name)
            self.settling.add(name)
        else:
            self.settled.add(name)

    def _received(self, name: Name, count: int) -> None:
        assert name not in self.settled, f"{name} came back after it was settled"
        assert count > self.counts[name], f"{name} was received {self.counts[name]} times before, not {count - 1}"
        self.counts[name] = count

    def _in_order(self, name: Name) -> None:
        key, number = name
        missing = [before for before in range(number) if (key, before) not in self.settling]
        assert not missing, f"{name} overtook {missing} of its key"

    def end(self, queued: list[Name]) -> None:
        assert len(set(queued)) == len(queued), "a message is stored twice"
        lost = self.ids.keys() - self.settling - set(queued)
        assert not lost, f"published and lost: {sorted(lost)}"
        assert not self.settled & set(queued), "settled and still there"
        assert set(queued) <= self.attempted
        for key in KEYS:
            numbers = [number for other, number in queued if other == key]
            assert numbers == sorted(numbers)


def judge(tmp_path: Path, number: int) -> None:
    with rounds(tmp_path) as process:
        for seed in range(number):
            process.one(seed)
    judged = Judge()
    for line in process.lines():
        judged.read(line)
    judged.end(left(process.folder))

    assert len(judged.ids) > 5 * number, "too little happened to judge by"
    assert len(judged.settled) > number
    assert judged.repeats > number / 4


@pytest.mark.acceptance
def test_thirty_kills_lose_nothing_and_bring_nothing_back(tmp_path: Path) -> None:
    """
    Published messages are there, settled ones are not, keys keep their order, receive counts and deduplication go on.
    """
    judge(tmp_path, 30)


@pytest.mark.acceptance
@pytest.mark.slow
def test_a_hundred_kills_lose_nothing_and_bring_nothing_back(tmp_path: Path) -> None:
    """The same, with what gathers over a longer life of the folder."""
    judge(tmp_path, 100)
