"""Order: of a standard queue, of the messages of one key, and of the keys among each other."""

from __future__ import annotations

import pytest

from messagequeue import InvalidMessageError
from messagequeue.broker import Broker, Counts, Ordering, Outcome, Queue, QueueSettings


def queue_of(ordering: Ordering, **settings: float) -> Queue:
    return Broker().create("orders", QueueSettings(ordering=ordering, visibility_timeout=10, **settings))


def fill(queue: Queue, *names: str) -> None:
    """`a1` is message a1 of key a; `-1` one without a key."""
    for name in names:
        queue.put(0, name, key=None if name.startswith("-") else name[0])


def take(queue: Queue, now: float, limit: int = 10, **options: float) -> dict[str, str]:
    return {str(lease.message.body): lease.handle for lease in queue.take(now, limit, **options)}


def bodies(queue: Queue, now: float, limit: int = 10) -> list[str]:
    return list(take(queue, now, limit))


@pytest.mark.parametrize("ordering", [Ordering.KEYED, Ordering.FIFO])
def test_order_of_a_key_waits_for_every_earlier_message(ordering: Ordering) -> None:
    """Nothing of a key is given while an earlier message of it is hidden, however its lease was moved (SRV-09)."""
    queue = queue_of(ordering)
    fill(queue, "g1", "g2", "g3")
    held = take(queue, 0, 3)
    assert queue.extend(0, held["g1"], 15) is Outcome.DONE
    fill(queue, "h1")

    assert bodies(queue, 12) == ["h1"]
    assert bodies(queue, 16) == ["g1", "g2", "g3"]


def test_order_of_a_key_is_not_freed_by_settling_some() -> None:
    """A new message waits until all that were taken before it are settled or visible, not just some (SRV-09)."""
    queue = queue_of(Ordering.FIFO)
    fill(queue, "g1", "g2", "g3")
    held = take(queue, 0)
    fill(queue, "g4", "h1")
    queue.settle(1, held["g2"])

    assert bodies(queue, 1) == ["h1"]
    queue.settle(2, held["g1"])
    assert bodies(queue, 2) == []
    queue.settle(3, held["g3"])
    assert bodies(queue, 3) == ["g4"]


def test_order_of_a_key_lets_an_earlier_message_back_while_later_ones_are_out() -> None:
    """A message given back is taken again in its place; later ones in flight stay hidden, new ones stay behind."""
    queue = queue_of(Ordering.FIFO)
    fill(queue, "g1", "g2", "g3")
    held = take(queue, 0, 2)
    queue.release(1, held["g1"])

    assert bodies(queue, 1) == ["g1"]
    assert bodies(queue, 2) == []


@pytest.mark.parametrize("way", ["expire", "release"])
@pytest.mark.parametrize("ordering", Ordering)
def test_returned_messages_come_back_in_their_place(ordering: Ordering, way: str) -> None:
    """Two of five come back by time or by hand: the order is as it was, and each comes once (SRV-12)."""
    queue = queue_of(ordering)
    fill(queue, "g1", "g2", "g3", "g4", "g5")
    held = take(queue, 0, 2)
    if way == "release":
        for handle in held.values():
            queue.release(1, handle)

    assert bodies(queue, 1 if way == "release" else 10) == ["g1", "g2", "g3", "g4", "g5"]


def test_taking_empties_the_key_that_waits_longest_first() -> None:
    """One take gets all it can of the oldest key before the next key."""
    queue = queue_of(Ordering.FIFO)
    fill(queue, "a1", "b1", "a2", "a3", "b2")

    assert bodies(queue, 0, 4) == ["a1", "a2", "a3", "b1"]


def test_key_that_was_served_goes_behind_those_that_wait() -> None:
    """After a message of key a was handled, b and c have their turns before a has its next."""
    queue = queue_of(Ordering.FIFO)
    fill(queue, "a1", "b1", "c1", "a2")
    for expected in ["a1", "b1", "c1", "a2"]:
        ((body, handle),) = take(queue, 0, 1).items()
        queue.settle(0, handle)
        assert body == expected


