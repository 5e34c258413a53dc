"""Sender and source of the `memory` provider: what goes in comes out, what is refused, and what becomes of a lease."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from messagequeue import (
    ConfigurationError,
    ConsumeOptions,
    InvalidMessageError,
    LeaseLostError,
    MessageTooLargeError,
    Receipt,
    SettleError,
)
from messagequeue.broker import Counts
from messagequeue.driver import EncodedMessage
from messagequeue.embedded import (
    MEMORY,
    MemoryConfig,
    forget,
    memory_broker,
)
from messagequeue.testing import run_virtual


def test_message_arrives_as_it_was_sent(memory) -> None:
    """Text as UTF-8, bytes as they are, numbers as their text, keys and sequence as the receipt says."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        attributes = {"text": "é", "blob": b"\x00\xff", "whole": 7, "part": 0.5}
        sent = [
            EncodedMessage("grüße", ordering_key="k", deduplication_key="d", attributes=attributes),
            EncodedMessage(b"\x00\xff"),
        ]
        before = datetime.now(UTC)
        receipts = await sender.send(sent)
        first, second = [delivery.message for delivery in await source.receive(10, wait=0)]

        assert (first.body, first.text, second.body) == ("grüße".encode(), "grüße", b"\x00\xff")
        assert first.attributes == {"text": "é", "blob": b"\x00\xff", "whole": "7", "part": "0.5"}
        assert (first.topic, first.ordering_key, first.deduplication_key) == ("orders", "k", "d")
        assert (first.delivery_attempt, second.ordering_key, second.attributes) == (1, None, {})
        assert receipts == [Receipt(first.id, first.sequence_number), Receipt(second.id, None)]
        assert first.published_at is not None
        assert timedelta(0) <= first.published_at - before < timedelta(minutes=1)

    run_virtual(main())


def test_sequence_numbers_rise_as_text(memory) -> None:
    """Twenty digits, as SQS has them, so that they compare as text."""

    async def main() -> None:
        sender = await memory.sender()
        receipts = await sender.send([EncodedMessage(b"x", ordering_key="k") for _ in range(12)])
        numbers = [receipt.sequence_number for receipt in receipts if isinstance(receipt, Receipt)]

        assert numbers == sorted(set(numbers), key=str)
        assert {len(number or "") for number in numbers} == {20}

    run_virtual(main())


def test_repeated_deduplication_key_is_stored_once_for_five_minutes(memory) -> None:
    """The repeat gets the first receipt, also after the first was settled; after 300 s it is new."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        message = EncodedMessage(b"x", ordering_key="k", deduplication_key="d")
        first = await sender.send([message])
        (held,) = await source.receive(10, wait=0)
        await source.settle([held.lease])
        await asyncio.sleep(299)
        assert await sender.send([message]) == first
        assert memory.counts() == Counts()
        await asyncio.sleep(1)

        assert await sender.send([message]) != first
        assert memory.counts() == Counts(visible=1)

    run_virtual(main())


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (EncodedMessage(b""), "body is empty"),
        (EncodedMessage(""), "body is empty"),
        (EncodedMessage("\ud800"), "the body holds half of a surrogate"),
        (EncodedMessage(b"x", attributes={"name": "\udfff"}), "attribute 'name' holds half of a surrogate"),
    ],
)
def test_message_that_no_broker_takes_is_refused_before_it_is_sent(memory, message: EncodedMessage, what: str) -> None:
    """The error names what is wrong."""

    async def main() -> None:
        sender = await memory.sender()
        with pytest.raises(InvalidMessageError, match=what):
            sender.measure(message)

    run_virtual(main())


def test_size_counts_body_and_attributes_as_sqs_does(memory) -> None:
    """Body, names, types and values in UTF-8 bytes: at the limit it passes, one byte above it does not."""

    async def main() -> None:
        attributes = {"é": "üü", "n": 12, "b": b"123"}
        counted = (2 + len("String") + 4) + (1 + len("Number") + 2) + (1 + len("Binary") + 3)
        sender = await memory.sender(config=replace(memory.config, max_message_size=100))
        fits = EncodedMessage("x" * (100 - counted), attributes=attributes)
        assert sender.measure(fits) == 100
        with pytest.raises(MessageTooLargeError) as refused:
            sender.measure(EncodedMessage("x" * (101 - counted), attributes=attributes))

        assert (refused.value.size, refused.value.limit) == (101, 100)

    run_virtual(main())


def test_settled_messages_are_gone_and_settling_again_is_fine(memory) -> None:
    """A repeat of a settle that worked is no error; a lease that somebody else has is."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        await sender.send([EncodedMessage(b"a"), EncodedMessage(b"b")])
        first, second = await source.receive(2, wait=0)
        assert await source.settle([first.lease]) == [None]
        await asyncio.sleep(10)
        (again,) = await source.receive(2, wait=0)
        settled, lost = await source.settle([first.lease, second.lease])

        assert settled is None
        assert isinstance(lost, LeaseLostError)
        assert await source.settle([again.lease]) == [None]
        assert memory.counts() == Counts()

    run_virtual(main())


