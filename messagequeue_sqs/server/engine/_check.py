"""The rules for what a message may be made of; not for queues or batches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import cast

from ..._limits import (
    ATTRIBUTE_NAME_CHARS,
    ATTRIBUTE_TYPE_CHARS,
    ATTRIBUTES,
    KEY_CHARS,
    NUMBER_DIGITS,
    NUMBER_EXPONENT_MAX,
    NUMBER_EXPONENT_MIN,
)
from ._errors import INVALID_CONTENTS, UNSUPPORTED, SqsError, bad_value, invalid

#: An attribute in the shape of the wire: DataType and StringValue or BinaryValue.
Attribute = Mapping[str, object]

# Source: API Reference, SendMessage: #x9 | #xA | #xD | #x20-#xD7FF | #xE000-#xFFFD | #x10000-#x10FFFF.  In UTF-8 all of
# what is left out has bytes of its own: control characters, two characters of three bytes each, and halves of surrogate
# pairs, which cannot be encoded.  Looking at bytes takes half the time of a regular expression.
_TEXT_BYTES = bytes(byte for byte in range(256) if byte >= 0x20 or byte in b"\t\n\r")
_NO_CHARACTERS = ("\ufffe".encode(), "\uffff".encode())
# Source: API Reference, SendMessage, MessageGroupId.
_KEY = re.compile(rf"[!-~]{{1,{KEY_CHARS}}}")
# Source: guide, "Amazon SQS message metadata"; recorded answers take letters beyond ASCII, too.
_NAME = re.compile(rf"(?!\.)(?!.*\.\.)[\w.-]{{1,{ATTRIBUTE_NAME_CHARS}}}(?<!\.)")
_RESERVED = ("aws.", "amazon.")
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
#: The one system attribute that a client may send.
TRACE = "AWSTraceHeader"
# Wide enough that nothing is rounded before the digits are counted.
_EXACT = Context(prec=512)


def encoded_text(text: str) -> bytes:
    """Return *text* in UTF-8; `SqsError` for characters outside of SQS' alphabet, halves of pairs among them."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise _bad_characters() from None
    if data.translate(None, _TEXT_BYTES) or (len(data) > len(text) and any(one in data for one in _NO_CHARACTERS)):
        raise _bad_characters()
    return data


def _bad_characters() -> SqsError:
    return SqsError(INVALID_CONTENTS, "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | "
                    "#x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.")  # fmt: skip


def check_key(name: str, value: str) -> None:
    """Refuse a MessageGroupId or MessageDeduplicationId that is no 1 to 128 printable characters of ASCII."""
    if not _KEY.fullmatch(value):
        raise bad_value(
            value, name, f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        )


def check_attributes(attributes: Mapping[str, Attribute]) -> int:
    """
    Hold user attributes against every rule.

    Returns:
        Their bytes: names, types and values.

    Raises:
        SqsError: one breaks a rule.
    """
    if len(attributes) > ATTRIBUTES:
        raise invalid(f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{ATTRIBUTES}].")
    return sum(_check_attribute(name, value) for name, value in attributes.items())


def _check_attribute(name: str, value: Attribute) -> int:
    if not _NAME.fullmatch(name) or name.lower().startswith(_RESERVED):
        raise invalid(
            f"The message attribute name '{name}' is invalid. Attribute names can contain alphanumeric characters, "
            "hyphens, underscores and periods, and must neither start nor end with a period, have two in succession, "
            "or begin with AWS. or Amazon."
        )
    kind = _kind(name, value)
    size = len(name.encode()) + len(cast(str, value["DataType"]).encode())
    if kind == "Binary":
        data = value.get("BinaryValue")
        if not isinstance(data, bytes) or not data:
            raise _empty(name, "Binary")
        return size + len(data)
    text = value.get("StringValue")
    if not isinstance(text, str) or not text:
        raise _empty(name, kind)
    data = encoded_text(text)
    if kind == "Number":
        _check_number(name, text)
    return size + len(data)


def _kind(name: str, value: Attribute) -> str:
    if value.get("StringListValues") or value.get("BinaryListValues"):
        raise SqsError(UNSUPPORTED, "Message attribute list values in SendMessage operation are not supported.")
    given = value.get("DataType")
    if not isinstance(given, str) or not given:
        raise invalid(f"The message attribute '{name}' must contain a non-empty message attribute type.")
    found = _TYPE.fullmatch(given)
    if found is None or len(given) > ATTRIBUTE_TYPE_CHARS:
        raise invalid(
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type "
            "prefixes is Binary, Number, and String."
        )
    encoded_text(given)
    if "StringValue" in value and "BinaryValue" in value:
        raise invalid(f"Message (user) attribute '{name}' has multiple values.")
    return found[1]


def _empty(name: str, kind: str) -> SqsError:
    shape = "Binary" if kind == "Binary" else "String"
    return invalid(f"Message (user) attribute '{name}' must contain a non-empty value of type '{shape}'.")


def _check_number(name: str, text: str) -> None:
    try:
        number = Decimal(text.strip()) if text.isascii() and "_" not in text else Decimal("NaN")
    except (InvalidOperation, ValueError):
        number = Decimal("NaN")
    if not number.is_finite():
        raise invalid(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    digits = len(number.normalize(_EXACT).as_tuple().digits)
    exponent = number.adjusted() if number else 0
    if digits > NUMBER_DIGITS or not NUMBER_EXPONENT_MIN <= exponent <= NUMBER_EXPONENT_MAX:
        raise invalid(f"The value of message (user) attribute '{name}' is out of the range of numbers.")


def check_system(attributes: Mapping[str, Attribute]) -> str | None:
    """
    Return the trace header among system attributes, or None.

    Raises:
        SqsError: there are others, or it is not a String.
    """
    for name, value in attributes.items():
        if name != TRACE:
            raise invalid(f"Message system attribute name '{name}' is invalid.")
        if value.get("DataType") != "String":
            raise invalid(
                f"The message system attribute '{name}' has an invalid message attribute type: it must be String."
            )
        text = value.get("StringValue")
        if not isinstance(text, str) or not text:
            raise invalid(f"Message (system) attribute '{name}' must contain a non-empty value of type 'String'.")
        encoded_text(text)
        return text
    return None
