"""A store that says what it was asked, and fails or takes its time when told to."""

from __future__ import annotations

import threading

from messagequeue.broker.storage import Event, StorageError


class FakeStore:
    """
    Attributes:
        events: Committed, by commit.
        calls: Names of the calls in order, `record` left out.
        fail: Commits to fail from now on.
        gate: A commit that runs waits until it is set.
        log_gate: A checkpoint that runs waits until it is set.
        full: The log is.
        stays_full: It cannot be written back.
    """

    def __init__(self) -> None:
        self.events: list[list[Event]] = []
        self.calls: list[str] = []
        self.fail = 0
        self.gate = threading.Event()
        self.gate.set()
        self.log_gate = threading.Event()
        self.log_gate.set()
        self.full = self.stays_full = False
        self._recorded: list[Event] = []
        self._begun: list[Event] = []

    @property
    def pending(self) -> bool:
        return bool(self._recorded or self._begun)

    @property
    def log_full(self) -> bool:
        assert "close" not in self.calls
        return self.full

    def record(self, event: Event, /) -> None:
        self._recorded.append(event)

    def begin(self, now: float, /) -> None:
        self.calls.append("begin")
        self._begun += self._recorded
        self._recorded = []

    def commit(self) -> None:
        self.calls.append("commit")
        assert self.gate.wait(10)
        if self.fail:
            self.fail -= 1
            raise StorageError("the disk is full")
        self.events.append(self._begun)
        self._begun = []

    def checkpoint(self) -> None:
        self.calls.append("checkpoint")
        assert self.log_gate.wait(10)
        if self.stays_full:
            raise StorageError("the disk is full")
        self.full = False

    def sync(self) -> None:
        self.calls.append("sync")

    def close(self) -> None:
        self.calls.append("close")
