"""`compose()`: middleware around a handler."""

from __future__ import annotations

import pytest

from messagequeue import Handler, Message, Middleware, compose
from messagequeue.testing import run_virtual

MESSAGE = Message("orders", "1", b"x")


def logs(name: str, lines: list[str]) -> Middleware:
    """Return a middleware that writes down when it is entered and left."""

    def wrap(handler: Handler) -> Handler:
        async def wrapped(message: Message) -> None:
            lines.append(f"{name} in")
            await handler(message)
            lines.append(f"{name} out")

        return wrapped

    return wrap


def test_the_first_middleware_is_outermost() -> None:
    """It sees the message first and the outcome last."""
    lines: list[str] = []

    async def handler(message: Message) -> None:
        lines.append(message.id)

    run_virtual(compose(handler, logs("a", lines), logs("b", lines))(MESSAGE))

    assert lines == ["a in", "b in", "1", "b out", "a out"]


def test_without_middleware_the_handler_is_itself() -> None:
    """Nothing is put around it."""

    async def handler(message: Message) -> None: ...

    assert compose(handler) is handler


def test_what_cannot_be_called_is_refused_when_composing() -> None:
    """Not when the first message comes."""

    async def handler(message: Message) -> None: ...

    with pytest.raises(TypeError, match="the handler is int"):
        compose(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a middleware is str"):
        compose(handler, "log")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="returned NoneType: it must return a handler"):
        compose(handler, lambda inner: None)  # type: ignore[arg-type,return-value]
