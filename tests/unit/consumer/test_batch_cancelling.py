"""Lists whose handler is cancelled: once, as one piece of work, and with nothing kept from coming back."""

from __future__ import annotations

import asyncio

from messagequeue import BatchHandler
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def test_every_message_of_a_list_that_ignores_its_timeout_is_left_to_come_back() -> None:
    """Not only the first: a handler that hangs must not keep what it holds from everybody."""

    async def main():
        source = FakeSource(lease=9)
        source.put(*"abc")
        free = asyncio.Event()

        async def handle(messages):
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    pass

        b = bench(source, BatchHandler(handle, max_messages=3), handler_timeout=5.0, concurrency=1)
        b.start()
        await asyncio.sleep(30)
        visible = [item.id for item in source.stored if item.visible_at <= source.now()]
        kinds = b.kinds()
        free.set()
        await asyncio.sleep(1)
        await b.stop()

        assert visible == ["m1", "m2", "m3"]
        assert kinds == ["HandlerError"] * 3

    run_virtual(main())


def test_every_message_of_a_list_that_ignores_a_lost_lease_is_left_to_come_back() -> None:
    """The others were to come back at once."""

    async def main():
        source = FakeSource(lease=9)
        ids = source.put(*"abc")
        free = asyncio.Event()

        async def handle(messages):
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    pass

        b = bench(source, BatchHandler(handle, max_messages=3), concurrency=1)
        b.start()
        await asyncio.sleep(1)
        source.steal(ids[1])
        await asyncio.sleep(30)
        visible = [item.id for item in source.stored if item.visible_at <= source.now()]
        free.set()
        await asyncio.sleep(1)
        await b.stop()

        assert visible == ["m1", "m2", "m3"]

    run_virtual(main())


def test_a_list_is_cancelled_once_however_many_leases_it_loses() -> None:
    """Its handler cleans up undisturbed: a second lease that is lost meanwhile is no news."""

    async def main():
        source = FakeSource(lease=9)
        ids = source.put(*"abc")
        cleaned = []

        async def handle(messages):
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(4)
                cleaned.append(asyncio.current_task().cancelling())

        b = bench(source, BatchHandler(handle), concurrency=1, drain_timeout=0.0)
        b.start()
        await asyncio.sleep(1)
        source.steal(ids[0])
        await asyncio.sleep(3)
        source.steal(ids[1])
        await asyncio.sleep(1)
        await b.stop()

        assert cleaned[0] == 1

    run_virtual(main())


def test_handler_timeout_covers_what_opens_the_messages_of_a_list() -> None:
    """As it does for one message."""

    class Hanging(FakeSource):
        def opening(self, handler):
            async def open_message(message):
                await asyncio.sleep(1000 if message.text == "b" else 0)
                await handler(message)

            return open_message

    async def main():
        source = Hanging(lease=30)
        source.put(*"abc")

        async def handle(messages):
            pass

        b = bench(source, BatchHandler(handle, max_messages=3), handler_timeout=5.0, concurrency=1)
        b.start()
        await asyncio.sleep(6)
        assert b.kinds() == ["HandlerError"] * 3
        assert b.consumer.stats.timed_out == 3
        await b.stop()

    run_virtual(main())
