"""What the broker's values look like in the columns of a table; not the tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from ..._settings import DeadLetterPolicy, DedupScope, Ordering, QueueSettings
from ..._values import Envelope

Column: TypeAlias = str | bytes | int | float | None

#: Bits of a place that are the sequence number; those above are the queue's serial.
SEQUENCE_BITS = 40
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1


def place_of(serial: int, sequence: int) -> int:
    """Return the one number that names a message in the file, and sorts by queue, then sequence."""
    return serial << SEQUENCE_BITS | sequence


def settings_text(settings: QueueSettings) -> str:
    return json.dumps(asdict(settings), separators=(",", ":"))


def settings_from(text: str) -> QueueSettings:
    values: dict[str, Any] = json.loads(text)
    values["ordering"] = Ordering(values["ordering"])
    values["dedup_scope"] = DedupScope(values["dedup_scope"])
    if values["dead_letters"] is not None:
        values["dead_letters"] = DeadLetterPolicy(**values["dead_letters"])
    return QueueSettings(**values)


def envelope_column(attributes: object) -> Column:
    """
    Return what stands for the attributes of a message: NULL, or a number for an envelope with a time alone, or JSON.

    Raises:
        TypeError: they are not an `Envelope`.
    """
    if attributes is None:
        return None
    if not isinstance(attributes, Envelope):
        raise TypeError(f"a durable queue keeps an Envelope beside a body, not a {type(attributes).__name__}")
    at, given = attributes.published_at, attributes.attributes
    if given is None and attributes.types is None and attributes.trace is None and at is not None:
        return float(at)
    values = {
        "at": at,
        "attributes": None if given is None else {name: _value(value) for name, value in given.items()},
        "types": None if attributes.types is None else dict(attributes.types),
        "trace": attributes.trace,
    }
    return json.dumps({name: value for name, value in values.items() if value is not None}, separators=(",", ":"))


def envelope_from(column: Column) -> Envelope | None:
    if column is None:
        return None
    if isinstance(column, int | float):
        return Envelope(float(column))
    values: dict[str, Any] = json.loads(column)
    attributes: Mapping[str, str | list[str]] | None = values.get("attributes")
    return Envelope(
        values.get("at"),
        None if attributes is None else {name: _value_from(value) for name, value in attributes.items()},
        values.get("types"),
        values.get("trace"),
    )


def _value(value: str | bytes) -> str | list[str]:
    return value if isinstance(value, str) else [base64.b64encode(value).decode()]


def _value_from(value: str | list[str]) -> str | bytes:
    return value if isinstance(value, str) else base64.b64decode(value[0])


def text_column(text: str | None) -> Column:
    """Return *text*; as bytes where it holds half of a surrogate pair, which the file has no text for."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def text_from(column: Any) -> Any:
    return column.decode("utf-8", "surrogatepass") if isinstance(column, bytes) else column