def test_extension_holds_a_message_up_to_twelve_hours(memory) -> None:
    """Extended, it stays hidden; beyond 12 h since the receive the entry fails and the lease stays as it was."""

    async def main() -> None:
        sender, source = await memory.sender(), await memory.source()
        await sender.send([EncodedMessage(b"x")])
        (held,) = await source.receive(1, wait=0)
        await asyncio.sleep(9)
        assert await source.extend([held.lease], by=43_000) == [None]
        await asyncio.sleep(1_000)
        (refused,) = await source.extend([held.lease], by=43_000)

        assert isinstance(refused, SettleError)
        assert not refused.retryable
        assert memory.counts() == Counts(in_flight=1)

    run_virtual(main(), timeout=10_000)


def test_message_moves_to_the_dead_letter_topic_after_its_receives(memory) -> None:
    """With two receives allowed the third finds nothing, and `orders.dead` has the message with its count."""

    async def main() -> None:
        config = replace(memory.config, max_receives=2)
        sender, source = await memory.sender(config=config), await memory.source(config=config)
        await sender.send([EncodedMessage(b"bad", ordering_key="k"), EncodedMessage(b"good", ordering_key="k")])
        for _ in range(2):
            await source.receive(1, wait=0)
            await asyncio.sleep(10)
        (found,) = await source.receive(2, wait=0)
        (dead,) = await (await memory.source("orders.dead", config)).receive(2, wait=0)

        assert found.message.body == b"good"
        assert (dead.message.body, dead.message.delivery_attempt, dead.message.topic) == (b"bad", 3, "orders.dead")

    run_virtual(main())


def test_dead_letter_by_hand_says_why_and_from_where(memory) -> None:
    """The message moves at once, with reason and source beside its own attributes; its key is free."""

    async def main() -> None:
        sender, source, dead = await memory.sender(), await memory.source(), await memory.source("orders.dead")
        await sender.send([EncodedMessage(b"bad", attributes={"own": "1"})])
        (held,) = await source.receive(1, wait=0)
        assert await source.dead_letter(held.lease, held.message, reason="no such customer") is None
        (moved,) = await dead.receive(1, wait=0)

        assert moved.message.id == held.message.id
        assert moved.message.published_at == held.message.published_at
        assert moved.message.attributes == {
            "own": "1",
            "messagequeue.dead_letter_reason": "no such customer",
            "messagequeue.dead_letter_source": "orders",
        }
        assert memory.counts() == Counts()
        lost = await source.dead_letter(held.lease, held.message, reason="again")
        assert isinstance(lost, LeaseLostError)

    run_virtual(main())


