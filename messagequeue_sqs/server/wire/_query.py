"""
The query protocol: parameters of a form or a URL in, XML out, or JSON of the same shape where that is asked for.

Source: SQS API Reference (2012-11-05), "Making requests"; recorded answers of AWS where that says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from ..engine import Call, Result, SqsError
from ..engine._errors import INVALID_ACTION, NO_QUEUE
from ..engine._errors import Kind as ErrorKind
from ._http import XML_TYPE, HttpAnswer, HttpRequest, queue_path
from ._json import decoded, malformed
from ._shapes import ACTIONS, Action, Kind, Member
from ._xml import error_document, result_document, shaped

_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_JSON_TYPE = "application/json"
#: Answered with status 404 where a queue's path is asked for nothing.
UNKNOWN_OPERATION: Final = ErrorKind("UnknownOperationException", INVALID_ACTION.type, 404)


class QueryProtocol:
    """Reads and answers one request; `messagequeue_sqs.server.wire.Protocol`."""

    __slots__ = ("_json",)

    def __init__(self, request: HttpRequest) -> None:
        self._json = request.method == "GET" and _JSON_TYPE in request.headers.get("accept", "")

    def read(self, request: HttpRequest, *, region: str, base_url: str) -> Call:
        """
        Return the call that *request* makes.

        Raises:
            SqsError: it names no action, or one that the path is not for; or a member has another type.
        """
        given = _parameters(request)
        name, path = given.get("Action"), queue_path(request.path)
        if name is None:
            raise SqsError(UNKNOWN_OPERATION, "")
        action = ACTIONS.get(name)
        if action is None or (path is not None and not action.on_queue):
            raise SqsError(INVALID_ACTION, f"The action {name} is not valid for this endpoint.")
        params = _members(_tree(given), action.members)
        if path is not None and "QueueUrl" in action.members:
            params.setdefault("QueueUrl", path)
        return Call(name, params, region, base_url, request.headers.get("x-amzn-trace-id"))

    def answer(self, call: Call, result: Result | None, request_id: str) -> HttpAnswer:
        action = ACTIONS[call.action]
        if self._json:
            return _as_json(200, _json_result(call.action, action, result, request_id))
        body = result_document(call.action, action, result, request_id)
        return HttpAnswer(200, XML_TYPE, body, (("x-amzn-RequestId", request_id),))

    def error(self, error: SqsError, request_id: str) -> HttpAnswer:
        kind, text = error.kind, error.message
        if kind is UNKNOWN_OPERATION:
            return HttpAnswer(404, XML_TYPE, b"<UnknownOperationException/>\n")
        if kind is NO_QUEUE:
            text = text.removesuffix(".") + " for this wsdl version."
        fault = "Sender" if kind.sender else "Receiver"
        if self._json:
            detail = {"Code": kind.code, "Detail": None, "Message": text, "Type": fault}
            return _as_json(kind.status, {"Error": detail, "RequestId": request_id})
        body = error_document(fault, kind.code, text, request_id)
        return HttpAnswer(kind.status, XML_TYPE, body, (("x-amzn-RequestId", request_id),))


def _as_json(status: int, document: object) -> HttpAnswer:
    return HttpAnswer(status, _JSON_TYPE, json.dumps(document).encode())


def _json_result(name: str, action: Action, result: Result | None, request_id: str) -> object:
    document: dict[str, object] = {"ResponseMetadata": {"RequestId": request_id}}
    if action.answers:
        document[f"{name}Result"] = shaped(result or {})
    return {f"{name}Response": document}


def _parameters(request: HttpRequest) -> dict[str, str]:
    """Return the parameters of form and URL; the form's count where both have one."""
    try:
        body = request.body.decode() if request.method == "POST" else ""
        pairs = [
            *parse_qsl(request.query, keep_blank_values=True, errors="strict"),
            *parse_qsl(body, keep_blank_values=True, errors="strict"),
        ]
    except ValueError:
        raise malformed("The request is no form of UTF-8.") from None
    return dict(pairs)


#: Parameters by the parts of their names between the dots.
_Tree = dict[str, "str | _Tree"]


def _tree(given: Mapping[str, str]) -> _Tree:
    root: _Tree = {}
    for name, value in given.items():
        at = root
        *above, last = name.split(".")
        for part in above:
            below = at.get(part)
            if not isinstance(below, dict):
                below = at[part] = {}
            at = below
        if not isinstance(at.get(last), dict):
            at[last] = value
    return root


def _members(tree: _Tree, members: Mapping[str, Member]) -> dict[str, object]:
    read: dict[str, object] = {}
    for name, member in members.items():
        given = tree.get(member.flat)
        if given is not None:
            value = _value(name, member, given)
            if value is not None:
                read[name] = value
    return read


def _value(name: str, member: Member, given: str | _Tree) -> object:
    if isinstance(given, str):
        if member.kind is Kind.TEXT:
            return given
        # Clients that write `AttributeName=All` mean the first of the list.
        return _number(name, given) if member.kind is Kind.NUMBER else [given] if member.kind is Kind.TEXTS else None
    if member.kind is Kind.TEXTS:
        return [text for text in _numbered(given) if isinstance(text, str)]
    items = [item for item in _numbered(given) if isinstance(item, dict)]
    if member.kind is Kind.PAIRS:
        return {_leaf(item, member.parts[0]): _leaf(item, member.parts[1]) for item in items}
    if member.kind is Kind.ATTRIBUTES:
        return {_leaf(item, "Name"): _attribute(name, item.get("Value")) for item in items}
    return [_members(item, member.fields or {}) for item in items] if member.kind is Kind.ENTRIES else None


def _numbered(given: _Tree) -> list[str | _Tree]:
    """Return what is numbered, by number: the tenth after the ninth."""
    numbered = [(int(key), value) for key, value in given.items() if key.isascii() and key.isdigit() and len(key) < 10]
    return [value for _, value in sorted(numbered, key=lambda item: item[0])]


def _leaf(item: _Tree, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _attribute(name: str, given: str | _Tree | None) -> Mapping[str, object]:
    read: dict[str, object] = {}
    for part, value in (given if isinstance(given, dict) else {}).items():
        if isinstance(value, dict):
            lists = {"StringListValue": "StringListValues", "BinaryListValue": "BinaryListValues"}
            read[lists.get(part, part)] = _numbered(value)
        else:
            read[part] = decoded(name, value) if part == "BinaryValue" else value
    return read


def _number(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise malformed(f"{name} has to be an integer.")
    return int(text)
