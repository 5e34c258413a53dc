"""
AWS JSON 1.0, with the header that carries the codes of the older protocol.

Source: Smithy specification, "AWS JSON 1.0 protocol" and the trait `awsQueryCompatible`; developer guide,
"sqs-json-api-responses".
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Final

from ..._json import dumps, loads
from ..engine import Call, Result, SqsError
from ..engine._errors import INVALID_ACTION, MALFORMED
from ._http import JSON_TYPE, HttpAnswer, HttpRequest
from ._shapes import ACTIONS, ATTRIBUTE_PARTS, Kind, Member

_TARGET = "AmazonSQS."


class JsonProtocol:
    """Reads and answers one request; `messagequeue_sqs.server.wire.Protocol`."""

    __slots__ = ()

    def read(self, request: HttpRequest, *, region: str, base_url: str) -> Call:
        """
        Return the call that *request* makes.

        Raises:
            SqsError: it names no action, is no JSON object, or a member has another type.
        """
        headers = request.headers
        name = headers.get("x-amz-target", "").removeprefix(_TARGET)
        action = ACTIONS.get(name)
        if action is None:
            raise SqsError(INVALID_ACTION, f"The action {name} is not valid for this endpoint.")
        loaded = _load(request.body)
        params = read_members(loaded, action.members) if loaded else {}
        return Call(name, params, region, base_url, headers.get("x-amzn-trace-id"))

    def answer(self, call: Call, result: Result | None, request_id: str) -> HttpAnswer:
        return HttpAnswer(200, JSON_TYPE, b"" if result is None else dumps(result), (("x-amzn-RequestId", request_id),))

    def error(self, error: SqsError, request_id: str) -> HttpAnswer:
        kind = error.kind
        fault = "Sender" if kind.sender else "Receiver"
        body = json.dumps({"__type": kind.type, "message": error.message}).encode()
        headers = (("x-amzn-RequestId", request_id), ("x-amzn-query-error", f"{kind.code};{fault}"))
        return HttpAnswer(kind.status, JSON_TYPE, body, headers)


def _load(body: bytes) -> Mapping[str, object]:
    if not body:
        return {}
    try:
        loaded: object = loads(body)
    except (ValueError, RecursionError):
        raise malformed("The request is no JSON.") from None
    if not isinstance(loaded, dict):
        raise malformed("The request is no JSON object.")
    # One byte is looked for in a tenth of the time that three of them take.
    if b"\\" in body and (b"\\ud" in body or b"\\uD" in body):
        _check_surrogates(loaded)
    return loaded


def _check_surrogates(loaded: object) -> None:
    """Escapes can make halves of surrogate pairs, which have no form in UTF-8 and could never be answered with."""
    try:
        json.dumps(loaded, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise malformed("The request holds half of a surrogate pair.") from None


def malformed(text: str) -> SqsError:
    return SqsError(MALFORMED, text)


def read_members(given: Mapping[str, object], members: Mapping[str, Member]) -> Mapping[str, object]:
    """Return the members of *given* that there are, and are not null.  Raises `SqsError` for a wrong type."""
    for name, value in given.items():
        if type(value) is not str or name not in members or not members[name].is_text:
            break
    else:
        return given  # most are text, and nothing else
    read = {}
    for name, value in given.items():
        member = members.get(name)
        if member is None or value is None:
            continue
        if not (member.is_text and type(value) is str):
            value = _READERS[member.kind](name, value, member)
        read[name] = value
    return read


def _text(name: str, value: object, _: Member) -> object:
    if not isinstance(value, str):
        raise _unexpected(name, value)
    return value


def _number(name: str, value: object, _: Member) -> object:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unexpected(name, value)
    return value


def _texts(name: str, value: object, _: Member) -> object:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _unexpected(name, value)
    return value


def _pairs(name: str, value: object, _: Member) -> object:
    if not isinstance(value, dict):
        raise _unexpected(name, value)
    pairs = {key: text for key, text in value.items() if text is not None}
    if not all(isinstance(text, str) for text in pairs.values()):
        raise _unexpected(name, value)
    return pairs


def _attributes(name: str, value: object, _: Member) -> object:
    if not isinstance(value, dict):
        raise _unexpected(name, value)
    return {key: _attribute(name, attribute) for key, attribute in value.items() if attribute is not None}


def _attribute(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _unexpected(name, value)
    read: dict[str, object] = {}
    for part, content in value.items():
        if part not in ATTRIBUTE_PARTS or content is None:
            continue
        if isinstance(content, str):
            read[part] = decoded(name, content) if part == "BinaryValue" else content
        elif isinstance(content, list) and part.endswith("ListValues"):
            read[part] = content
        else:
            raise _unexpected(name, content)
    return read


def decoded(name: str, text: str) -> bytes:
    """Return the bytes of a blob.  Raises `SqsError` where it is no base64."""
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        raise malformed(f"{name} holds a binary value that is not base64.") from None


def _entries(name: str, value: object, member: Member) -> object:
    if not isinstance(value, list):
        raise _unexpected(name, value)
    fields, read = member.fields or {}, []
    for entry in value:
        if not isinstance(entry, dict):
            raise _unexpected(name, entry)
        read.append(read_members(entry, fields))
    return read


def _unexpected(name: str, value: object) -> SqsError:
    return malformed(f"{name} cannot be of type {type(value).__name__}.")


_READERS: Final[Mapping[Kind, Callable[[str, object, Member], object]]] = {
    Kind.TEXT: _text,
    Kind.NUMBER: _number,
    Kind.TEXTS: _texts,
    Kind.PAIRS: _pairs,
    Kind.ATTRIBUTES: _attributes,
    Kind.ENTRIES: _entries,
}
