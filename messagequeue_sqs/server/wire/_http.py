"""A request and an answer of HTTP as values; how they travel is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

JSON_TYPE = "application/x-amz-json-1.0"
XML_TYPE = "text/xml"


class HttpRequest(NamedTuple):
    """
    Attributes:
        method: In capitals.
        path: As it was sent, without the query.
        query: As it was sent; "" where there is none.
        headers: Names in lower case.
        body: Whole, whatever it travelled as.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class HttpAnswer(NamedTuple):
    """
    Attributes:
        headers: Beside those of type and length.
    """

    status: int
    type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def region_of(request: HttpRequest) -> str | None:
    """
    Return the region that a request was signed for; None where it was not signed.

    Source: AWS General Reference, Signature Version 4: `Credential=KEY/DATE/REGION/SERVICE/aws4_request`.
    """
    text = request.headers.get("authorization", "")
    at = text.find("Credential=")
    if at < 0:
        text = request.query.replace("%2F", "/").replace("%2f", "/")
        at = text.find("X-Amz-Credential=")
        if at < 0:
            return None
        at += len("X-Amz-")
    scope = text[at + len("Credential=") : at + 200].split("/", 3)
    return scope[2] if len(scope) == 4 and scope[2].replace("-", "").isalnum() else None


def base_url(request: HttpRequest, default: str) -> str:
    """Return what URLs of queues begin with: the host that the client knows the server by."""
    host = request.headers.get("host")
    return f"http://{host}" if host else default


def queue_path(path: str) -> str | None:
    """Return the path where it is that of a queue (`/ACCOUNT/NAME`, with or without something before), else None."""
    parts = [part for part in path.split("/") if part]
    return path if len(parts) >= 2 and parts[-2].isdigit() else None
