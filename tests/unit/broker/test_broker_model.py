"""The broker against a naive model (lists and linear scans) that knows the rules and nothing of speed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from messagequeue.broker import (
    Broker,
    Counts,
    DeadLetterPolicy,
    DedupScope,
    Lease,
    Ordering,
    Outcome,
    QueueSettings,
    State,
)
from messagequeue.broker.storage import Event

VISIBILITY, RETENTION, WINDOW, MAX_RECEIVES, MAX_IN_FLIGHT, MAX_LEASE = 10.0, 200.0, 30.0, 2, 6, 40.0
BASE = QueueSettings(
    visibility_timeout=VISIBILITY,
    retention=RETENTION,
    dedup_window=WINDOW,
    max_in_flight=MAX_IN_FLIGHT,
    max_lease=MAX_LEASE,
)


@dataclass
class Naive:
    """One message of the model."""

    sequence: int
    id: str
    key: str | None
    sent_at: float
    due: float = 0.0
    leased: bool = False
    receives: int = 0
    carried: int = 0
    received_at: float = 0.0

    def state(self, now: float) -> State:
        if self.due <= now:
            return State.VISIBLE
        return State.IN_FLIGHT if self.leased else State.DELAYED


@dataclass
class NaiveQueue:
    """One queue of the model: everything by scanning a list in sequence."""

    settings: QueueSettings
    messages: list[Naive] = field(default_factory=list)
    seen: list[tuple[float, str | None, str, str, int]] = field(default_factory=list)
    handles: dict[str, tuple[int, int]] = field(default_factory=dict)

    def advance(self, now: float) -> None:
        self.messages = [m for m in self.messages if m.sent_at + RETENTION > now]
        self.seen = [entry for entry in self.seen if entry[0] + WINDOW > now]

    def counts(self, now: float) -> Counts:
        states = [message.state(now) for message in self.messages]
        return Counts(*(states.count(state) for state in (State.VISIBLE, State.IN_FLIGHT, State.DELAYED)))

    def room(self, now: float) -> int:
        return MAX_IN_FLIGHT - self.counts(now).in_flight

    def takeable(self, now: float) -> list[Naive]:
        """All that may be taken: visible, and nothing earlier of the same key is hidden."""
        blocked: set[str | None] = set()
        found = []
        for message in self.messages:
            ordered = self.settings.ordering is not Ordering.STANDARD and message.key is not None
            if message.state(now) is not State.VISIBLE:
                blocked.update({message.key} if ordered else ())
            elif not ordered or message.key not in blocked:
                found.append(message)
        return found

    def exhausted(self, message: Naive) -> bool:
        policy = self.settings.dead_letters
        bound = None if policy is None else policy.max_receives
        return bound is not None and message.receives - message.carried >= bound

    def duplicate(self, key: str | None, dedup_id: str | None) -> tuple[str, int] | None:
        for _, seen_key, seen_id, first, sequence in self.seen:
            same = self.settings.dedup_scope is DedupScope.QUEUE or seen_key == key
            if seen_id == dedup_id and same:
                return first, sequence
        return None

    def find(self, now: float, handle: str) -> Naive | Outcome:
        if handle not in self.handles:
            return Outcome.UNKNOWN
        sequence, receive = self.handles[handle]
        for message in self.messages:
            if message.sequence == sequence:
                if message.receives != receive:
                    return Outcome.STALE
                fifo = self.settings.ordering is Ordering.FIFO
                return Outcome.EXPIRED if fifo and message.state(now) is State.VISIBLE else message
        return Outcome.GONE


class Events:
    """A journal that remembers."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def record(self, event: Event, /) -> None:
        self.all.append(event)


