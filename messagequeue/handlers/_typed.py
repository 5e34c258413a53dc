"""Handlers that take a value of a type instead of a message; not where messages of several types go (`Router`)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from .._errors import DecodeError, Signal
from .._message import Message
from ._decoder import decoder
from ._misfit import describe

T = TypeVar("T")

#: What `typed()` makes a `Handler` of: it takes the value, or the value and the message.
Typed = Callable[[T], Awaitable[None]] | Callable[[T, Message], Awaitable[None]]


class TypedHandler(Generic[T]):
    """
    A `Handler` around a function of a value; made by `typed()`.

    Attributes:
        function: The function, to be called in tests with values.
        model: The type of its value.
    """

    def __init__(self, model: type[T], function: Typed[T], decode: Callable[[Message], T]) -> None:
        self.function = function
        self.model = model
        self._decode = decode
        self._both = _takes_message(function)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<{getattr(self.function, '__qualname__', self.function)!s} of {describe(self.model)}>"

    async def __call__(self, message: Message, /) -> None:
        """
        Decode the body and call the function.

        Raises:
            DecodeError: the body is no such value; the function was not called.
            Whatever the function raises.
        """
        value = self._decode(message)
        function = cast(Callable[..., Awaitable[None]], self.function)
        await (function(value, message) if self._both else function(value))


class _Decorates(Protocol[T]):
    def __call__(self, handler: Typed[T], /) -> TypedHandler[T]: ...


@overload
def typed(model: type[T], handler: Typed[T], /, *, decode: Callable[[Message], T] | None = None) -> TypedHandler[T]: ...
@overload
def typed(model: type[T], /, *, decode: Callable[[Message], T] | None = None) -> _Decorates[T]: ...
def typed(
    model: type[T], handler: Typed[T] | None = None, /, *, decode: Callable[[Message], T] | None = None
) -> TypedHandler[T] | _Decorates[T]:
    """
    Make a `Handler` of a function that takes a *model*, or a *model* and the `Message`; also as a decorator.

        @typed(Order)
        async def handle(order: Order) -> None: ...

    A body that is no *model* raises `DecodeError`, which a consumer treats as it does every body that cannot be
    decoded: the function is not called, the message is not deleted.

    Args:
        model: A dataclass, a model of pydantic, or another type that `decoder()` reads.
        handler: An async function of one or two positional parameters.
        decode: Reads the message instead of `decoder(model)`, for bodies that are not JSON.  Whatever it raises, but
            for signals, becomes a `DecodeError`.

    Raises:
        TypeError: *model* has no clear form in JSON, or *handler* takes neither one nor two positional arguments.
    """
    read = decoder(model) if decode is None else _guarded(decode, model)
    if handler is None:
        return lambda function: TypedHandler(model, function, read)
    return TypedHandler(model, handler, read)


def _guarded(decode: Callable[[Message], T], model: type[T]) -> Callable[[Message], T]:
    if not callable(decode):
        raise TypeError(f"decode is {type(decode).__qualname__}: give a function of a Message")

    def guarded(message: Message) -> T:
        try:
            return decode(message)
        except (DecodeError, Signal):
            raise
        except Exception as error:
            raise DecodeError(
                f"the body of message {message.id} is no {describe(model)}: decode raised {type(error).__name__}",
                topic=message.topic,
                about=message,
            ) from error

    return guarded


def _takes_message(function: Any) -> bool:
    """Whether *function* wants the message, too: by how many positional parameters it must be given."""
    if not callable(function):
        raise TypeError(f"the handler is {type(function).__qualname__}: give an async function of a value")
    parameters = inspect.signature(function).parameters.values()
    by_place = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = [each for each in by_place if each.default is each.empty]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters) and len(required) < 2:
        return True
    if any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters) or not (
        required[:2] == by_place[: len(required)] and 1 <= len(required) <= 2
    ):
        raise TypeError(
            f"{getattr(function, '__qualname__', function)!s}{inspect.signature(function)} cannot be a typed handler: "
            "let it take the value, or the value and the message"
        )
    return len(required) == 2
