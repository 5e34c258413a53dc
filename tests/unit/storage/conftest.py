"""A data folder, and the broker in it, opened again as often as a test likes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from messagequeue.broker import Broker
from messagequeue.broker.storage.sqlite import Fsync, SqliteStore


class Opened:
    """
    One folder.

    Attributes:
        store, broker: As they are since the last `reopen()`.
    """

    def __init__(self, path: Path, fsync: Fsync = Fsync.SECOND) -> None:
        self.path = path
        self.fsync = fsync
        self._ids = (f"id-{n}" for n in itertools.count())
        self._open()

    def _open(self) -> None:
        self.store = SqliteStore.open(self.path, fsync=self.fsync)
        self.broker = Broker(new_id=lambda: next(self._ids))
        self.store.load(self.broker)

    def reopen(self, now: float | None = None) -> Broker:
        """Write at *now* (None: nothing is written), close, and open again."""
        if now is not None:
            self.store.write(now)
        self.store.close()
        self._open()
        return self.broker


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made = Opened(tmp_path / "queues")
    yield made
    made.store.close()
