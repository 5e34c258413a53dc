"""`typed()`: a handler of values."""

from __future__ import annotations

import asyncio
import functools
import uuid
from typing import Any

import pytest

from messagequeue import ConsumeError, DeadLetter, DecodeError, Message, open_consumers, open_publishers
from messagequeue.handlers import TypedHandler, typed
from messagequeue.testing import RecordingConsumerProvider, deliver, run_virtual
from tests.unit.handlers.shop import Item, Person


def test_the_function_gets_the_value() -> None:
    """Given as an argument, or decorated."""
    seen: list[Item] = []

    async def handle(item: Item) -> None:
        """Keeps it."""
        seen.append(item)

    @typed(Item)
    async def decorated(item: Item) -> None:
        seen.append(item)

    async def main() -> None:
        assert (await deliver(typed(Item, handle), Item("a"))).settled
        assert (await deliver(decorated, {"sku": "b", "count": 5})).settled

    run_virtual(main())

    assert seen == [Item("a"), Item("b", 5)]
    assert isinstance(decorated, TypedHandler)
    assert decorated.model is Item
    assert repr(decorated).endswith("decorated of Item>")
    assert typed(Item, handle).__doc__ == "Keeps it."


def test_the_function_can_be_called_with_a_value() -> None:
    """A test of it needs no message."""
    seen: list[Item] = []

    @typed(Item)
    async def handle(item: Item) -> None:
        seen.append(item)

    run_virtual(handle.function(Item("a")))  # type: ignore[arg-type,call-arg]

    assert seen == [Item("a")]


def test_a_second_parameter_gets_the_message() -> None:
    """Methods, partial functions and callable objects are looked at alike."""
    seen: list[tuple[str, Item, Message]] = []

    async def function(item: Item, message: Message, /) -> None:
        seen.append(("function", item, message))

    class Service:
        async def method(self, item: Item, message: Message) -> None:
            seen.append(("method", item, message))

        async def __call__(self, item: Item, message: Message, retries: int = 3) -> None:
            assert retries == 3
            seen.append(("object", item, message))

    async def three(name: str, item: Item, message: Message) -> None:
        seen.append((name, item, message))

    async def all_of_them(*arguments: Any) -> None:
        seen.append(("all", *arguments))

    handlers: list[Any] = [function, Service().method, Service(), functools.partial(three, "partial"), all_of_them]

    async def main() -> None:
        for handler in handlers:
            assert (await deliver(typed(Item, handler), Item("a"), id="m")).settled

    run_virtual(main())

    assert [name for name, _, _ in seen] == ["function", "method", "object", "partial", "all"]
    assert {(item.sku, message.id) for _, item, message in seen} == {("a", "m")}


def test_an_optional_parameter_is_not_taken_for_the_message() -> None:
    """It has a default of its own."""

    async def handle(item: Item, retries: int = 3) -> None:
        assert retries == 3

    assert run_virtual(deliver(typed(Item, handle), Item("a"))).settled


async def no_parameter() -> None: ...
async def three_parameters(a: Item, b: Message, c: int) -> None: ...
async def keyword(a: Item, *, b: int) -> None: ...


@pytest.mark.parametrize("function", [no_parameter, three_parameters, keyword])
def test_other_signatures_are_refused_at_once(function: Any) -> None:
    """With what it should be."""
    with pytest.raises(TypeError, match=rf"{function.__name__}\(.*let it take the value, or the value and the message"):
        typed(Item, function)


def test_what_is_no_function_is_refused_at_once() -> None:
    """So is a type that has no form in JSON."""
    with pytest.raises(TypeError, match="the handler is str"):
        typed(Item, "handle")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="bytes have no form"):
        typed(bytes, no_parameter)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="decode is int"):
        typed(Item, decode=5)  # type: ignore[call-overload]


def test_a_body_that_does_not_fit_is_not_handled() -> None:
    """The function is not called; the error is that of a body that cannot be decoded."""

    async def handle(item: Item) -> None:
        raise AssertionError("it was called")

    outcome = run_virtual(deliver(typed(Item, handle), {"sku": 5}))

    assert outcome.retried
    assert isinstance(outcome.error, DecodeError)


def test_the_function_decides_by_signals_and_exceptions() -> None:
    """As any handler."""

    async def handle(item: Item) -> None:
        if item.count == 1:
            raise DeadLetter("one is not enough")
        raise KeyError(item.sku)

    async def main() -> None:
        assert (await deliver(typed(Item, handle), Item("a"))).reason == "one is not enough"
        assert isinstance((await deliver(typed(Item, handle), Item("a", 2))).error, KeyError)

    run_virtual(main())


def test_a_body_that_is_not_json_has_a_decode_of_its_own() -> None:
    """What it raises becomes a `DecodeError`, except for signals and what is one already."""

    def by_lines(message: Message) -> Item:
        match message.text.split("\n"):
            case [sku, count]:
                return Item(sku, int(count))
            case ["dead"]:
                raise DeadLetter("told so")
            case _:
                raise DecodeError("not two lines")

    @typed(Item, decode=by_lines)
    async def handle(item: Item) -> None:
        assert item == Item("a", 5)

    async def main() -> None:
        assert (await deliver(handle, "a\n5")).settled
        assert (await deliver(handle, "dead")).dead_lettered
        assert str((await deliver(handle, "a\nb\nc")).error) == "not two lines"
        wrong = (await deliver(handle, "a\nsecret", id="m-1")).error
        assert str(wrong) == "the body of message m-1 is no Item: decode raised ValueError"
        assert isinstance(wrong, DecodeError)
        assert isinstance(wrong.__cause__, ValueError)

    run_virtual(main())


def test_a_consumer_reports_undecodable_bodies_and_keeps_the_message() -> None:
    """As `DecodeError`, once per delivery; the rest is handled; nothing is deleted unhandled."""
    errors: list[ConsumeError] = []
    people: list[str] = []

    @typed(Person)
    async def handle(person: Person) -> None:
        people.append(person.name)

    async def main() -> None:
        broker = f"memory://?name={uuid.uuid4()}&visibility_timeout=60"
        async with open_publishers(broker) as publishers, open_consumers(broker) as consumers:
            publisher = await publishers.new_publisher("t")
            await publisher.publish_many([{"name": "ada", "addresses": []}, {"name": 5}, "no JSON"])
            consumer = await consumers.new_consumer("t", handle, on_error=errors.append)
            task = asyncio.create_task(consumer.consume())
            await asyncio.sleep(30)
            consumer.stop()
            await task
            assert consumer.stats.undecodable == 2  # type: ignore[attr-defined]
            assert consumer.stats.settled == 1  # type: ignore[attr-defined]
            assert consumer.stats.failed == 0  # type: ignore[attr-defined]

    run_virtual(main())

    assert people == ["ada"]
    assert [type(error) for error in errors] == [DecodeError, DecodeError]
    assert {error.topic for error in errors} == {"t"}


def test_a_recording_provider_takes_typed_handlers() -> None:
    """They are handlers like any other."""
    seen: list[Item] = []

    @typed(Item)
    async def handle(item: Item) -> None:
        seen.append(item)

    async def main() -> None:
        async with RecordingConsumerProvider() as consumers:
            await consumers.new_consumer("t", handle)
            assert (await consumers.deliver("t", Item("a"))).settled

    run_virtual(main())

    assert seen == [Item("a")]
