"""Leases, their handles and the counters: who may work on a message, until when, and what the queue says of it."""

from __future__ import annotations

import pytest

from messagequeue import ConfigurationError
from messagequeue.broker import (
    Broker,
    Counts,
    DeadLetterPolicy,
    Lease,
    Ordering,
    Outcome,
    Queue,
    QueueSettings,
    State,
    UnknownQueueError,
)

DONE, GONE, STALE, EXPIRED, UNKNOWN = (
    Outcome.DONE,
    Outcome.GONE,
    Outcome.STALE,
    Outcome.EXPIRED,
    Outcome.UNKNOWN,
)


def queue_of(ordering: Ordering = Ordering.STANDARD, **settings: float) -> Queue:
    return Broker().create("orders", QueueSettings(**{"visibility_timeout": 10, **settings}, ordering=ordering))


def take_one(queue: Queue, now: float, **options: float) -> Lease:
    (lease,) = queue.take(now, 1, **options)
    return lease


def test_receive_counts_up_and_keeps_the_first_time() -> None:
    """Each receive has a new handle and a higher count; the time of the first one stays."""
    queue = queue_of()
    queue.put(1, b"x")
    first, second = take_one(queue, 5), take_one(queue, 15)

    assert (first.receives, first.first_received, first.received_at, first.until) == (1, 5, 5, 15)
    assert (second.receives, second.first_received, second.received_at, second.until) == (2, 5, 15, 25)
    assert first.handle != second.handle
    assert second.message.sent_at == 1


def test_settling_twice_says_gone() -> None:
    """A repeated settle finds nothing to do, and says so."""
    queue = queue_of()
    queue.put(0, b"x")
    lease = take_one(queue, 0)

    assert [queue.settle(0, lease.handle) for _ in range(2)] == [DONE, GONE]
    assert queue.extend(0, lease.handle, 5) is GONE


def test_older_handle_changes_nothing() -> None:
    """Only the latest handle of a message counts."""
    queue = queue_of()
    queue.put(0, b"x")
    old, new = take_one(queue, 0), take_one(queue, 10)

    assert queue.settle(11, old.handle) is STALE
    assert queue.extend(11, old.handle, 0) is STALE
    assert queue.dead_letter(11, old.handle) is STALE
    assert queue.settle(11, new.handle) is DONE


@pytest.mark.parametrize(
    "handle", ["", "x", "1.1", "1.1.2", "1.1.0", "1.2.1", "2.1.1", "1.01.1", "1.1.1.1", "1.-1.1", "1.²1.1", "9" * 5000]
)
def test_handle_that_was_never_given_out_is_unknown(handle: str) -> None:
    """Made-up handles are told from those that were good once."""
    queue = queue_of()
    queue.put(0, b"x")
    take_one(queue, 0)

    assert queue.settle(0, handle) is UNKNOWN
    assert queue.counts(0) == Counts(in_flight=1)


def test_handle_of_an_earlier_queue_of_that_name_is_unknown() -> None:
    """A queue that is made again does not take the handles of the one before."""
    broker = Broker()
    old = broker.create("q")
    old.put(0, b"x")
    handle = take_one(old, 0).handle
    broker.delete("q")
    new = broker.create("q")
    new.put(0, b"y")
    take_one(new, 0)

    assert new.settle(0, handle) is UNKNOWN
    with pytest.raises(UnknownQueueError):
        old.put(0, b"lost")


@pytest.mark.parametrize("ordering", [Ordering.STANDARD, Ordering.KEYED])
def test_ended_lease_still_settles_where_nobody_has_the_message(ordering: Ordering) -> None:
    """Except on FIFO, a handle is good until the message is taken again."""
    queue = queue_of(ordering)
    queue.put(0, b"x", key="k")
    lease = take_one(queue, 0)

    assert queue.held(20, lease.handle) is EXPIRED
    assert queue.settle(20, lease.handle) is DONE


def test_fifo_deadline_decides_settling_extension_and_order_alike() -> None:
    """Extended in time, a FIFO lease settles after its first end; shortened, it does not after the new one (SRV-21)."""
    queue = queue_of(Ordering.FIFO, visibility_timeout=2)
    queue.put(0, b"1", key="g")
    queue.put(0, b"2", key="g")
    first = take_one(queue, 0)
    assert queue.extend(1, first.handle, 10) is DONE
    assert queue.take(5) == []
    assert queue.settle(5, first.handle) is DONE
    second = take_one(queue, 5)
    assert queue.extend(5, second.handle, 1) is DONE

    assert queue.settle(6.5, second.handle) is EXPIRED
    assert queue.extend(6.5, second.handle, 5) is EXPIRED
    assert take_one(queue, 6.5).message.body == b"2"


