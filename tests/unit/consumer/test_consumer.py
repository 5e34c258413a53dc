"""What a consumer does with messages, whatever the provider."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import (
    ClosedError,
    ConfigurationError,
    DeadLetter,
    Discard,
    ErrorCode,
    HandlerError,
    LeaseLostError,
    Message,
    MessageQueueError,
    ReceiveError,
    RetryLater,
    SettleError,
)
from messagequeue.driver import Delivery
from messagequeue.runtime.dispatch import Held
from messagequeue.runtime.settling import Settling
from messagequeue.runtime.sink import Faults
from messagequeue.runtime.stats import ConsumerStats
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def test_consumer_settles_after_the_handler_returned():
    """A message is taken off the queue after its handler returned, and a burst leaves in one call."""

    async def main():
        source = FakeSource()
        source.put(*"abc")
        seen = []

        async def handler(message):
            assert not source.settled_ids
            seen.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)

        assert seen == ["a", "b", "c"]
        assert source.stored == []
        assert len(source.ops("settle")) == 1
        await b.stop()
        assert b.errors == []

    run_virtual(main())


def test_consumer_leaves_a_failed_message_until_its_lease_ends():
    """A failure does not put the message straight back: at most three deliveries in 12 s at a lease of 5 s (CON-17)."""

    async def main():
        source = FakeSource(lease=5)
        source.put("x")
        times = []

        async def handler(message):
            times.append(source.now())
            raise ValueError("no")

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(12)

        assert times == [0, 5, 10]
        assert source.ops("release") == []
        assert b.kinds() == ["HandlerError"] * 3
        assert isinstance(b.errors[0].__cause__, ValueError)
        assert b.errors[0].message.delivery_attempt == 1
        await b.stop()

    run_virtual(main())


def test_consumer_frees_the_slot_of_a_failed_message():
    """Slots are released whatever the outcome: 20 good messages after 4 failing ones, 4 slots (CON-06)."""

    async def main():
        source = FakeSource(lease=60)
        source.put(*["bad"] * 4, *["good"] * 20)
        done = []

        async def handler(message):
            if message.text == "bad":
                raise RuntimeError
            done.append(message.id)

        b = bench(source, handler, concurrency=4)
        b.start()
        await asyncio.sleep(2)

        assert len(done) == 20
        await b.stop()

    run_virtual(main())


def test_consumer_asks_for_no_more_than_can_start():
    """Each receive asks for the free slots, and with none free there is no receive (CON-09)."""

    async def main():
        source = FakeSource(lease=60)
        source.put(*["x"] * 50)
        most = 0

        async def handler(message):
            nonlocal most
            most = max(most, len(source.hidden()))
            await asyncio.sleep(5)

        b = bench(source, handler, concurrency=3)
        b.start()
        await asyncio.sleep(4)

        assert [args[0] for _, args in source.ops("receive")] == [3]
        await asyncio.sleep(300)
        assert most <= 3
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_consumer_is_not_held_up_by_a_slow_message():
    """60 short messages finish while a slow one runs (CON-10)."""

    async def main():
        source = FakeSource()
        source.put("slow", *["fast"] * 60)

        async def handler(message):
            await asyncio.sleep(10 if message.text == "slow" else 0.01)

        b = bench(source, handler, concurrency=10)
        b.start()
        await asyncio.sleep(1)

        assert [item.body for item in source.stored] == [b"slow"]
        await b.stop()

    run_virtual(main())


def test_consumer_keeps_one_receive_parked_on_a_quiet_topic():
    """An idle topic costs one long poll at a time, without errors (CON-01)."""

    async def main():
        source = FakeSource(max_receives=5)

        async def handler(message):
            pass

        b = bench(source, handler, concurrency=50, wait_time=1.0)
        b.start()
        await asyncio.sleep(5.5)
        source.put("x")
        await asyncio.sleep(0.1)

        assert source.most_parked == 1
        assert b.consumer.stats.empty_receives == 5
        assert b.consumer.stats.handled == 1
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_consumer_adds_receives_while_they_come_back_full():
    """A backlog is read by as many receives as there is room for."""

    async def main():
        source = FakeSource(max_receives=5, latency={"receive": 0.1})
        source.put(*["x"] * 500)

        async def handler(message):
            await asyncio.sleep(0.1)

        b = bench(source, handler, concurrency=50)
        b.start()
        await asyncio.sleep(30)

        assert source.most_parked > 1
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_consumer_backs_off_failing_receives_and_recovers():
    """Failing receives grow apart (at most ten in 10 s), and one success resets the pause (CON-02, CON-03)."""

    async def main():
        source = FakeSource()
        source.script["receive"].extend(ReceiveError("503", code=ErrorCode.UNAVAILABLE) for _ in range(7))

        async def handler(message):
            pass

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(5)

        assert 5 <= len(source.ops("receive")) <= 10
        await asyncio.sleep(20)
        source.put("x")
        await asyncio.sleep(1)
        assert b.consumer.stats.handled == 1
        source.script["receive"].append(ReceiveError("reset", code=ErrorCode.CONNECTION))
        await asyncio.sleep(25)
        before = source.now()
        source.put("y")
        await asyncio.sleep(0.2)
        assert b.consumer.stats.handled == 2, source.now() - before
        await b.stop()

    run_virtual(main())


def test_consumer_survives_what_a_provider_should_have_translated():
    """A foreign exception from receive() is reported and backed off like any other fault."""

    async def main():
        source = FakeSource()
        source.script["receive"].append(KeyError("Messages"))
        source.put("x")
        done = asyncio.Event()

        async def handler(message):
            done.set()

        b = bench(source, handler)
        b.start()
        await asyncio.wait_for(done.wait(), 2)

        assert isinstance(b.errors[0], ReceiveError)
        assert isinstance(b.errors[0].__cause__, KeyError)
        await b.stop()

    run_virtual(main())


def test_consumer_ends_with_the_typed_error_when_a_fatal_fault_lasts():
    """A fault that asking again cannot mend ends consume() after its grace, and only then."""

    async def main():
        source = FakeSource()
        gone = ReceiveError("the queue does not exist", code=ErrorCode.NOT_FOUND, fatal=True)
        source.script["receive"].extend([gone] * 1000)

        async def handler(message):
            pass

        b = bench(source, handler, fatal_grace=60.0)
        b.start()
        await asyncio.sleep(59)
        assert not b.task.done()

        with pytest.raises(ReceiveError, match="does not exist") as caught:
            await asyncio.wait_for(b.task, 5)
        assert caught.value.code is ErrorCode.NOT_FOUND

    run_virtual(main())


def test_consumer_forgets_a_fatal_fault_after_one_success():
    """The grace counts from the first of an unbroken run of fatal faults (CON-02: the queue appears later)."""

    async def main():
        source = FakeSource()
        gone = ReceiveError("gone", code=ErrorCode.NOT_FOUND, fatal=True)
        source.script["receive"].extend([gone] * 5)

        async def handler(message):
            pass

        b = bench(source, handler, fatal_grace=10.0)
        b.start()
        await asyncio.sleep(8)
        source.put("x")
        await asyncio.sleep(30)

        assert b.consumer.stats.handled == 1
        await b.stop()

    run_virtual(main())


def test_consumer_backs_off_a_start_that_fails():
    """The lease cannot be read at first: consume() goes on once it can."""

    async def main():
        source = FakeSource()
        source.script["start"].extend([ReceiveError("503"), ReceiveError("503")])
        source.put("x")

        async def handler(message):
            pass

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(2)

        assert b.consumer.stats.handled == 1
        await b.stop()

    run_virtual(main())


def test_consumer_refuses_a_heartbeat_not_below_the_lease():
    """heartbeat_interval=30 at a lease of 30: every lease would end before its first beat (HB-09)."""
    with pytest.raises(ConfigurationError, match=r"30.*30"):
        bench(FakeSource(), print, heartbeat_interval=30.0, visibility_timeout=30.0)

    async def main():
        b = bench(FakeSource(lease=30), print, heartbeat_interval=30.0)
        with pytest.raises(ConfigurationError, match="not below the lease"):
            await b.consumer.consume()

    run_virtual(main())


def test_consumer_retries_later_by_the_same_message():
    """RetryLater brings back the same message with a higher attempt; nothing is sent (CON-19)."""

    async def main():
        source = FakeSource(lease=300)
        (message_id,) = source.put("x")
        seen = []

        async def handler(message):
            seen.append((source.now(), message.id, message.delivery_attempt))
            if message.delivery_attempt < 3:
                raise RetryLater(2)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(10)

        assert seen == [(0, message_id, 1), (2, message_id, 2), (4, message_id, 3)]
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_consumer_applies_the_retry_delay_to_failures():
    """retry_delay says when a failed message comes back."""

    async def main():
        source = FakeSource(lease=300)
        source.put("x")
        times = []

        async def handler(message):
            times.append(source.now())
            raise ValueError

        b = bench(source, handler, retry_delay=3.0)
        b.start()
        await asyncio.sleep(7)

        assert times == [0, 3, 6]
        await b.stop()

    run_virtual(main())


def test_consumer_takes_a_discarded_message_off_without_an_error():
    """Discard is a decision, not a fault."""

    async def main():
        source = FakeSource()
        source.put("x")

        async def handler(message):
            raise Discard("seen before")

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)

        assert source.stored == []
        assert b.consumer.stats.discarded == 1
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_consumer_dead_letters_on_request():
    """DeadLetter puts the message into the dead-letter queue with its reason."""

    async def main():
        source = FakeSource(dead_letters=True)
        (message_id,) = source.put("x")

        async def handler(message):
            raise DeadLetter("hopeless")

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)

        assert source.buried == [(message_id, "hopeless")]
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_consumer_keeps_a_message_that_cannot_be_dead_lettered():
    """Without a dead-letter queue the message stays, and somebody is told."""

    async def main():
        source = FakeSource(lease=60)
        source.put("x")

        async def handler(message):
            raise DeadLetter("hopeless")

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)

        assert len(source.stored) == 1
        assert b.kinds() == ["SettleError"]
        await b.stop()

    run_virtual(main())


def test_consumer_never_hands_an_unreadable_message_to_the_handler():
    """A poison message is reported, left on the queue, and others go on (CON-07)."""

    async def main():
        source = FakeSource(lease=60)
        source.put("bad", fault=True)
        source.put("good")
        seen = []

        async def handler(message):
            seen.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)

        assert seen == ["good"]
        assert [item.body for item in source.stored] == [b"bad"]
        assert b.kinds() == ["DecodeError"]
        assert b.consumer.stats.undecodable == 1
        await b.stop()

    run_virtual(main())


def test_consumer_reports_a_handler_that_is_not_async():
    """What a plain function returned is not awaitable: the message stays, and the text says what to do."""

    async def main():
        source = FakeSource(lease=60)
        source.put("x")
        b = bench(source, lambda message: None)
        b.start()
        await asyncio.sleep(1)

        assert len(source.stored) == 1
        assert isinstance(b.errors[0], HandlerError)
        assert "async def" in str(b.errors[0])
        await b.stop()

    run_virtual(main())


def test_consumer_runs_a_message_once_that_came_twice_in_one_answer():
    """A duplicate within one answer renews the lease of the one that is held; it is handled once (BAT-05)."""

    async def main():
        source = FakeSource()
        source.put("x")
        seen = []

        def twice():
            (first,) = source._take(1)
            source.stored[0].visible_at = 0
            (second,) = source._take(1)
            return [first, second]

        source.script["receive"].append(twice)

        async def handler(message):
            seen.append(message.id)
            await asyncio.sleep(1)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(2)

        assert len(seen) == 1
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_consumer_cancels_a_handler_at_its_time_limit_and_waits_for_it():
    """The task is cancelled and awaited, the message stays, the slot frees after unwinding (CON-25)."""

    async def main():
        source = FakeSource(lease=60)
        source.put(*["x"] * 200)
        unwound = []

        async def handler(message):
            try:
                await asyncio.sleep(5)
            finally:
                await asyncio.sleep(0.3)
                unwound.append(message.id)

        b = bench(source, handler, concurrency=200, prefetch=0, handler_timeout=1.0, batch_size=10)
        b.start()
        await asyncio.sleep(30)

        assert len(unwound) == 200
        assert source.settled_ids == []
        assert b.consumer.stats.timed_out == 200
        assert "handler_timeout=1" in str(b.errors[0])
        await b.stop()

    run_virtual(main())


def test_consumer_reports_a_handler_that_ignores_its_cancellation():
    """It keeps its slot, is reported, and other slots go on (CON-25)."""

    async def main():
        source = FakeSource(lease=60)
        source.put("stubborn", "good")
        release = asyncio.Event()

        async def handler(message):
            if message.text == "good":
                return
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        b = bench(source, handler, concurrency=2, handler_timeout=1.0)
        b.start()
        await asyncio.sleep(10)

        assert any("ignores its cancellation" in str(error) for error in b.errors)
        assert b.consumer.stats.running == 1
        release.set()
        await asyncio.sleep(1)
        assert b.consumer.stats.running == 0
        await b.stop()

    run_virtual(main())


def test_consumer_treats_a_cancellation_inside_the_handler_as_a_failure():
    """A CancelledError that this consumer did not cause neither ends it nor settles the message."""

    async def main():
        source = FakeSource(lease=60)
        source.put("x", "y")
        seen = []

        async def handler(message):
            seen.append(message.text)
            raise asyncio.CancelledError

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)

        assert seen == ["x", "y"]
        assert b.kinds() == ["HandlerError", "HandlerError"]
        assert not b.task.done()
        await b.stop()

    run_virtual(main())


def test_consumer_goes_on_when_the_error_sink_raises():
    """A sink that raises is logged; it cannot stop consumption."""

    async def main():
        source = FakeSource(lease=60)
        source.put("bad", "good")
        seen = []

        async def handler(message):
            seen.append(message.text)
            if message.text == "bad":
                raise ValueError

        b = bench(source, handler, concurrency=1)
        b.consumer._faults._sink = lambda error: 1 / 0
        b.start()
        await asyncio.sleep(1)

        assert seen == ["bad", "good"]
        await b.stop()

    run_virtual(main())


def test_consume_runs_once_at_a_time_and_may_be_repeated():
    """A second consume() is refused while one runs; after stop it may be called again (CON-22)."""

    async def main():
        source = FakeSource()

        async def handler(message):
            pass

        b = bench(source, handler, wait_time=1.0)
        b.start()
        await asyncio.sleep(0.5)
        with pytest.raises(MessageQueueError, match="runs already"):
            await b.consumer.consume()
        await b.stop()
        b.start()
        await asyncio.sleep(5)

        assert source.most_parked == 1
        await b.consumer.close()
        with pytest.raises(ClosedError):
            await b.consumer.consume()
        assert source.closed == 1

    run_virtual(main())


def test_stop_before_consume_makes_it_return_at_once():
    """A signal that arrives before consume() is not lost."""

    async def main():
        source = FakeSource()
        b = bench(source, print)
        b.consumer.stop()
        await b.consumer.consume()

        assert source.calls == []

    run_virtual(main())


def test_stop_ends_a_start_that_hangs():
    """stop() does not wait for an answer that captures nothing."""

    async def main():
        source = FakeSource(latency={"start": 500})
        b = bench(source, print)
        b.start()
        await asyncio.sleep(1)
        await b.stop()

        assert source.now() < 2

    run_virtual(main())


def test_consumer_paces_empty_receives_that_come_back_at_once():
    """Short polls, and long polls answered empty at once, are one per second: no surprise bill, no busy loop."""

    async def main():
        source = FakeSource()
        b = bench(source, print, wait_time=0.0)
        b.start()
        await asyncio.sleep(9.5)

        assert len(source.ops("receive")) == 10
        await b.stop()

    run_virtual(main())


def test_stop_between_two_failing_starts_ends_consume():
    """stop() while the next try of a failing start is awaited returns at once."""

    async def main():
        source = FakeSource()
        source.script["start"].extend(ReceiveError("no such host", code=ErrorCode.CONNECTION) for _ in range(100))
        b = bench(source, print)
        b.start()
        await asyncio.sleep(5)
        await b.stop()

        assert source.now() == 5

    run_virtual(main())


def test_settle_error_reaches_log_sink_and_counter(caplog):
    """Deletes that are refused are told for each message, and the consumer goes on (CON-13)."""

    async def main():
        source = FakeSource(lease=60)
        source.put(*"abc")
        denied = SettleError("access denied", code=ErrorCode.ACCESS_DENIED, retryable=False)
        source.script["settle"].extend([denied] * 10)

        async def handler(message):
            pass

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)

        assert b.kinds() == ["SettleError"] * 3
        assert {error.code for error in b.errors} == {ErrorCode.ACCESS_DENIED}
        assert b.consumer.stats.settle_errors == 3
        assert "access denied" in caplog.text
        assert not b.task.done()
        await b.stop()

    run_virtual(main())


def test_settle_retries_only_what_may_help():
    """Of ten, the broker's own failure is tried again and the caller's fault reported once (CON-14)."""

    async def main():
        source = FakeSource(lease=60)
        ids = source.put(*["x"] * 10)

        def partly():
            results = []
            for item in list(source.stored):
                if item.id == ids[3]:
                    results.append(SettleError("internal", retryable=True))
                elif item.id == ids[5]:
                    results.append(SettleError("sender fault", retryable=False))
                else:
                    results.append(source._settle(item.handle))
            return results

        source.script["settle"].append(partly)

        async def handler(message):
            pass

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(5)

        assert [item.id for item in source.stored] == [ids[5]]
        assert [error.message.id for error in b.errors] == [ids[5]]
        assert b.consumer.stats.settled == 9
        await b.stop()

    run_virtual(main())


def test_settle_after_the_lease_is_reported_as_a_lost_lease():
    """A yes to a delete sent after the deadline may have deleted nothing: it is not a clean finish (CON-15)."""

    async def main():
        source, errors, settled, stats = FakeSource(), [], [], ConsumerStats()
        source.script["settle"].append(lambda: [None, None])
        settling = Settling(
            source, Faults("t", errors.append), stats, "t", on_settled=settled.append, on_kept=lambda *args: None
        )
        late, timely = (Held(Delivery(Message("t", name, b""), name), None, 0.0) for name in ("late", "timely"))
        late.deadline, timely.deadline = -0.1, 0.1
        settling.settle(late)
        settling.settle(timely)
        await settling.idle()

        assert [(type(error), error.message.id) for error in errors] == [(LeaseLostError, "late")]
        assert settled == [late, timely]
        assert (stats.settled, stats.leases_lost) == (1, 1)
        await settling.close()

    run_virtual(main())
