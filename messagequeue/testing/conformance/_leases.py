"""Facts about leases: kept alive while they are needed, and given up when they are lost."""

from __future__ import annotations

import asyncio

import pytest

from ..._errors import HandlerError, LeaseLostError
from ..._message import Message
from ._bench import Bench, numbers
from ._facts import fact, standard_fact


class LeaseFacts:
    """What holds for the right to work on a message."""

    @fact()
    async def test_a_slow_handler_outlives_its_lease(self, bench: Bench) -> None:
        """Its lease is prolonged: no other consumer gets the message, and it is gone afterwards (HB-01)."""
        topic = await bench.new_topic(lease=1)

        async def behaviour(_: Message) -> None:
            await asyncio.sleep(2.5 * bench.unit)

        # With one slot each, the one that works asks for nothing: the other would get the message.
        worker = await bench.consume(topic, behaviour, concurrency=1)
        other = await bench.consume(topic, behaviour, provider=await bench.consumers(), concurrency=1)
        await bench.publish(topic, "a")
        await bench.until(lambda: len(worker.done) + len(other.done) == 1, "it is handled")
        await bench.gone(topic)
        assert len(worker.begun) + len(other.begun) == 1

    @fact()
    async def test_prefetched_messages_are_kept_too(self, bench: Bench) -> None:
        """The lease clock starts at the receive: what waits for a slot is prolonged as well (HB-06)."""
        topic = await bench.new_topic(lease=1)
        await bench.publish(topic, *numbers(3))

        async def behaviour(_: Message) -> None:
            await asyncio.sleep(0.8 * bench.unit)

        worker = await bench.consume(topic, behaviour, concurrency=1, prefetch=4)
        await worker.until_begun(1)
        other = await bench.consume(topic, provider=await bench.consumers())
        await bench.until(lambda: len(worker.done) + len(other.done) == 3, "all are handled")
        await bench.gone(topic)
        assert sorted(worker.begun + other.begun) == numbers(3)

    @standard_fact()
    async def test_a_visibility_timeout_of_the_consumer_wins(self, bench: Bench) -> None:
        """The consumer's own option is the lease of what it receives, in place of the topic's."""
        topic = await bench.new_topic()
        await bench.publish(topic, "a")

        async def behaviour(message: Message) -> None:
            if len(worker.handlings) == 1:
                raise RuntimeError("the handler fails, as the fact asks")

        worker = await bench.consume(topic, behaviour, visibility_timeout=max(1.0, bench.unit))
        await worker.until_done(1)
        worker.expect(HandlerError)
        assert worker.handlings[1].began - worker.handlings[0].began <= 2 * max(1.0, bench.unit) + bench.slack

    @fact()
    async def test_without_heartbeat_a_slow_message_comes_again(self, bench: Bench) -> None:
        """Switched off, the lease ends in the middle of the work: the message is delivered a second time (CON-15)."""
        topic = await bench.new_topic(lease=1)
        again = asyncio.Event()

        async def behaviour(_: Message) -> None:
            if len(worker.handlings) + len(other.handlings) == 1:
                await again.wait()

        worker = await bench.consume(topic, behaviour, heartbeat=False)
        other = await bench.consume(topic, behaviour, provider=await bench.consumers(), heartbeat=False)
        await bench.publish(topic, "a")
        await bench.until(lambda: len(worker.handlings) + len(other.handlings) == 2, "it is delivered twice")
        again.set()
        await bench.until(lambda: not worker.running and not other.running, "both are over")
        await bench.gone(topic)
        for side in (worker, other):
            side.expect(LeaseLostError)

    @fact()
    async def test_a_lost_lease_cancels_its_handler(self, bench: Bench) -> None:
        """Rather than two do the same work; a LeaseLostError names the message, and the consumer goes on."""
        topic = await bench.new_topic(lease=1)

        async def behaviour(message: Message) -> None:
            if message.text == "lost":
                await asyncio.Event().wait()

        worker = await bench.consume(topic, behaviour)
        await bench.publish(topic, "lost")
        await worker.until_begun(1)
        if not await bench.harness.steal(topic, worker.handlings[0].message):
            pytest.skip("the harness cannot take a lease away")
        fault = await worker.until_blamed(LeaseLostError)
        await bench.until(lambda: not worker.running, "the handler ends")
        assert fault.message is not None
        assert fault.message.text == "lost"
        assert isinstance(worker.handlings[0].error, asyncio.CancelledError)
        await bench.publish(topic, "next")
        await bench.until(lambda: "next" in worker.done, "the next one is handled")

    @fact()
    async def test_handler_timeout_cancels_and_the_message_comes_back(self, bench: Bench) -> None:
        """The handler is cancelled and unwinds before its slot is free; the message is not taken off (CON-25)."""
        topic = await bench.new_topic()
        unwound: list[float] = []

        async def behaviour(_: Message) -> None:
            if len(worker.handlings) > 1:
                return
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.05 * bench.unit)
                unwound.append(bench.now())

        worker = await bench.consume(topic, behaviour, concurrency=1, handler_timeout=0.1 * bench.unit, retry_delay=0)
        await bench.publish(topic, "a")
        await worker.until_done(1)
        (fault,) = worker.expect(HandlerError)
        assert isinstance(fault.__cause__, TimeoutError)
        assert worker.handlings[1].began >= unwound[0]
        assert worker.handlings[1].message.id == worker.handlings[0].message.id