def test_released_message_can_be_hidden_again_by_its_handle() -> None:
    """Visible at once after a release; the same handle hides it again while nobody took it."""
    queue = queue_of()
    queue.put(0, b"x")
    lease = take_one(queue, 0)

    assert queue.release(1, lease.handle) is DONE
    assert queue.counts(1) == Counts(visible=1)
    assert queue.extend(1, lease.handle, 5) is DONE
    assert queue.counts(1) == Counts(in_flight=1)
    assert queue.counts(6) == Counts(visible=1)


def test_release_with_a_pause_hides_the_message_until_then() -> None:
    """What is given back with a pause counts as in flight until it ends."""
    queue = queue_of()
    queue.put(0, b"x")
    lease = take_one(queue, 0)
    queue.release(1, lease.handle, after=30)

    assert queue.take(30.9) == []
    assert take_one(queue, 31).receives == 2


def test_lease_ends_twelve_hours_after_the_receive_at_the_latest() -> None:
    """An extension counts from now, its end from the receive: 43,200 s fit at once and not a second later."""
    queue = queue_of()
    queue.put(0, b"x")
    lease = take_one(queue, 100)

    assert queue.extend(100, lease.handle, 43_200) is DONE
    assert queue.extend(101, lease.handle, 43_200) is Outcome.BEYOND_LIMIT
    held = queue.held(101, lease.handle)
    assert isinstance(held, Lease)
    assert held.until == 43_300


def test_extension_is_for_this_receive_only() -> None:
    """The next receive has the queue's timeout again."""
    queue = queue_of()
    queue.put(0, b"x")
    queue.extend(0, take_one(queue, 0).handle, 40)

    assert take_one(queue, 40).until == 50


def test_full_queue_gives_nothing_until_one_is_settled() -> None:
    """At the limit in flight a take is empty; room wakes whoever waits."""
    queue = Broker().create("q", QueueSettings(max_in_flight=2))
    for _ in range(3):
        queue.put(0, b"x")
    leases = queue.take(0, 10)
    broker = queue._broker
    broker.drain_ready()

    assert len(leases) == 2
    assert queue.take(0) == []
    assert broker.drain_ready() == set()
    queue.settle(0, leases[0].handle)
    assert broker.drain_ready() == {"q"}
    assert len(queue.take(0, 10)) == 1


def test_counters_change_by_time_alone() -> None:
    """Three plain, two delayed by 5 s, one taken for 10 s: exact at once, at 6 s and at 11 s (SRV-22)."""
    queue = queue_of()
    for delay in (0, 0, 0, 5, 5):
        queue.put(0, b"x", delay=delay)
    take_one(queue, 0)

    assert queue.counts(0) == Counts(visible=2, in_flight=1, delayed=2)
    assert queue.counts(6) == Counts(visible=4, in_flight=1)
    assert queue.counts(11) == Counts(visible=5)


@pytest.mark.parametrize("ordering", Ordering)
def test_sum_of_the_counters_changes_only_when_work_is_done(ordering: Ordering) -> None:
    """Five restarts in mid-work move messages between the counters; settled ones and their sum stay 20 (SHUT-05)."""
    queue = queue_of(ordering)
    ids = {queue.put(0, b"x", key=f"k{number % 5}").id for number in range(20)}
    settled: set[str] = set()
    for start in range(5):
        now = start * 3.0
        for number, lease in enumerate(queue.take(now, 7)):
            if number % 3 == 0:
                queue.settle(now, lease.handle)
                settled.add(lease.message.id)
            elif number % 3 == 1:
                queue.release(now, lease.handle, after=number)
        assert queue.counts(now).total + len(settled) == 20

    assert {peek.message.id for peek in queue.peek(20)} | settled == ids


