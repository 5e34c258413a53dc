"""Handlers of many messages at once: what is declared and raised, not how messages are gathered."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias

from ._message import Message
from ._options import check_options, option

ManyHandler: TypeAlias = Callable[[Sequence[Message]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class BatchHandler:
    """
    Has a consumer call *handle* with a list of messages: give it to `new_consumer()` in place of a handler.

    Returning settles all of them, raising none.  Raise `PartialFailure` to say which are not done.  A consumer's
    `concurrency` counts lists, `handler_timeout` holds for a list, and a cancellation (a lost lease, a timeout, a
    shutdown) is that of the whole list: those of its messages that were not the reason come back at once.

    On an ordered topic a list may hold several messages of one key, in their order; the later ones of a key are in no
    other list at that time.  Where one fails, the later ones of its key come back after it, even where they were done.

    Attributes:
        handle: An async function of a list of messages, never empty, in the order they were received.
        max_messages: Messages in a list at most.
        max_bytes: Sum of their bodies at most, as received; a larger body comes alone.  None: no limit.
        max_wait: Seconds that a received message waits at most for company, while a list could start.

    Raises:
        ConfigurationError: a bound is out of range.
        TypeError: *handle* is not callable.
    """

    handle: ManyHandler
    _: KW_ONLY
    max_messages: int = option(10, "Messages in a list at most.", low=1, high=10_000)
    max_bytes: int | None = option(None, "Bytes of their bodies at most.", unit="bytes", low=1, optional=True)
    max_wait: float = option(0.0, "How long a message waits for company.", unit="seconds", low=0, high=43_200)

    def __post_init__(self) -> None:
        if not callable(self.handle):
            raise TypeError(f"handle is {type(self.handle).__name__}: give an async function of a list of messages")
        check_options(self)

    def __call__(self, message: Message, /) -> Awaitable[None]:
        """Handle one message as a list of one, as a test of the handler may."""
        return self._one(message)

    async def _one(self, message: Message) -> None:
        try:
            work = self.handle([message])
            if not inspect.isawaitable(work):
                raise TypeError("the handler is not async: declare it with async def")
            await work
        except PartialFailure as partial:
            partial.refuse_unknown([message])
            if (error := partial.failures.get(message.id)) is not None:
                raise error from None


class PartialFailure(Exception):
    """
    Some messages of a list are not done; raised by a `BatchHandler`'s function when all of them were tried.

    Args:
        failures: By `Message.id`, what each of them would have raised alone: an error, or `RetryLater`, `Discard` or
            `DeadLetter`.  Messages that are not named are done.

    Raises:
        TypeError: a value is no exception.
    """

    def __init__(self, failures: Mapping[str, Exception], /) -> None:
        for key, error in failures.items():
            if not isinstance(error, Exception):
                raise TypeError(f"failures[{key!r}] is {type(error).__name__}: give an exception per message id")
        super().__init__(f"{len(failures)} messages of the list are not done")
        self.failures = dict(failures)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.failures,), self.__dict__  # not `args`, which is the text

    def refuse_unknown(self, messages: Sequence[Message]) -> None:
        """Raise `ValueError` where an id is of none of *messages*: what it was meant for would be lost."""
        unknown = self.failures.keys() - {message.id for message in messages}
        if unknown:
            raise ValueError(
                f"PartialFailure names {len(unknown)} ids of no message in the list, such as {min(unknown)!r}: give "
                "Message.id; nothing of the list is settled"
            )
