"""However a handler ends, its slot and its key are free again and its message is accounted for."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import DeadLetter, HandlerError, MessageQueueError, RetryLater, SettleError
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


class Odd(BaseException):
    """What `except Exception` does not see."""


async def raise_odd():
    raise Odd


async def raise_group():
    raise BaseExceptionGroup("several", [Odd(), ValueError()])


async def raise_generator_exit():
    raise GeneratorExit


async def cancel_itself():
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


@pytest.mark.parametrize("end", [raise_odd, raise_group, raise_generator_exit, cancel_itself])
def test_handler_that_ends_beyond_exception_has_failed_as_any_other(end):
    """It is reported once, what is held of its key goes back at once, and the key goes on when it is back."""

    async def main():
        source = FakeSource(lease=10, ordered=True)
        source.put("first", "second", key="k")
        source.put("other", key="l")
        done = []

        async def handler(message):
            if message.text == "first" and message.delivery_attempt == 1:
                await end()
            done.append((message.text, source.now()))

        b = bench(source, handler, concurrency=1)
        b.start()
        await asyncio.sleep(1)

        assert b.kinds() == ["HandlerError"]
        assert done == [("other", 0)]
        assert [text for text in source.hidden() if text != "m1"] == []
        await asyncio.sleep(30)
        assert [text for text, _ in done] == ["other", "first", "second"]
        assert b.consumer.stats.failed == 1
        assert source.stored == []
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("turns", range(6))
def test_handler_cancelled_before_its_first_step_frees_slot_and_key(turns):
    """A lease may be lost in the very turn of the loop in which the handler was started: nothing of it stays."""

    class Refusing(FakeSource):
        async def extend(self, leases, /, *, by):
            results = await super().extend(leases, by=by)
            return [
                SettleError("no") if lease == "h2" else result for lease, result in zip(leases, results, strict=True)
            ]

    async def main():
        source = Refusing(lease=10, ordered=True)
        source.put("other", key="l")
        source.put("first", "second", key="k")
        done = []

        async def handler(message):
            if message.text == "other":
                await asyncio.sleep(10)
                for _ in range(turns):
                    await asyncio.sleep(0)
            done.append(message.text)

        b = bench(source, handler, concurrency=1, prefetch=1)
        b.start()
        await asyncio.sleep(60)

        assert done[0] == "other"
        assert done[-2:] == ["first", "second"]
        assert source.stored == []
        assert b.consumer.stats.running == 0
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("turns", range(8))
def test_cancelling_consume_hands_back_what_arrives_in_the_same_turn(turns):
    """However the cancellation falls between the receive and the handler's first step, the message is visible again."""

    async def main():
        source = FakeSource(lease=1000, cancellable=True)
        started = []

        async def handler(message):
            started.append(message.id)
            await asyncio.sleep(100)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        source.put("x")
        for _ in range(turns):
            await asyncio.sleep(0)
        b.task.cancel()
        await asyncio.wait([b.task])

        assert source.hidden() == []
        assert b.consumer.stats.running == 0

    run_virtual(main())


def test_stopping_without_a_drain_hands_back_what_arrives_in_the_same_turn():
    """With drain_timeout=0 a message that came in the turn of stop() is visible again, its handler run or not."""

    async def main(turns):
        source = FakeSource(lease=1000, cancellable=True)

        async def handler(message):
            await asyncio.sleep(100)

        b = bench(source, handler, drain_timeout=0)
        b.start()
        await asyncio.sleep(1)
        source.put("x")
        for _ in range(turns):
            await asyncio.sleep(0)
        await b.stop()

        assert source.hidden() == []

    for turns in range(8):
        run_virtual(main(turns))


@pytest.mark.parametrize("how", [ValueError, asyncio.CancelledError, GeneratorExit])
def test_error_sink_that_raises_anything_changes_nothing(how):
    """What on_error raises is logged; the message's key goes on all the same."""

    async def main():
        source = FakeSource(lease=10, ordered=True)
        source.put("first", "second", key="k")
        done = []

        async def handler(message):
            if message.delivery_attempt == 1 and message.text == "first":
                raise LookupError
            done.append(message.text)

        def sink(error):
            raise how

        b = bench(source, handler, retry_delay=1.0)
        b.consumer._faults._sink = sink
        b.start()
        await asyncio.sleep(30)

        assert done == ["first", "second"]
        await b.stop()

    run_virtual(main())


def test_error_sink_that_raises_does_not_undo_the_pacing_of_receives():
    """A sink that raises CancelledError at every failing receive does not make the consumer ask without a pause."""

    async def main():
        source = FakeSource()
        source.script["receive"].extend([MessageQueueError("down", retryable=True)] * 1000)

        def sink(error):
            raise asyncio.CancelledError

        b = bench(source, lambda message: None)
        b.consumer._faults._sink = sink
        b.start()
        await asyncio.sleep(10)

        assert len(source.ops("receive")) < 12
        await b.stop()

    run_virtual(main())


def test_handler_that_outlives_consume_changes_nothing_any_more():
    """Given up at the shutdown, it ends later: no call reaches a source that may be closed by then."""

    async def main(end):
        source = FakeSource(lease=1000, cancellable=True, dead_letters=True)
        source.put("x")
        gate = asyncio.Event()
        over = []

        async def handler(message):
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    pass
            over.append(message.id)
            if end is not None:
                raise end

        b = bench(source, handler, drain_timeout=1.0)
        b.start()
        await asyncio.sleep(1)
        await b.consumer.close()
        before = len(source.calls)
        gate.set()
        await asyncio.sleep(10)

        assert over == ["m1"]
        assert [op for _, op, _ in source.calls[before:]] == []
        assert [type(error) for error in b.errors][:1] == [HandlerError]

    for end in (None, RetryLater(1), DeadLetter("bad"), asyncio.CancelledError()):
        run_virtual(main(end))
