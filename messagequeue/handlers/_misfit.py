"""Why a body does not fit a type, in words that hold nothing of the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Turns what JSON gave into a value of some type.  Raises `Misfit`.
Node = Callable[[Any], Any]


class Misfit(Exception):
    """
    Something in a body is not what the type asks for.

    Args:
        what: What is wrong, to be read after the place: "is text, not a number".
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []  # from the inside out

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).removeprefix(".")
        return f"{where or 'it'} {self.what}"


def wrong_kind(wanted: str, value: object) -> Misfit:
    """Return the misfit of *value* where *wanted* was expected."""
    return Misfit(f"is {_kind(value)}, not {wanted}")


def inside(part: str, node: Node, value: object) -> Any:
    """Apply *node* to what is at *part* of its surroundings: a field `.name`, an item `[2]`."""
    try:
        return node(value)
    except Misfit as misfit:
        misfit.path.append(part)
        raise


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"


def describe(kind: object) -> str:
    """Return the name of a type."""
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        return kind.__qualname__.rpartition("<locals>.")[2]
    return str(kind).replace("typing.", "")
