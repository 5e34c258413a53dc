"""Deduplication and dead letters: what is stored once, and where hopeless messages go."""

from __future__ import annotations

import pytest

from messagequeue.broker import (
    Broker,
    Counts,
    DeadLetterPolicy,
    DedupScope,
    Ordering,
    Outcome,
    Queue,
    QueueSettings,
)


def pair(ordering: Ordering, max_receives: int | None = 1, **settings: float) -> tuple[Queue, Queue]:
    broker = Broker()
    policy = DeadLetterPolicy("dead", max_receives)
    source = broker.create(
        "source", QueueSettings(ordering=ordering, visibility_timeout=10, dead_letters=policy, **settings)
    )
    return source, broker.create("dead", QueueSettings(ordering=ordering, **settings))


def test_duplicate_is_remembered_after_the_first_was_settled() -> None:
    """Within 300 s of the first put a repeat gets its id and sequence and stores nothing; then it is new (FIFO-12)."""
    queue = Broker().create("q", QueueSettings(ordering=Ordering.FIFO))
    first = queue.put(0, b"x", key="g", dedup_id="k")
    queue.settle(1, queue.take(1)[0].handle)
    repeats = [queue.put(now, b"x", key="g", dedup_id="k", attributes=now) for now in (2, 299, 301, 302)]

    assert [(r.id, r.sequence) for r in repeats[:2]] == [(first.id, first.sequence)] * 2
    assert [r.duplicate for r in repeats] == [True, True, False, True]
    assert repeats[2].sequence > first.sequence
    assert repeats[3].sequence == repeats[2].sequence
    assert queue.counts(302) == Counts(visible=1)


@pytest.mark.parametrize(("scope", "duplicate"), [(DedupScope.QUEUE, True), (DedupScope.GROUP, False)])
def test_dedup_scope_decides_whether_keys_share_ids(scope: DedupScope, duplicate: bool) -> None:
    """The same id under another key is a duplicate in the scope of the queue, and not in that of the key."""
    queue = Broker().create("q", QueueSettings(ordering=Ordering.FIFO, dedup_scope=scope))
    queue.put(0, b"x", key="a", dedup_id="k")

    assert queue.put(0, b"x", key="b", dedup_id="k").duplicate is duplicate
    assert queue.put(0, b"x", key="a", dedup_id="k").duplicate


def test_exhausted_message_moves_at_the_next_take() -> None:
    """The take after the last allowed receive returns the next message; the moved one keeps what it is."""
    source, dead = pair(Ordering.STANDARD, max_receives=2, retention=1000)
    put = source.put(0, b"bad", attributes={"a": "b"}, key="tag")
    source.put(1, b"good")
    first = source.take(1)[0]
    assert source.take(11, 1)[0].receives == 2
    assert [lease.message.body for lease in source.take(21, 10)] == [b"good"]
    assert source.counts(21) == Counts(in_flight=1)
    (lease,) = dead.take(22)

    assert (lease.message.id, lease.message.body, lease.message.attributes) == (put.id, b"bad", {"a": "b"})
    assert (lease.message.source, lease.message.key, lease.message.sent_at) == ("source", "tag", 0)
    assert (lease.receives, lease.first_received) == (3, 1)
    assert source.settle(22, first.handle) is Outcome.GONE


def test_dead_letter_frees_its_key_within_the_same_take() -> None:
    """With one receive allowed, the second message of a key is given as soon as the first is moved (SRV-11)."""
    source, dead = pair(Ordering.FIFO)
    source.put(0, b"G1", key="g", dedup_id="one")
    source.put(0, b"G2", key="g", dedup_id="two")
    source.take(0)

    assert [lease.message.body for lease in source.take(10)] == [b"G2"]
    assert dead.take(10)[0].message.key == "g"


