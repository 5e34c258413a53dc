"""One application on several providers, chosen by the environment alone."""

from __future__ import annotations

import asyncio
import signal

import pytest

from messagequeue import Message, open_consumers, open_publishers, run
from messagequeue.testing import run_virtual


async def application() -> list[str]:
    """Publish two orders, consume for a minute, end on SIGTERM."""
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    async with open_publishers() as publishers, open_consumers() as consumers:
        publisher = await publishers.new_publisher("orders")
        await publisher.publish("one", ordering_key="customer-1")
        await publisher.publish("two", ordering_key="customer-1")
        consumer = await consumers.new_consumer("orders", handle)
        asyncio.get_running_loop().call_later(60, signal.raise_signal, signal.SIGTERM)
        await run(consumer)
    return handled


@pytest.mark.parametrize(("provider", "handled"), [("", ["one", "two"]), ("memory", ["one", "two"]), ("noop", [])])
def test_the_provider_is_swapped_by_one_variable(
    monkeypatch: pytest.MonkeyPatch, provider: str, handled: list[str]
) -> None:
    """The code stays as it is; without the variable it is `memory`, whose halves meet."""
    monkeypatch.setenv("MESSAGEQUEUE_PROVIDER", provider)

    assert run_virtual(application()) == handled


def test_the_halves_can_be_on_different_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published to nowhere does not arrive in memory."""
    monkeypatch.setenv("MESSAGEQUEUE_PUBLISHER_PROVIDER", "noop")
    monkeypatch.setenv("MESSAGEQUEUE_CONSUMER_PROVIDER", "memory")

    assert run_virtual(application()) == []


def test_halves_of_memory_with_different_names_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is the broker; a half's own variable wins."""
    monkeypatch.setenv("MESSAGEQUEUE_CONSUMER_MEMORY_NAME", "elsewhere")

    assert run_virtual(application()) == []
