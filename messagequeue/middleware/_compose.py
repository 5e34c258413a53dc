"""How middleware is put around a handler; not what any of it does."""

from __future__ import annotations

from collections.abc import Iterable

from .._protocols import Handler, Middleware


def several(middleware: Iterable[Middleware]) -> tuple[Middleware, ...]:
    """
    Return what was given as `middleware=`.

    Raises:
        TypeError: it is one middleware, or nothing to go through.
    """
    try:
        return tuple(middleware)
    except TypeError:
        kind = type(middleware).__name__
        raise TypeError(f"middleware is a {kind}: give a list, the first outermost, such as [timeout(5)]") from None


def compose(handler: Handler, /, *middleware: Middleware) -> Handler:
    """
    Return *handler* wrapped in *middleware*, the first outermost: it sees a message first and the outcome last.

    Raises:
        TypeError: *handler* or one of *middleware* is not callable, or a middleware returned no handler.
    """
    if not callable(handler):
        raise TypeError(f"the handler is {type(handler).__name__}: give an async function that takes a Message")
    for wrap in reversed(middleware):
        if not callable(wrap):
            raise TypeError(f"a middleware is {type(wrap).__name__}: give a function from handler to handler")
        handler = wrap(handler)
        if not callable(handler):
            raise TypeError(f"middleware {wrap!r} returned {type(handler).__name__}: it must return a handler")
    return handler
