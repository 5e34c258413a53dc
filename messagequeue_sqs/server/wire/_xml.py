"""Answers as XML documents of the query protocol, and in the shape that they have as JSON there."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Final

from ..engine import Result
from ._shapes import Action

_NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
_HEAD = '<?xml version="1.0"?>\n'

#: Lists and their elements; batches name theirs themselves.
_LISTS: Final = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
    "Results": "ListMessageMoveTasksResultEntry",
}
#: Maps, their elements, and the words for key and value in them.
_MAPS: Final = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "Tags": ("Tag", "Key"),
}
#: A carriage return goes as a reference: parsers make a line feed of the character itself.
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\r": "&#xD;"})


def result_document(name: str, action: Action, result: Result | None, request_id: str) -> bytes:
    inner = "".join(_members(result or {}, action.entry))
    body = f"<{name}Result>{inner}</{name}Result>" if inner else f"<{name}Result/>"
    if not action.answers:
        body = ""
    metadata = f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
    return f'{_HEAD}<{name}Response xmlns="{_NAMESPACE}">{body}{metadata}</{name}Response>'.encode()


def error_document(fault: str, code: str, text: str, request_id: str) -> bytes:
    error = f"<Type>{fault}</Type><Code>{code}</Code><Message>{_escaped(text)}</Message><Detail/>"
    return (
        f'{_HEAD}<ErrorResponse xmlns="{_NAMESPACE}"><Error>{error}</Error>'
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode(errors="backslashreplace")


def _members(result: Mapping[str, object], entry: str = "") -> Iterator[str]:
    for name, value in result.items():
        if isinstance(value, dict):
            yield from _map(name, value)
        elif isinstance(value, list):
            element = entry if name == "Successful" else _LISTS[name]
            for item in value:
                yield f"<{element}>{_item(item)}</{element}>"
        else:
            yield f"<{name}>{_scalar(value)}</{name}>"


def _map(name: str, values: Mapping[str, object]) -> Iterator[str]:
    element, key = _MAPS[name]
    for word, value in values.items():
        yield f"<{element}><{key}>{_escaped(word)}</{key}><Value>{_item(value)}</Value></{element}>"


def _item(value: object) -> str:
    return "".join(_members(value)) if isinstance(value, dict) else _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return _escaped(str(value))


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


# --- the same as JSON


def shaped(value: object, name: str = "") -> object:
    """Return *value* as JSON of the query protocol has it: maps are lists of names and values; one list is renamed."""
    if isinstance(value, dict):
        if name in _MAPS:
            key = _MAPS[name][1]
            return [{key: word, "Value": shaped(item)} for word, item in value.items()]
        return {_renamed(word): shaped(item, word) for word, item in value.items()}
    if isinstance(value, list):
        return [shaped(item) for item in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _renamed(word: str) -> str:
    return "queueUrls" if word == "QueueUrls" else word
