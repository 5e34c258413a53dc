"""Messages that nobody has taken yet, which the broker keeps in another form than the others: nobody can tell."""

from __future__ import annotations

import gc

import pytest

from messagequeue.broker import Broker, DeadLetterPolicy, Draft, Ordering, Outcome, Queue, QueueSettings, State
from messagequeue.broker.storage import Event


class Tape:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event, /) -> None:
        self.events.append(event)


def bodies(queue: Queue, now: float = 0.0, limit: int = 100) -> list[bytes | str]:
    return [lease.message.body for lease in queue.take(now, limit)]


def test_oldest_comes_first_whatever_form_it_has() -> None:
    """One that came back, one whose delay is over, and new ones, by their places in the queue."""
    queue = Broker().create("q", QueueSettings(visibility_timeout=10))
    queue.put(0, b"1")
    queue.put(0, b"2", delay=5)
    queue.put(0, b"3")
    queue.put(0, b"4")
    [lease, _] = queue.take(0, 2)
    queue.release(0, lease.handle)

    assert bodies(queue, 6) == [b"1", b"2", b"4"]


def test_messages_put_at_once_are_as_if_put_one_by_one() -> None:
    """In order, each with its number; a duplicate is answered as such, and what is wrong stores nothing."""
    queue = Broker().create("q")
    many = queue.put_many(0, [Draft(b"a"), Draft(b"b", delay=3), Draft(b"c", dedup_id="d"), Draft(b"e", dedup_id="d")])
    one = queue.put(0, b"f")

    assert [(put.sequence, put.duplicate) for put in many] == [(1, False), (2, False), (3, False), (3, True)]
    assert one.sequence == 4
    assert bodies(queue) == [b"a", b"c", b"f"]
    fifo = Broker().create("q", QueueSettings(ordering=Ordering.FIFO))
    with pytest.raises(Exception, match="ordering_key"):
        fifo.put_many(0, [Draft(b"a", key="k"), Draft(b"b")])
    assert fifo.counts(0).total == 0


def test_all_are_seen_in_their_order_and_stay_as_they_are() -> None:
    """A look changes nothing: the next take has them from the first on."""
    queue = Broker().create("q")
    for number in range(5):
        queue.put(0, str(number), delay=9 if number == 2 else None)
    queue.take(0, 1)
    looks = [[(seen.message.body, seen.state) for seen in queue.peek(0)] for _ in range(2)]

    assert looks[0] == looks[1]
    assert looks[0] == [
        ("0", State.IN_FLIGHT),
        ("1", State.VISIBLE),
        ("2", State.DELAYED),
        ("3", State.VISIBLE),
        ("4", State.VISIBLE),
    ]
    assert bodies(queue) == ["1", "3", "4"]


def test_retention_ends_for_those_who_were_never_taken() -> None:
    """Beside a dead letter that is older than they are, each at its own time."""
    broker = Broker()
    dead = broker.create("dead", QueueSettings(retention=100))
    queue = broker.create("q", QueueSettings(dead_letters=DeadLetterPolicy("dead", 1)))
    queue.put(0, b"old")
    queue.take(0, 1, visibility=0)
    dead.put(20, b"new")
    queue.take(30, 1)
    assert [dead.oldest(30), dead.next_change(30), dead.counts(30).visible] == [0, 100, 2]

    assert [seen.message.body for seen in dead.peek(100)] == [b"new"]
    assert [dead.oldest(100), dead.next_change(100)] == [20, 120]
    assert dead.counts(120).total == 0
    assert dead.next_change(120) is None


@pytest.mark.parametrize("taken", [[0], [3], [7], [7, 0, 3], [1, 2], list(range(8))])
def test_journal_may_name_any_of_them(taken: list[int]) -> None:
    """Leases and removals of whatever was taken, in whatever order, rebuild the queue as it was."""
    tape = Tape()
    broker = Broker(journal=tape)
    queue = broker.create("q")
    queue.put_many(0, [Draft(str(number)) for number in range(8)])

    def shuffle(line: list) -> None:  # type: ignore[type-arg]
        line.sort(key=lambda record: taken.index(int(record.message.body)) if int(record.message.body) in taken else 99)

    leases = queue.take(1, len(taken), shuffle=shuffle)
    assert [int(lease.message.body) for lease in leases] == taken
    queue.settle(2, leases[0].handle)

    again = Broker()
    for event in tape.events:
        again.apply(event)
    copy = again.queue("q")

    assert list(copy.peek(2)) == list(queue.peek(2))
    assert copy.counts(2) == queue.counts(2)
    assert copy.settle(2, leases[-1].handle) is (Outcome.GONE if len(leases) == 1 else Outcome.DONE)
    assert bodies(copy, 3) == [str(number) for number in range(8) if number not in taken]


def test_handle_of_a_message_that_was_never_taken_is_unknown() -> None:
    """Nobody can have it; and the message keeps its place."""
    queue = Broker().create("q")
    queue.put_many(0, [Draft(b"a"), Draft(b"b"), Draft(b"c")])

    assert queue.settle(0, f"{queue.serial}.2.1") is Outcome.UNKNOWN
    assert bodies(queue) == [b"a", b"b", b"c"]


def test_they_do_not_occupy_the_garbage_collector() -> None:
    """It forgets them after its first look: a full queue does not slow down whatever else a process does."""
    queue = Broker().create("q")
    gc.collect()
    before = len(gc.get_objects())
    queue.put_many(0, [Draft(str(number)) for number in range(10_000)])
    gc.collect()

    assert len(gc.get_objects()) - before < 1_000
    assert queue.purge(0) == 10_000