class BrokerMachine(RuleBasedStateMachine):
    """Both do the same; after every step they must look the same."""

    ordering = Ordering.STANDARD

    @initialize(scope=st.sampled_from(DedupScope), chained=st.booleans())
    def start(self, scope: DedupScope, chained: bool) -> None:
        self.now = 0.0
        self.events = Events()
        self.broker = Broker(journal=self.events)
        base = replace(BASE, ordering=self.ordering, dedup_scope=scope)
        main = replace(base, dead_letters=DeadLetterPolicy("dead", MAX_RECEIVES))
        # A dead-letter queue may have dead letters of its own; "main" closes the circle, "dead" is its own target.
        dead = replace(base, dead_letters=DeadLetterPolicy("main" if chained else "dead", 1))
        self.model = {"main": NaiveQueue(main), "dead": NaiveQueue(dead)}
        for name, queue in self.model.items():
            self.broker.create(name, queue.settings)

    def both(self, name: str) -> NaiveQueue:
        for queue in self.model.values():
            queue.advance(self.now)
        return self.model[name]

    names = st.sampled_from(["main", "main", "dead"])

    @rule(
        name=names,
        key=st.sampled_from([None, "a", "a", "b", "c"]),
        dedup_id=st.sampled_from([None, None, "x", "y"]),
        delay=st.sampled_from([None, None, 0.0, 5.0, 12.0]),
    )
    def put(self, name: str, key: str | None, dedup_id: str | None, delay: float | None) -> None:
        if self.ordering is Ordering.FIFO and key is None:
            key = "only"
        model = self.both(name)
        result = self.broker.queue(name).put(self.now, b"", key=key, dedup_id=dedup_id, delay=delay)

        first = model.duplicate(key, dedup_id)
        assert result.duplicate == (first is not None)
        if first is not None:
            assert (result.id, result.sequence) == first
            return
        assert result.sequence > max((m.sequence for m in model.messages), default=0)
        due = self.now + delay if delay else self.now
        model.messages.append(Naive(result.sequence, result.id, key, self.now, due=due))
        if dedup_id is not None:
            model.seen.append((self.now, key, dedup_id, result.id, result.sequence))

    @rule(name=names, limit=st.integers(1, 10), visibility=st.sampled_from([None, None, 0.0, 3.0, 20.0]))
    def take(self, name: str, limit: int, visibility: float | None) -> None:
        model = self.both(name)
        takeable, room = model.takeable(self.now), min(limit, model.room(self.now))
        leases = self.broker.queue(name).take(self.now, limit, visibility=visibility)

        taken = [lease.message.sequence for lease in leases]
        dead = [m for m in takeable if room > 0 and model.exhausted(m) and self._moved(name, m)]
        alive = [m for m in takeable if not model.exhausted(m)]
        assert len(taken) == max(0, min(room, len(alive)))
        assert set(taken) <= {m.sequence for m in alive}
        self._check_order(model, taken, alive, room)
        if room > len(alive):
            assert len(dead) == sum(map(model.exhausted, takeable)), "nothing exhausted may be left when all was seen"
        self._check_leases(model, leases, VISIBILITY if visibility is None else visibility)
        for message in dead:
            self._move(model, message)

    def _moved(self, name: str, message: Naive) -> bool:
        return all(peek.message.sequence != message.sequence for peek in self.broker.queue(name).peek(self.now))

    def _check_order(self, model: NaiveQueue, taken: list[int], alive: list[Naive], room: int) -> None:
        by_sequence = {m.sequence: m for m in alive}
        if self.ordering is Ordering.STANDARD:
            assert taken == [m.sequence for m in alive][: max(0, room)], "oldest visible first"
            return
        keys = [by_sequence[sequence].key for sequence in taken]
        for key in {key for key in keys if key is not None}:
            of_key = [sequence for sequence in taken if by_sequence[sequence].key == key]
            run = [m.sequence for m in alive if m.key == key]
            assert of_key == run[: len(of_key)], "in order, from the oldest"
            last = len(keys) - 1 - keys[::-1].index(key)
            assert keys[last - len(of_key) + 1 : last + 1] == [key] * len(of_key), "one key after the other"
            assert len(of_key) == len(run) or last == len(keys) - 1, "a key gives all it can before the next"

    def _check_leases(self, model: NaiveQueue, leases: list[Lease], hold: float) -> None:
        for lease in leases:
            message = next(m for m in model.messages if m.sequence == lease.message.sequence)
            message.receives += 1
            message.received_at = self.now
            message.leased = True
            message.due = self.now + hold
            assert lease.handle not in model.handles
            assert (lease.receives, lease.received_at, lease.until) == (message.receives, self.now, message.due)
            model.handles[lease.handle] = (message.sequence, message.receives)

    def _move(self, model: NaiveQueue, message: Naive) -> None:
        policy = model.settings.dead_letters
        assert policy is not None
        target = self.model[policy.target]
        fifo = self.ordering is Ordering.FIFO
        found = [p.message for p in self.broker.queue(policy.target).peek(self.now) if p.message.id == message.id]
        model.messages.remove(message)
        sent_at = self.now if fifo else message.sent_at
        assert [(m.key, m.sent_at) for m in found] == [(message.key, sent_at)]
        moved = Naive(found[0].sequence, message.id, message.key, sent_at, due=self.now)
        moved.receives = moved.carried = message.receives
        assert all(m.sequence != moved.sequence for m in target.messages)
        same_key = [m.sequence for m in target.messages if m.key == moved.key and m.key is not None]
        assert self.ordering is Ordering.STANDARD or all(sequence < moved.sequence for sequence in same_key)
        target.messages.append(moved)
        target.messages.sort(key=lambda m: m.sequence)  # several moves of one take: in the order of turns
        if fifo and target.duplicate(moved.key, moved.id) is None:
            target.seen.append((self.now, moved.key, moved.id, moved.id, moved.sequence))

    def _handle(self, name: str, data: st.DataObject) -> str:
        known = list(self.model[name].handles)[-12:]
        return data.draw(st.sampled_from([*known, *known, "1.1.1", "1.999.1", "nonsense", "1.1", "1.01.1"]))

    @rule(name=names, data=st.data())
    def settle(self, name: str, data: st.DataObject) -> None:
        model, handle = self.both(name), self._handle(name, data)
        found = model.find(self.now, handle)
        outcome = self.broker.queue(name).settle(self.now, handle)

        if isinstance(found, Naive):
            assert outcome is Outcome.DONE
            model.messages.remove(found)
        else:
            self._same_refusal(name, handle, found, outcome)

    @rule(name=names, by=st.sampled_from([0.0, 0.0, 2.0, 15.0, 35.0]), data=st.data())
    def extend(self, name: str, by: float, data: st.DataObject) -> None:
        model, handle = self.both(name), self._handle(name, data)
        found = model.find(self.now, handle)
        outcome = self.broker.queue(name).extend(self.now, handle, by)

        if not isinstance(found, Naive):
            self._same_refusal(name, handle, found, outcome)
        elif by > 0 and self.now + by > found.received_at + MAX_LEASE:
            assert outcome is Outcome.BEYOND_LIMIT
        else:
            assert outcome is Outcome.DONE
            found.leased = True
            found.due = self.now + by

    @rule(name=names, data=st.data())
    def dead_letter(self, name: str, data: st.DataObject) -> None:
        model, handle = self.both(name), self._handle(name, data)
        found = model.find(self.now, handle)
        outcome = self.broker.queue(name).dead_letter(self.now, handle)

        if isinstance(found, Naive):
            assert outcome is Outcome.DONE
            self._move(model, found)
        else:
            self._same_refusal(name, handle, found, outcome)

    def _same_refusal(self, name: str, handle: str, expected: Outcome, outcome: Outcome) -> None:
        """A made-up handle of a message that is gone cannot be told from a real one."""
        if expected is Outcome.UNKNOWN and handle == "1.1.1" and outcome is Outcome.GONE:
            assert all(m.sequence != 1 for m in self.model[name].messages)
        else:
            assert outcome is expected

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 5.0, 10.0, 31.0, 90.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.now > 50)
    @rule(name=names)
    def purge(self, name: str) -> None:
        model = self.both(name)
        assert self.broker.queue(name).purge(self.now) == len(model.messages)
        model.messages.clear()
        model.seen.clear()

    @invariant()
    def looks_the_same(self) -> None:
        for name, model in self.model.items():
            self.both(name)
            queue, now = self.broker.queue(name), self.now
            assert queue.counts(now) == model.counts(now)
            assert [(p.message.sequence, p.message.id, p.state, p.receives) for p in queue.peek(now)] == [
                (m.sequence, m.id, m.state(now), m.receives) for m in model.messages
            ]
            assert queue.oldest(now) == min((m.sent_at for m in model.messages), default=None)
            assert queue.has_takeable(now) == (model.room(now) > 0 and bool(model.takeable(now)))
            ends = [m.due for m in model.messages if m.due > now] + [m.sent_at + RETENTION for m in model.messages]
            assert queue.next_change(now) == min(ends, default=None)

    @invariant()
    def wakes_whoever_waits(self) -> None:
        """A parked take that found nothing need look again only when `drain_ready()` names its queue."""
        ready = self.broker.drain_ready()
        for name, model in self.model.items():
            could = model.room(self.now) > 0 and bool(model.takeable(self.now))
            if could and not getattr(self, "could", {}).get(name):
                assert name in ready
        self.could = {n: m.room(self.now) > 0 and bool(m.takeable(self.now)) for n, m in self.model.items()}

    def teardown(self) -> None:
        if not hasattr(self, "broker"):
            return
        again = Broker()
        for event in self.events.all:
            again.apply(event)
        for queue in self.broker:
            copy = again.queue(queue.name)
            assert copy.settings == queue.settings
            assert copy.counts(self.now) == queue.counts(self.now)
            assert list(copy.peek(self.now)) == list(queue.peek(self.now))
            for dedup_id in ("x", "y"):
                same = [q.put(self.now, b"", key="a", dedup_id=dedup_id) for q in (copy, queue)]
                assert same[0].duplicate == same[1].duplicate
                assert same[0].sequence == same[1].sequence


class KeyedMachine(BrokerMachine):
    ordering = Ordering.KEYED


class FifoMachine(BrokerMachine):
    ordering = Ordering.FIFO


@pytest.mark.parametrize("machine", [BrokerMachine, KeyedMachine, FifoMachine])
def test_broker_behaves_like_a_naive_model(machine: type[BrokerMachine]) -> None:
    """Puts, takes, settling, extending, dead letters, purges and time do to the engine what they do to plain lists."""
    case = machine.TestCase
    case.settings = settings(
        max_examples=150,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case().runTest()
