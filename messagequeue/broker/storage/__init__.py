"""How the broker's state outlives its process: the journal that a durable store implements."""

from __future__ import annotations

from ._journal import Enqueued, Event, Journal, Leased, QueueConfigured, QueueDeleted, QueuePurged, Remembered, Removed

__all__ = [
    "Enqueued",
    "Event",
    "Journal",
    "Leased",
    "QueueConfigured",
    "QueueDeleted",
    "QueuePurged",
    "Remembered",
    "Removed",
]