def test_purge_takes_everything_and_frees_every_key() -> None:
    """Visible, delayed and in-flight messages go; keys and ids are free; old handles are harmless (SRV-16)."""
    queue = queue_of(Ordering.FIFO)
    queue.put(0, b"1", key="g", dedup_id="one")
    queue.put(0, b"2", key="g")
    queue.put(0, b"3", key="h", delay=5)
    lease = take_one(queue, 0)

    assert queue.purge(1) == 3
    assert queue.counts(1) == Counts()
    assert queue.settle(1, lease.handle) is GONE
    again = queue.put(1, b"4", key="g", dedup_id="one")
    assert not again.duplicate
    assert again.sequence == 4
    assert take_one(queue, 1).message.body == b"4"


def test_retention_ends_messages_in_every_state() -> None:
    """A message is gone when its retention ends, also in flight and delayed; a change of the setting counts at once."""
    queue = queue_of(retention=100)
    queue.put(0, b"taken")
    take_one(queue, 0, visibility=500)
    queue.put(0, b"delayed", delay=400)
    queue.put(50, b"later")

    assert queue.counts(99.9).total == 3
    assert [peek.message.body for peek in queue.peek(100)] == [b"later"]
    assert queue.oldest(100) == 50
    queue.configure(QueueSettings(retention=60))
    assert queue.counts(110) == Counts()


def test_peek_receives_nothing() -> None:
    """Looking shows state and deadline and counts as no receive."""
    queue = queue_of()
    queue.put(0, b"taken")
    queue.put(0, b"delayed", delay=3)
    queue.put(0, b"visible")
    take_one(queue, 0)

    assert [(peek.state, peek.receives, peek.until) for peek in queue.peek(0)] == [
        (State.IN_FLIGHT, 1, 10),
        (State.DELAYED, 0, 3),
        (State.VISIBLE, 0, None),
    ]


@pytest.mark.parametrize(
    "change", ["put", "delay", "expiry", "release", "unlock by settle", "unlock by dead letter", "dead letter arrives"]
)
def test_ready_names_the_queue_when_a_parked_take_should_look_again(change: str) -> None:
    """Whatever makes a message takeable names its queue once; nothing else does."""
    broker = Broker()
    dead = broker.create("dead", QueueSettings(ordering=Ordering.FIFO))
    queue = broker.create(
        "q", QueueSettings(ordering=Ordering.FIFO, visibility_timeout=10, dead_letters=DeadLetterPolicy("dead"))
    )
    queue.put(0, b"1", key="g", delay=5 if change == "delay" else None)
    queue.put(0, b"2", key="g")
    handles = [lease.handle for lease in queue.take(0, 1)]
    broker.drain_ready()
    queue.counts(1)
    assert broker.drain_ready() == set()
    actions = {
        "put": lambda: queue.put(1, b"3", key="h"),
        "delay": lambda: queue.advance(5),
        "expiry": lambda: queue.advance(10),
        "release": lambda: queue.release(1, handles[0]),
        "unlock by settle": lambda: queue.settle(1, handles[0]),
        "unlock by dead letter": lambda: queue.dead_letter(1, handles[0]),
        "dead letter arrives": lambda: queue.dead_letter(1, handles[0]),
    }
    actions[change]()

    assert broker.drain_ready() == ({"q", "dead"} if "dead letter" in change else {"q"})
    assert broker.drain_ready() == set()
    assert dead.has_takeable(10) == ("dead letter" in change)


def test_put_behind_a_hidden_message_wakes_nobody() -> None:
    """A message that cannot be taken yet is no news."""
    broker = Broker()
    queue = broker.create("q", QueueSettings(ordering=Ordering.KEYED))
    queue.put(0, b"1", key="g")
    queue.take(0)
    broker.drain_ready()
    queue.put(0, b"2", key="g")

    assert broker.drain_ready() == set()


def test_deleted_queue_is_named_so_that_parked_takes_end() -> None:
    """Deleting wakes those who wait, and every later call says that there is no such queue."""
    broker = Broker()
    queue = broker.create("q")
    broker.delete("q")

    assert broker.drain_ready() == {"q"}
    assert "q" not in broker
    with pytest.raises(UnknownQueueError, match="no queue 'q'"):
        queue.take(0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"visibility_timeout": -1},
        {"visibility_timeout": 43_201},
        {"delay": float("inf")},
        {"retention": float("nan")},
        {"max_in_flight": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """A setting that no queue could honour never becomes one, and the error names it."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        QueueSettings(**wrong)


def test_ordering_of_a_queue_cannot_change() -> None:
    """Every other setting can."""
    queue = queue_of()
    with pytest.raises(ConfigurationError, match="ordering"):
        queue.configure(QueueSettings(ordering=Ordering.FIFO))
