"""Facts about stopping: promptly, with nothing lost, and with nothing left that runs."""

from __future__ import annotations

import asyncio

import pytest

from ..._message import Message
from ._bench import Bench, Worker, numbers
from ._facts import fact, standard_fact


class StoppingFacts:
    """What holds for the end of a consumer."""

    @standard_fact()
    async def test_stop_while_idle_ends_within_a_poll(self, bench: Bench) -> None:
        """A parked receive ends by itself or at once; stop() itself returns at once, also a second time."""
        topic = await bench.new_topic()
        worker = await bench.consume(topic)
        await asyncio.sleep(0.3 * bench.features.wait)
        worker.consumer.stop()
        assert await worker.stop() <= bench.features.wait + bench.slack

    @standard_fact()
    async def test_stop_before_consume_makes_it_return(self, bench: Bench) -> None:
        """A signal that comes first is not lost."""
        topic = await bench.new_topic()
        await bench.publish(topic, "a")
        consumer = await (await bench.consumers()).new_consumer(topic, _never)
        consumer.stop()
        async with asyncio.timeout(bench.features.wait + bench.slack):
            await consumer.consume()

    @standard_fact()
    async def test_stop_right_after_the_start_ends_too(self, bench: Bench) -> None:
        """At whatever point consume() is."""
        topic = await bench.new_topic()
        for turns in range(6):
            worker = await bench.consume(topic)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await worker.stop() <= bench.features.wait + bench.slack
            await worker.consumer.close()

    @fact()
    async def test_stop_waits_for_running_handlers_and_their_deletes(self, bench: Bench) -> None:
        """They finish and their messages are gone; what was never handed out is untouched (SHUT-03, SHUT-06)."""
        topic = await bench.new_topic()
        await bench.publish(topic, *numbers(12))
        release = asyncio.Event()
        worker = await bench.consume(topic, lambda _: release.wait(), concurrency=4)
        await worker.until_begun(4)
        worker.consumer.stop()
        await asyncio.sleep(0.1 * bench.unit)
        assert not worker.task.done()
        release.set()
        await worker.end()
        assert len(worker.done) == len(worker.begun) == 4
        await bench.until_counts(topic, (8, 0, 0))
        rest = await bench.receive(topic, 8)
        assert sorted([message.text for message in rest] + worker.done) == sorted(numbers(12))
        if bench.features.counts_deliveries:
            assert [message.delivery_attempt for message in rest] == [1] * 8

    @fact()
    async def test_close_waits_for_running_handlers(self, bench: Bench) -> None:
        """After close() nothing runs; whoever closes at the same time returns at the same end (SHUT-06)."""
        topic = await bench.new_topic()
        await bench.publish(topic, "a")

        async def behaviour(_: Message) -> None:
            await asyncio.sleep(0.3 * bench.unit)

        worker = await bench.consume(topic, behaviour)
        await worker.until_begun(1)
        await asyncio.gather(worker.consumer.close(), worker.consumer.close())
        assert worker.running == 0
        assert worker.done == ["a"]
        await bench.gone(topic)

    @fact()
    async def test_prefetched_messages_are_handed_back_at_stop(self, bench: Bench) -> None:
        """At once: another consumer has them long before their lease would have ended."""
        topic = await bench.new_topic()
        await bench.publish(topic, *numbers(5))
        release = asyncio.Event()
        worker = await bench.consume(topic, lambda _: release.wait(), concurrency=1, prefetch=8)
        await worker.until_begun(1)
        await bench.until_counts(topic, (0, 5, 0))
        worker.consumer.stop()
        other = await bench.consume(topic, provider=await bench.consumers())
        await other.until_done(4)
        assert worker.running == 1
        release.set()
        await worker.end()
        assert sorted(worker.done + other.done) == numbers(5)

    @fact()
    async def test_a_stuck_handler_is_cancelled_when_the_drain_is_over(self, bench: Bench) -> None:
        """Its message is handed back; a shorter one is taken off as soon as it ends (SHUT-08)."""
        topic = await bench.new_topic()
        await bench.publish(topic, "stuck", "short")
        release = asyncio.Event()

        async def behaviour(message: Message) -> None:
            await (release.wait() if message.text == "short" else asyncio.Event().wait())

        drain = max(0.5, 0.5 * bench.unit)
        worker = await bench.consume(topic, behaviour, drain_timeout=drain)
        await worker.until_begun(2)
        asked = bench.now()
        worker.consumer.stop()
        release.set()
        await bench.until_counts(topic, (0, 1, 0))
        await worker.end()
        assert drain - 0.1 <= bench.now() - asked <= drain + bench.slack
        stuck = next(handling for handling in worker.handlings if handling.text == "stuck")
        assert isinstance(stuck.error, asyncio.CancelledError)
        assert [message.text for message in await bench.receive(topic)] == ["stuck"]
        assert bench.now() - asked <= drain + 2 * bench.slack + bench.features.wait

    @fact()
    async def test_what_arrives_around_stop_is_not_stranded(self, bench: Bench) -> None:
        """A parked receive may still bring a message: it is handed back, and another consumer has it soon (SHUT-01)."""
        for offset in (-0.05, 0.0, 0.05):
            topic = await bench.new_topic()
            worker = await bench.consume(topic)
            await asyncio.sleep(0.3 * bench.features.wait)
            stopping = asyncio.create_task(_stop_after(worker, max(0.0, -offset)), name="kit stop")
            await asyncio.sleep(max(0.0, offset))
            await bench.publish(topic, "a")
            sent = bench.now()
            other = await bench.consume(topic, provider=await bench.consumers())
            await bench.until(lambda one=worker, two=other: bool(one.done or two.done), "it is handled")  # type: ignore[misc]
            await stopping
            assert bench.now() - sent <= 2 * bench.features.wait + 2 * bench.slack
            await bench.gone(topic)
            assert len(worker.begun) + len(other.begun) == 1

    @standard_fact()
    async def test_several_consumers_close_in_parallel(self, bench: Bench) -> None:
        """Closing takes the longest of their polls, not the sum (SHUT-02)."""
        provider = await bench.consumers()
        workers = [await bench.consume(await bench.new_topic(), provider=provider) for _ in range(6)]
        await asyncio.sleep(0.3 * bench.features.wait)
        began = bench.now()
        await provider.close()
        assert bench.now() - began <= bench.features.wait + bench.slack
        for worker in workers:
            await worker.end()

    @standard_fact()
    async def test_leaving_the_block_closes_consumers(self, bench: Bench) -> None:
        """`async with` ends as close() does: handlers are waited for, consume() has returned."""
        topic = await bench.new_topic()
        await bench.publish(topic, "a")

        async def behaviour(_: Message) -> None:
            await asyncio.sleep(0.2 * bench.unit)

        async with await bench.consumers() as provider:
            worker = await bench.consume(topic, behaviour, provider=provider)
            await worker.until_begun(1)
        assert worker.done == ["a"]
        await worker.end()

    @fact()
    async def test_a_cancelled_consume_hands_back_at_once(self, bench: Bench) -> None:
        """It cancels its handlers, returns their messages, raises CancelledError and leaves no task."""
        topic = await bench.new_topic()
        before = asyncio.all_tasks()
        await bench.publish(topic, "a")
        # One slot: no receive is out, which would be torn down and may take the message along for a lease.
        worker = await bench.consume(topic, lambda _: asyncio.Event().wait(), concurrency=1)
        await worker.until_begun(1)
        began = bench.now()
        worker.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker.end()
        assert bench.now() - began <= bench.slack
        assert isinstance(worker.handlings[0].error, asyncio.CancelledError)
        (message,) = await bench.receive(topic)
        assert message.text == "a"
        assert bench.now() - began <= 2 * bench.slack + bench.features.wait
        await worker.consumer.close()
        left = {task.get_name() for task in asyncio.all_tasks() - before}
        assert not {name for name in left if topic in name and not name.startswith("kit")}

    @standard_fact()
    async def test_restarts_in_the_middle_of_work_lose_and_copy_nothing(self, bench: Bench) -> None:
        """Five times stopped and started anew: every message is handled under its own id, none is new (SHUT-05)."""
        topic = await bench.new_topic()
        receipts = await bench.publish(topic, *numbers(20))
        workers: list[Worker] = []

        async def behaviour(_: Message) -> None:
            await asyncio.sleep(0.02 * bench.unit)

        for _ in range(5):
            worker = await bench.consume(topic, behaviour, concurrency=2, prefetch=3)
            await worker.until_begun(1)
            await worker.stop()
            await worker.consumer.close()
            workers.append(worker)
        workers.append(await bench.consume(topic))
        await bench.until(lambda: sum(len(worker.done) for worker in workers) >= 20, "all are handled")
        handled = [handling.message.id for worker in workers for handling in worker.handlings]
        assert sorted(handled) == sorted(receipt.message_id for receipt in receipts)


async def _never(_: Message) -> None:
    """A handler that must not be called."""
    raise AssertionError("a handler was called")


async def _stop_after(worker: Worker, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await worker.stop()
