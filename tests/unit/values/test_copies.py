"""Errors, signals and messages in another process, or copied: what a process pool or a test does with them."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

import messagequeue
from messagequeue import (
    ConsumeError,
    ErrorCode,
    Message,
    MessageQueueError,
    MessageTooLargeError,
    RetryLater,
    Signal,
    open_consumers,
    open_publishers,
)
from messagequeue.testing import run_virtual

MESSAGE = Message(
    "orders",
    "m1",
    b"x",
    MappingProxyType({"a": "1"}),  # as the providers give them
    ordering_key="k",
    published_at=datetime(2026, 1, 1, tzinfo=UTC),
    raw={"MessageId": "m1"},
)
RAISED = [
    kind
    for kind in map(vars(messagequeue).get, messagequeue.__all__)
    if inspect.isclass(kind) and issubclass(kind, MessageQueueError | Signal) and kind is not Signal
]


def made(kind: type[Any]) -> BaseException:
    """Return an error with everything set that its constructor takes."""
    given: dict[str, Any] = {
        "about": MESSAGE,
        "code": ErrorCode.UNAVAILABLE,
        "fatal": True,
        "limit": 2,
        "reason": "why",
        "retryable": True,
        "size": 3,
        "topic": "orders",
        "after": 5,
    }
    takes = inspect.signature(kind).parameters.values()
    named = {item.name: given[item.name] for item in takes if item.kind is item.KEYWORD_ONLY}
    placed = [given.get(item.name, "words") for item in takes if item.kind is not item.KEYWORD_ONLY]
    error: BaseException = kind(*placed, **named)
    error.add_note("a note")
    return error


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle])
@pytest.mark.parametrize("kind", RAISED)
def test_error_survives_a_copy_with_all_that_it_says(kind: type[Any], copied: Callable[[Any], Any]) -> None:
    """Class, text, attributes and notes; of a consume error the message too."""
    error = made(kind)

    other = copied(error)

    assert type(other) is kind
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle])
def test_message_survives_a_copy(copied: Callable[[Any], Any]) -> None:
    """A handler may give it to a process pool."""
    other = copied(MESSAGE)

    assert other == MESSAGE
    assert other.raw == MESSAGE.raw


def test_message_of_a_provider_survives_a_copy() -> None:
    """With what the provider's client returned."""

    async def main() -> None:
        seen: list[Message] = []

        async def handle(message: Message) -> None:
            seen.append(message)
            consumer.stop()

        async with (
            open_publishers("memory://?name=copies") as publishers,
            open_consumers("memory://?name=copies") as made,
        ):
            publisher = await publishers.new_publisher("orders")
            await publisher.publish("x", attributes={"a": 1})
            consumer = await made.new_consumer("orders", handle)
            await consumer.consume()
        for copied in (copy.copy, copy.deepcopy, through_pickle):
            assert copied(seen[0]) == seen[0]
            assert copied(seen[0]).raw == seen[0].raw

    run_virtual(main())


def test_every_kind_of_error_is_among_those_tried() -> None:
    """The list above is not empty by mistake."""
    assert {ConsumeError, MessageTooLargeError, RetryLater} < set(RAISED)
    assert len(RAISED) > 20
