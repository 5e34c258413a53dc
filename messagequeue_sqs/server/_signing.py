"""
Signatures of requests, checked against given keys; not how requests are signed, and not presigned URLs.

Source: AWS General Reference, "Signature Version 4 signing process".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote

from .engine import SqsError
from .engine._errors import ACCESS_DENIED, BAD_SIGNATURE, INCOMPLETE_SIGNATURE, UNKNOWN_KEY
from .wire import HttpRequest

_ALGORITHM = "AWS4-HMAC-SHA256"
#: Seconds that the clocks of client and server may be apart.
_SKEW: Final = 900
_HEADER = re.compile(
    rf"{_ALGORITHM} +Credential=(?P<key>[^/,\s]+)/(?P<date>\d{{8}})/(?P<region>[^/,\s]+)/(?P<service>[^/,\s]+)"
    r"/aws4_request *, *SignedHeaders=(?P<headers>[^,\s]+) *, *Signature=(?P<signature>[0-9a-f]{64})"
)


def check_signature(request: HttpRequest, keys: Mapping[str, str], now: float) -> None:
    """
    Raise `SqsError` unless *request* is signed with one of *keys*: secrets by key id.

    Raises:
        SqsError: there is no signature, it is no whole one, its key is unknown, its time is another, or it is wrong.
    """
    header = request.headers.get("authorization")
    if not header:
        raise SqsError(ACCESS_DENIED, "Access to the resource is denied: the request is not signed.")
    found = _HEADER.fullmatch(header.strip())
    stamp = request.headers.get("x-amz-date", "")
    if found is None or not stamp.startswith(found["date"]):
        raise SqsError(
            INCOMPLETE_SIGNATURE, "The Authorization header or x-amz-date is not what Signature Version 4 has."
        )
    secret = keys.get(found["key"])
    if secret is None:
        raise SqsError(UNKNOWN_KEY, "The security token included in the request is invalid.")
    if abs(_seconds(stamp) - now) > _SKEW:
        raise SqsError(
            BAD_SIGNATURE, "Signature expired, or not yet current: the clocks are more than 15 minutes apart."
        )
    scope = f"{found['date']}/{found['region']}/{found['service']}/aws4_request"
    canonical = _canonical(request, found["headers"].split(";"))
    text = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in (found["date"], found["region"], found["service"], "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.digest(key, text.encode(), "sha256").hex()
    if not hmac.compare_digest(expected, found["signature"]):
        raise SqsError(BAD_SIGNATURE, "The request signature we calculated does not match the signature you provided.")


def _seconds(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise SqsError(INCOMPLETE_SIGNATURE, "x-amz-date is no date of the form 20260131T235959Z.") from None


def _canonical(request: HttpRequest, names: list[str]) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(request.query, keep_blank_values=True)
    )
    query = "&".join(f"{name}={value}" for name, value in pairs)
    headers = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in names)
    payload = hashlib.sha256(request.body).hexdigest()
    path = quote(request.path or "/", safe="/-_.~")
    return "\n".join((request.method, path, query, headers, ";".join(names), payload))
