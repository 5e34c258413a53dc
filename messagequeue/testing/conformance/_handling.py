"""Facts about what becomes of a message when its handler returns or raises, and about how handlers share a consumer."""

from __future__ import annotations

import asyncio

from ..._errors import ConsumeError, DeadLetter, Discard, HandlerError, RetryLater, SettleError
from ..._message import Message
from ..._protocols import Handler, Middleware
from ._bench import Bench, fail, fail_once, numbers
from ._facts import fact, standard_fact


class HandlingFacts:
    """What holds for every handler."""

    @fact()
    async def test_a_handled_message_is_gone(self, bench: Bench) -> None:
        """Return = done: it is taken off the queue and does not come back."""
        topic = await bench.new_topic(lease=1)
        worker = await bench.consume(topic)
        await bench.publish(topic, "a")
        await worker.until_done(1)
        await bench.gone(topic)
        assert worker.begun == ["a"]

    @fact()
    async def test_a_failed_message_comes_back_when_its_lease_ends(self, bench: Bench) -> None:
        """Raise = not done: the same id again, as the next attempt, not at once and not changed (CON-17)."""
        topic = await bench.new_topic(lease=1)
        await bench.publish(topic, "a", attributes={"n": 1})
        worker = await bench.consume(topic, fail_once())
        await worker.until_done(1)
        worker.expect(HandlerError)
        first, again = worker.handlings
        assert again.message.id == first.message.id
        assert (again.text, dict(again.message.attributes)) == ("a", {"n": "1"})
        assert again.began - first.began >= 0.8 * bench.unit
        if bench.features.counts_deliveries:
            assert (first.message.delivery_attempt, again.message.delivery_attempt) == (1, 2)

    @fact()
    async def test_retry_delay_is_when_a_failed_message_comes_back(self, bench: Bench) -> None:
        """An option of the consumer, in place of the rest of the lease."""
        topic = await bench.new_topic()
        await bench.publish(topic, "a")
        worker = await bench.consume(topic, fail_once(), retry_delay=0)
        await worker.until_done(1)
        worker.expect(HandlerError)
        first, again = worker.handlings
        assert again.began - first.began <= bench.unit + bench.slack

    @fact()
    async def test_retry_later_brings_the_same_message_back_later(self, bench: Bench) -> None:
        """The same id with a rising attempt, after the time asked for; nothing is sent, no fault is told (CON-19)."""
        topic = await bench.new_topic()
        (receipt,) = await bench.publish(topic, "a")

        async def behaviour(_: Message) -> None:
            if len(worker.handlings) < 3:
                raise RetryLater(bench.unit)

        worker = await bench.consume(topic, behaviour)
        await worker.until_done(1)
        await bench.gone(topic)
        assert [handling.message.id for handling in worker.handlings] == [receipt.message_id] * 3
        began = [handling.began for handling in worker.handlings]
        for gap in (began[1] - began[0], began[2] - began[1]):
            assert 0.8 * bench.unit <= gap <= 2 * bench.unit + bench.slack
        if bench.features.counts_deliveries:
            assert [handling.message.delivery_attempt for handling in worker.handlings] == [1, 2, 3]

    @fact()
    async def test_discard_takes_the_message_off(self, bench: Bench) -> None:
        """It is gone, and no fault is told."""
        topic = await bench.new_topic(lease=1)

        async def behaviour(_: Message) -> None:
            raise Discard("of no use")

        worker = await bench.consume(topic, behaviour)
        await bench.publish(topic, "a")
        await worker.until_begun(1)
        await bench.gone(topic)
        assert worker.begun == ["a"]

    @fact()
    async def test_dead_letter_moves_the_message_at_once(self, bench: Bench) -> None:
        """Into the topic's dead-letter queue; where there is none it stays, comes back, and the fault is told."""
        able = bench.features.dead_letters
        topic = await bench.new_topic(max_receives=100 if able else None)

        async def behaviour(_: Message) -> None:
            if able or len(worker.handlings) == 1:
                raise DeadLetter("hopeless")

        worker = await bench.consume(topic, behaviour, retry_delay=0)
        await bench.publish(topic, "a")
        if not able:
            await worker.until_blamed(SettleError)
            await worker.until_done(1)
            return
        await worker.until_begun(1)
        await bench.gone(topic)
        assert await bench.harness.dead_letters(topic) == [b"a"]
        assert worker.begun == ["a"]

    @fact("dead_letters")
    async def test_a_message_that_always_fails_becomes_a_dead_letter(self, bench: Bench) -> None:
        """After `max_receives` deliveries, in full; the others go on (CON-07)."""
        topic = await bench.new_topic(max_receives=2)

        async def behaviour(message: Message) -> None:
            message.json()["id"]

        worker = await bench.consume(topic, behaviour, retry_delay=0)
        bad = ["36|0|123", "{", '""']
        good = [f'{{"id":{number}}}' for number in range(3)]
        await bench.publish(topic, *bad, *good)
        await worker.until_done(3)
        await worker.until_begun(9)
        await bench.gone(topic)
        worker.expect(HandlerError)
        assert sorted(worker.done) == sorted(good)
        assert sorted(worker.begun) == sorted([*bad, *bad, *good])
        assert sorted(await bench.harness.dead_letters(topic)) == sorted(text.encode() for text in bad)

    @fact()
    async def test_failures_keep_no_slot(self, bench: Bench) -> None:
        """As many failures as there are slots, and everything behind them is handled at once (CON-06)."""
        topic = await bench.new_topic()
        bad, good = numbers(4), numbers(20, first=5)

        async def behaviour(message: Message) -> None:
            if message.text in bad:
                await fail(message)

        worker = await bench.consume(topic, behaviour, concurrency=4)
        await bench.publish(topic, *bad)
        await bench.until(lambda: len(worker.faults) == 4, "four failures are told")
        await bench.publish(topic, *good)
        await worker.until_done(20)
        worker.expect(HandlerError)
        assert sorted(worker.done) == sorted(good)

    @fact()
    async def test_a_slow_handler_holds_up_no_other(self, bench: Bench) -> None:
        """The rest of its batch, and later batches, are handled while it still runs (CON-10)."""
        topic = await bench.new_topic()
        release = asyncio.Event()

        async def behaviour(message: Message) -> None:
            if message.text == "1":
                await release.wait()

        worker = await bench.consume(topic, behaviour, concurrency=3)
        await bench.publish(topic, *numbers(25))
        await worker.until_done(24)
        assert worker.running == 1
        release.set()
        await worker.until_done(25)

    @fact()
    async def test_no_more_handlers_run_than_concurrency_says(self, bench: Bench) -> None:
        """Never one more; and all slots are used."""
        topic = await bench.new_topic()
        await bench.publish(topic, *numbers(20))
        full = asyncio.Event()

        async def behaviour(_: Message) -> None:
            if worker.running == 3:
                full.set()
            await full.wait()
            await asyncio.sleep(0)

        worker = await bench.consume(topic, behaviour, concurrency=3)
        await worker.until_done(20)
        assert worker.most_running == 3

    @fact()
    async def test_no_more_is_received_than_can_be_handled(self, bench: Bench) -> None:
        """What has no slot stays on the queue, for another consumer to take (CON-09)."""
        topic = await bench.new_topic()
        await bench.publish(topic, *numbers(10))
        release = asyncio.Event()
        busy = await bench.consume(topic, lambda _: release.wait(), concurrency=3)
        await busy.until_begun(3)
        await bench.until_counts(topic, (7, 3, 0))
        other = await bench.consume(topic, provider=await bench.consumers())
        await other.until_done(7)
        assert len(busy.handlings) == 3
        release.set()
        await busy.until_done(3)
        assert sorted(busy.begun + other.begun) == sorted(numbers(10))

    @fact()
    async def test_a_failure_is_told_with_message_and_cause(self, bench: Bench) -> None:
        """`on_error` gets a HandlerError: which message, which topic, and what was raised."""
        topic = await bench.new_topic()
        worker = await bench.consume(topic, fail)
        (receipt,) = await bench.publish(topic, "a")
        fault = await worker.until_blamed(HandlerError)
        assert fault.topic == topic
        assert fault.message is not None
        assert fault.message.id == receipt.message_id
        assert isinstance(fault.__cause__, RuntimeError)

    @standard_fact()
    async def test_an_error_sink_that_raises_does_no_harm(self, bench: Bench) -> None:
        """Nor does having none: the consumer goes on."""
        handled = asyncio.Event()

        async def handler(message: Message) -> None:
            if message.text == "good":
                handled.set()
            else:
                await fail(message)

        def sink(error: ConsumeError) -> None:
            raise error

        for on_error in (sink, None):
            topic = await bench.new_topic()  # its own: a cancelled receive may keep a message for the length of a lease
            handled.clear()
            consumer = await (await bench.consumers()).new_consumer(topic, handler, on_error=on_error, wait_time=1)
            running = asyncio.create_task(consumer.consume(), name="kit consume")
            await bench.publish(topic, "bad", "good")
            async with asyncio.timeout(bench.patience):
                await handled.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await consumer.close()

    @standard_fact()
    async def test_middleware_wraps_the_handler_from_the_outside_in(self, bench: Bench) -> None:
        """The first is the outermost, and sees what the handler raised."""
        topic = await bench.new_topic()
        seen: list[str] = []

        def named(name: str) -> Middleware:
            def wrap(inner: Handler) -> Handler:
                async def handler(message: Message) -> None:
                    seen.append(f"{name} begins")
                    try:
                        await inner(message)
                    except RuntimeError:
                        seen.append(f"{name} sees the error")
                        raise

                return handler

            return wrap

        worker = await bench.consume(topic, fail, middleware=[named("a"), named("b")])
        await bench.publish(topic, "x")
        await worker.until_blamed(HandlerError)
        assert seen == ["a begins", "b begins", "b sees the error", "a sees the error"]

    @standard_fact()
    async def test_an_empty_topic_is_no_fault(self, bench: Bench) -> None:
        """Polls that bring nothing are not told as errors, and the next message is handled (CON-01)."""
        topic = await bench.new_topic()
        worker = await bench.consume(topic)
        await asyncio.sleep(2.2 * bench.features.wait)
        assert worker.faults == []
        await bench.publish(topic, "a")
        await worker.until_done(1)

    @standard_fact()
    async def test_a_parked_poll_brings_a_message_when_it_arrives(self, bench: Bench) -> None:
        """A long poll ends with the message, not with its wait."""
        topic = await bench.new_topic()
        worker = await bench.consume(topic, wait_time=20)
        await asyncio.sleep(0.2 * bench.features.wait)
        sent = bench.now()
        await bench.publish(topic, "a")
        await worker.until_done(1)
        assert worker.handlings[0].began - sent <= bench.slack
