"""
Types that belong to pydantic or msgspec, read by these libraries; imported only for such a type.

Their errors quote the body, so their texts are not used: where and what kind of fault, no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ._misfit import Misfit

#: Faults named in an error text at most.
_NAMED = 3


def pydantic_reader(model: Any) -> Callable[[bytes], Any]:
    """Return what reads a body as *model* by pydantic's rules."""
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(model)
    names: set[str] = set()

    def read(body: bytes) -> Any:
        try:
            return adapter.validate_json(body)
        except ValidationError as error:
            if not names:
                names.update(_field_names(adapter))
            faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise _misfit([(_path(fault["loc"], names), fault["type"]) for fault in faults])

    return read


def _field_names(adapter: Any) -> Iterator[str]:
    """Yield the names that are the model's own; any other key in an error's place is the body's."""
    try:
        schema = adapter.json_schema()
    except Exception:  # a type without a JSON schema: no place is named then
        return
    for node in (schema, *schema.get("$defs", {}).values()):
        yield from node.get("properties", {})


def _path(place: tuple[int | str, ...], names: set[str]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" if part in names else "[…]" for part in place)
    return "".join(parts).removeprefix(".")


def _misfit(faults: list[tuple[str, str]]) -> Misfit:
    named = [f"{where or 'the top'} ({kind})" for where, kind in faults[:_NAMED]]
    more = f" and at {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return Misfit(f"does not fit at {', '.join(named)}{more}")


def msgspec_reader(model: Any) -> Callable[[bytes], Any]:
    """Return what reads a body as *model* by msgspec's rules."""
    import msgspec

    decode = msgspec.json.Decoder(model).decode

    def read(body: bytes) -> Any:
        try:
            return decode(body)
        except msgspec.ValidationError as error:
            place = _MSGSPEC_PLACE.search(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Misfit("is not JSON") from None
        where = place[1].removeprefix("$").removeprefix(".").replace("[...]", "[…]") if place else ""
        raise _misfit([(where, "ValidationError")])

    return read


#: msgspec writes the place at the end, with the model's own names only: keys of mappings are `[...]`.
_MSGSPEC_PLACE = re.compile(r" - at `(?:key in )?(\$[^`]*)`$")

READERS: Mapping[str, Callable[[Any], Callable[[bytes], Any]]] = {
    "pydantic": pydantic_reader,
    "msgspec": msgspec_reader,
}
