"""Values that JSON writes as one word: text, numbers, and what is written as text; nothing that holds others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, Self
from uuid import UUID

from ._misfit import Misfit, Node, describe, wrong_kind


class ExactFloat(float):
    """A number with a fraction, and how it was written: a `Decimal` must not go through a float."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made


def anything(value: object) -> object:
    return value


def text(value: object) -> str:
    if type(value) is not str:
        raise wrong_kind("text", value)
    return value


def whole(value: object) -> int:
    if type(value) is not int:
        raise wrong_kind("a whole number", value)
    return value


def real(value: object) -> float:
    if type(value) is not int and not isinstance(value, float):
        raise wrong_kind("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise Misfit("is a number beyond all floats") from None


def truth(value: object) -> bool:
    if type(value) is not bool:
        raise wrong_kind("true or false", value)
    return value


def null(value: object) -> None:
    if value is not None:
        raise wrong_kind("null", value)


def decimal(value: object) -> Decimal:
    if type(value) is int:
        return Decimal(value)
    written = value.text if isinstance(value, ExactFloat) else value
    if type(written) is not str:
        raise wrong_kind("a decimal number", value)
    try:
        made = Decimal(written)
    except ArithmeticError:
        raise Misfit("is text, but no decimal number") from None
    if not made.is_finite():
        raise Misfit("is no finite number")
    return made


def _written(read: Callable[[str], Any], what: str) -> Node:
    """A value that is written as text."""

    def node(value: object) -> Any:
        if type(value) is not str:
            raise wrong_kind(f"a {what}", value)
        try:
            return read(value)
        except ValueError:
            raise Misfit(f"is text, but no {what}") from None

    return node


#: What becomes of each plain type.  The texts are those that `JSONCodec` writes.
SCALARS: dict[object, Node] = {
    Any: anything,
    object: anything,
    str: text,
    int: whole,
    float: real,
    bool: truth,
    None: null,
    type(None): null,
    Decimal: decimal,
    datetime: _written(datetime.fromisoformat, "date and time of ISO 8601"),
    date: _written(date.fromisoformat, "date of ISO 8601"),
    time: _written(time.fromisoformat, "time of ISO 8601"),
    UUID: _written(UUID, "UUID"),
}


def enumeration(kind: type[Enum]) -> Node:
    """
    The member with that value.

    Raises:
        TypeError: a member's value has no form of its own in JSON.
    """
    kinds = {type(member.value) for member in kind} | ({int} if issubclass(kind, Flag) else set())
    if not kinds <= {str, int, float, bool, type(None)}:
        raise TypeError(f"{describe(kind)} has members that are neither text nor numbers: give each such a value")

    def node(value: object) -> Enum:
        if type(value) in kinds or (isinstance(value, float) and float in kinds):
            try:
                return kind(value)
            except ValueError:
                pass
        raise Misfit(f"is no {describe(kind)}")

    return node


def literal(choices: Sequence[object]) -> Node:
    """
    One of *choices*, of the same type.

    Raises:
        TypeError: one of them is neither text, number, truth nor None.
    """
    if not all(choice is None or type(choice) in (str, int, bool) for choice in choices):
        raise TypeError("a Literal of something else than text, whole numbers, True, False and None")
    known = {(type(choice), choice): choice for choice in choices}

    def node(value: object) -> object:
        try:
            return known[type(value), value]
        except (KeyError, TypeError):
            raise Misfit(f"is none of the {len(choices)} values that it may have") from None

    return node
