"""The publisher that remembers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from messagequeue import (
    ClosedError,
    EncodeError,
    ErrEmptyTopicName,
    InvalidMessageError,
    MessageTooLargeError,
    Outgoing,
    Publisher,
    PublisherProvider,
    PublishError,
    Receipt,
    UnsupportedOptionError,
)
from messagequeue.driver import Capabilities
from messagequeue.testing import RecordingPublisherProvider, run_virtual


@dataclass
class Order:
    number: int


def test_recording_publishers_are_publishers() -> None:
    """They have everything the protocols ask for."""

    async def main() -> None:
        provider: PublisherProvider = RecordingPublisherProvider()
        publisher: Publisher = await provider.new_publisher("orders")
        assert isinstance(provider, PublisherProvider)
        assert isinstance(publisher, Publisher)

    run_virtual(main())


def test_publish_remembers_data_body_and_options() -> None:
    """What was given, what would have been sent, and the options in a broker's form."""

    async def main() -> None:
        provider = RecordingPublisherProvider()
        publisher = await provider.new_publisher("orders")
        order = Order(7)
        receipt = await publisher.publish(
            order, ordering_key="k", delay=timedelta(seconds=2), attributes={"a": 1, "none": None}
        )

        (kept,) = provider.published
        assert kept.topic == "orders"
        assert kept.data is order
        assert kept.body == b'{"number":7}'
        assert kept.options == {"ordering_key": "k", "delay": 2.0, "attributes": {"a": 1}}
        assert kept.receipt is receipt
        assert publisher.published == provider.to("orders") == [kept]
        assert provider.to("others") == []

    run_virtual(main())


def test_what_was_published_can_be_delivered() -> None:
    """`as_message()` gives it as a handler would get it."""

    async def main() -> None:
        provider = RecordingPublisherProvider()
        receipt = await (await provider.new_publisher("orders")).publish("x", ordering_key="k", attributes={"a": 1})

        arrived = provider.published[0].as_message(delivery_attempt=2)
        assert (arrived.topic, arrived.id, arrived.text) == ("orders", receipt.message_id, "x")
        assert (arrived.ordering_key, arrived.attributes, arrived.delivery_attempt) == ("k", {"a": "1"}, 2)

    run_virtual(main())


def test_publish_checks_what_the_real_ones_check() -> None:
    """Empty topics and keys, unknown options, data without a form, sizes: each is the real error; nothing is kept."""

    async def main() -> None:
        provider = RecordingPublisherProvider(max_size=10)
        with pytest.raises(ErrEmptyTopicName):
            await provider.new_publisher("  ")
        publisher = await provider.new_publisher("orders")
        with pytest.raises(TypeError, match="ordering_key"):
            await publisher.publish("x", ordring_key="k")  # type: ignore[call-arg]
        with pytest.raises(InvalidMessageError):
            await publisher.publish("x", ordering_key="")
        with pytest.raises(EncodeError):
            await publisher.publish(object())
        with pytest.raises(MessageTooLargeError):
            await publisher.publish("x" * 11)
        assert provider.published == []

    run_virtual(main())


def test_capabilities_make_it_a_lesser_broker() -> None:
    """Code can be tested against a topic which refuses or requires an option."""

    async def main() -> None:
        plain = await RecordingPublisherProvider(capabilities=Capabilities()).new_publisher("orders")
        with pytest.raises(UnsupportedOptionError):
            await plain.publish("x", ordering_key="k")
        fifo = RecordingPublisherProvider(capabilities=Capabilities(ordering=True, ordering_key="required"))
        publisher = await fifo.new_publisher("orders.fifo")
        with pytest.raises(InvalidMessageError):
            await publisher.publish("x")
        assert (await publisher.publish("x", ordering_key="k")).sequence_number == f"{1:020}"

    run_virtual(main())


def test_publish_many_gives_one_result_per_item() -> None:
    """In order; a bad item fails alone; an item's own options win."""

    async def main() -> None:
        provider = RecordingPublisherProvider()
        publisher = await provider.new_publisher("orders")
        results = await publisher.publish_many(["a", object(), Outgoing("c", ordering_key="own")], ordering_key="all")

        assert [type(result) for result in results] == [Receipt, EncodeError, Receipt]
        assert [(item.body, item.options["ordering_key"]) for item in provider.published] == [
            (b"a", "all"),
            (b"c", "own"),
        ]

    run_virtual(main())


def test_fail_next_refuses_that_many() -> None:
    """The next n messages fail, each for its own caller; the one after is taken."""

    async def main() -> None:
        provider = RecordingPublisherProvider()
        publisher = await provider.new_publisher("orders")
        provider.fail_next(2)
        with pytest.raises(PublishError) as caught:
            await publisher.publish("a")
        assert caught.value.retryable
        results = await publisher.publish_many(["b", "c"])
        assert [type(result) for result in results] == [PublishError, Receipt]
        own = PublishError("mine")
        provider.fail_next(error=own)
        assert publisher.publish_nowait("d").exception() is own
        assert (await publisher.publish_nowait("e")) == provider.published[-1].receipt
        assert [item.data for item in provider.published] == ["c", "e"]

    run_virtual(main())


def test_the_same_topic_has_the_same_publisher() -> None:
    """As with every provider."""

    async def main() -> None:
        provider = RecordingPublisherProvider()
        assert await provider.new_publisher("a") is await provider.new_publisher("a")
        assert await provider.new_publisher("a") is not await provider.new_publisher("b")

    run_virtual(main())


def test_nothing_is_taken_after_the_end() -> None:
    """Stopped publishers and closed providers refuse, and closing twice is fine."""

    async def main() -> None:
        async with RecordingPublisherProvider() as provider:
            stopped, other = await provider.new_publisher("a"), await provider.new_publisher("b")
            await stopped.stop()
            with pytest.raises(ClosedError):
                await stopped.publish("x")
        with pytest.raises(ClosedError):
            await other.publish("x")
        with pytest.raises(ClosedError):
            await provider.new_publisher("c")
        with pytest.raises(ClosedError):
            await provider.ping()
        await provider.close()
        assert provider.published == []

    run_virtual(main())
