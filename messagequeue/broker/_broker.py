"""The queues of one broker by name, and what concerns more than one of them; no clock and no waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .._errors import ConfigurationError
from ._core import UnknownQueueError
from ._queue import Queue
from ._settings import QueueSettings
from .storage import Event, Journal, QueueConfigured, QueueDeleted, Remembered


class Broker:
    """
    Named queues, each independent of the others but for dead letters.

    Args:
        new_id: Draws the id of a message; by default they are counted, which suits a replay but not two processes.
        journal: Is told of every change; None costs nothing.

    Attributes:
        ready: Names of queues in which something became takeable, or which were deleted, since `drain_ready()`.
        watchers: Called with the name of a queue after each change of it, within the call that makes it, and also where
            nothing became takeable (a lease, a delay).  They must not call the broker.
        journal: As given.  A durable store applies its events first, then sets it.
        serial: The serial of the youngest queue that ever was; a durable store sets it before there are queues.
    """

    def __init__(self, *, new_id: Callable[[], str] | None = None, journal: Journal | None = None) -> None:
        self.new_id = new_id or self._count_id
        self.journal = journal
        self.ready: set[str] = set()
        self.watchers: list[Callable[[str], None]] = []
        self._notes: dict[str, str] = {}
        self._queues: dict[str, Queue] = {}
        self.serial = 0
        self._ids = 0

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def __iter__(self) -> Iterator[Queue]:
        return iter(list(self._queues.values()))

    def create(self, name: str, settings: QueueSettings | None = None) -> Queue:
        """
        Make a queue.

        Raises:
            ConfigurationError: there is one of that name.
        """
        if name in self._queues:
            raise ConfigurationError(f"there is a queue {name!r} already")
        queue = self._add(name, self.serial + 1, settings or QueueSettings())
        if self.journal is not None:
            self.journal.record(QueueConfigured(name, queue.serial, queue.settings))
        return queue

    def get(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queue(self, name: str) -> Queue:
        """Return the queue *name*.  Raises `UnknownQueueError` where there is none."""
        found = self._queues.get(name)
        if found is None:
            raise UnknownQueueError(name)
        return found

    def delete(self, name: str) -> None:
        """
        Drop a queue with all that it holds.  Dead letters that were to go there stay where they are.

        Raises:
            UnknownQueueError: there is none; so does every later call of the dropped `Queue`.
        """
        self.queue(name).delete()
        del self._queues[name]
        self.ready.add(name)
        for watcher in self.watchers:
            watcher(name)
        if self.journal is not None:
            self.journal.record(QueueDeleted(name))

    def drain_ready(self) -> set[str]:
        """Return the queues at which a parked take is worth another try, and start a new set."""
        ready, self.ready = self.ready, set()
        return ready

    def remember(self, key: str, text: str | None) -> None:
        """Keep a face's own note under *key* for as long as the broker's state lasts; None: forget it."""
        if text is None:
            self._notes.pop(key, None)
        else:
            self._notes[key] = text
        if self.journal is not None:
            self.journal.record(Remembered(key, text))

    def note(self, key: str) -> str | None:
        """Return the note under *key*, or None."""
        return self._notes.get(key)

    def notes(self, prefix: str) -> dict[str, str]:
        """Return the notes whose keys begin with *prefix*, by key."""
        return {key: text for key, text in self._notes.items() if key.startswith(prefix)}

    def apply(self, event: Event) -> None:
        """
        Make the change that a journal recorded; all of them in order rebuild the state.  Set `journal` afterwards.

        Raises:
            UnknownQueueError, KeyError: the events are not whole.
        """
        if isinstance(event, QueueDeleted):
            self.delete(event.queue)
        elif isinstance(event, Remembered):
            self.remember(event.key, event.text)
        elif not isinstance(event, QueueConfigured):
            self.queue(event.queue).apply(event)
        else:
            queue = self._queues.get(event.queue) or self._add(event.queue, event.serial, event.settings)
            queue.configure(event.settings)
            queue.resume(event.last)

    def _add(self, name: str, serial: int, settings: QueueSettings) -> Queue:
        self.serial = max(self.serial, serial)
        queue = self._queues[name] = Queue(self, name, serial, settings)
        return queue

    def _count_id(self) -> str:
        self._ids += 1
        return f"m{self._ids}"
