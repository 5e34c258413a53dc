"""`run()`: consumers as a program, ended by signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType

import pytest

from messagequeue import Consumer, run
from messagequeue.testing import run_virtual

BOTH = (signal.SIGINT, signal.SIGTERM)


class FakeConsumer:
    """
    Consumes nothing; remembers how it ended.

    Args:
        drain: Seconds that it needs after `stop()`.
        fault: What `consume()` raises after `fails_after` seconds.
        on_start: Called when `consume()` begins.
    """

    def __init__(
        self,
        topic: str = "orders",
        *,
        drain: float = 0.0,
        fault: Exception | None = None,
        fails_after: float = 1.0,
        on_start: Callable[[], object] = lambda: None,
    ) -> None:
        self.topic = topic
        self.ended = ""
        self.stops = 0
        self._drain = drain
        self._fault = fault
        self._fails_after = fails_after
        self._on_start = on_start
        self._stopped = asyncio.Event()

    async def consume(self) -> None:
        self._on_start()
        try:
            if self._fault is not None:
                await asyncio.sleep(self._fails_after)
                raise self._fault
            await self._stopped.wait()
            await asyncio.sleep(self._drain)
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        self.ended = "drained"

    def stop(self) -> None:
        self.stops += 1
        self._stopped.set()

    async def close(self) -> None:
        self.stop()


def later(seconds: float, act: Callable[[], object]) -> Callable[[], object]:
    """Return a function that has *act* called so many seconds after it was called."""
    return lambda: asyncio.get_running_loop().call_later(seconds, act)


def raises(number: signal.Signals) -> Callable[[], None]:
    """Return a function that sends this process a signal."""
    return lambda: signal.raise_signal(number)


def test_the_fake_is_a_consumer() -> None:
    """What these tests run is what `run()` takes."""
    assert isinstance(FakeConsumer(), Consumer)


@pytest.mark.parametrize("number", BOTH)
def test_the_first_signal_drains_and_run_returns(number: signal.Signals) -> None:
    """Every consumer is stopped gracefully and the process can exit with 0 (SHUT-09)."""
    first = FakeConsumer("a", drain=5, on_start=later(1, raises(number)))
    second = FakeConsumer("b", drain=3)

    run_virtual(run(first, second))

    assert (first.ended, second.ended) == ("drained", "drained")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_cancels_and_exits_non_zero(number: signal.Signals, code: int) -> None:
    """A drain that takes too long can be cut short; the exit code says by which signal (SHUT-09)."""
    stuck = FakeConsumer(drain=3600, on_start=later(1, raises(signal.SIGTERM)))
    quick = FakeConsumer(drain=1, on_start=later(3, raises(number)))

    async def program() -> tuple[object, float]:
        started = asyncio.get_running_loop().time()
        try:
            await run(stuck, quick)
        except SystemExit as exc:
            return exc.code, asyncio.get_running_loop().time() - started
        raise AssertionError("run() returned")

    assert run_virtual(program()) == (code, 3.0)
    assert (stuck.ended, quick.ended) == ("cancelled", "drained")


def test_consumers_end_together_not_one_after_another() -> None:
    """Six drains of 20 s take 20 s (SHUT-02)."""
    consumers = [FakeConsumer(str(number), drain=20) for number in range(6)]
    trigger = FakeConsumer("trigger", on_start=later(1, raises(signal.SIGTERM)))

    async def program() -> float:
        started = asyncio.get_running_loop().time()
        await run(trigger, *consumers)
        return asyncio.get_running_loop().time() - started

    assert run_virtual(program()) == 21.0
    assert {consumer.ended for consumer in consumers} == {"drained"}


def test_handlers_of_the_application_are_put_back() -> None:
    """`run()` was asked to take the signals over; when it ends, each is the application's again (SHUT-09)."""
    seen: list[int] = []

    def own(number: int, _frame: FrameType | None) -> None:
        seen.append(number)

    before = {number: signal.signal(number, own) for number in BOTH}
    try:
        run_virtual(run(FakeConsumer(on_start=later(1, raises(signal.SIGTERM)))))
        assert seen == []
        assert [signal.getsignal(number) for number in BOTH] == [own, own]

        with contextlib.suppress(ValueError):
            run_virtual(run(FakeConsumer(fault=ValueError(), fails_after=1)))
        assert [signal.getsignal(number) for number in BOTH] == [own, own]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_handler_of_asyncio_run_works_before_and_after() -> None:
    """`asyncio.run` has a SIGINT handler of its own; ours stands in for it and gives way again (SHUT-09)."""

    async def program() -> bool:
        before = signal.getsignal(signal.SIGINT)
        await run(FakeConsumer(on_start=later(0, raises(signal.SIGINT))))
        return signal.getsignal(signal.SIGINT) is before

    assert asyncio.run(program())


