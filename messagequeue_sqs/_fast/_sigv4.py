"""
AWS Signature Version 4 of requests that differ in their body only; not a general signer: no query, no streaming.

Source: IAM User Guide, "Create a signed AWS API request".
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

ALGORITHM = "AWS4-HMAC-SHA256"
_DATE, _TOKEN = "x-amz-date", "x-amz-security-token"


class Keys(Protocol):
    """Credentials as they are at one moment."""

    @property
    def access_key(self) -> str: ...

    @property
    def secret_key(self) -> str: ...

    @property
    def token(self) -> str | None: ...


def stamp(second: int) -> str:
    """Return the seconds since 1970 as SigV4 writes a moment: 20260131T235959Z."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%SZ")


class Signer:
    """
    Signs `POST path` with a fixed set of headers.

    What does not depend on the body is computed once per second, and the signing key once per day and credentials.  The
    last body is kept, for requests that are all the same.

    Args:
        path: As it is sent, already encoded.
        headers: What is signed besides date and token: lower-case name to value, without outer or double blanks.
    """

    def __init__(self, *, path: str, headers: Mapping[str, str], region: str, service: str) -> None:
        self._path = path
        self._headers = dict(headers)
        self._region = region
        self._service = service
        self._second = -1
        self._keys: Keys | None = None
        self._key_of: tuple[str, str] | None = None
        self._key = b""
        self._body: bytes | None = None
        self._signed = b""

    def sign(self, body: bytes, second: int, keys: Keys) -> bytes:
        """Return the header lines that *body* needs, the last one without its end: date, token if any, signature."""
        if second != self._second or keys != self._keys:
            self._renew(second, keys)
        elif body == self._body:  # one receive is like the other
            return self._signed
        request = self._request.copy()
        request.update(sha256(body).hexdigest().encode())
        mac = self._mac.copy()
        mac.update(request.hexdigest().encode())
        self._body, self._signed = body, self._lines + mac.hexdigest().encode()
        return self._signed

    def authorization(self, body: bytes, second: int, keys: Keys) -> str:
        """Return the value of the Authorization header alone."""
        return self.sign(body, second, keys).rpartition(b"\r\nAuthorization: ")[2].decode()

    def _renew(self, second: int, keys: Keys) -> None:
        date = stamp(second)
        day = date[:8]
        scope = f"{day}/{self._region}/{self._service}/aws4_request"
        if self._key_of != (day, keys.secret_key):
            self._key = derive_key(keys.secret_key, day, self._region, self._service)
            self._key_of = day, keys.secret_key
        dated = self._headers | {_DATE: date} | ({_TOKEN: keys.token} if keys.token else {})
        names = ";".join(sorted(dated))
        canonical = "".join(f"{name}:{dated[name]}\n" for name in sorted(dated))
        self._request = sha256(f"POST\n{self._path}\n\n{canonical}\n{names}\n".encode())
        self._mac = hmac.new(self._key, f"{ALGORITHM}\n{date}\n{scope}\n".encode(), sha256)
        token = f"X-Amz-Security-Token: {keys.token}\r\n" if keys.token else ""
        self._lines = (
            f"X-Amz-Date: {date}\r\n{token}Authorization: {ALGORITHM} Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature="
        ).encode()
        self._second, self._keys = second, keys


def derive_key(secret: str, day: str, region: str, service: str) -> bytes:
    """Return the signing key of a day: an HMAC chain from the secret over day, region and service."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
