"""Stopping: nothing is stranded, nothing earned is lost, nothing is left running."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import (
    ClosedError,
    ConsumeOptions,
    ErrConsumerAlreadyRegistered,
    ErrEmptyTopicName,
    ErrorCode,
    MessageQueueError,
    SettleError,
)
from messagequeue.runtime import RuntimeConsumerProvider
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


class Provider(RuntimeConsumerProvider):
    def __init__(self, **sources):
        super().__init__("fake", ConsumeOptions())
        self.sources = sources
        self.released = 0

    async def _open_source(self, topic, options):
        return self.sources[topic]

    async def _ping(self):
        pass

    async def _release(self):
        self.released += 1


async def nothing(message):
    pass


@pytest.mark.parametrize("when", [-0.05, 0.0, 0.05, 5.0])
def test_stop_hands_back_what_a_parked_receive_brings(when):
    """A receive that is out at stop is not torn down; a message it captures is visible at once again (SHUT-01)."""

    async def main():
        source = FakeSource(lease=30)
        seen = []

        async def handler(message):
            seen.append(message.id)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(10)
        loop = asyncio.get_running_loop()
        if when < 0:
            source.put("x")
            await asyncio.sleep(-when)
        else:
            loop.call_later(when, source.put, "x")
        await b.stop()

        if source.stored:
            assert source.hidden() == []
            assert source.now() <= 30.1
        else:
            assert seen
        assert b.errors == []

    run_virtual(main())


def test_stop_does_not_wait_for_a_receive_that_may_be_torn_down():
    """Where a cancelled receive captures nothing, an idle consumer stops at once."""

    async def main():
        source = FakeSource(cancellable=True)
        b = bench(source, nothing)
        b.start()
        await asyncio.sleep(1)
        await b.stop()

        assert source.now() == 1

    run_virtual(main())


def test_stop_lets_running_handlers_finish_and_takes_no_more():
    """The 4 running ones finish and are deleted; the other 16 are untouched (SHUT-03)."""

    async def main():
        source = FakeSource(lease=60)
        source.put(*["x"] * 20)

        async def handler(message):
            await asyncio.sleep(3)

        b = bench(source, handler, concurrency=4)
        b.start()
        await asyncio.sleep(1)
        await b.stop()

        assert len(source.settled_ids) == 4
        assert [item.attempts for item in source.stored] == [0] * 16
        assert len(source.ops("receive")) == 1

    run_virtual(main())


def test_stop_hands_prefetched_messages_back_at_once():
    """What was received and not started is visible again before the drain is over."""

    async def main():
        source = FakeSource(lease=60)
        source.put(*["x"] * 10)

        async def handler(message):
            await asyncio.sleep(10)

        b = bench(source, handler, concurrency=2, prefetch=8)
        b.start()
        await asyncio.sleep(1)
        b.consumer.stop()
        await asyncio.sleep(0.1)

        assert len(source.hidden()) == 2
        await b.task
        assert len(source.settled_ids) == 2

    run_virtual(main())


def test_stop_cancels_a_stuck_handler_after_the_drain_and_hands_its_message_back(caplog):
    """The short one is deleted as it ends, not at the end of the drain; the stuck one is named (SHUT-08)."""

    async def main():
        source = FakeSource(lease=60)
        stuck, _ = source.put("stuck", "short")

        async def handler(message):
            await asyncio.sleep(10_000 if message.text == "stuck" else 1)

        b = bench(source, handler, drain_timeout=3.0)
        b.start()
        await asyncio.sleep(0.5)
        b.consumer.stop()
        await asyncio.sleep(1)
        assert len(source.settled_ids) == 1
        await b.task

        assert source.now() == pytest.approx(3.5, abs=0.3)
        assert [item.id for item in source.stored] == [stuck]
        assert source.hidden() == []
        assert stuck in caplog.text

    run_virtual(main())


def test_stop_gives_up_a_handler_that_ignores_its_cancellation():
    """It is reported; consume() ends all the same, shortly after the drain."""

    async def main():
        source = FakeSource(lease=60, cancellable=True)
        source.put("x")
        release = asyncio.Event()

        async def handler(message):
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        b = bench(source, handler, drain_timeout=1.0)
        b.start()
        await asyncio.sleep(0.5)
        await b.stop()

        assert source.now() < 10
        assert any("given up at shutdown" in str(error) for error in b.errors)
        release.set()
        await asyncio.sleep(0.1)

    run_virtual(main())


def test_stop_flushes_deletes_that_must_be_tried_again():
    """An earned delete that fails during the shutdown is tried again before consume() returns."""

    async def main():
        source = FakeSource(lease=60)
        source.put("x")
        source.script["settle"].extend([SettleError("503", code=ErrorCode.UNAVAILABLE, retryable=True)] * 3)
        b = bench(source, nothing)
        b.start()
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        await b.stop()

        assert source.stored == []

    run_virtual(main())


def test_cancelled_consume_hands_everything_back_and_leaves_no_task():
    """Cancellation ends at once: handlers are cancelled, messages visible, earned deletes sent, no task left."""

    async def main():
        source = FakeSource(lease=60)
        source.put(*["x"] * 5)

        async def handler(message):
            await asyncio.sleep(100)

        b = bench(source, handler, concurrency=2, prefetch=3)
        b.start()
        await asyncio.sleep(1)
        b.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await b.task

        assert source.now() < 2
        assert source.hidden() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main())


def test_close_returns_when_nothing_of_the_consumer_runs():
    """After close() there is no task, no handler, no later call; both of two callers return at the end (SHUT-06)."""

    async def main():
        source = FakeSource(lease=60, cancellable=True)
        source.put("x")
        ended = []

        async def handler(message):
            await asyncio.sleep(2)
            ended.append(source.now())

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        await asyncio.gather(b.consumer.close(), b.consumer.close())

        assert ended == [2]
        assert source.settled_ids
        calls = len(source.calls)
        await asyncio.sleep(100)
        assert len(source.calls) == calls
        assert b.task.done()

    run_virtual(main())


def test_closing_several_consumers_takes_the_longest_not_the_sum():
    """Six idle consumers close within one poll, 20 s by default or as long as `wait_time` says (SHUT-02)."""

    async def main(wait, most):
        sources = {f"q{n}": FakeSource() for n in range(6)}
        provider = Provider(**sources)
        consumers = [
            await provider.new_consumer(topic, nothing, wait_time=wait, drain_timeout=1.0) for topic in sources
        ]
        tasks = [asyncio.get_running_loop().create_task(c.consume()) for c in consumers]
        await asyncio.sleep(1)
        started = sources["q0"].now()
        await provider.close()

        assert sources["q0"].now() - started <= most
        assert all(task.done() for task in tasks)
        assert provider.released == 1
        await asyncio.gather(*tasks)

    run_virtual(main(20.0, 20.5))
    run_virtual(main(2.0, 2.5))


def test_provider_refuses_a_second_consumer_until_the_first_is_closed():
    """The first keeps its handler; closing it frees the topic (CON-22)."""

    async def main():
        source = FakeSource(cancellable=True)
        provider = Provider(t=source)
        seen = []

        async def handler(message):
            seen.append(message.text)

        first = await provider.new_consumer("t", handler)
        with pytest.raises(ErrConsumerAlreadyRegistered) as caught:
            await provider.new_consumer("t", nothing)
        assert caught.value.topic == "t"
        task = asyncio.get_running_loop().create_task(first.consume())
        source.put("x")
        await asyncio.sleep(1)
        assert seen == ["x"]
        await first.close()
        await task
        second = await provider.new_consumer("t", nothing)
        assert second is not first
        await provider.close()

    run_virtual(main())


def test_provider_registers_one_of_two_callers_at_once():
    """Two new_consumer() calls that race: one is refused."""

    class Slow(Provider):
        async def _open_source(self, topic, options):
            await asyncio.sleep(1)
            return self.sources[topic]

    async def main():
        provider = Slow(t=FakeSource())
        results = await asyncio.gather(
            provider.new_consumer("t", nothing), provider.new_consumer("t", nothing), return_exceptions=True
        )

        assert [type(r).__name__ for r in results].count("ErrConsumerAlreadyRegistered") == 1
        await provider.close()

    run_virtual(main())


def test_provider_checks_what_it_is_given():
    """Empty topics, wrong options and handlers are refused before anything is opened."""

    async def main():
        provider = Provider(t=FakeSource())
        for topic in ("", "   "):
            with pytest.raises(ErrEmptyTopicName):
                await provider.new_consumer(topic, nothing)
        with pytest.raises(TypeError, match="did you mean 'concurrency'"):
            await provider.new_consumer("t", nothing, concurency=3)
        with pytest.raises(TypeError, match="async function"):
            await provider.new_consumer("t", "handler")
        with pytest.raises(TypeError, match="plain function"):
            await provider.new_consumer("t", nothing, on_error=nothing)
        with pytest.raises(ValueError, match="concurrency=0"):
            await provider.new_consumer("t", nothing, concurrency=0)
        await provider.close()
        with pytest.raises(ClosedError):
            await provider.new_consumer("t", nothing)

    run_virtual(main())


def test_cancelling_during_the_drain_ends_it_within_seconds():
    """A second signal while deletes fail: consume() gives up soon, and the messages come back by themselves."""

    async def main():
        source = FakeSource(lease=600, cancellable=True)
        source.put("x")
        down = SettleError("503", code=ErrorCode.UNAVAILABLE, retryable=True)
        source.script["settle"].extend([down] * 100)
        b = bench(source, nothing)
        b.start()
        await asyncio.sleep(1)
        b.consumer.stop()
        await asyncio.sleep(1)
        b.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await b.task

        assert source.now() < 10
        calls = len(source.calls)
        await asyncio.sleep(100)
        assert len(source.calls) == calls

    run_virtual(main())


def test_stop_does_not_hand_back_a_running_message_that_comes_again():
    """Delivered anew during the drain, it runs on under the newer lease and is settled by it; nobody else gets it."""

    async def main():
        source = FakeSource(lease=1000)
        source.put("x")
        ended = []

        async def handler(message):
            await asyncio.sleep(10)
            ended.append(message.id)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        b.consumer.stop()
        source.stored[0].visible_at = 0
        source._notify()
        await b.task

        assert source.ops("release") == []
        assert ended == source.settled_ids == ["m1"]

    run_virtual(main())


@pytest.mark.parametrize("second", [0.0, 0.5, 2.0])
def test_consume_cancelled_twice_leaves_nothing_running(second):
    """A second cancellation ends the wait for what unwinds, but nothing is forgotten."""

    async def main():
        source = FakeSource(lease=1000, latency={"release": 1.0})
        source.put("x", "y")

        async def handler(message):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
                raise

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        b.task.cancel()
        await asyncio.sleep(second)
        b.task.cancel()
        await asyncio.wait([b.task])
        await asyncio.sleep(1)

        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert b.task.cancelled()

    run_virtual(main())


def test_cancelling_during_the_drain_still_sends_what_was_earned():
    """Cancelled while a delete is out, consume() gives it the grace of a cancellation, which is not none."""

    async def main():
        source = FakeSource(lease=600, cancellable=True, latency={"settle": 3.0})
        source.put("x")
        b = bench(source, nothing)
        b.start()
        await asyncio.sleep(1)
        b.consumer.stop()
        await asyncio.sleep(1)
        b.task.cancel()
        await asyncio.wait([b.task])

        assert source.settled_ids == ["m1"]

    run_virtual(main())


def test_cancelled_close_does_not_change_how_consume_ends():
    """The end of an event loop cancels consume() and close() at once: both end as cancelled."""

    async def main():
        source = FakeSource(lease=60)
        source.put("x")

        async def handler(message):
            await asyncio.sleep(100)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        closing = asyncio.create_task(b.consumer.close())
        await asyncio.sleep(1)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others)

        assert b.task.cancelled()
        assert closing.cancelled()

    run_virtual(main())


def test_close_inside_a_handler_is_refused():
    """It would wait for itself: the error says to use stop(), which works; the same for the provider's close()."""

    async def main():
        source = FakeSource(lease=60, cancellable=True)
        source.put("x")
        provider = Provider(t=source)
        refusals = []

        async def handler(message):
            for close in (consumer.close, provider.close):
                with pytest.raises(MessageQueueError, match=r"stop\(\)") as caught:
                    await close()
                refusals.append(caught.value)
            consumer.stop()

        consumer = await provider.new_consumer("t", handler)
        await consumer.consume()

        assert len(refusals) == 2
        assert source.now() == 0
        assert source.settled_ids == ["m1"]
        await provider.close()
        assert source.closed == provider.released == 1

    run_virtual(main())


