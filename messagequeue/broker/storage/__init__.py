"""How the broker's state outlives its process: the journal that a durable store implements."""

from __future__ import annotations

from ._journal import (
    Deduplicated,
    Enqueued,
    Event,
    Identity,
    Journal,
    Leased,
    QueueConfigured,
    QueueDeleted,
    QueueEvent,
    QueuePurged,
    Remembered,
    Removed,
    StorageError,
)

__all__ = [
    "Deduplicated",
    "Enqueued",
    "Event",
    "Identity",
    "Journal",
    "Leased",
    "QueueConfigured",
    "QueueDeleted",
    "QueueEvent",
    "QueuePurged",
    "Remembered",
    "Removed",
    "StorageError",
]
