"""Slots that consumers share: who gets the next, and how much each may receive; without waiting."""

from __future__ import annotations

from collections import Counter

import pytest

from messagequeue.runtime.sharing import QUIET_AFTER, Look, SharedSlots, StrictOrder, WeightedOrder


class Part:
    """A consumer with a number of messages; what it starts runs until it is told otherwise."""

    def __init__(self, slots, rank, ready, started):
        self.share, self.name, self.ready, self.started, self.turns = slots.shares[rank], rank, ready, started, 0
        self.receives = True
        self.share.join(self)

    def start_next(self):
        self.ready -= 1
        self.started.append(self.name)

    def turned(self):
        self.turns += 1

    def end(self):
        self.share.ended()
        self.share.turn()


def parts(order, slots, *ready):
    pool, started = SharedSlots(slots, len(ready), order), []
    return pool, [Part(pool, rank, count, started) for rank, count in enumerate(ready)], started


def test_strict_order_gives_a_free_slot_to_the_most_urgent() -> None:
    """A less urgent message starts when no more urgent one is there."""
    _, (urgent, bulk), started = parts(StrictOrder(), 2, 3, 5)
    urgent.share.turn()
    assert started == [0, 0]

    urgent.end()
    urgent.end()

    assert started == [0, 0, 0, 1]
    assert (urgent.ready, bulk.ready) == (0, 4)


def test_strict_order_receives_less_urgent_ones_only_when_the_others_are_empty() -> None:
    """Not looked at, a message at hand, an answer with messages: each keeps the later topics from being received."""
    _, (urgent, bulk), _ = parts(StrictOrder(), 4, 0, 0)
    assert bulk.share.room(0.0) == 0  # not looked at yet

    urgent.share.look.launched(0.0)
    assert bulk.share.room(QUIET_AFTER / 2) == 0
    assert bulk.share.room(QUIET_AFTER) == 4

    urgent.share.look.answered(1)
    urgent.ready = 1
    assert bulk.share.room(1.0) == 0

    urgent.ready = 0
    urgent.share.look.launched(2.0)
    assert bulk.share.room(2.0) == 0

    urgent.share.look.answered(0)
    assert bulk.share.room(2.1) == 4


def test_strict_order_keeps_one_urgent_message_at_hand() -> None:
    """With every slot taken an urgent topic is received from all the same, so that the next free slot is its."""
    _, (urgent, middle, bulk), _ = parts(StrictOrder(), 1, 0, 0, 1)
    bulk.share.turn()
    for part in (urgent, middle):
        part.share.look.answered(0)

    assert [part.share.room(9.0) for part in (urgent, middle, bulk)] == [1, 1, 0]


def test_weights_are_the_proportion_of_slots_while_all_have_messages() -> None:
    """3 to 1, interleaved and not in runs."""
    _, (often, seldom), started = parts(WeightedOrder([3, 1]), 1, 40, 40)
    often.share.turn()
    while len(started) < 40:
        (often, seldom)[started[-1]].end()

    assert Counter(started) == {0: 30, 1: 10}
    assert all(0 < started[at : at + 4].count(1) <= 1 for at in range(36))


def test_a_topic_that_is_alone_in_having_messages_gets_every_slot() -> None:
    """Weights do not idle a slot; and it gets no debt for what nobody else wanted."""
    _, (often, seldom), started = parts(WeightedOrder([9, 1]), 4, 0, 8)
    often.share.turn()
    assert started == [1] * 4

    often.ready = 2
    seldom.end()
    seldom.end()

    assert started[4:] == [0, 0]


def test_a_member_that_left_takes_no_slot_and_blocks_nobody() -> None:
    """Its consumption is over; what still runs of it keeps its slots until it ends."""
    _, (urgent, bulk), started = parts(StrictOrder(), 2, 3, 3)
    urgent.share.turn()
    urgent.share.leave()
    assert bulk.share.room(0.0) == 0  # no slot is free, and three are at hand

    urgent.end()

    assert started == [0, 0, 1]


@pytest.mark.parametrize("free", [0, 3])
def test_what_is_ready_takes_free_slots_before_more_is_received(free: int) -> None:
    """Together they hold what can start soon, and a few."""
    pool, (_often, seldom), _ = parts(WeightedOrder([1, 1]), 4, 0, 0)
    pool.used = 4 - free
    seldom.ready = 2

    assert seldom.share.room(0.0) == max(0, free - 2)


def test_a_look_lasts_until_a_message_comes() -> None:
    """An empty answer says that there is none; a receive that is out for a while says so too."""
    look = Look()
    assert not look.quiet(0.0)
    look.launched(0.0)
    look.launched(5.0)  # a second receive does not start the look anew
    assert look.quiet(QUIET_AFTER)

    look.answered(2)
    assert not look.quiet(99.0)
