"""A topic of memory named as a FIFO queue is as strict as one, so that what passes here passes on SQS."""

from __future__ import annotations

import pytest

from messagequeue import InvalidMessageError, UnsupportedOptionError
from messagequeue.embedded import MemoryConfig, MemoryPublisherProvider, forget
from messagequeue.testing import run_virtual


def test_fifo_topic_requires_a_key_and_refuses_a_delay():
    """`orders.fifo` needs ordering_key on every publish and cannot delay; `orders` takes both (FIFO-10)."""

    async def main():
        async with MemoryPublisherProvider(MemoryConfig(name="fifo")) as provider:
            fifo, plain = await provider.new_publisher("orders.fifo"), await provider.new_publisher("orders")
            with pytest.raises(InvalidMessageError, match=r"orders\.fifo.*ordering_key"):
                await fifo.publish("x")
            with pytest.raises(UnsupportedOptionError, match="delay"):
                await fifo.publish("x", ordering_key="a", delay=1)
            await fifo.publish("x", ordering_key="a")
            await plain.publish("x", delay=1)

    run_virtual(main())
    forget("fifo")


def test_dead_letter_topic_of_a_fifo_topic_takes_messages_by_hand():
    """`orders.fifo.dead` is no FIFO topic: a message may be put there without a key."""

    async def main():
        async with MemoryPublisherProvider(MemoryConfig(name="fifo")) as provider:
            await (await provider.new_publisher("orders.fifo.dead")).publish("x")

    run_virtual(main())
    forget("fifo")
