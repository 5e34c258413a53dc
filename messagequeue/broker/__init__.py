"""
The queue engine that the embedded providers and the SQS server are faces of: pure, synchronous, deterministic.

It knows leases, order per key, the deduplication window, delays, dead letters, retention and exact counts.  It never
reads a clock, waits, draws at random or logs: `now` comes with every call, ids from a factory, and
`Broker.drain_ready()` and `Queue.next_change()` tell a shell when a waiting receiver should try again.

*What it cannot promise:* anything across processes, and, by itself, that it outlives its own (see `storage`).
"""

from __future__ import annotations

from ._broker import Broker
from ._core import UnknownQueueError
from ._queue import Queue
from ._settings import DEDUP_WINDOW, MAX_IN_FLIGHT, MAX_LEASE, DeadLetterPolicy, DedupScope, Ordering, QueueSettings
from ._values import Counts, Draft, Envelope, Lease, Outcome, Peek, PutResult, State, StoredMessage

__all__ = [
    "DEDUP_WINDOW",
    "MAX_IN_FLIGHT",
    "MAX_LEASE",
    "Broker",
    "Counts",
    "DeadLetterPolicy",
    "DedupScope",
    "Draft",
    "Envelope",
    "Lease",
    "Ordering",
    "Outcome",
    "Peek",
    "PutResult",
    "Queue",
    "QueueSettings",
    "State",
    "StoredMessage",
    "UnknownQueueError",
]
