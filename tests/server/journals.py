"""Journals of a driven server, and what becomes of it when its process is killed."""

from __future__ import annotations

from pathlib import Path

from messagequeue.broker import Broker
from messagequeue.broker.storage import Event
from messagequeue.broker.storage.sqlite import SqliteStore
from tests.server.sqs_driving import Driven, counted

#: Never the same twice, in however many lives.
_new_id = counted("30000000-0000-4000-8000-{:012d}")


class Tape:
    """A journal that forgets nothing."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event, /) -> None:
        self.events.append(event)

    def restore(self, broker: Broker) -> None:
        for event in self.events:
            broker.apply(event)
        broker.journal = self


class Folder:
    """The durable store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store = SqliteStore.open(path)

    def record(self, event: Event, /) -> None:
        self._store.record(event)

    def restore(self, broker: Broker) -> None:
        self._store.write(0.0)
        self.close()
        self._store = SqliteStore.open(self._path)
        self._store.load(broker)

    def close(self) -> None:
        self._store.close()


def recorded(server: Driven, journal: Tape | Folder) -> None:
    """Have everything recorded from now on; the server has done nothing yet but draw its secret."""
    server.broker.journal = journal
    for key, text in server.broker.notes("").items():
        server.broker.remember(key, text)


def killed(server: Driven, journal: Tape | Folder) -> None:
    """End the process and start another on what was recorded, with another secret to begin with."""
    server.broker = Broker(new_id=_new_id)
    journal.restore(server.broker)
    server.secret = b"another"
    server.start()
