"""
What the SDK would send, as a form to fill in: address, headers, and a signer that reproduces its signature; pure.

Nothing of a request is made up here.  What cannot be reproduced is refused, and its calls stay the SDK's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from ._sigv4 import ALGORITHM, Keys, Signer

_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=(?P<key>.+)/\d{{8}}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<names>[^,]+), Signature=[0-9a-f]{64}"
)
#: Made anew for every request.
_PER_REQUEST = ("authorization", "x-amz-date", "x-amz-security-token", "content-length", "amz-sdk-invocation-id")
_DYNAMIC = ("x-amz-date", "x-amz-security-token")
_INVOCATION = "amz-sdk-invocation-id"


class NotReproducible(Exception):
    """The request has something that the short path does not do; the text says what."""


class OtherKeys(Exception):
    """The request was signed with other credentials than the ones given: they changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A request that the SDK made and did not send; header names as they are sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class Drawing:
    """
    Requests of one action.

    Args:
        drawn: What to reproduce.
        keys: What it was signed with.
        invocation: 24 characters that no other client uses; ids of requests begin with them.

    Raises:
        NotReproducible, OtherKeys: see there.
    """

    def __init__(self, drawn: Drawn, keys: Keys, invocation: str) -> None:
        self.url = drawn.url
        headers = {name.lower(): " ".join(value.split()) for name, value in drawn.headers.items()}
        parts = urlsplit(drawn.url)
        host = parts.netloc.rpartition("@")[2]
        self._signer = _signer(drawn, headers | {"host": host}, keys)
        self._prove(drawn, headers, keys)
        self._head = _head(drawn, parts.path or "/", host, invocation)
        self._count = 0

    def fill(self, body: bytes, second: int, keys: Keys) -> bytes:
        """Return a whole request with *body*, signed at *second* (since 1970) with *keys*."""
        self._count += 1
        return b"%b%012x\r\n%b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._head,
            self._count,
            self._signer.sign(body, second, keys),
            len(body),
            body,
        )

    def _prove(self, drawn: Drawn, headers: Mapping[str, str], keys: Keys) -> None:
        second = int(datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
        if self._signer.authorization(drawn.body, second, keys) != headers["authorization"]:
            raise NotReproducible("its signature is not the SDK's")


def _signer(drawn: Drawn, headers: Mapping[str, str], keys: Keys) -> Signer:
    parts = urlsplit(drawn.url)
    if drawn.method != "POST" or parts.query or parts.scheme not in ("http", "https"):
        raise NotReproducible("the request is more than a POST to a path")
    if "content-encoding" in headers or "transfer-encoding" in headers or "expect" in headers:
        raise NotReproducible("the request's body is encoded")
    signed = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if signed is None or "x-amz-date" not in headers:
        raise NotReproducible("the request is not signed with SigV4 in its headers")
    if signed["key"] != keys.access_key or headers.get("x-amz-security-token") != (keys.token or None):
        raise OtherKeys
    names = signed["names"].split(";")
    if _INVOCATION in names or "content-length" in names or not set(names) <= headers.keys():
        raise NotReproducible("the request signs headers that differ from call to call")
    fixed = {name: headers[name] for name in names if name not in _DYNAMIC}
    return Signer(path=parts.path or "/", headers=fixed, region=signed["region"], service=signed["service"])


def _head(drawn: Drawn, path: str, host: str, invocation: str) -> bytes:
    kept = {name: value for name, value in drawn.headers.items() if name.lower() not in (*_PER_REQUEST, "host")}
    # What the SDK's HTTP client adds: nothing on the way may compress the answer (botocore issue 1255).
    kept["Accept-Encoding"] = "identity"
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in kept.items())]
    text = "\r\n".join([*lines, f"{_INVOCATION}: {invocation}"])
    if text.count("\n") != len(lines) or text.count("\r") != len(lines):
        raise NotReproducible("a header has a line break")
    return text.encode("latin-1")
