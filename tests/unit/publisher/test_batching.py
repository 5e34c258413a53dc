"""Which items leave together, and when."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from messagequeue.runtime.batching import Batch, Batcher
from messagequeue.runtime.lines import Item


class Thing(Item):
    __slots__ = ("name",)

    def __init__(self, name: str, size: int = 1, key: str | None = None) -> None:
        super().__init__(size, key)
        self.name = name


def things(names: str, *, key: str | None = None, size: int = 1) -> list[Thing]:
    return [Thing(name, size, key) for name in names]


def keyed(*names: str) -> list[Thing]:
    """Things named `a1`, `b2`, ...: the letter is the key."""
    return [Thing(name, 1, name[0]) for name in names]


def add(batcher: Batcher[Thing], items: Iterable[Thing], now: float = 0.0) -> None:
    for item in items:
        batcher.add(item, now)


def taken(batcher: Batcher[Thing], now: float = 0.0) -> Batch[Thing]:
    batch = batcher.take(now)
    assert batch is not None
    return batch


def names(batch: Batch[Thing] | None) -> str | None:
    return None if batch is None else " ".join(item.name for item in batch.items)


def make(
    *,
    max_entries: int = 3,
    max_bytes: int | None = None,
    max_in_flight: int = 2,
    linger: float = 1.0,
    ordered: bool = False,
) -> Batcher[Thing]:
    return Batcher(
        max_entries=max_entries,
        max_bytes=max_bytes,
        max_in_flight=max_in_flight,
        linger=linger,
        ordered=ordered,
    )


def test_lone_item_leaves_at_once() -> None:
    """With nothing under way, a partial batch does not wait for company."""
    batcher = make(linger=60)
    add(batcher, things("a"))

    assert names(batcher.take(0.0)) == "a"


def test_partial_batch_waits_for_linger_while_another_is_under_way() -> None:
    """It leaves when its oldest item waited *linger*; `due()` says when that is."""
    batcher = make(linger=1.0)
    add(batcher, things("a"))
    batcher.take(0.0)
    add(batcher, things("b"), now=5.0)
    add(batcher, things("c"), now=5.5)

    assert batcher.take(5.9) is None
    assert batcher.due() == 6.0
    assert names(batcher.take(6.0)) == "b c"
    assert batcher.due() is None


def test_partial_batch_leaves_when_nothing_is_under_way_any_more() -> None:
    """The end of the last call lets what gathered meanwhile go."""
    batcher = make(linger=60)
    add(batcher, things("a"))
    first = taken(batcher)
    add(batcher, things("bc"))

    assert batcher.take(0.0) is None
    batcher.complete(first)
    assert names(batcher.take(0.0)) == "b c"


def test_full_batch_leaves_at_once_up_to_the_calls_in_flight() -> None:
    """A full batch waits for a free call only, never for the linger."""
    batcher = make(max_entries=2, max_in_flight=2, linger=60)
    add(batcher, things("abcdef"))

    first = taken(batcher)
    assert names(batcher.take(0.0)) == "c d"
    assert batcher.take(100.0) is None
    assert batcher.due() is None
    batcher.complete(first)
    assert names(batcher.take(0.0)) == "e f"


def test_flushing_lets_partial_batches_go() -> None:
    """While flushing nothing lingers."""
    batcher = make(linger=60)
    add(batcher, things("a"))
    batcher.take(0.0)
    add(batcher, things("b"))
    batcher.flushing = True

    assert names(batcher.take(0.0)) == "b"


def test_batch_is_bounded_by_bytes() -> None:
    """Sizes in a batch sum to *max_bytes* at most; a batch that is full by bytes leaves at once (BAT-01)."""
    batcher = make(max_entries=10, max_bytes=10, max_in_flight=9, linger=60)
    add(batcher, [Thing("a", 6), Thing("b", 4), Thing("c", 6), Thing("d", 5), Thing("e", 1)])

    assert [names(batcher.take(0.0)) for _ in range(3)] == ["a b", "c", None]
    batcher.flushing = True
    assert names(batcher.take(0.0)) == "d e"


def test_item_larger_than_a_batch_leaves_alone() -> None:
    """It is not this class's to refuse it, and it must not block the others."""
    batcher = make(max_entries=10, max_bytes=10, max_in_flight=9)
    add(batcher, [Thing("a", 1), Thing("b", 11), Thing("c", 1)])
    batcher.flushing = True

    assert [names(batcher.take(0.0)) for _ in range(3)] == ["a", "b", "c"]


def test_key_under_way_is_locked() -> None:
    """Later items of a key wait until its batch is complete; other keys and items without one do not."""
    batcher = make(max_in_flight=9, linger=0.0, ordered=True)
    add(batcher, keyed("a1"))
    first = taken(batcher)
    add(batcher, [*keyed("a2", "b1"), *things("x")])

    assert names(batcher.take(0.0)) == "x b1"
    assert batcher.take(0.0) is None
    batcher.complete(first)
    assert names(batcher.take(0.0)) == "a2"