def test_second_failure_of_the_same_content_arrives_too() -> None:
    """A FIFO target knows a dead letter by its message id, so an id it has seen drops nothing (SRV-11)."""
    source, dead = pair(Ordering.FIFO, dedup_window=5)
    ids = []
    for now in (0, 6):
        ids.append(source.put(now, b"same", key="g", dedup_id="same").id)
        handle = source.take(now)[0].handle
        assert source.dead_letter(now, handle) is Outcome.DONE
    dead_ids = [peek.message.id for peek in dead.peek(6)]

    assert dead_ids == ids
    assert not dead.put(6, b"x", key="g", dedup_id="same").duplicate
    assert dead.put(6, b"x", key="g", dedup_id=ids[1]).duplicate


@pytest.mark.parametrize(("ordering", "sent_at"), [(Ordering.STANDARD, 0), (Ordering.FIFO, 50)])
def test_retention_of_a_dead_letter(ordering: Ordering, sent_at: float) -> None:
    """Its clock goes on in a standard queue and starts anew in a FIFO one."""
    source, dead = pair(ordering, retention=100)
    source.put(0, b"x", key="g")
    source.dead_letter(50, source.take(50)[0].handle)
    dead.put(50, b"younger", key="h")

    assert dead.oldest(50) == sent_at
    assert dead.counts(100).total == (1 if ordering is Ordering.STANDARD else 2)
    assert dead.counts(150).total == 0


def test_dead_letter_by_hand_takes_new_attributes() -> None:
    """Moving at once needs no number of receives, and what the caller adds goes with the message."""
    source, dead = pair(Ordering.STANDARD, max_receives=None)
    source.put(0, b"x", attributes="old")
    lease = source.take(0)[0]

    assert source.dead_letter(0, lease.handle, attributes="new") is Outcome.DONE
    assert source.dead_letter(0, lease.handle) is Outcome.GONE
    assert [(peek.message.attributes, peek.receives) for peek in dead.peek(0)] == [("new", 1)]


def test_missing_target_leaves_the_message() -> None:
    """Without its target a message comes back for ever; with it again, it moves at the next take."""
    source, dead = pair(Ordering.STANDARD)
    broker = source._broker
    broker.delete(dead.name)
    source.put(0, b"x")
    receives = [source.take(now)[0].receives for now in (0, 10, 20)]
    assert source.dead_letter(20, source.take(30)[0].handle) is Outcome.NO_TARGET
    again = broker.create("dead")

    assert receives == [1, 2, 3]
    assert source.take(50) == []
    assert again.counts(50) == Counts(visible=1)


def test_policy_in_force_at_the_take_decides() -> None:
    """Messages received under no policy fall under a later one."""
    broker = Broker()
    broker.create("dead")
    queue = broker.create("q")
    queue.put(0, b"x")
    queue.take(0, visibility=0)
    queue.configure(QueueSettings(dead_letters=DeadLetterPolicy("dead", 1)))

    assert queue.take(1) == []


def test_queue_that_is_its_own_target_gives_each_message_again() -> None:
    """A message moved to its own queue goes to the end and has its receives there before it; a take always ends."""
    queue = Broker().create("q", QueueSettings(visibility_timeout=10, dead_letters=DeadLetterPolicy("q", 1)))
    queue.put(0, b"x")
    assert len(queue.take(0)) == 1
    assert queue.take(10) == []
    (lease,) = queue.take(11)

    assert (lease.receives, lease.message.source, lease.message.sequence) == (2, "q", 2)


def test_unkeyed_message_moved_to_a_fifo_target_gets_a_key_of_its_own() -> None:
    """A FIFO queue holds no message without a key; what had none blocks nothing there."""
    broker = Broker()
    dead = broker.create("dead", QueueSettings(ordering=Ordering.FIFO))
    queue = broker.create("q", QueueSettings(ordering=Ordering.KEYED, dead_letters=DeadLetterPolicy("dead")))
    for _ in range(2):
        queue.put(0, b"x")
    for lease in queue.take(0, 2):
        queue.dead_letter(0, lease.handle)

    assert len(dead.take(0, 1)) == len(dead.take(0, 1)) == 1