def test_dead_letter_topic_has_none_of_its_own(memory) -> None:
    """It says so, nothing moves on from it, and it keeps its messages longer than the topic that they come from."""

    async def main() -> None:
        config = replace(memory.config, max_receives=1, retention=60.0)
        sender, source = await memory.sender(config=config), await memory.source(config=config)
        dead = await memory.source("orders.dead", config)
        await sender.send([EncodedMessage(b"x")])
        (held,) = await source.receive(1, wait=0)
        await source.dead_letter(held.lease, held.message, reason="x")
        for attempt in (2, 3, 4):
            await asyncio.sleep(100)
            (again,) = await dead.receive(1, wait=0)
            assert again.message.delivery_attempt == attempt

        assert source.capabilities.dead_letters
        assert not dead.capabilities.dead_letters
        assert isinstance(await dead.dead_letter(again.lease, again.message, reason="x"), SettleError)

    run_virtual(main())


def test_lease_is_the_consumers_else_the_topics(memory) -> None:
    """`start()` says how long; a consumer's own option wins over what the topic was made with."""

    async def main() -> None:
        made, other = await memory.source(), replace(memory.config, visibility_timeout=99.0)
        own = await memory.source(options=ConsumeOptions(visibility_timeout=5.0))

        assert await made.start() == 10.0
        assert await (await memory.source(config=other)).start() == 10.0
        assert await own.start() == 5.0
        await (await memory.sender()).send([EncodedMessage(b"x")])
        await own.receive(1, wait=0)
        await asyncio.sleep(5)
        assert memory.counts() == Counts(visible=1)

    run_virtual(main())


def test_delay_of_the_topic_holds_where_a_message_gives_none(memory) -> None:
    """0 overrides it, fractions count."""

    async def main() -> None:
        sender = await memory.sender(config=replace(memory.config, delay=5.0))
        await sender.send([EncodedMessage(b"a"), EncodedMessage(b"b", delay=0.0), EncodedMessage(b"c", delay=0.25)])
        assert memory.counts() == Counts(visible=1, delayed=2)
        await asyncio.sleep(0.25)
        assert memory.counts() == Counts(visible=2, delayed=1)
        await asyncio.sleep(4.75)
        assert memory.counts() == Counts(visible=3)

    run_virtual(main())


def test_forgotten_broker_starts_empty(memory) -> None:
    """What `forget()` drops is gone for providers made later; those that are open keep it."""

    async def main() -> None:
        sender, old = await memory.sender(), await memory.source()
        await sender.send([EncodedMessage(b"x")])
        forget(memory.config.name)

        assert "orders" not in memory_broker(memory.config.name)
        assert await (await memory.source()).receive(1, wait=0) == []
        assert len(await old.receive(1, wait=0)) == 1

    run_virtual(main())


def test_handlers_get_what_publishers_published_through_the_runtime(memory) -> None:
    """The two halves of the provider's spec, end to end: published, handled, settled, nothing left."""

    async def main() -> None:
        seen: list[str] = []

        async def handle(message) -> None:  # type: ignore[no-untyped-def]
            seen.append(message.text)
            if len(seen) == 20:
                consumer.stop()

        async with MEMORY.publisher(memory.config) as publishers, MEMORY.consumer(memory.config) as consumers:
            await publishers.ping()
            await consumers.ping()
            consumer = await consumers.new_consumer("orders", handle)
            publisher = await publishers.new_publisher("orders")
            await publisher.publish_many([str(number) for number in range(20)], ordering_key="k")
            await consumer.consume()

        assert seen == [str(number) for number in range(20)]
        assert memory.counts() == Counts()

    run_virtual(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": 5},
        {"dead_letter_suffix": " "},
        {"visibility_timeout": 0.0},
        {"visibility_timeout": 43_201.0},
        {"max_receives": 0},
        {"max_receives": 1_001},
        {"retention": 0.0},
        {"delay": 901.0},
        {"max_message_size": 0},
    ],
)
def test_options_out_of_bounds_are_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    """The error names the option."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        MemoryConfig(**wrong)