def test_key_means_nothing_without_order() -> None:
    """Where the topic has no order, a key locks nothing."""
    batcher = make(max_entries=1, max_in_flight=9)
    add(batcher, keyed("a1", "a2"))

    assert [names(batcher.take(0.0)), names(batcher.take(0.0))] == ["a1", "a2"]


def test_items_of_a_key_share_a_batch_in_order() -> None:
    """One key alone fills its batches."""
    batcher = make(max_entries=3, max_in_flight=9, ordered=True)
    add(batcher, keyed("a1", "a2", "a3", "a4"))

    assert names(batcher.take(0.0)) == "a1 a2 a3"


def test_ready_keys_take_turns() -> None:
    """A key with many items gets one place per round, so that it cannot starve the others."""
    batcher = make(max_entries=4, max_in_flight=1, ordered=True)
    add(batcher, keyed("a1", "a2", "a3", "a4", "a5", "b1", "c1"))

    first = taken(batcher)
    assert names(first) == "a1 b1 c1 a2"
    add(batcher, keyed("d1"))
    batcher.complete(first)
    assert names(batcher.take(0.0)) == "d1 a3 a4 a5"


def test_unkeyed_items_and_keys_share_by_age() -> None:
    """Neither a thousand keys nor a thousand items without one keep the other side waiting for ever."""
    batcher = make(max_entries=2, max_in_flight=9, ordered=True)
    add(batcher, things("x"), now=0.0)
    add(batcher, keyed("a1", "b1"), now=1.0)
    add(batcher, things("y"), now=2.0)
    add(batcher, keyed("c1"), now=3.0)

    assert [names(batcher.take(9.0)) for _ in range(3)] == ["x a1", "b1 y", "c1"]


def test_held_items_stay_ahead_of_their_key() -> None:
    """What is to be sent again keeps its key locked, and comes before all later items of the key."""
    batcher = make(max_entries=3, max_in_flight=9, linger=0.0, ordered=True)
    a1, a2, b1, b2 = keyed("a1", "a2", "b1", "b2")
    add(batcher, [a1, a2, b1])
    first = taken(batcher)
    add(batcher, [*keyed("a3"), b2])
    batcher.complete(first, held=[a1, a2])

    assert names(batcher.take(0.0)) == "b2"
    assert batcher.take(99.0) is None
    batcher.restore([a1, a2])
    assert names(batcher.take(0.0)) == "a1 a2 a3"


def test_discarded_item_does_not_leave() -> None:
    """A withdrawn item is skipped; one that has been taken cannot be withdrawn."""
    batcher = make(max_entries=2, max_in_flight=9, linger=60)
    a, b, c = things("abc")
    add(batcher, [a, b, c])

    assert batcher.discard(a)
    assert not batcher.discard(a)
    assert names(batcher.take(0.0)) == "b c"
    assert not batcher.discard(b)
    assert batcher.waiting == 0


def test_discarded_items_do_not_make_a_batch_full() -> None:
    """Only what is still wanted counts."""
    batcher = make(max_entries=2, max_bytes=10, linger=60)
    add(batcher, things("z"))
    batcher.take(0.0)
    big, b, c = Thing("a", 10), Thing("b"), Thing("c")
    add(batcher, [big, b])
    batcher.discard(big)

    assert batcher.take(0.0) is None
    add(batcher, [c])
    assert names(batcher.take(0.0)) == "b c"


def test_discarded_keys_leave_nothing_behind() -> None:
    """Keys that come and are withdrawn, or held and given up, do not pile up."""
    batcher = make(max_in_flight=9, ordered=True)
    for number in range(1000):
        item = Thing("a", 1, f"key {number}")
        batcher.add(item, 0.0)
        batcher.discard(item)
    assert (len(batcher._lines), len(batcher._ready)) == (0, 0)
    held = keyed("a1")
    add(batcher, held)
    batcher.complete(taken(batcher), held)
    batcher.discard(held[0])
    batcher.restore(held)

    assert batcher.take(99.0) is None
    assert (len(batcher._lines), len(batcher._ready), batcher.waiting) == (0, 0, 0)


def test_nothing_waiting_means_no_batch() -> None:
    """Asking an empty batcher is harmless (BAT-09)."""
    batcher = make()

    assert batcher.take(0.0) is None
    assert batcher.due() is None


def test_cost_of_a_batch_does_not_depend_on_the_number_of_keys() -> None:
    """With 20 keys or 20 000 waiting, and as many locked, a batch takes the same number of steps."""
    assert _steps_of_a_batch(keys=20_000) == _steps_of_a_batch(keys=20)


