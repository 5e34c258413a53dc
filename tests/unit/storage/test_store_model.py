"""A broker that is closed and opened again at random must do what one does that never was."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from messagequeue.broker import Broker, DeadLetterPolicy, DedupScope, Envelope, Ordering, Queue, QueueSettings
from messagequeue.broker.storage.sqlite import SqliteStore

BASE = QueueSettings(visibility_timeout=10.0, retention=200.0, dedup_window=30.0, max_lease=40.0)
ALL = 1_000
"""The turns of waiting keys are not kept: where there are keys, a take asks for everything, and is compared sorted."""


class ReopenedMachine(RuleBasedStateMachine):
    """Each step is done to both; each answer must be the same, and each look inside."""

    ordering = Ordering.STANDARD

    @initialize(scope=st.sampled_from(DedupScope))
    def start(self, scope: DedupScope) -> None:
        self.folder = tempfile.mkdtemp(prefix="messagequeue-")
        self.now = 0.0
        self.handles: list[tuple[str, str]] = []
        self.numbers = itertools.count()
        self.control = Broker()
        self.open()
        base = replace(BASE, ordering=self.ordering, dedup_scope=scope)
        # Several keys' messages that die in one take move in the order of turns, which is not kept either.
        most = 2 if self.ordering is Ordering.STANDARD else None
        for broker in (self.broker, self.control):
            broker.create("main", replace(base, dead_letters=DeadLetterPolicy("dead", most)))
            broker.create("dead", replace(base, dead_letters=DeadLetterPolicy("main", most)))

    def open(self) -> None:
        self.store = SqliteStore.open(self.folder)
        self.broker = Broker()
        self.store.load(self.broker)

    def queues(self, name: str) -> tuple[Queue, Queue]:
        return self.broker.queue(name), self.control.queue(name)

    names = st.sampled_from(["main", "main", "dead"])

    @rule()
    def commit(self) -> None:
        self.store.write(self.now)
        assert not self.store.pending

    @rule()
    def reopen(self) -> None:
        self.store.write(self.now)
        self.store.close()
        self.open()

    @rule(seconds=st.sampled_from([0.5, 3.0, 10.0, 31.0, 90.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        name=names,
        key=st.sampled_from([None, "a", "a", "b"]),
        dedup_id=st.sampled_from([None, None, "x", "y"]),
        delay=st.sampled_from([None, None, 5.0]),
    )
    def put(self, name: str, key: str | None, dedup_id: str | None, delay: float | None) -> None:
        if self.ordering is Ordering.FIFO and key is None:
            key = "only"
        body, own = str(next(self.numbers)), f"id{next(self.numbers)}"
        one, other = (
            queue.put(
                self.now, body, key=key, dedup_id=dedup_id, delay=delay, id=own, attributes=Envelope(None, {"n": body})
            )
            for queue in self.queues(name)
        )

        assert one == other

    @rule(name=names, limit=st.integers(1, 5), visibility=st.sampled_from([None, 0.0, 3.0, 20.0]))
    def take(self, name: str, limit: int, visibility: float | None) -> None:
        number = limit if self.ordering is Ordering.STANDARD else ALL
        one, other = (queue.take(self.now, number, visibility=visibility) for queue in self.queues(name))

        assert sorted(one, key=lambda lease: lease.message.sequence) == sorted(
            other, key=lambda lease: lease.message.sequence
        )
        self.handles += [(name, lease.handle) for lease in one]

    @rule(data=st.data(), by=st.sampled_from([0.0, 2.0, 15.0, 35.0]))
    def extend(self, data: st.DataObject, by: float) -> None:
        if self.handles:
            name, handle = data.draw(st.sampled_from(self.handles[-10:]))
            one, other = (queue.extend(self.now, handle, by) for queue in self.queues(name))
            assert one is other

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if self.handles:
            name, handle = data.draw(st.sampled_from(self.handles[-10:]))
            one, other = (queue.settle(self.now, handle) for queue in self.queues(name))
            assert one is other

    @rule(data=st.data())
    def dead_letter(self, data: st.DataObject) -> None:
        if self.handles:
            name, handle = data.draw(st.sampled_from(self.handles[-10:]))
            one, other = (queue.dead_letter(self.now, handle) for queue in self.queues(name))
            assert one is other

    @rule(name=names)
    def purge(self, name: str) -> None:
        one, other = (queue.purge(self.now) for queue in self.queues(name))
        assert one == other

    @rule(name=names, window=st.sampled_from([10.0, 30.0]), scope=st.sampled_from(DedupScope))
    def configure(self, name: str, window: float, scope: DedupScope) -> None:
        for queue in self.queues(name):
            queue.advance(self.now)
            queue.configure(replace(queue.settings, dedup_window=window, dedup_scope=scope))

    @rule(name=names)
    def delete_and_make_again(self, name: str) -> None:
        for broker in (self.broker, self.control):
            kept = broker.queue(name).settings
            broker.delete(name)
            broker.create(name, kept)

    @invariant()
    def looks_the_same(self) -> None:
        for name in ("main", "dead"):
            one, other = self.queues(name)
            assert list(one.peek(self.now)) == list(other.peek(self.now))
            assert one.counts(self.now) == other.counts(self.now)
            assert (one.settings, one.serial) == (other.settings, other.serial)
            assert one.next_change(self.now) == other.next_change(self.now)
            assert one.has_takeable(self.now) == other.has_takeable(self.now)
        for name, handle in self.handles[-5:]:
            one, other = self.queues(name)
            assert one.held(self.now, handle) == other.held(self.now, handle)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.store.close()
            shutil.rmtree(self.folder)


class KeyedMachine(ReopenedMachine):
    """With and without keys."""

    ordering = Ordering.KEYED


class FifoMachine(ReopenedMachine):
    """As SQS."""

    ordering = Ordering.FIFO


LIMITS = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
for machine in (ReopenedMachine, KeyedMachine, FifoMachine):
    machine.TestCase.settings = LIMITS
TestStandard = ReopenedMachine.TestCase
TestKeyed = KeyedMachine.TestCase
TestFifo = FifoMachine.TestCase
