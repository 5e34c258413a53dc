"""
From a type to the function that makes its values of parsed JSON: dataclasses and what they are made of.

It reads what `JSONCodec` writes, strictly: no text becomes a number, no number a truth.  An object's keys that a type
does not have are passed over, so that publishers may add fields before consumers know them.

Types of pydantic and msgspec are not read here: `Foreign` says whose they are.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from .._errors import Signal
from ._misfit import Misfit, Node, describe, inside, wrong_kind
from ._scalars import SCALARS, decimal, enumeration, literal

_LISTS = (list, Sequence, MutableSequence, Collection, Iterable)
_MAPPINGS = (dict, Mapping, MutableMapping)
_KEYS: tuple[Any, ...] = (str, Any, object, UUID, date, datetime)
_SETS = {set: set, AbstractSet: set, frozenset: frozenset}

#: Words around a type that say nothing of its values; compared by name, as `typing_extensions` has some of its own.
_AROUND = frozenset({"Annotated", "Final", "NotRequired", "ReadOnly", "Required"})


class Foreign(Exception):
    """The type, or one inside of it, is to be read by the library *home*."""

    def __init__(self, home: Literal["pydantic", "msgspec"]) -> None:
        super().__init__(home)
        self.home = home


class Record:
    """An object of JSON, made into one of a class."""

    __slots__ = ("_make", "_name", "_nodes", "_required")

    def __init__(self, name: str, make: Callable[..., object]) -> None:
        self._name = name
        self._make = make
        self._nodes: dict[str, tuple[str, Node]] = {}
        self._required: tuple[str, ...] = ()

    def fill(self, nodes: Mapping[str, tuple[str, Node]], required: Iterable[str]) -> None:
        """
        Say what it has; later than its making, for a field may be of the record's own type.

        Args:
            nodes: By key: the parameter that takes the value, and what makes it.
            required: Keys that must be there.
        """
        self._nodes = dict(nodes)
        self._required = tuple(required)

    def __call__(self, value: object) -> object:
        if type(value) is not dict:
            raise wrong_kind("an object", value)
        given = {name: inside(f".{key}", node, value[key]) for key, (name, node) in self._nodes.items() if key in value}
        for key in self._required:
            if key not in value:
                misfit = Misfit("is missing")
                misfit.path.append(f".{key}")
                raise misfit
        try:
            return self._make(**given)
        except (Signal, RecursionError):  # the latter would have a union try all of its kinds at every depth
            raise
        except Exception as error:
            raise Misfit(f"is refused by {self._name} with {type(error).__name__}") from error


class Shapes:
    """
    Makes the nodes of one type and of all inside of it.

    Attributes:
        exact: A `Decimal` is among them, so numbers must be handed over as they were written.
    """

    def __init__(self) -> None:
        self.exact = False
        self._records: dict[object, Record] = {}

    def node(self, kind: Any) -> Node:
        """
        Return what makes values of *kind*.

        Raises:
            TypeError: values of *kind* have no clear form in JSON.
            Foreign: pydantic or msgspec reads it.
        """
        kind = _bare(kind)
        if isinstance(kind, type) and not get_args(kind):
            return self._of_class(kind)
        if kind in SCALARS:
            return SCALARS[kind]
        origin, arguments = get_origin(kind), get_args(kind)
        if hasattr(origin, "__struct_fields__"):
            raise Foreign("msgspec")
        if origin is Literal:
            return literal(arguments)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if origin is tuple:
            return self._tuple(arguments)
        return self._container(kind, origin, arguments)

    def _of_class(self, kind: type) -> Node:
        if hasattr(kind, "__pydantic_validator__"):
            raise Foreign("pydantic")
        if hasattr(kind, "__struct_fields__"):
            raise Foreign("msgspec")
        if (scalar := SCALARS.get(kind)) is not None:
            self.exact = self.exact or scalar is decimal
            return scalar
        if issubclass(kind, Enum):
            return enumeration(kind)
        if kind is tuple:
            return self._tuple((Any, ...))
        if kind in _LISTS or kind in _MAPPINGS or kind in _SETS:
            return self._container(kind, kind, ())
        if is_dataclass(kind) or hasattr(kind, "__attrs_attrs__"):
            return self._record(kind, _parameters(kind))
        if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
            return self._record(kind, None)
        raise TypeError(_advice(kind))

    # ---- what holds others

    def _union(self, kinds: Sequence[Any]) -> Node:
        nodes = [self.node(kind) for kind in kinds]
        optional = [node for node in nodes if node is not SCALARS[None]]
        if len(optional) == 1 < len(nodes):
            only = optional[0]
            return lambda value: None if value is None else only(value)
        names = " or ".join("null" if kind is type(None) else describe(kind) for kind in kinds)

        def node(value: object) -> object:
            for each in nodes:
                try:
                    return each(value)
                except Misfit:
                    pass
            raise Misfit(f"is none of {names}")

        return node

    def _tuple(self, kinds: Sequence[Any]) -> Node:
        if len(kinds) == 2 and kinds[1] is ...:
            return self._items(kinds[0], tuple)
        nodes = [self.node(kind) for kind in kinds]

        def node(value: object) -> object:
            if type(value) is not list or len(value) != len(nodes):
                raise wrong_kind(f"a list of {len(nodes)}", value)
            return tuple(inside(f"[{at}]", each, value[at]) for at, each in enumerate(nodes))

        return node

    def _container(self, kind: object, origin: Any, arguments: Sequence[Any]) -> Node:
        if origin in _LISTS:
            return self._items(arguments[0] if arguments else Any, list)
        if origin in _SETS:
            return self._items(arguments[0] if arguments else Any, _SETS[origin])
        if origin in _MAPPINGS:
            return self._entries(*(arguments or (str, Any)))
        raise TypeError(_advice(kind))

    def _items(self, kind: Any, make: Callable[[list[Any]], object]) -> Node:
        each = self.node(kind)

        def node(value: object) -> object:
            if type(value) is not list:
                raise wrong_kind("a list", value)
            made = [inside(f"[{at}]", each, item) for at, item in enumerate(value)]
            try:
                return make(made)
            except TypeError:
                raise Misfit("has items that cannot be in a set") from None

        return node

    def _entries(self, key: Any, kind: Any) -> Node:
        name, each = self._key(_bare(key)), self.node(kind)

        def node(value: object) -> object:
            if type(value) is not dict:
                raise wrong_kind("an object", value)
            # "[…]" and not the key: which keys there are is the body's.
            return {inside("[…]", name, at): inside("[…]", each, item) for at, item in value.items()}

        return node

    def _key(self, kind: Any) -> Node:
        """A key of an object, which is always text in JSON."""
        if kind is int:
            return _whole_key
        if kind in _KEYS or get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
            return self.node(kind)
        raise TypeError(f"a mapping with keys of {describe(kind)}: JSON keys are text; use str, int or an Enum")

    # ---- objects

    def _record(self, kind: type, parameters: Mapping[str, str] | None) -> Record:
        """The record of a class whose constructor takes *parameters* (by field), or of a TypedDict, where None."""
        if (known := self._records.get(kind)) is not None:
            return known
        record = self._records[kind] = Record(describe(kind), dict if parameters is None else kind)
        hints = _hints(kind)
        if parameters is None:
            parameters, required = {name: name for name in hints}, _required_keys(kind, hints)
        else:
            required = _required_parameters(kind, parameters)
        nodes = {}
        for field, name in parameters.items():
            try:
                nodes[field] = name, self.node(hints.get(field, Any))
            except TypeError as error:
                raise TypeError(f"field {field!r} of {describe(kind)}: {error}") from None
        record.fill(nodes, required)
        return record


def _bare(kind: Any) -> Any:
    """Return the type without words around it that say nothing of its values."""
    while True:
        origin = get_origin(kind)
        if getattr(origin, "_name", None) in _AROUND or getattr(origin, "__name__", None) in _AROUND:
            kind = get_args(kind)[0]
        elif origin is None and isinstance(kind, NewType):
            kind = kind.__supertype__
        elif type(kind).__name__ == "TypeAliasType":  # `type X = ...`, from Python 3.12 on
            kind = kind.__value__
        else:
            return kind


def _whole_key(key: str) -> int:
    if key.removeprefix("-").isdecimal() and key.isascii() and len(key) < 100 and str(int(key)) == key:
        return int(key)
    raise Misfit("has a key that is no whole number")


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"the annotations of {describe(kind)} cannot be read: {error}; import that name when the program runs, and "
            "define the class in a module, not in a function"
        ) from None
    except (AttributeError, SyntaxError, TypeError) as error:  # whatever evaluating one raises
        raise TypeError(f"the annotations of {describe(kind)} cannot be read: {error}; correct them") from None


def _parameters(kind: type) -> dict[str, str]:
    """Return the constructor's parameters by field, for a dataclass or a class of attrs."""
    if is_dataclass(kind):
        return {item.name: item.name for item in fields(kind) if item.init}
    attributes = kind.__attrs_attrs__  # type: ignore[attr-defined]
    return {item.name: getattr(item, "alias", None) or item.name for item in attributes if item.init}


def _required_parameters(kind: type, parameters: Mapping[str, str]) -> list[str]:
    taken = {name: field for field, name in parameters.items()}
    required = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if strange := [name for name in required if name not in taken]:
        raise TypeError(f"{describe(kind)} cannot be made without {', '.join(strange)}, which no field of it is")
    return [taken[name] for name in required]


def _required_keys(kind: Any, hints: Mapping[str, Any]) -> list[str]:
    """
    Return the keys that a TypedDict must have.

    Where its annotations were text (`from __future__ import annotations`), the class itself does not know what is
    NotRequired (CPython gh-97727): the words around the resolved types say so.
    """
    required = []
    for name, hint in hints.items():
        word = getattr(get_origin(hint), "_name", None)
        if word == "Required" or (word != "NotRequired" and name in kind.__required_keys__):
            required.append(name)
    return required


def _advice(kind: object) -> str:
    if kind in (bytes, bytearray):
        return "bytes have no form in JSON: use str and decode it yourself (base64, hex)"
    return (
        f"{describe(kind)} cannot be read from JSON: use dataclasses, TypedDict, Enum, str, int, float, bool, None, "
        "datetime, date, time, UUID, Decimal, and list, tuple, set, dict and unions of them; or pass decode="
    )
