"""Makes plain tests of facts: what pytest sees, what is skipped, and how strictly a fact ends; no fact is here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from ._bench import Bench
from ._harness import Harness

#: A method that judges, with a bench; what `fact()` decorates.
Fact = Callable[[Any, Bench], Coroutine[Any, Any, None]]
Test = Callable[..., None]


def _as_test(check: Fact, needs: Sequence[str], kinds: Sequence[bool]) -> Test:
    def test(self: Any, harness: Harness, ordered: bool) -> None:
        for feature in [*needs, "ordered_topics" if ordered else "standard_topics"]:
            if not getattr(harness.features, feature):
                pytest.skip(f"the broker has no {feature.replace('_', ' ')}")
        harness.run(lambda: _judge(self, check, harness, ordered))

    test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
    test.__module__ = check.__module__
    names = ["ordered" if kind else "standard" for kind in kinds]
    marked: Test = pytest.mark.parametrize("ordered", kinds, ids=names)(test)
    return marked


async def _judge(suite: Any, check: Fact, harness: Harness, ordered: bool) -> None:
    before = asyncio.all_tasks()
    bench = Bench(harness, ordered)
    try:
        try:
            await check(suite, bench)
        finally:
            await bench.close()
    finally:
        await harness.aclose()
    left = sorted(task.get_name() for task in asyncio.all_tasks() - before)
    assert not left, f"tasks run after everything was closed: {left}"


def fact(*needs: str) -> Callable[[Fact], Test]:
    """Make a test of a fact about standard and ordered topics, for brokers that have the features *needs*."""
    return lambda check: _as_test(check, needs, (False, True))


def standard_fact(*needs: str) -> Callable[[Fact], Test]:
    """As `fact()`, for standard topics alone."""
    return lambda check: _as_test(check, needs, (False,))


def ordered_fact(*needs: str) -> Callable[[Fact], Test]:
    """As `fact()`, for ordered topics alone."""
    return lambda check: _as_test(check, needs, (True,))
