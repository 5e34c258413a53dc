"""Which handler a message goes to, by its type; not how its body is read (`typed`)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, overload

from .._errors import DecodeError, UnroutedError
from .._message import Message
from .._protocols import Handler, Middleware
from ..middleware import compose
from ..middleware._compose import several
from ._typed import typed

T = TypeVar("T")
H = TypeVar("H", bound=Handler)


class _Registers(Protocol[T]):
    """Takes a function of a value, or of a value and the message, and returns it as it is."""

    @overload
    def __call__(self, handler: Callable[[T], Awaitable[None]], /) -> Callable[[T], Awaitable[None]]: ...
    @overload
    def __call__(
        self, handler: Callable[[T, Message], Awaitable[None]], /
    ) -> Callable[[T, Message], Awaitable[None]]: ...


class Router:
    """
    A `Handler` that hands each message to the handler of its type.

        router = Router(attribute="type")

        @router.on("order.placed", OrderPlaced)
        async def placed(order: OrderPlaced) -> None: ...

    A message that no route is for goes to the `default()`, and where there is none raises `UnroutedError`, which a
    consumer treats as it does a body that cannot be decoded: it is never dropped silently.

    Args:
        attribute: The attribute that holds the type.
        field: The key that holds it, where the body is a JSON object.
        key: A function that returns it, or None for a message of no type.

    Raises:
        TypeError: not exactly one of the three is given, or it is not what it should be.
    """

    def __init__(
        self,
        *,
        attribute: str | None = None,
        field: str | None = None,
        key: Callable[[Message], str | None] | None = None,
    ) -> None:
        given = [choice for choice in (attribute, field, key) if choice is not None]
        if len(given) != 1:
            raise TypeError("Router() takes one of attribute=, field= and key=: say where a message's type is")
        if key is not None and not callable(key):
            raise TypeError(f"Router(key=...) is {type(key).__qualname__}: give a function of a Message")
        for choice, name in (("attribute", attribute), ("field", field)):
            if name is not None and (not isinstance(name, str) or not name):
                raise TypeError(f"Router({choice}=...) is {_kind(name)}: give the name of the {choice} with the type")
        if attribute is not None:
            self._where = f"the attribute {attribute!r}"
            self._type_of: Callable[[Message], object] = lambda message: message.attributes.get(attribute)
        elif field is not None:
            self._where = f"the field {field!r} of its body"
            self._type_of = lambda message: _field(message, field)
        else:
            self._where = "what Router(key=...) returned"
            self._type_of = key  # type: ignore[assignment]
        self._routes: dict[str, Handler] = {}
        self._default: Handler | None = None

    def __repr__(self) -> str:
        default = " and a default" if self._default is not None else ""
        return f"<Router by {self._where}: {len(self._routes)} routes{default}>"

    @property
    def routes(self) -> Mapping[str, Handler]:
        """The handlers by type, middleware included."""
        return MappingProxyType(self._routes)

    def add(
        self,
        name: str,
        handler: Callable[..., Awaitable[None]],
        model: type | None = None,
        /,
        *,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        """
        Give messages of the type *name* to *handler*.

        Args:
            name: The type, as the messages have it.
            handler: A `Handler`; with a *model* what `typed()` takes.
            model: As of `typed()`.
            middleware: Put around this route's handler, the first outermost, outside of the decoding.

        Raises:
            ValueError: *name* has a handler already, or is empty.
            TypeError: as `typed()` and `compose()`.
        """
        if not isinstance(name, str) or not name:
            raise ValueError("a route needs the type's name: text, not empty")
        if name in self._routes:
            raise ValueError(f"message type {name!r} has a handler in this router already: {self._routes[name]!r}")
        made = handler if model is None else typed(model, handler)
        self._routes[name] = compose(made, *several(middleware))

    @overload
    def on(self, name: str, /, *, middleware: Sequence[Middleware] = ()) -> Callable[[H], H]: ...
    @overload
    def on(self, name: str, model: type[T], /, *, middleware: Sequence[Middleware] = ()) -> _Registers[T]: ...
    def on(self, name: str, model: type | None = None, /, *, middleware: Sequence[Middleware] = ()) -> Any:
        """`add()` as a decorator.  It returns the function as it is; several may be put on one."""

        def register(handler: Any) -> Any:
            self.add(name, handler, model, middleware=middleware)
            return handler

        return register

    def default(self, handler: H, /) -> H:
        """
        Give every message that no route is for to *handler*; also as a decorator.

        Such are messages of an unknown type, of none, and where the type is a field, bodies that are no JSON object.

        Raises:
            ValueError: there is a default already.
            TypeError: *handler* is not callable.
        """
        if self._default is not None:
            raise ValueError(f"this router has a default already: {self._default!r}")
        self._default = compose(handler)
        return handler

    async def __call__(self, message: Message, /) -> None:
        """
        Hand *message* on.

        Raises:
            UnroutedError: nothing is registered for it.
            DecodeError: its body, where a field of it holds the type, is no JSON object.
            Whatever the handler raises.
        """
        await self._handler_of(message)(message)

    def _handler_of(self, message: Message) -> Handler:
        try:
            name = self._type_of(message)
        except DecodeError:
            if self._default is None:
                raise
            return self._default
        handler = self._routes.get(name) if isinstance(name, str) else None
        handler = handler or self._default
        if handler is None:
            raise UnroutedError(self._unrouted(message, name), topic=message.topic, about=message)
        return handler

    def _unrouted(self, message: Message, name: object) -> str:
        what = f"message {message.id} has no route: {self._where} is {_shown(name)}"
        return f"{what}; routes: {', '.join(sorted(self._routes)) or 'none'}; add one, or a default()"


def _field(message: Message, field: str) -> object:
    try:
        body = message.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise DecodeError(
            f"the body of message {message.id} is no JSON object, so it has no field {field!r} to route by",
            topic=message.topic,
            about=message,
        )
    return body.get(field)


def _kind(name: object) -> str:
    return "empty" if name == "" else type(name).__qualname__


#: A type's name, as names of types are written; anything else may be somebody's data, and is not quoted.
_NAME = re.compile(r"[A-Za-z0-9_.:/#-]{1,100}")


def _shown(name: object) -> str:
    if name is None:
        return "absent"
    if not isinstance(name, str):
        return f"of type {type(name).__qualname__}, not text"
    return repr(name) if _NAME.fullmatch(name) else f"a text of {len(name)} characters that is no plain name"
