"""The breaker's trial: one message, of those received since, whatever else still runs or comes late."""

from __future__ import annotations

import asyncio

from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def test_a_handler_from_before_does_not_keep_the_trial_from_beginning() -> None:
    """One that works for hours must not stop a consumer for hours."""

    async def main():
        source = FakeSource(lease=30)
        loop = asyncio.get_running_loop()
        works_at = loop.time() + 15
        seen = []

        async def handler(message):
            if message.text == "long":
                await asyncio.sleep(3_600)
                return
            seen.append(loop.time())
            if loop.time() < works_at:
                raise ConnectionError

        source.put("long", "a", "b")
        b = bench(source, handler, breaker_failures=2, breaker_pause=20.0, retry_delay=1, concurrency=5)
        b.start()
        await asyncio.sleep(60)

        assert not b.consumer.stats.breaker_open
        assert [item.body for item in source.stored] == [b"long"]
        b.task.cancel()
        await asyncio.wait([b.task])

    run_virtual(main())


def test_a_receive_from_before_brings_one_message_to_the_trial() -> None:
    """It was out when the breaker opened, and answers when the pause is over: the rest is handed back."""

    async def main():
        source = FakeSource(lease=300, max_receives=2)
        loop = asyncio.get_running_loop()
        seen = []

        async def handler(message):
            seen.append((loop.time(), message.text))
            await asyncio.sleep(1)
            raise ConnectionError

        source.put(*"abcdefghij")
        b = bench(source, handler, breaker_failures=5, breaker_pause=3.0, retry_delay=200, concurrency=20, wait_time=20)
        b.start()
        await asyncio.sleep(8)
        before = len(seen)
        source.put(*"klmnopqrst")
        await asyncio.sleep(0.5)

        assert b.consumer.stats.breaker_open
        assert len(seen) - before == 1
        assert len(source.hidden()) == before + 1
        await b.stop()

    run_virtual(main())


def test_a_consumer_that_consumes_again_begins_with_a_closed_breaker() -> None:
    """And says so."""

    async def main():
        source = FakeSource(lease=300, cancellable=True)
        source.put("a", "b")

        async def handler(message):
            if message.text == "a" and message.delivery_attempt == 1:
                raise ConnectionError

        b = bench(source, handler, breaker_failures=1, breaker_pause=3_600.0, retry_delay=1, concurrency=1)
        b.start()
        await asyncio.sleep(5)
        assert b.consumer.stats.breaker_open
        await b.stop()
        assert not b.consumer.stats.breaker_open

        b.start()
        await asyncio.sleep(5)
        assert (b.consumer.stats.breaker_open, source.stored) == (False, [])
        await b.stop()

    run_virtual(main())


def test_an_open_breaker_is_left_where_the_clock_is_coarse() -> None:
    """A timer may fire before its time by the clock's resolution: the trial must not wait for another event."""

    async def main():
        loop = asyncio.get_running_loop()
        source = FakeSource(lease=300)
        source.put("a")
        seen = []

        async def handler(message):
            seen.append(loop.time())
            if len(seen) == 1:
                raise ConnectionError

        later = loop.call_later

        def early(delay, callback, *args, **kwargs):
            return later(max(0.0, delay - 0.01), callback, *args, **kwargs)

        loop.call_later = early
        b = bench(source, handler, breaker_failures=1, breaker_pause=30.0, retry_delay=1, concurrency=1)
        b.start()
        await asyncio.sleep(60)
        assert len(seen) == 2
        await b.stop()

    run_virtual(main())
