"""
Receives that can be repeated: a client that did not get its answer asks again under the same id, and gets the same.

Each is a note of the broker, so that the repeat may come after a restart: that is when answers get lost.
Source: API Reference, ReceiveMessage, ReceiveRequestAttemptId.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from messagequeue.broker import Broker, Lease, Queue

NOTE: Final = "sqs:attempt:"
#: Seconds in which a receive can be repeated.  API Reference, as above.
WINDOW: Final = 300.0


class _Attempt(NamedTuple):
    """When it was made, for how many seconds it hid its messages, and their handles with the ends of their leases."""

    at: float
    visibility: float
    held: Sequence[tuple[str, float]]


class Attempts:
    """
    The receives of one queue that their clients gave an id.

    Args:
        noted: What the broker noted of them before, by id.
    """

    __slots__ = ("_attempts", "_broker", "_queue")

    def __init__(self, broker: Broker, queue: Queue, noted: dict[str, str] | None = None) -> None:
        self._broker = broker
        self._queue = queue
        read = {attempt_id: _Attempt(*json.loads(text)) for attempt_id, text in (noted or {}).items()}
        self._attempts = OrderedDict(sorted(read.items(), key=lambda item: item[1].at))

    def repeat(self, now: float, attempt_id: str) -> Sequence[Lease]:
        """Return the messages that the attempt got before, for their whole time again, where none has changed."""
        self._expire(now)
        before = self._attempts.get(attempt_id)
        if before is None:
            return ()
        for handle, until in before.held:
            lease = self._queue.held(now, handle)
            if not isinstance(lease, Lease) or lease.until != until:
                return ()
        for handle, _ in before.held:
            self._queue.extend(now, handle, before.visibility)
        again = [self._queue.held(now, handle) for handle, _ in before.held]
        leases = [lease for lease in again if isinstance(lease, Lease)]
        self._note(
            attempt_id, _Attempt(before.at, before.visibility, [(lease.handle, lease.until) for lease in leases])
        )
        return leases

    def add(self, now: float, attempt_id: str, leases: Sequence[Lease]) -> None:
        """Note what an attempt got: one message or more."""
        self._expire(now)
        self._attempts.pop(attempt_id, None)
        held = [(lease.handle, lease.until) for lease in leases]
        self._note(attempt_id, _Attempt(now, leases[0].until - now, held))

    def clear(self) -> None:
        """Forget all of them."""
        for attempt_id in self._attempts:
            self._broker.remember(self._key(attempt_id), None)
        self._attempts.clear()

    def _expire(self, now: float) -> None:
        while self._attempts and next(iter(self._attempts.values())).at + WINDOW <= now:
            attempt_id, _ = self._attempts.popitem(last=False)
            self._broker.remember(self._key(attempt_id), None)

    def _note(self, attempt_id: str, attempt: _Attempt) -> None:
        self._attempts[attempt_id] = attempt
        self._broker.remember(self._key(attempt_id), json.dumps(attempt, separators=(",", ":")))

    def _key(self, attempt_id: str) -> str:
        return f"{NOTE}{self._queue.serial}:{attempt_id}"


def noted_attempts(broker: Broker) -> dict[int, dict[str, str]]:
    """Return what the broker noted of attempts, by their queue's serial and their id; drop those of deleted queues."""
    serials = {queue.serial for queue in broker}
    found: dict[int, dict[str, str]] = {}
    for key, text in broker.notes(NOTE).items():
        serial, _, attempt_id = key.removeprefix(NOTE).partition(":")
        if int(serial) in serials:
            found.setdefault(int(serial), {})[attempt_id] = text
        else:
            broker.remember(key, None)
    return found
