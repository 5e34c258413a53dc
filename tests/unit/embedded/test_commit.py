"""When a durable hub's changes are written, and who hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from messagequeue import ConfigurationError
from messagequeue.broker import Broker, Counts, Queue, QueueSettings
from messagequeue.broker.storage import Enqueued, Removed, StorageError
from messagequeue.embedded._commit import RETRY_AFTER, SYNC_AFTER
from messagequeue.embedded._durable import DurableHub
from messagequeue.testing import run_virtual
from tests.unit.embedded.fake_store import FakeStore


class Bench:
    """A hub over a fake store, with one queue."""

    def __init__(self, *, waits: bool = False) -> None:
        self.store = FakeStore()
        broker = Broker(journal=self.store)
        self.hub = DurableHub(broker, self.store, clock=0.0, waits=waits, wall=lambda: 1_000.0)
        self.queue: Queue = broker.create("q", QueueSettings(visibility_timeout=10.0))

    async def publish(self, body: bytes) -> None:
        self.queue.put(self.hub.now(), body)
        await self.hub.committed()

    def stored(self) -> list[list[bytes | str]]:
        return [[e.message.body for e in commit if isinstance(e, Enqueued)] for commit in self.store.events]

    def counts(self) -> Counts:
        return self.queue.counts(self.hub.now())


def test_what_is_recorded_in_one_turn_is_one_commit() -> None:
    """However many tasks recorded it; each returns after the commit."""
    bench = Bench()

    async def main() -> None:
        await asyncio.gather(*(bench.publish(b"%d" % n) for n in range(5)))
        await bench.publish(b"alone")
        await bench.hub.committed()

    run_virtual(main())

    assert bench.stored() == [[b"0", b"1", b"2", b"3", b"4"], [b"alone"]]


def test_while_the_disk_works_the_next_commit_gathers() -> None:
    """Where commits wait for the disk the loop goes on, and no answer leaves before its own commit."""
    bench = Bench(waits=True)

    async def main() -> None:
        bench.hub.now()
        bench.store.gate.clear()
        tasks = [asyncio.create_task(bench.publish(b"first"))]
        for n in range(4):
            await asyncio.sleep(0)
            tasks.append(asyncio.create_task(bench.publish(b"%d" % n)))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        bench.store.gate.set()
        await asyncio.gather(*tasks)

    run_virtual(main())

    assert [len(commit) for commit in bench.stored()] in ([1, 4], [2, 3])


@pytest.mark.parametrize("waits", [False, True])
def test_a_caller_that_is_cancelled_does_not_undo_the_commit(waits: bool) -> None:
    """What was recorded is committed with the rest, and nobody else's wait ends by it."""
    bench = Bench(waits=waits)

    async def main() -> None:
        impatient = asyncio.create_task(bench.publish(b"impatient"))
        patient = asyncio.create_task(bench.publish(b"patient"))
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        assert impatient.cancelled()

    run_virtual(main())

    assert bench.stored() == [[b"impatient", b"patient"]]


@pytest.mark.parametrize("waits", [False, True])
def test_a_failed_commit_is_told_to_each_and_made_up_for(waits: bool) -> None:
    """Each gets an error of its own; the next commit has what the failed one should have had."""
    bench = Bench(waits=waits)
    bench.store.fail = 1

    async def main() -> None:
        results = await asyncio.gather(bench.publish(b"a"), bench.publish(b"b"), return_exceptions=True)
        assert [type(result) for result in results] == [StorageError, StorageError]
        assert results[0] is not results[1]
        await bench.publish(b"c")

    run_virtual(main())

    assert bench.stored() == [[b"a", b"b", b"c"]]


