"""`concurrency()`: how many messages of one key run at once."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from typing import Any

import pytest

from messagequeue import ConfigurationError, Handler, Message, RetryLater, open_consumers, open_publishers
from messagequeue.middleware import concurrency
from messagequeue.testing import message, run_virtual


class Gauge:
    """A handler that takes a second and remembers how many of each key ran at once."""

    def __init__(self) -> None:
        self.running: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        self.order: list[str] = []
        self.ended: dict[str, float] = {}

    async def __call__(self, given: Message) -> None:
        key = given.ordering_key
        self.running[key] += 1
        self.most[key] = max(self.most[key], self.running[key])
        self.order.append(given.text)
        try:
            await asyncio.sleep(1)
        finally:
            self.running[key] -= 1
        self.ended[given.text] = asyncio.get_running_loop().time()


async def at_once(handler: Handler, *keys: str | None) -> list[object]:
    """Give the handler a message of each key, in order, and return how each ended."""
    calls = (handler(message(f"{number}", ordering_key=key)) for number, key in enumerate(keys))
    return list(await asyncio.gather(*calls, return_exceptions=True))


def test_a_key_has_no_more_than_its_limit_at_once() -> None:
    """In the order they came; other keys, and messages without one, do not wait for it."""

    async def main() -> None:
        gauge = Gauge()
        await at_once(concurrency(2)(gauge), "a", "a", "a", "a", "a", "b", None, None, None)

        assert gauge.most == {"a": 2, "b": 1, None: 3}
        assert gauge.order == ["0", "1", "5", "6", "7", "8", "2", "3", "4"]
        assert gauge.ended["5"] == gauge.ended["8"] == 1
        assert gauge.ended["4"] == 3

    run_virtual(main())


def test_the_key_may_be_anything_of_the_message() -> None:
    """A function says what to count by."""

    async def main() -> None:
        gauge = Gauge()
        even = concurrency(1, key=lambda given: int(given.text) % 2)
        await at_once(even(gauge), *"abcd")

        assert gauge.ended == {"0": 1, "1": 1, "2": 2, "3": 2}

    run_virtual(main())


def test_a_slot_is_free_again_however_the_handler_ended() -> None:
    """After an exception and after a cancellation, of one that runs and of one that waits."""

    async def main() -> None:
        async def fails(_: Message) -> None:
            await asyncio.sleep(1)
            raise KeyError

        capped = concurrency(1)(fails)
        tasks = [asyncio.ensure_future(capped(message(f"{n}", ordering_key="a"))) for n in range(4)]
        await asyncio.sleep(0.5)
        tasks[0].cancel()
        tasks[2].cancel()
        done, _ = await asyncio.wait(tasks)

        assert [task.cancelled() for task in tasks] == [True, False, True, False]
        assert isinstance(tasks[3].exception(), KeyError)
        assert asyncio.get_running_loop().time() == 2.5
        assert all(isinstance(task.exception(), KeyError) for task in done if not task.cancelled())

    run_virtual(main())


def test_nothing_is_kept_of_keys_that_are_not_at_work() -> None:
    """A million tenants that came once cost nothing."""

    async def main() -> None:
        capped = concurrency(1)(Gauge())
        await at_once(capped, *(f"tenant {number % 50}" for number in range(150)))
        rooms = next(
            cell.cell_contents
            for cell in capped.__closure__ or ()  # type: ignore[attr-defined]
            if isinstance(cell.cell_contents, dict)
        )

        assert rooms == {}

    run_virtual(main())


def test_busy_gives_the_message_back_instead_of_waiting() -> None:
    """With `RetryLater`, so that its slot is free for others."""

    async def main() -> None:
        gauge = Gauge()
        ends = await at_once(concurrency(2, busy=30)(gauge), "a", "a", "a", "b")

        assert [type(end) for end in ends] == [type(None), type(None), RetryLater, type(None)]
        assert isinstance(ends[2], RetryLater)
        assert ends[2].after == 30
        assert gauge.order == ["0", "1", "3"]

    run_virtual(main())


def test_one_middleware_counts_for_all_consumers_that_have_it() -> None:
    """What it counts is one, whatever it is wrapped around."""

    async def main() -> None:
        cap, gauge = concurrency(1), Gauge()
        await asyncio.gather(at_once(cap(gauge), "a"), at_once(cap(gauge), "a"))

        assert gauge.most["a"] == 1

    run_virtual(main())


def test_a_tenant_with_a_backlog_is_capped_in_a_consumer() -> None:
    """Twenty of a loud tenant, two of a quiet one: the quiet one is done in the first second."""

    async def main() -> None:
        broker = f"memory://?name={uuid.uuid4()}"
        gauge = Gauge()

        async def handle(given: Message) -> None:
            await gauge(given)
            if len(gauge.ended) == 22:
                consumer.stop()

        async with open_publishers(broker) as publishers, open_consumers(broker) as consumers:
            publisher = await publishers.new_publisher("t")
            await publisher.publish_many([f"loud {n}" for n in range(20)], attributes={"tenant": "loud"})
            await publisher.publish_many([f"quiet {n}" for n in range(2)], attributes={"tenant": "quiet"})
            cap = concurrency(4, key=lambda given: given.attributes["tenant"])
            consumer = await consumers.new_consumer("t", handle, middleware=[cap], concurrency=30)
            await consumer.consume()

        assert max(gauge.ended["quiet 0"], gauge.ended["quiet 1"]) < 1.5
        assert max(gauge.ended.values()) == pytest.approx(5, abs=0.2)

    run_virtual(main())


@pytest.mark.parametrize("limit", [0, -1, 1.0, True, "1", None])
def test_a_limit_that_makes_no_sense_is_refused(limit: Any) -> None:
    """When the middleware is made."""
    with pytest.raises(ConfigurationError, match=r"concurrency=.*a whole number of 1 or more"):
        concurrency(limit)
    with pytest.raises(ConfigurationError, match="busy=0"):
        concurrency(1, busy=0)