def _steps_of_a_batch(keys: int) -> int:
    batcher = make(max_entries=10, max_in_flight=20_000, ordered=True)
    for number in range(2 * keys):
        batcher.add(Thing("a", 1, f"{number}"), 0.0)
        batcher.add(Thing("b", 1, f"{number}"), 0.0)
    for _ in range(keys // 10):
        batcher.take(0.0)
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        batcher.complete(taken(batcher))
    finally:
        sys.setprofile(before)
    return steps


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), ordered=st.booleans(), entries=st.integers(1, 5), calls=st.integers(1, 4))
def test_order_holds_and_nothing_is_lost_whatever_fails(seed: int, ordered: bool, entries: int, calls: int) -> None:
    """
    Under random arrivals, withdrawals, partial failures and pauses: every item leaves exactly once for good, unless it
    was withdrawn; batches keep their bounds; the items of a key never turn around (FIFO-07, BAT-01).
    """
    run = _Run(random.Random(seed), make(max_entries=entries, max_bytes=12, max_in_flight=calls, ordered=ordered))
    for _ in range(120):
        run.step()
    run.finish()

    assert sorted([*run.done, *run.withdrawn]) == list(range(run.made))
    assert run.batcher.waiting == run.batcher.in_flight == 0
    assert not run.batcher._lines
    if ordered:
        for order in run.done_of_key.values():
            assert order == sorted(order)


@given(
    arrivals=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, "a", "b"])), max_size=9), max_size=6
    ),
    ordered=st.booleans(),
)
def test_extending_is_adding_one_by_one(arrivals: list[list[tuple[int, str | None]]], ordered: bool) -> None:
    """The same batches leave at the same times."""
    together, alone = (make(max_bytes=20, max_in_flight=3, ordered=ordered) for _ in range(2))
    left: list[list[str]] = [[], []]
    for turn, arrival in enumerate(arrivals):
        made = [[Thing(f"{turn}.{at}", size, key) for at, (size, key) in enumerate(arrival)] for _ in range(2)]
        together.extend(made[0], turn)
        add(alone, made[1], turn)
        for batcher, out in zip((together, alone), left, strict=True):
            while (batch := batcher.take(turn + 0.5)) is not None:
                out.append(f"{turn}: {names(batch)}")
            out.append(f"{batcher.due()} {batcher.waiting}")

    assert left[0] == left[1]


class _Run:
    """Drives a batcher at random, as a publisher does, and notes what is done."""

    def __init__(self, dice: random.Random, batcher: Batcher[Thing]) -> None:
        self.dice = dice
        self.batcher = batcher
        self.now = 0.0
        self.made = 0
        self.items: list[Thing] = []
        self.flying: list[Batch[Thing]] = []
        self.held: list[list[Thing]] = []
        self.done: list[int] = []
        self.withdrawn: list[int] = []
        self.done_of_key: dict[object, list[int]] = defaultdict(list)

    def step(self) -> None:
        self.now += self.dice.random()
        self.dice.choice([self.arrive, self.arrive, self.take, self.end, self.withdraw, self.restore])()

    def arrive(self) -> None:
        several: list[Thing] = []
        together = self.dice.random() < 0.5
        for _ in range(self.dice.randint(1, 6)):
            item = Thing(str(self.made), self.dice.randint(0, 15), self.dice.choice([None, "a", "b", "c"]))
            self.made += 1
            self.items.append(item)
            several.append(item)
            if not together:
                self.batcher.add(item, self.now)
        if together:
            self.batcher.extend(several, self.now)

    def take(self) -> None:
        batch = self.batcher.take(self.now)
        if batch is not None:
            assert 0 < len(batch.items) <= self.batcher._max_entries
            assert len(batch.items) == 1 or sum(item.size for item in batch.items) <= 12
            self.flying.append(batch)
        assert len(self.flying) == self.batcher.in_flight <= self.batcher._max_in_flight

    def end(self) -> None:
        if not self.flying:
            return
        batch = self.flying.pop(self.dice.randrange(len(self.flying)))
        stored: set[object] = set()
        again: list[Thing] = []
        for item in reversed(batch.items):
            if self.dice.random() < 0.3 and item.key not in stored:
                again.append(item)
            elif item.key is not None:
                stored.add(item.key)
        again.reverse()
        self.batcher.complete(batch, again)
        self.confirm(item for item in batch.items if item not in again)
        if again:
            self.held.append(again)

    def confirm(self, items: Iterable[Thing]) -> None:
        for item in items:
            self.done.append(int(item.name))
            if item.key is not None:
                self.done_of_key[item.key].append(int(item.name))

    def restore(self) -> None:
        if self.held:
            self.batcher.restore(self.held.pop(self.dice.randrange(len(self.held))))

    def withdraw(self) -> None:
        if self.items and self.batcher.discard(item := self.dice.choice(self.items)):
            self.withdrawn.append(int(item.name))

    def finish(self) -> None:
        self.batcher.flushing = True
        for _ in range(10_000):
            if not (self.batcher.waiting or self.flying or self.held):
                return
            self.restore()
            self.take()
            self.end()
        raise AssertionError("items are stuck")
