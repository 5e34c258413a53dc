"""Async tests against sockets: they run on the real clock, within a limit, and leave no task behind."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import ParamSpec

from messagequeue import Consumer, ConsumerProvider, Handler

P = ParamSpec("P")


def real_time(limit: float = 30.0) -> Callable[[Callable[P, Awaitable[None]]], Callable[P, None]]:
    """Make a plain test of an async one that ends within *limit* seconds and leaves no task running."""

    def decorate(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            async def bounded() -> None:
                async with asyncio.timeout(limit):
                    await test(*args, **kwargs)
                left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
                assert not left, f"tasks left running: {left}"

            asyncio.run(bounded())

        return run

    return decorate


async def until(condition: Callable[[], object], within: float = 15.0) -> None:
    """
    Return once *condition* holds.

    Raises:
        AssertionError: it does not within *within* seconds.
    """
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def consuming(
    provider: ConsumerProvider, topic: str, handler: Handler, **options: object
) -> AsyncIterator[tuple[Consumer, asyncio.Task[None]]]:
    """Yield a running consumer and the task of its `consume()`; stop it gracefully at the end."""
    consumer = await provider.new_consumer(topic, handler, **options)  # type: ignore[arg-type]
    task = asyncio.create_task(consumer.consume(), name="consume")
    try:
        yield consumer, task
    finally:
        consumer.stop()
        await task
        await consumer.close()
