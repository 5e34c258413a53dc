"""What faces of the broker other than the providers need: watching, notes, handing over, fairness, disorder."""

from __future__ import annotations

import pytest

from messagequeue.broker import Broker, DeadLetterPolicy, Ordering, Outcome, Queue, QueueSettings, UnknownQueueError
from messagequeue.broker.storage import Event


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def queue(broker: Broker) -> Queue:
    return broker.create("q", QueueSettings(visibility_timeout=10))


def bodies(queue: Queue, now: float = 0, limit: int = 100) -> list[bytes | str]:
    return [lease.message.body for lease in queue.take(now, limit, visibility=0)]


# --- watching


def test_watchers_hear_of_every_change(broker: Broker, queue: Queue) -> None:
    """Also of those that bring nothing yet; never of a look."""
    heard: list[str] = []
    broker.watchers.append(heard.append)

    def told(of: object) -> bool:
        found, heard[:] = list(heard), []
        return found == ["q"] or (isinstance(of, list) and found == ["q"])

    queue.put(0, b"x", delay=5)
    assert told("a delayed put")
    queue.counts(0)
    queue.has_takeable(0)
    queue.next_change(0)
    assert heard == []
    [lease] = queue.take(5)
    assert told("a take")
    queue.extend(5, lease.handle, 20)
    assert told("a longer lease")
    queue.settle(5, lease.handle)
    assert told("a settle")
    broker.delete("q")
    assert told("the end")


def test_watchers_hear_of_the_dead_letter_queue(broker: Broker) -> None:
    """Where a take of another queue has put something there."""
    broker.create("dead")
    queue = broker.create("q", QueueSettings(dead_letters=DeadLetterPolicy("dead", 1)))
    queue.put(0, b"x")
    queue.take(0, visibility=0)
    heard: list[str] = []
    broker.watchers.append(heard.append)
    queue.take(0)

    assert set(heard) == {"dead", "q"}


# --- notes


def test_notes_are_kept_by_key_and_journalled() -> None:
    """A replay has them, too; what was forgotten is gone."""

    class Tape:
        def __init__(self) -> None:
            self.events: list[Event] = []

        def record(self, event: Event, /) -> None:
            self.events.append(event)

    tape, again = Tape(), Broker()
    broker = Broker(journal=tape)
    broker.remember("sqs:a", "1")
    broker.remember("sqs:a", "2")
    broker.remember("sqs:b", "3")
    broker.remember("sqs:b", None)
    broker.remember("other:c", "4")
    for event in tape.events:
        again.apply(event)

    assert broker.notes("sqs:") == again.notes("sqs:") == {"sqs:a": "2"}
    assert again.notes("") == {"sqs:a": "2", "other:c": "4"}


# --- handing over


def test_message_is_handed_over_as_a_new_one(broker: Broker) -> None:
    """New age, id and count; no source, and no longer here."""
    dead = broker.create("dead")
    queue = broker.create("q", QueueSettings(dead_letters=DeadLetterPolicy("dead", 1), delay=5, visibility_timeout=0))
    queue.put(0, b"x", key="k", dedup_id="d", attributes="a", delay=0)
    queue.take(0)
    queue.take(0)
    [seen] = dead.peek(0)

    assert dead.first(9) == seen.message
    assert dead.hand_over(9, seen.message.sequence, queue)
    [moved] = queue.peek(9)

    assert (moved.message.body, moved.message.key, moved.message.attributes) == (b"x", "k", "a")
    assert (moved.message.sent_at, moved.message.source, moved.receives, moved.until) == (9, None, 0, None)
    assert moved.message.id != seen.message.id
    assert (dead.counts(9).total, dead.first(9)) == (0, None)


def test_message_handed_over_to_fifo_is_known_by_its_former_id(broker: Broker) -> None:
    """And has a key, whatever it had."""
    source, target = broker.create("s"), broker.create("t", QueueSettings(ordering=Ordering.FIFO))
    former = source.put(0, b"x").id
    source.hand_over(0, 1, target)

    [moved] = target.peek(0)
    assert (moved.message.dedup_id, moved.message.key) == (former, former)
    assert target.put(0, b"y", key="g", dedup_id=former).duplicate


def test_only_visible_messages_are_handed_over(broker: Broker, queue: Queue) -> None:
    """Neither those in flight nor those that are gone."""
    target = broker.create("t")
    queue.put(0, b"x")
    [lease] = queue.take(0)
    assert not queue.hand_over(0, 1, target)
    queue.settle(0, lease.handle)

    assert not queue.hand_over(0, 1, target)
    assert target.counts(0).total == 0
    assert queue.settle(0, lease.handle) is Outcome.GONE


