"""The event loop in virtual time."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from messagequeue.testing import AutojumpLoop, DeadlockError, VirtualRunError, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_run_virtual_returns_what_the_coroutine_returns() -> None:
    """The value of the main coroutine is the value of the call."""

    async def main() -> int:
        await asyncio.sleep(5)
        return 7

    assert run_virtual(main()) == 7


def test_run_virtual_raises_what_the_coroutine_raises() -> None:
    """An exception of the main coroutine comes out as it is."""

    async def main() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(main())


def test_the_clock_jumps_over_a_million_seconds_at_once() -> None:
    """Waiting takes no real time, whatever its length, and ends at the exact virtual second."""

    async def main() -> float:
        await asyncio.sleep(1_000_000)
        return now()

    began = time.perf_counter()
    assert run_virtual(main(), timeout=2_000_000) == 1_000_000
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("start", [0.0, 1000.25, 1_700_000_000.123, 8e12])
def test_timers_run_at_any_size_of_the_clock(start: float) -> None:
    """A start as large as the seconds since 1970 neither stops nor spins the loop, though small waits are rounded."""

    async def main() -> list[float]:
        seen = []
        for wait in (0.1, 1e-7, 3.3, 1e-9, 100):
            await asyncio.sleep(wait)
            seen.append(now())
        return seen

    seen = run_virtual(main(), start=start)

    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(start + 103.4, abs=0.01)


def test_timers_run_in_the_order_of_their_time() -> None:
    """Tasks that wait for different times wake in that order, each at its time."""
    woken: list[tuple[float, str]] = []

    async def nap(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((now(), name))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name, seconds in (("c", 30), ("a", 10), ("b", 20)):
                group.create_task(nap(name, seconds), name=name)

    run_virtual(main())

    assert woken == [(10, "a"), (20, "b"), (30, "c")]


def test_the_clock_stands_still_while_something_is_ready() -> None:
    """Turns of the loop take no time."""

    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return now()

    assert run_virtual(main()) == 0


def test_the_clock_stands_still_while_a_thread_works() -> None:
    """A timer does not fire before work in an executor is done: the work takes no virtual time."""

    async def main() -> tuple[str, float]:
        async with asyncio.timeout(1):
            return await asyncio.to_thread(lambda: time.sleep(0.02) or "done"), now()

    assert run_virtual(main()) == ("done", 0)


def test_hold_waits_for_a_thread_of_ones_own() -> None:
    """Inside of hold() a wake-up from any thread is waited for, in place of a deadlock error."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AutojumpLoop)
        future = loop.create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, None))
        with loop.hold():
            thread.start()
            await future
        thread.join()
        return now()

    assert run_virtual(main()) == 0


def test_a_deadlock_is_an_error_that_names_the_tasks() -> None:
    """Waiting for what cannot happen ends at once, with the names of the tasks and the line where each waits."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait(), name="stuck")

    with pytest.raises(DeadlockError) as caught:
        run_virtual(main())
    assert any("'stuck'" in note for note in caught.value.__notes__)


def test_virtual_time_runs_out() -> None:
    """A coroutine that takes longer than *timeout* ends in a TimeoutError at that time, and its cleanup runs."""
    cleaned = []

    async def main() -> None:
        try:
            for _ in range(1000):
                await asyncio.sleep(20)
        finally:
            await asyncio.sleep(100)
            cleaned.append(now())

    with pytest.raises(TimeoutError, match="90 s"):
        run_virtual(main(), timeout=90)
    assert cleaned == [190]


def test_a_task_that_spins_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop which turns without ever waiting is ended instead of hanging the tests."""
    monkeypatch.setattr("messagequeue.testing._autojump.MAX_IDLE_TURNS", 1000)

    async def main() -> None:
        for _ in range(2000):
            await asyncio.sleep(0)

    with pytest.raises(VirtualRunError, match="spins"):
        run_virtual(main())


def test_a_task_left_running_is_an_error_that_names_it() -> None:
    """A run that leaves a task behind fails, and the task is cancelled."""
    ends = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ends.append(now())

    async def main() -> None:
        main.task = asyncio.create_task(forgotten(), name="forgotten")  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    with pytest.raises(VirtualRunError, match="forgotten"):
        run_virtual(main())
    assert ends == [1]


@pytest.mark.parametrize("keep", [True, False])
def test_an_error_that_nobody_looked_at_fails_the_run(keep: bool) -> None:
    """The exception of a finished task counts, whether the task is freed during the run or still held."""
    held = []

    async def broken() -> None:
        raise KeyError("unseen")

    async def main() -> None:
        task = asyncio.create_task(broken(), name="broken")
        if keep:
            held.append(task)
        await asyncio.sleep(1)

    with pytest.raises(VirtualRunError, match="unseen") as caught:
        run_virtual(main())
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_of_a_future_that_nobody_looked_at_fails_the_run() -> None:
    """Futures count as tasks do."""
    held = []

    async def main() -> None:
        held.append(asyncio.get_running_loop().create_future())
        held[0].set_exception(KeyError("unseen"))

    with pytest.raises(VirtualRunError, match="unseen"):
        run_virtual(main())


def test_an_error_in_a_callback_fails_the_run() -> None:
    """What would only be logged by asyncio is an error here."""

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(VirtualRunError, match="ZeroDivisionError"):
        run_virtual(main())


def test_sockets_are_refused() -> None:
    """Code with sockets cannot run in virtual time, and is told so instead of hanging."""

    async def main() -> None:
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            await asyncio.get_running_loop().sock_recv(left, 1)

    with pytest.raises(RuntimeError, match="no sockets"):
        run_virtual(main())


def test_cancellation_by_timeout_works_in_virtual_time() -> None:
    """asyncio.timeout() and wait_for() go by the virtual clock."""

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(12.5):
                await asyncio.Event().wait()
        return now()

    assert run_virtual(main()) == 12.5
