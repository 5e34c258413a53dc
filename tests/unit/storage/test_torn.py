"""A log that ends in the middle of a write, as after a power cut: the folder is as it was after some whole commit."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from messagequeue.broker import Broker
from messagequeue.broker.storage.sqlite import SqliteStore
from tests.unit.storage.conftest import Opened

COMMITS = 30


def state(broker: Broker) -> list[tuple[object, int]]:
    """Return bodies and receive counts."""
    queue = broker.get("q")
    return [] if queue is None else [(seen.message.body, seen.receives) for seen in queue.peek(1.0)]


def commits(opened: Opened) -> list[tuple[int, list[tuple[object, int]]]]:
    """Make commits of puts, takes and settlements; return the log's length and the state after each."""
    log, made = opened.path / "queues.sqlite3-wal", []
    queue = opened.broker.create("q")
    for number in range(COMMITS):
        queue.put(1.0, b"%d" % number * (1 + 997 * (number % 3)))
        for lease in queue.take(1.0, 1, visibility=0.0):
            if number % 2:
                queue.settle(1.0, lease.handle)
        opened.store.write(1.0)
        made.append((log.stat().st_size, state(opened.broker)))
    return made


def found_in(folder: Path) -> list[tuple[object, int]]:
    store, broker = SqliteStore.open(folder), Broker()
    try:
        store.load(broker)
        return state(broker)
    finally:
        store.close()


@pytest.mark.parametrize("damage", ["cut off", "zeroes", "noise"])
def test_a_torn_log_leaves_whole_commits_only(opened: Opened, tmp_path: Path, damage: str) -> None:
    """All of those that it has whole; once it was opened, what is left of the rest does not come back."""
    made = commits(opened)
    chance = random.Random(damage)
    for attempt in range(12):
        folder = tmp_path / f"torn-{attempt}"
        folder.mkdir()
        for name in ("queues.sqlite3", "queues.sqlite3-wal"):
            shutil.copy(opened.path / name, folder)
        log = folder / "queues.sqlite3-wal"
        whole = log.read_bytes()
        at = chance.randrange(made[0][0], len(whole))
        rest = {"cut off": b"", "zeroes": bytes(len(whole) - at), "noise": chance.randbytes(len(whole) - at)}[damage]
        log.write_bytes(whole[:at] + rest)
        expected = [seen for size, seen in made if size <= at][-1]

        assert found_in(folder) == expected
        assert found_in(folder) == expected
