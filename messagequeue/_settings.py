"""
How the options of a provider are read from text and from typed values; not where they come from (`_sources`).

The fields of the provider's config dataclass are the options; a field that is itself a dataclass is a table of options.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ._errors import ConfigurationError
from ._options import _bounds, as_float
from ._registry import did_you_mean

C = TypeVar("C")

_TRUE = frozenset({"1", "on", "true", "yes"})
_FALSE = frozenset({"0", "false", "no", "off"})
#: Words in an option's name that make its value unfit for an error message.
_SECRET = ("credential", "key", "passw", "secret", "token")


@dataclass(frozen=True, slots=True)
class Given:
    """
    One value from a source.

    Attributes:
        value: The value.
        label: The variable or key it was given under, for error messages.
        text: It is text that has to be read; where False, its type must fit as it is.
    """

    value: object
    label: str
    text: bool = False


#: What a source gives: tables of tables of `Given`.
Tree = dict[str, "Given | Tree"]


@dataclass(frozen=True, slots=True)
class Field:
    """
    One option of a provider.

    Attributes:
        path: Its name, behind the names of the tables it is in.
        hint: Its type.
        default: Its default; `MISSING` where it must be given.
        rule: What `option()` was told (doc, unit, low, high, optional); empty for a plain field.
    """

    path: tuple[str, ...]
    hint: Any
    default: object
    rule: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name in URLs and messages: `consume.concurrency`."""
        return ".".join(self.path)

    @property
    def env(self) -> str:
        """The name in environment variables, with the unit behind it: `CONSUME_DRAIN_TIMEOUT_SECONDS`."""
        name, unit = "_".join(self.path).upper(), str(self.rule.get("unit", "")).upper()
        return name if not unit or name.endswith(f"_{unit}") else f"{name}_{unit}"

    @property
    def is_table(self) -> bool:
        """It is a table of options, not a value."""
        return isinstance(self.hint, type) and is_dataclass(self.hint)

    @property
    def is_text(self) -> bool:
        """It can be given as text; where False, only in code."""
        return any(_is_text(kind) for kind in _members(self.hint))

    @property
    def optional(self) -> bool:
        """None is a value of it."""
        return NoneType in _members(self.hint)


def option_fields(config: type[Any]) -> list[Field]:
    """Return every option of *config* that has a form as text, tables opened, in the order of declaration."""
    return [field for field in _walk(config, ()) if field.is_text]


def _walk(config: type[Any], above: tuple[str, ...]) -> Iterator[Field]:
    for field in _own_fields(config).values():
        if field.is_table:
            yield from _walk(field.hint, (*above, *field.path))
        else:
            yield Field((*above, *field.path), field.hint, field.default, field.rule)


def _own_fields(config: type[Any]) -> dict[str, Field]:
    hints = _hints(config)
    return {
        item.name: Field(
            (item.name,),
            hints[item.name],
            item.default if item.default_factory is MISSING else item.default_factory(),
            item.metadata.get("option", {}),
        )
        for item in fields(config)
        if item.init
    }


def _hints(config: type[Any]) -> dict[str, Any]:
    """
    Return the types of the fields; `object` for one that is imported for type checkers only.

    So that a config may have a field of its SDK's type without importing the SDK.
    """
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(config, localns=unknown)
        except NameError as exc:
            if exc.name is None or exc.name in unknown:
                raise
            unknown[exc.name] = object


def read_table(config: type[Any], tree: Mapping[str, Given | Tree], where: str) -> dict[str, object]:
    """
    Return the typed values of what a source gave for *config*; inner tables as instances of their dataclass.

    Args:
        config: The dataclass.
        tree: The source's table.
        where: What the table is called in messages, for what has no label of its own.

    Raises:
        ConfigurationError: an option does not exist or has the wrong type, or an inner table is wrong in itself.
    """
    known = _own_fields(config)
    return {name: _value(known, name, given, where) for name, given in tree.items()}


def build(config: type[C], tree: Mapping[str, Given | Tree], where: str) -> C:
    """
    Return an instance of *config* made of what a source gave.

    Raises:
        ConfigurationError: as `read_table()`, or an option is missing, out of bounds, or does not fit another.
    """
    values = read_table(config, tree, where)
    for name, field in _own_fields(config).items():
        if field.default is MISSING and name not in values:
            raise ConfigurationError(f"{where}: {name} is not set and has no default")
    try:
        return config(**values)
    except ConfigurationError as exc:
        exc.args = (f"{_blamed(exc, tree, where)}: {exc}",)
        raise
    except (TypeError, ValueError) as exc:
        # A provider that does not know this library's errors, or a field that checks itself.
        raise ConfigurationError(f"{where}: {exc}") from exc


