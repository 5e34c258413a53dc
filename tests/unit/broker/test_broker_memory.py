"""What is gone leaves nothing behind: structures that are cleaned lazily stay bounded; a journal rebuilds the state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from messagequeue.broker import Broker, Ordering, Queue, QueueSettings
from messagequeue.broker._groups import SLACK
from messagequeue.broker.storage import Enqueued, Event, Leased, QueueConfigured, QueueDeleted, QueuePurged, Removed


def churn_settled(queue: Queue, step: int) -> None:
    queue.put(step, b"x", key=f"k{step % 3}")
    for lease in queue.take(step, 2):
        queue.settle(step, lease.handle)


def churn_behind_a_stuck_one(queue: Queue, step: int) -> None:
    """The oldest message stays in flight, so nothing can be dropped from the front."""
    if step == 0:
        queue.put(0, b"stuck", key="stuck")
        queue.take(0, visibility=40_000)
    churn_settled(queue, step)


def churn_heartbeats(queue: Queue, step: int) -> None:
    if step == 0:
        queue.put(0, b"x", key="k")
        queue.take(0)
    queue.extend(0, f"{queue.serial}.1.1", 30 + step % 100)


def churn_hidden_again(queue: Queue, step: int) -> None:
    queue.put(step, b"x", key=f"k{step}")
    (lease,) = queue.take(step)
    queue.release(step, lease.handle)
    queue.extend(step, lease.handle, 5)
    queue.settle(step, lease.handle)


def churn_retention(queue: Queue, step: int) -> None:
    queue.put(step * 100, b"x", key=f"k{step}", dedup_id=f"d{step}")


@pytest.mark.parametrize(
    "churn", [churn_settled, churn_behind_a_stuck_one, churn_heartbeats, churn_hidden_again, churn_retention]
)
@pytest.mark.parametrize("ordering", [Ordering.STANDARD, Ordering.KEYED])
def test_garbage_is_bounded(ordering: Ordering, churn: Callable[[Queue, int], None]) -> None:
    """After thousands of messages came and went, what is kept of them does not grow with their number."""
    queue = Broker().create("q", QueueSettings(ordering=ordering, retention=50_000))
    for step in range(5_000):
        churn(queue, step)
        assert queue._store.garbage() <= 4 * SLACK + 2 * len(queue._store.records)

    assert len(queue._store.records) <= 500
    assert len(queue._store._groups) <= len(queue._store.records)
    assert len(queue._dedup) <= 3


def test_dedup_window_forgets() -> None:
    """Only the ids of the last five minutes are kept."""
    queue = Broker().create("q")
    for now in range(2_000):
        queue.put(now, b"x", dedup_id=str(now))

    assert len(queue._dedup) == 300


class Events:
    """A journal that remembers."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def record(self, event: Event, /) -> None:
        self.all.append(event)


def test_journal_is_told_of_every_change_and_of_nothing_else() -> None:
    """One small event for each change of state; what found nothing to do, and time, make none."""
    events = Events()
    broker = Broker(journal=events)
    queue = broker.create("q", QueueSettings(visibility_timeout=10, retention=100))
    queue.put(0, b"x", dedup_id="d")
    queue.put(0, b"x", dedup_id="d")
    lease = queue.take(1)[0]
    queue.extend(2, lease.handle, 5)
    queue.counts(20)
    queue.take(20)
    queue.settle(21, lease.handle)
    queue.purge(22)
    queue.put(23, b"y", delay=5)
    queue.advance(200)
    queue.configure(QueueSettings())
    broker.delete("q")

    assert [type(event) for event in events.all] == [
        QueueConfigured,
        Enqueued,
        Leased,
        Leased,
        Leased,
        QueuePurged,
        Enqueued,
        Removed,
        QueueConfigured,
        QueueDeleted,
    ]
    assert events.all[2:5] == [Leased("q", 1, 1, 1, 11), Leased("q", 1, 1, 2, 7), Leased("q", 1, 2, 20, 30)]


def test_journal_applied_to_a_fresh_broker_keeps_handles_and_sequences_good() -> None:
    """A lease outlives the process: its handle settles after the replay; sequences and serials go on, never back."""
    events = Events()
    broker = Broker(journal=events)
    broker.create("gone")
    broker.delete("gone")
    queue = broker.create("q")
    for _ in range(3):
        queue.put(0, b"x")
    handle = queue.take(1)[0].handle
    queue.purge(2)
    queue.put(3, b"y")
    kept = queue.take(3)[0].handle
    again = Broker()
    for event in events.all:
        again.apply(event)
    copy = again.queue("q")

    assert copy.held(4, kept) == queue.held(4, kept)
    assert copy.settle(4, handle).value == "gone"
    assert copy.settle(4, kept).value == "done"
    assert copy.put(5, b"z").sequence == 5
    assert again.create("new").serial == 3
