"""
How data becomes a body; not how a broker carries that body, and not how a consumer reads it.

`JSONCodec` decides by type alone, never by looking at the content:

| data | body |
|---|---|
| `bytes`, `bytearray`, `memoryview` | `bytes`, as they are |
| `str` | `str`, as it is |
| anything with a clear JSON form | `str`, JSON without spaces |
| the rest | `EncodeError` |

A clear JSON form have: `dict` and other mappings (TypedDict included), `list`, `tuple`, `int`, finite `float`, `bool`,
`None`, dataclasses, attrs classes, objects with `model_dump()` (pydantic), `Enum` (its value), `datetime`, `date` and
`time` (ISO 8601), `UUID` and `Decimal` (both as text: a reader that uses floats would round a JSON number).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from json import JSONEncoder
from typing import Protocol
from uuid import UUID

from ._errors import EncodeError


class Codec(Protocol):
    """Turns the data of `Publisher.publish()` into a body."""

    def encode(self, data: object, /) -> str | bytes:
        """
        Return the body: `str` for text, `bytes` for anything else.

        Raises:
            EncodeError: *data* has no clear form.
        """
        ...


class JSONCodec:
    """
    The codec of every provider where no other is given; the module's table says what becomes of which type.

    Text in JSON is kept readable (non-ASCII is not escaped), except for lone surrogates, U+FFFE and U+FFFF, which no
    broker takes as they are: they are written as JSON escapes and read back exactly.
    """

    def encode(self, data: object, /) -> str | bytes:
        """
        Return the body of *data*.

        Raises:
            EncodeError: with the type that has no clear form and what to do; never with the data.
        """
        if isinstance(data, str):
            return _text(data)
        if type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(memoryview(data))
        return _escape_unsendable(_json(data))


def _text(data: str) -> str:
    if not data.isascii():
        try:
            data.encode("utf-8")
        except UnicodeEncodeError as error:
            raise EncodeError(
                f"the text has a lone surrogate at position {error.start} and so no UTF-8 form: mend it, or pass bytes"
            ) from None
    return data if type(data) is str else str.__str__(data)


def _json(data: object) -> str:
    dump = getattr(data, "model_dump_json", None)
    if callable(dump) and not isinstance(data, type):
        text = _of_their_own(data, dump)
        if not isinstance(text, str):
            raise EncodeError(f"cannot encode {_name(data)}: its model_dump_json() returned {_name(text)}, not text")
        return text
    try:
        text = _ENCODER.encode(data)
        _check_keys(data)
        return text
    except EncodeError:
        raise
    except TypeError:
        raise EncodeError(f"cannot encode {_name(data)}: it has a key that JSON has not; use text as keys") from None
    except ValueError:
        raise EncodeError(
            f"cannot encode {_name(data)}: it holds a NaN, an infinity or a reference to itself, which JSON has not, "
            f"or a whole number of more than {sys.get_int_max_str_digits()} digits; use None or text instead"
        ) from None
    except RecursionError:
        raise EncodeError(f"cannot encode {_name(data)}: it is nested too deeply; flatten it, or pass bytes") from None


#: What the XML 1.0 alphabet of SQS, or UTF-8 itself, leaves out and JSON may hold unescaped.  (Control characters are
#: escaped by JSON anyway.)  In JSON text such a character can only be inside a string, where an escape means the same.
_UNSENDABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")


def _escape_unsendable(text: str) -> str:
    return text if text.isascii() else _UNSENDABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _check_keys(node: object) -> None:
    """
    Refuse keys that JSON would quietly turn into other ones.

    An `int` becomes its digits, as everybody expects; `True`, `None` and `1.0` would become the texts "true", "null"
    and "1.0", and `1` beside "1" the same key twice.
    """
    if isinstance(node, dict):
        for key in node:
            if type(key) is not str and not isinstance(key, str):
                _check_odd_key(key, node)
        nested: Iterable[object] = node.values()
    elif isinstance(node, list | tuple):
        nested = node
    else:
        return
    for value in nested:
        if isinstance(value, dict | list | tuple):
            _check_keys(value)


def _check_odd_key(key: object, node: Mapping[object, object]) -> None:
    if not isinstance(key, int) or isinstance(key, bool):
        raise EncodeError(f"cannot encode a dict with a key of type {_name(key)}: JSON keys are text; use str")
    if int.__repr__(key) in node:
        raise EncodeError(
            "cannot encode a dict with the same key as int and as str: JSON keys are text; use one of them"
        )


def _default(value: object) -> object:
    """Called by the JSON encoder for every object that it does not know; what it returns is encoded in its place."""
    plain = _plain(value)
    _check_keys(plain)
    return plain


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, Mapping):
        return _of_their_own(value, lambda: dict(value))
    if isinstance(value, type):
        raise _no_form(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _of_their_own(value, lambda: dump(mode="json"))
    names = _field_names(value)
    if names is None:
        raise _no_form(value)
    return _of_their_own(value, lambda: {name: getattr(value, name) for name in names})


def _field_names(value: object) -> list[str] | None:
    if is_dataclass(value):
        return [item.name for item in fields(value)]
    attributes = getattr(type(value), "__attrs_attrs__", None)
    return None if attributes is None else [item.name for item in attributes]


def _of_their_own(value: object, make: Callable[[], object]) -> object:
    """Run code of the value's class, which may raise anything."""
    try:
        return make()
    except Exception as error:
        raise EncodeError(f"cannot encode {_name(value)}: reading it raised {type(error).__name__}") from error


_ADVICE: dict[type, str] = {
    set: "sort it into a list",
    frozenset: "sort it into a list",
    bytes: "inside JSON, turn it into text (base64, hex) first, or publish it alone",
    bytearray: "inside JSON, turn it into text (base64, hex) first, or publish it alone",
    memoryview: "inside JSON, turn it into text (base64, hex) first, or publish it alone",
}


def _no_form(value: object) -> EncodeError:
    if isinstance(value, type):
        return EncodeError(f"cannot encode the class {value.__qualname__} itself: pass an instance of it")
    advice = _ADVICE.get(type(value), "pass bytes, str, a dataclass, or what it holds as dict and list")
    return EncodeError(f"cannot encode {_name(value)} as JSON: {advice}")


def _name(value: object) -> str:
    return type(value).__qualname__


_ENCODER = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default)