def test_unkeyed_messages_of_a_keyed_queue_are_not_serialised() -> None:
    """Without a key a message waits for nobody; with one it does, and age decides between them."""
    queue = queue_of(Ordering.KEYED)
    fill(queue, "-1", "a1", "-2", "a2", "-3")

    assert bodies(queue, 0, 2) == ["-1", "a1"]
    assert bodies(queue, 0) == ["-2", "-3"]


def test_standard_keys_order_nothing() -> None:
    """On a standard queue a key is a tag: the second message of it is taken while the first is in flight."""
    queue = queue_of(Ordering.STANDARD)
    fill(queue, "a1", "a2")

    assert bodies(queue, 0, 1) == ["a1"]
    assert bodies(queue, 0, 1) == ["a2"]


def test_fifo_refuses_a_message_without_a_key() -> None:
    """The error says what to pass, and nothing is stored."""
    queue = queue_of(Ordering.FIFO)
    with pytest.raises(InvalidMessageError, match="pass ordering_key"):
        queue.put(0, "body")

    assert queue.counts(0) == Counts()


def test_delayed_message_holds_back_its_key_only() -> None:
    """Later messages of a key wait for a delayed one; other keys do not."""
    queue = queue_of(Ordering.FIFO)
    queue.put(0, "a1", key="a", delay=5)
    fill(queue, "a2", "b1")

    assert queue.counts(0) == Counts(visible=2, delayed=1)
    assert bodies(queue, 4) == ["b1"]
    assert bodies(queue, 5) == ["a1", "a2"]


def test_delay_of_the_queue_holds_for_every_message_and_zero_overrides_it() -> None:
    """The queue's delay applies where a put gives none; order is kept."""
    queue = queue_of(Ordering.FIFO, delay=2)
    fill(queue, "a1", "a2")
    queue.put(0, "b1", key="b", delay=0)

    assert bodies(queue, 0) == ["b1"]
    assert bodies(queue, 1.9) == []
    assert bodies(queue, 2) == ["a1", "a2"]


def test_retention_of_the_first_message_frees_its_key() -> None:
    """When a message in flight outlives the retention, the next of its key is free."""
    queue = queue_of(Ordering.FIFO, retention=60)
    queue.put(0, "a1", key="a")
    queue.put(59, "a2", key="a")
    queue.take(59, 1, visibility=30)

    assert queue.next_change(59) == 60
    assert bodies(queue, 60) == ["a2"]


def test_zero_visibility_gives_each_message_once_and_puts_its_key_last() -> None:
    """A take that hides nothing returns nothing twice; the key has had its turn."""
    queue = queue_of(Ordering.KEYED)
    fill(queue, "a1", "a2", "-1", "b1")

    assert list(take(queue, 0, 10, visibility=0)) == ["a1", "a2", "-1", "b1"]
    assert queue.counts(0) == Counts(visible=4)
    assert [peek.receives for peek in queue.peek(0)] == [1, 1, 1, 1]


def test_message_shown_twice_is_given_once() -> None:
    """Released, hidden again and released again, a message has one place in the queue."""
    queue = queue_of(Ordering.STANDARD)
    fill(queue, "-1", "-2")
    handle = take(queue, 0, 1)["-1"]
    for by in (0, 5, 0, 0):
        queue.extend(0, handle, by)

    assert [lease.message.body for lease in queue.take(0, 10, visibility=0)] == ["-1", "-2"]


def test_message_put_after_the_last_was_settled_stays_behind_the_first() -> None:
    """The chain of a key is whole after its end was taken off."""
    queue = queue_of(Ordering.FIFO)
    fill(queue, "g1", "g2")
    held = take(queue, 0)
    queue.settle(0, held["g2"])
    fill(queue, "g3")

    assert bodies(queue, 0) == []
    assert bodies(queue, 10) == ["g1", "g3"]