@pytest.mark.parametrize("waits", [False, True])
def test_a_failed_commit_is_tried_again_every_second(waits: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Though nobody asks; it is said once that it fails, and once that it does not any more."""
    bench = Bench(waits=waits)

    async def main() -> None:
        await bench.publish(b"before")
        bench.store.fail = 3
        with pytest.raises(StorageError):
            await bench.publish(b"x")
        assert bench.hub.failing
        await asyncio.sleep(RETRY_AFTER + 0.1)
        assert bench.hub.failing
        await asyncio.sleep(3 * RETRY_AFTER)  # one more than needed: the disk may have other work at that moment
        assert not bench.hub.failing

    run_virtual(main())

    assert bench.stored() == [[b"before"], [b"x"]]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_new_loop_goes_on_trying() -> None:
    """The one before took its timers with it."""
    bench = Bench()
    bench.store.fail = 1

    async def fails() -> None:
        with pytest.raises(StorageError):
            await bench.publish(b"x")

    async def later() -> None:
        bench.hub.now()
        await asyncio.sleep(RETRY_AFTER + 0.1)

    run_virtual(fails())
    run_virtual(later())

    assert bench.stored() == [[b"x"]]


@pytest.mark.parametrize("waits", [False, True])
def test_who_does_not_wait_is_called_in_order_after_the_commit(waits: bool) -> None:
    """At once where nothing is pending; one that fails on hearing of it keeps nobody from hearing."""
    bench = Bench(waits=waits)
    heard: list[object] = []

    def told(word: str) -> Callable[[StorageError | None], None]:
        def tell(error: StorageError | None) -> None:
            heard.append((word, len(bench.store.events), None if error is None else str(error)))
            if word == "fails":
                raise RuntimeError

        return tell

    async def main() -> None:
        await bench.publish(b"0")
        bench.hub.after_commit(told("at once"))
        for word in ("fails", "a", "b"):
            bench.queue.put(bench.hub.now(), b"x")
            bench.hub.after_commit(told(word))
        assert len(heard) == 1
        await bench.hub.committed()
        bench.store.fail = 1
        bench.queue.put(bench.hub.now(), b"x")
        bench.hub.after_commit(told("lost"))
        bench.hub.commit_soon()
        await asyncio.sleep(RETRY_AFTER + 0.1)

    run_virtual(main())

    assert heard == [
        ("at once", 1, None),
        ("fails", 2, None),
        ("a", 2, None),
        ("b", 2, None),
        ("lost", 2, "the disk is full"),
    ]


def test_what_time_alone_changes_is_committed_too() -> None:
    """A message whose retention ends while a receive is parked is gone from the file, without anybody's asking."""
    bench = Bench()
    bench.queue.configure(QueueSettings(retention=5.0))

    async def main() -> None:
        await bench.publish(b"x")
        (lease,) = await bench.hub.take(bench.queue, 1, visibility=30.0, wait=0.0)
        assert await bench.hub.take(bench.queue, 1, visibility=30.0, wait=10.0) == []
        await asyncio.sleep(0)
        assert lease.message.sequence in [
            event.sequence for commit in bench.store.events for event in commit if isinstance(event, Removed)
        ]

    run_virtual(main())


def test_a_fault_of_the_store_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that it should not have."""
    bench = Bench()

    def begin(now: float) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(bench.store, "begin", begin)

    async def main() -> None:
        with pytest.raises(StorageError, match="too large") as caught:
            await bench.publish(b"a")
        assert isinstance(caught.value.__cause__, OverflowError)

    run_virtual(main())


def test_commits_are_forced_to_the_disk_within_a_second() -> None:
    """Once for all commits of that second; not at all while there are none."""
    bench = Bench()

    async def main() -> None:
        for _ in range(3):
            await bench.publish(b"x")
            await asyncio.sleep(0.1)
        await asyncio.sleep(SYNC_AFTER)
        assert bench.store.calls.count("sync") == 1
        await asyncio.sleep(100.0)
        await bench.publish(b"x")
        await asyncio.sleep(SYNC_AFTER + 0.1)

    run_virtual(main())

    assert bench.store.calls.count("sync") == 2


@pytest.mark.parametrize("waits", [False, True])
def test_a_full_log_is_written_back_between_commits(waits: bool) -> None:
    """Commits wait for it; nothing else uses the store meanwhile."""
    bench = Bench(waits=waits)

    async def main() -> None:
        bench.hub.now()
        bench.store.full = True
        bench.store.log_gate.clear()
        await bench.publish(b"a")
        task = asyncio.create_task(bench.publish(b"b"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        bench.store.log_gate.set()
        await task

    run_virtual(main())

    assert bench.store.calls == ["begin", "commit", "checkpoint", "begin", "commit"]


def test_a_log_that_cannot_be_written_back_is_tried_again_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    """Commits go on meanwhile, and are not followed by an error each."""
    bench = Bench()

    async def main() -> None:
        bench.hub.now()
        bench.store.full = bench.store.stays_full = True
        for _ in range(20):
            await bench.publish(b"x")
            await asyncio.sleep(RETRY_AFTER / 8)
        bench.store.stays_full = False
        await asyncio.sleep(RETRY_AFTER)
        await bench.publish(b"x")
        await asyncio.sleep(RETRY_AFTER)

    run_virtual(main())

    assert len(bench.stored()) == 21
    assert bench.store.calls.count("checkpoint") == 4
    assert len(caplog.records) == 3


def test_a_cancelled_receive_gives_back_what_was_not_committed_yet() -> None:
    """It captures nothing: the message is there for the next, at once."""
    bench = Bench(waits=True)

    async def main() -> None:
        await bench.publish(b"x")
        bench.store.gate.clear()
        taking = asyncio.create_task(bench.hub.take(bench.queue, 10, visibility=10.0, wait=5.0))
        for _ in range(3):
            await asyncio.sleep(0)
        assert bench.counts() == Counts(in_flight=1)
        taking.cancel()
        bench.store.gate.set()
        await asyncio.wait([taking])
        assert taking.cancelled()
        assert bench.counts() == Counts(visible=1)

    run_virtual(main())


def test_a_receive_that_could_not_be_committed_gives_back_what_it_took() -> None:
    """A receive count that would be lost by a crash is not shown."""
    bench = Bench()

    async def main() -> None:
        await bench.publish(b"x")
        bench.store.fail = 1
        with pytest.raises(StorageError):
            await bench.hub.take(bench.queue, 10, visibility=10.0, wait=0.0)
        assert bench.counts() == Counts(visible=1)
        assert len(await bench.hub.take(bench.queue, 10, visibility=10.0, wait=0.0)) == 1

    run_virtual(main())


def test_close_commits_what_is_left_and_tells_when_it_is_over() -> None:
    """Also what nobody waits for, and who does wait gets an answer."""
    bench = Bench()
    closed: list[str] = []

    async def main() -> None:
        waiting = asyncio.create_task(bench.publish(b"x"))
        await asyncio.sleep(0)
        await bench.hub.close(lambda: closed.append("closed"))
        await waiting

    run_virtual(main())

    assert (bench.stored(), bench.store.calls[-1], closed) == ([[b"x"]], "close", ["closed"])


def test_a_cancelled_close_closes_all_the_same() -> None:
    """Or nobody could ever open the folder again."""
    bench = Bench()
    bench.store.gate.clear()
    closed: list[str] = []

    async def main() -> None:
        bench.queue.put(bench.hub.now(), b"x")
        closing = asyncio.create_task(bench.hub.close(lambda: closed.append("closed")))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        bench.store.gate.set()
        while not closed:
            await asyncio.to_thread(bench.store.gate.wait, 0.01)

    run_virtual(main())

    assert bench.stored() == [[b"x"]]


def test_close_waits_for_the_commit_under_way() -> None:
    """And touches nothing afterwards."""
    bench = Bench(waits=True)

    async def main() -> None:
        bench.hub.now()
        bench.store.gate.clear()
        task = asyncio.create_task(bench.publish(b"x"))
        for _ in range(3):
            await asyncio.sleep(0)
        closing = asyncio.create_task(bench.hub.close(lambda: None))
        await asyncio.sleep(0)
        bench.store.gate.set()
        await asyncio.gather(task, closing)

    run_virtual(main())

    assert bench.store.calls == ["begin", "commit", "close"]


def test_close_that_cannot_commit_says_so() -> None:
    """And closes."""
    bench = Bench()
    bench.store.fail = 1

    async def main() -> None:
        bench.queue.put(bench.hub.now(), b"x")
        with pytest.raises(StorageError):
            await bench.hub.close(lambda: None)

    run_virtual(main())

    assert bench.store.calls[-1] == "close"


def test_the_hub_outlives_event_loops_one_after_the_other() -> None:
    """What the loop before left unfinished is finished by the next."""
    bench = Bench(waits=True)

    async def leave() -> None:
        bench.hub.now()
        bench.store.gate.clear()
        task = asyncio.create_task(bench.publish(b"left"))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        bench.store.gate.set()

    run_virtual(leave())
    run_virtual(bench.publish(b"next"))

    assert [body for commit in bench.stored() for body in commit] == [b"left", b"next"]


def test_two_event_loops_at_once_are_refused() -> None:
    """A broker belongs to the tasks of one loop."""
    bench = Bench()

    async def other() -> None:
        bench.hub.now()

    async def main() -> None:
        bench.hub.now()
        with pytest.raises(ConfigurationError, match="another event loop of this process"):
            await asyncio.to_thread(asyncio.run, other())

    run_virtual(main())


def test_the_clock_counts_since_the_epoch_and_follows_the_loop() -> None:
    """It starts at the system's time, or at the last commit where that is later: it never runs back."""
    times = {}

    async def main(clock: float, wall: float) -> None:
        store = FakeStore()
        hub = DurableHub(Broker(journal=store), store, clock=clock, waits=False, wall=lambda: wall)
        start = hub.now()
        await asyncio.sleep(7.0)
        times[clock, wall] = (start, hub.now())

    for clock, wall in ((0.0, 1_000.0), (900.0, 1_000.0), (5_000.0, 1_000.0)):
        run_virtual(main(clock, wall))

    assert times == {
        (0.0, 1_000.0): (1_000.0, 1_007.0),
        (900.0, 1_000.0): (1_000.0, 1_007.0),
        (5_000.0, 1_000.0): (5_000.0, 5_007.0),
    }
