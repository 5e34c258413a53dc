"""
What SQS looks like on the wire, in both of its protocols; values in, values out, no socket.

`protocol_of()` tells them apart for each request: the newer one names its action in a header.
"""

from __future__ import annotations

from typing import Protocol as _Protocol

from ..engine import Call, Result, SqsError
from ._http import JSON_TYPE, HttpAnswer, HttpRequest, base_url, region_of
from ._json import JsonProtocol
from ._query import QueryProtocol
from ._shapes import ACTIONS

__all__ = ["ACTIONS", "JSON_TYPE", "HttpAnswer", "HttpRequest", "Protocol", "base_url", "protocol_of", "region_of"]

_JSON = JsonProtocol()


class Protocol(_Protocol):
    """How one request is read and answered."""

    def read(self, request: HttpRequest, *, region: str, base_url: str) -> Call:
        """Return the call that *request* makes.  Raises `SqsError` where it makes none."""
        ...

    def answer(self, call: Call, result: Result | None, request_id: str) -> HttpAnswer: ...

    def error(self, error: SqsError, request_id: str) -> HttpAnswer: ...


def protocol_of(request: HttpRequest) -> Protocol:
    """Return the protocol of *request*."""
    headers = request.headers
    if "x-amz-target" in headers or headers.get("content-type", "").startswith("application/x-amz-json"):
        return _JSON
    return QueryProtocol(request)