def _value(known: Mapping[str, Field], name: str, given: Given | Tree, where: str) -> object:
    field = known.get(name)
    if field is None:
        label = given.label if isinstance(given, Given) else f"{where}.{name}"
        raise ConfigurationError(
            f"{label}: there is no option {name!r}; options of {where}: {', '.join(sorted(known)) or 'none'}"
            f"{did_you_mean(name, known)}"
        )
    if field.is_table:
        return _table(field, given, where)
    return read(given if isinstance(given, Given) else Given(plain(given), f"{where}.{name}"), field)


def _table(field: Field, given: Given | Tree, where: str) -> object:
    if not isinstance(given, Given):
        return build(field.hint, given, f"{where}.{field.path[-1]}")
    if isinstance(given.value, field.hint):
        return given.value
    raise ConfigurationError(f"{given.label}: give a table of options, one of {', '.join(_own_fields(field.hint))}")


def _blamed(exc: ConfigurationError, tree: Mapping[str, Given | Tree], where: str) -> str:
    """Return the variable or key that *exc* is about: the dataclass itself only knows the name of its field."""
    given = tree.get(str(exc).partition(" ")[0].partition("=")[0])
    return given.label if isinstance(given, Given) else where


def plain(tree: Given | Tree) -> object:
    """Return the values of *tree* without their labels."""
    return tree.value if isinstance(tree, Given) else {name: plain(item) for name, item in tree.items()}


def read(given: Given, field: Field) -> object:
    """
    Return the value of *field* that *given* means.

    In an optional field "" and "none" mean None, whatever the source: TOML and the environment have no word for it.

    Raises:
        ConfigurationError: it is not of the field's type; the message says what to give.
    """
    value = given.value
    if field.optional and (value is None or (isinstance(value, str) and value.strip().lower() in ("", "none"))):
        return None
    kinds = sorted((kind for kind in _members(field.hint) if kind is not NoneType), key=lambda kind: kind is str)
    for kind in kinds:
        try:
            return _from_text(str(value), kind) if given.text else _from_typed(value, kind)
        except (LookupError, TypeError, ValueError):
            continue
    raise ConfigurationError(f"{given.label}{_shown(given.value, field.path[-1])}: give {_expected(field, kinds)}")


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_text(kind: Any) -> bool:
    named = isinstance(kind, type) and issubclass(kind, bool | int | float | str | Enum | PurePath)
    return named or get_origin(kind) is Literal


def _is_numbers(kind: Any) -> bool:
    """Several numbers, which text separates by commas."""
    return get_origin(kind) is Sequence and get_args(kind) in ((int,), (float,))


def _from_text(text: str, kind: Any) -> object:
    if kind is bool:
        return _switch(text.strip().lower())
    if kind is int or kind is float:
        number: float = kind(text)
        if not math.isfinite(number):
            raise ValueError
        return number
    if _is_numbers(kind):
        return tuple(_from_text(part, get_args(kind)[0]) for part in text.split(","))
    if get_origin(kind) is Literal:
        return {str(choice): choice for choice in get_args(kind)}[text]
    if kind is str:
        return text
    if isinstance(kind, type) and issubclass(kind, Enum | PurePath):
        return kind(text)
    raise TypeError


def _switch(word: str) -> bool:
    if word not in _TRUE | _FALSE:
        raise ValueError
    return word in _TRUE


def _from_typed(value: object, kind: Any) -> object:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError
        return value
    if _is_numbers(kind):
        if not isinstance(value, list | tuple):
            raise TypeError
        return tuple(_from_typed(each, get_args(kind)[0]) for each in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return as_float(value)
    if kind is int and isinstance(value, bool):
        raise TypeError
    if isinstance(value, str) and isinstance(kind, type) and issubclass(kind, Enum | PurePath):
        return kind(value)
    # Generic aliases (`Mapping[str, str]`) and protocols are the provider's own constructor to check.
    runtime = kind if isinstance(kind, type) else get_origin(kind)
    if isinstance(runtime, type) and not getattr(runtime, "_is_protocol", False) and not isinstance(value, runtime):
        raise TypeError
    return value


def _expected(field: Field, kinds: list[Any]) -> str:
    if not field.is_text:
        return "it in code: it has no form as text"
    words = " or ".join(_word(kind) for kind in kinds if not _is_numbers(kind))
    number = any(kind in (int, float) for kind in kinds)
    bounds = f" {_bounds(field.rule)}" if number and field.rule.get("low") is not None else ""
    return words + (bounds or (" (or none)" if field.optional else ""))


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(
        kind, str(getattr(kind, "__name__", kind))
    )


def _shown(value: object, name: str) -> str:
    """Return `=value` for a message; nothing where it could be a secret or is long."""
    text = repr(value)
    secret = any(word in name.lower() for word in _SECRET) or "@" in text
    return "" if secret or len(text) > 80 else f"={text}"
