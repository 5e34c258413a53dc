"""What `publish_many()` makes of many items."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from messagequeue import (
    EncodeError,
    ErrorCode,
    InvalidMessageError,
    MessageTooLargeError,
    Outgoing,
    PublishError,
    Receipt,
    UnsupportedOptionError,
)
from messagequeue.driver import Capabilities
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import ScriptedSender
from tests.unit.publisher.publishing import FIFO, bodies, busy, run


def test_publish_many_returns_one_result_per_item_in_order() -> None:
    """A bad item fails alone, in its place; keys and ids of the caller have no part in it (BAT-06)."""
    sender = ScriptedSender(max_size=5)
    sender.script("send", {1: busy(retryable=False)})
    items = ["a", {1}, Outgoing("b", deduplication_key="order/1:2 ü"), "too long", Outgoing("c", delay=-1), "d"]
    before = list(items)

    async def test(publisher: RuntimePublisher) -> None:
        results = await publisher.publish_many(items)

        kinds = [Receipt, EncodeError, PublishError, MessageTooLargeError, InvalidMessageError, Receipt]
        assert [type(result) for result in results] == kinds

    run(sender, test)

    assert bodies(sender) == [["a", "b", "d"]]
    assert items == before


def test_publish_many_of_nothing_makes_no_request() -> None:
    """An empty batch is an empty result (BAT-09)."""
    sender = ScriptedSender()

    async def test(publisher: RuntimePublisher) -> None:
        assert await publisher.publish_many([]) == []
        assert await publisher.publish_many(iter(())) == []

    run(sender, test)

    assert sender.count("send") == 0


@pytest.mark.parametrize("items", ["abc", b"abc", {"a": 1}, Outgoing("a")])
def test_publish_many_refuses_a_single_message(items: object) -> None:
    """Text is an iterable too, and would go out letter by letter."""
    sender = ScriptedSender()

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(TypeError, match="use publish"):
            await publisher.publish_many(items)  # type: ignore[arg-type]

    run(sender, test)

    assert sender.count("send") == 0


@pytest.mark.parametrize(
    ("items", "options"),
    [
        (["a"], {"ordering_key": "k"}),
        (["a", Outgoing("b", deduplication_key="k")], {}),
        (["a"] * 1000 + [Outgoing("b", delay=1)], {}),
        (iter(["a", Outgoing("b", ordering_key="k")]), {}),
    ],
)
def test_publish_many_refuses_an_unsupported_option_before_anything_is_sent(items: object, options: object) -> None:
    """An option of the call, or of any item in a list, that the topic cannot honour fails the call."""
    sender = ScriptedSender(capabilities=Capabilities())

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(UnsupportedOptionError):
            await publisher.publish_many(items, **options)  # type: ignore[arg-type]

    publisher = run(sender, test)

    assert sender.count("send") == 0
    assert publisher.stats.pending == 0


def test_publish_many_of_an_iterator_fails_a_late_unsupported_item_alone() -> None:
    """What is read after others have left cannot fail the call any more."""
    sender = ScriptedSender(capabilities=Capabilities())

    async def test(publisher: RuntimePublisher) -> None:
        results = await publisher.publish_many(iter([*("a" * 1000), Outgoing("b", ordering_key="k")]))

        assert all(isinstance(result, Receipt) for result in results[:-1])
        assert isinstance(results[-1], InvalidMessageError)
        assert results[-1].code is ErrorCode.UNSUPPORTED

    run(sender, test)


def test_publish_many_with_a_bad_option_fails_the_items_that_have_no_better_one() -> None:
    """An option of the whole call that is no value at all is each item's failure, with an error of its own."""
    sender = ScriptedSender()

    async def test(publisher: RuntimePublisher) -> None:
        first, second, third = await publisher.publish_many(
            ["a", "b", Outgoing("c", ordering_key="k")], ordering_key=""
        )

        assert isinstance(first, InvalidMessageError)
        assert isinstance(second, InvalidMessageError)
        assert first is not second
        assert isinstance(third, Receipt)

    run(sender, test)


def test_publish_many_reads_a_long_iterable_as_room_comes() -> None:
    """No more than *max_pending* messages wait, and one more is read; other tasks get their turns."""
    sender = ScriptedSender()
    sender.takes("send", 1.0)
    read = 0
    ahead = 0

    def numbers(publisher: RuntimePublisher) -> Iterator[str]:
        nonlocal read, ahead
        for read in range(1, 501):
            ahead = max(ahead, read - publisher.stats.published)
            yield "x"

    async def test(publisher: RuntimePublisher) -> None:
        results = await publisher.publish_many(numbers(publisher))
        assert len(results) == 500
        assert all(isinstance(result, Receipt) for result in results)

    run(sender, test, max_pending=50, max_in_flight=2)

    assert read == 500
    assert ahead == 51


def test_publish_many_stops_at_an_iterable_that_raises() -> None:
    """What the iterable raises is the caller's; what has not left is withdrawn."""
    sender = ScriptedSender()

    def items() -> Iterator[str]:
        yield "a"
        raise KeyError("b")

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(KeyError):
            await publisher.publish_many(items())

    publisher = run(sender, test)

    assert sender.count("send") == 0
    assert publisher.stats.pending == 0


@pytest.mark.parametrize("capabilities", [FIFO, Capabilities()])
def test_who_publishes_while_making_the_items_overtakes_nothing_of_a_key(capabilities: Capabilities) -> None:
    """On an ordered topic; elsewhere everything arrives, whatever comes first."""
    sender = ScriptedSender(capabilities=capabilities)
    options = {"ordering_key": "k"} if capabilities.ordering else {}

    async def test(publisher: RuntimePublisher) -> None:
        between = []

        def items() -> Iterator[str]:
            for number in range(5):
                yield f"{number}"
                between.append(publisher.publish_nowait(f"after {number}", **options))  # type: ignore[arg-type]

        results = await publisher.publish_many(items(), **options)  # type: ignore[arg-type]
        assert [type(result) for result in results] == [Receipt] * 5
        for future in between:
            await future

    run(sender, test)

    sent = [body for call in bodies(sender) for body in call]
    expected = [text for number in range(5) for text in (f"{number}", f"after {number}")]
    assert sorted(map(str, sent)) == sorted(expected)
    if capabilities.ordering:
        assert sent == expected


def test_more_items_than_there_is_room_for_leave_in_their_order() -> None:
    """In their order, with no more under way than there is room for."""
    sender = ScriptedSender()

    async def test(publisher: RuntimePublisher) -> None:
        results = await publisher.publish_many(f"{number}" for number in range(1000))
        assert len(results) == 1000
        assert publisher.stats.pending == 0

    run(sender, test, max_pending=64)

    sent = [body for call in bodies(sender) for body in call]
    assert sent == [f"{number}" for number in range(1000)]


def test_items_before_one_that_breaks_the_iterable_are_withdrawn() -> None:
    """As without a turn's worth taken in together: nothing is sent of what the caller gets no result for."""
    sender = ScriptedSender()

    def items() -> Iterator[str]:
        yield "a"
        yield "b"
        raise LookupError

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(LookupError):
            await publisher.publish_many(items())
        assert publisher.stats.pending == 0

    run(sender, test)

    assert bodies(sender) == []
