"""A message's body as a value of a type; not how bodies are written (that is `Codec`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from .._errors import DecodeError, Signal
from .._message import Message
from ._foreign import READERS
from ._misfit import Misfit, describe
from ._scalars import ExactFloat
from ._shapes import Foreign, Shapes

T = TypeVar("T")


def decoder(model: type[T], /) -> Callable[[Message], T]:
    """
    Return a function that reads a message's body, JSON, as a *model*.

    | *model* | how it is read |
    |---|---|
    | dataclasses, classes of attrs, TypedDict; of the types below and of one another | as `JSONCodec` writes them, strictly; unknown keys are passed over |
    | `str`, `int`, `float`, `bool`, `None`, Enum, Literal, `datetime`, `date`, `time`, `UUID`, `Decimal`, Any | no text becomes a number; a `Decimal` keeps its digits |
    | `list`, `tuple`, `set`, `dict` of such, unions | of a union, the first that fits |
    | a model of pydantic, or anything with one inside | by pydantic (2 or newer), which is imported only then |
    | a Struct of msgspec, or anything with one inside | by msgspec, which is imported only then |

    The function raises `DecodeError` for a body that is not JSON or does not fit, with the place and what is wrong
    there, never with what the body holds.  Whatever else reading raises, in a class's own code too, becomes one, but for
    signals.

    Raises:
        TypeError: values of *model* have no clear form in JSON.
        ImportError: the library that *model* belongs to has no such reader (pydantic 1).
    """  # noqa: E501 (a table)
    read, name = _reader(model), describe(model)

    def decode(message: Message) -> T:
        try:
            value: T = read(message.body)
        except Misfit as misfit:
            raise DecodeError(
                f"the body of message {message.id} is no {name}: {misfit}", topic=message.topic, about=message
            ) from misfit.__cause__
        except Signal:
            raise
        except Exception as error:
            deep = isinstance(error, RecursionError)
            what = "it is nested too deeply" if deep else f"reading it raised {type(error).__name__}"
            raise DecodeError(
                f"the body of message {message.id} is no {name}: {what}", topic=message.topic, about=message
            ) from (None if deep else error)  # a traceback as deep as the body is of no use
        return value

    return decode


def _reader(model: Any) -> Callable[[bytes], Any]:
    shapes = Shapes()
    try:
        node = shapes.node(model)
    except Foreign as foreign:
        return READERS[foreign.home](model)
    parse = json.JSONDecoder(parse_constant=_no_number, parse_float=ExactFloat if shapes.exact else None).decode
    return lambda body: node(_parsed(parse, body))


def _parsed(parse: Callable[[str], Any], body: bytes) -> Any:
    try:
        return parse(body.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        place = f", from line {error.lineno}, column {error.colno} on"
    except (ValueError, RecursionError):  # not UTF-8, NaN, a number of too many digits; nested too deeply
        place = ""
    raise Misfit(f"is not JSON{place}")


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