def test_first_is_what_a_take_would_meet(broker: Broker) -> None:
    """In the order of groups, and none of a locked one."""
    queue = broker.create("q", QueueSettings(ordering=Ordering.FIFO))
    queue.put(0, b"1", key="a")
    queue.put(0, b"2", key="b")
    queue.take(0)

    first = queue.first(0)
    assert first is not None
    assert first.body == b"2"
    broker.delete("q")
    with pytest.raises(UnknownQueueError):
        queue.first(0)


# --- fairness


def fill(queue: Queue, key: str | None, number: int, now: float = 0) -> None:
    for _ in range(number):
        queue.put(now, f"{key}".encode(), key=key)


def test_noisy_tenant_steps_back(queue: Queue) -> None:
    """With 30 messages in flight, and more than a tenth of all, others go first."""
    fill(queue, "noisy", 100)
    assert len(queue.take(0, 30)) == 30
    fill(queue, "quiet", 2)
    fill(queue, None, 1)

    assert bodies(queue, limit=4) == [b"quiet", b"quiet", b"None", b"noisy"]
    assert queue.counts(0).total == 103


def test_tenant_with_few_in_flight_keeps_its_place(queue: Queue) -> None:
    """29 are not many."""
    fill(queue, "a", 40)
    queue.take(0, 29)
    fill(queue, "b", 1)

    assert bodies(queue, limit=1) == [b"a"]


def test_tenant_with_a_small_share_keeps_its_place(queue: Queue) -> None:
    """30 of 300 are a tenth, and not more."""
    for number in range(10):
        fill(queue, str(number), 30)
    queue.take(0, 300)
    fill(queue, "0", 1)
    fill(queue, "b", 1)

    assert bodies(queue, limit=1) == [b"0"]


def test_noisy_tenants_are_served_by_what_they_have_in_flight(queue: Queue) -> None:
    """The one with the fewest first, although its messages are the younger ones."""
    fill(queue, "a", 40)
    queue.take(0, 40)
    fill(queue, "b", 35)
    queue.take(0, 35)
    fill(queue, "a", 10)
    fill(queue, "b", 10)

    assert [lease.message.key for lease in queue.take(0, 10)] == ["b"] * 5 + ["a", "b"] * 2 + ["a"]


def test_noise_ends_with_the_backlog(queue: Queue) -> None:
    """A message that comes later has its place again, once few are in flight."""
    fill(queue, "noisy", 35)
    leases = queue.take(0, 30)
    fill(queue, "quiet", 1)
    assert bodies(queue, limit=1) == [b"quiet"]
    leases += queue.take(0, 100)
    for lease in leases:
        queue.settle(0, lease.handle)
    fill(queue, "noisy", 1)
    fill(queue, "quiet", 1)

    assert bodies(queue, limit=1) == [b"noisy"]


def test_noise_ends_five_minutes_after_the_last_put(broker: Broker) -> None:
    """Its messages are in their places again, each of them once."""
    queue = broker.create("q", QueueSettings(visibility_timeout=1_000))
    fill(queue, "noisy", 40)
    leases = queue.take(0, 30)
    fill(queue, "quiet", 1)
    assert bodies(queue, limit=1) == [b"quiet"]
    for lease in leases:
        queue.settle(10, lease.handle)

    assert bodies(queue, 299, 1) == [b"quiet"]
    assert bodies(queue, 300, 100) == [b"noisy"] * 10 + [b"quiet"]


def test_messages_that_stepped_back_can_be_taken_found_and_removed(queue: Queue) -> None:
    """Nothing is lost or given twice, and nothing is left behind."""
    fill(queue, "noisy", 60)
    leases = queue.take(0, 30)
    fill(queue, "quiet", 1)
    [quiet] = queue.take(0, 1)
    assert queue.has_takeable(0)
    first = queue.first(0)
    assert first is not None
    assert first.sequence == 31
    rest = queue.take(0, 100)
    assert [lease.message.sequence for lease in rest] == list(range(31, 61))
    assert not queue.has_takeable(0)
    for lease in [*leases, quiet, *rest]:
        assert queue.settle(0, lease.handle) is Outcome.DONE

    assert queue.counts(0).total == 0
    assert queue._store.garbage() <= 3 * 64


def test_purge_forgets_tenants(queue: Queue) -> None:
    """A new message has nobody to step back for."""
    fill(queue, "noisy", 60)
    queue.take(0, 30)
    fill(queue, "quiet", 1)
    queue.take(0, 1)
    queue.purge(0)
    fill(queue, "noisy", 1)

    assert bodies(queue) == [b"noisy"]


# --- disorder


def test_shuffled_take_loses_nothing(queue: Queue) -> None:
    """It gives as many as asked for; the others keep their places."""
    for number in range(40):
        queue.put(0, str(number))

    first = queue.take(0, 10, shuffle=lambda window: window.reverse())
    rest = bodies(queue)

    assert [lease.message.body for lease in first] == [str(number) for number in range(25, 15, -1)]
    assert rest == [str(number) for number in range(40) if not 16 <= number <= 25]