def test_a_handler_of_the_loop_survives() -> None:
    """What the application added with `loop.add_signal_handler()` is called again after `run()` (SHUT-09)."""

    async def program() -> None:
        called = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, called.set)
        try:
            consumer = FakeConsumer()
            loop.call_soon(consumer.stop)
            await run(consumer)
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(called.wait(), 5)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    asyncio.run(program())


def test_off_the_main_thread_no_handler_is_installed() -> None:
    """A consumer in a thread's loop runs, and signals stay the main program's (SHUT-09)."""
    before = [signal.getsignal(number) for number in BOTH]
    during: list[object] = []
    consumer = FakeConsumer(on_start=lambda: during.extend(signal.getsignal(number) for number in BOTH))

    async def program() -> None:
        asyncio.get_running_loop().call_later(0.01, consumer.stop)
        await run(consumer)

    thread = threading.Thread(target=lambda: asyncio.run(program()))
    thread.start()
    thread.join(10)

    assert consumer.ended == "drained"
    assert during == before


def test_no_signal_is_touched_where_none_is_asked_for() -> None:
    """`signals=()` leaves them to the application."""
    during: list[object] = []
    consumer = FakeConsumer(on_start=lambda: during.extend(signal.getsignal(number) for number in BOTH))
    consumer.stop()

    async def program() -> list[object]:
        before: list[object] = [signal.getsignal(number) for number in BOTH]
        await run(consumer, signals=())
        return before

    assert run_virtual(program()) == during


def test_a_fault_of_one_drains_the_others_and_is_raised_as_it_is() -> None:
    """The other consumers finish what they took, then the caller sees the error, not a group."""
    fault = ValueError("the topic is gone")
    other = FakeConsumer("b", drain=5)

    with pytest.raises(ValueError, match="the topic is gone") as caught:
        run_virtual(run(FakeConsumer("a", fault=fault), other))

    assert caught.value is fault
    assert other.ended == "drained"


def test_several_faults_are_raised_together() -> None:
    """None of them is lost."""
    faults = [ValueError("a"), KeyError("b")]

    with pytest.raises(ExceptionGroup, match="2 consumers failed") as caught:
        run_virtual(run(*(FakeConsumer(fault=fault, fails_after=index) for index, fault in enumerate(faults))))

    assert list(caught.value.exceptions) == faults


def test_the_first_signal_after_a_fault_still_drains() -> None:
    """A process manager's SIGTERM is a first one, whatever made the consumers stop before (SHUT-09)."""
    other = FakeConsumer("b", drain=10, on_start=later(3, raises(signal.SIGTERM)))

    with pytest.raises(ValueError, match="gone"):
        run_virtual(run(FakeConsumer("a", fault=ValueError("gone"), fails_after=1), other))

    assert other.ended == "drained"


def test_cancelling_run_cancels_every_consumer() -> None:
    """And waits for them: nothing of `run()` goes on afterwards (SHUT-06)."""
    consumers = [FakeConsumer("a"), FakeConsumer("b")]

    async def program() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(run(*consumers), 1)

    run_virtual(program())

    assert [consumer.ended for consumer in consumers] == ["cancelled", "cancelled"]


def test_a_consumer_that_ends_by_itself_does_not_end_the_others() -> None:
    """`run()` returns when all have ended."""
    first, second = FakeConsumer("a"), FakeConsumer("b", on_start=later(9, raises(signal.SIGTERM)))
    first.stop()

    run_virtual(run(first, second))

    assert (first.stops, second.stops) == (2, 1)


def test_no_consumer_is_an_error() -> None:
    """A list that turned out empty is a mistake, not a program that is done."""
    with pytest.raises(ValueError, match="no consumer"):
        run_virtual(run())