def test_provider_closes_the_source_that_is_opened_while_it_closes():
    """new_consumer() under way at close() is refused in the end, and its source is closed before the connection."""

    class Slow(Provider):
        async def _open_source(self, topic, options):
            await asyncio.sleep(1)
            return self.sources[topic]

        async def _release(self):
            closed_at_release.append(self.sources["t"].closed)

    closed_at_release = []

    async def main():
        provider = Slow(t=FakeSource())
        making = asyncio.create_task(provider.new_consumer("t", nothing))
        await asyncio.sleep(0.5)
        await provider.close()
        with pytest.raises(ClosedError):
            await making

        assert closed_at_release == [1]

    run_virtual(main())


def test_provider_gives_the_topic_free_when_a_middleware_fails_at_once():
    """A middleware that raises while it is put around the handler does not keep the topic."""

    def broken(handler):
        raise LookupError

    async def main():
        source = FakeSource()
        provider = Provider(t=source)
        with pytest.raises(LookupError):
            await provider.new_consumer("t", nothing, middleware=[broken])

        await provider.new_consumer("t", nothing)
        await provider.close()

    run_virtual(main())


def test_stop_waits_for_a_parked_receive_longer_than_for_handlers():
    """`drain_timeout` is for handlers: a receive that is still out is not torn down, and what it brings goes back."""

    async def main():
        source = FakeSource(lease=600)
        b = bench(source, nothing, drain_timeout=1.0)
        b.start()
        await asyncio.sleep(0.5)
        asyncio.get_running_loop().call_later(10, source.put, "late")
        await b.stop()

        assert source.now() == 10.5
        assert [item.attempts for item in source.stored] == [1]
        assert source.hidden() == []

    run_virtual(main())


def test_stop_hands_back_a_key_that_waits_for_a_slot():
    """A message that could start had it a slot, and those behind it, are visible again in their order."""

    async def main():
        source = FakeSource(lease=1000, ordered=True, cancellable=True)
        source.put("busy", key="l")
        source.put("1", "2", "3", key="k")

        async def handler(message):
            await asyncio.sleep(5)

        b = bench(source, handler, concurrency=1, prefetch=10)
        b.start()
        await asyncio.sleep(1)
        await b.stop()

        assert source.hidden() == []
        assert [args[1:] for _, args in source.ops("release")] == [("h2", "h3", "h4")]
        assert source.settled_ids == ["m1"]

    run_virtual(main())
