"""
The part of HTTP/1.1 that clients of SQS need: requests out of bytes, answers into bytes; no socket.

*Not supported:* upgrades, trailers, compressed requests, other transfer codings than `chunked`.  Source: RFC 9112.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .wire import HttpAnswer, HttpRequest

#: Bytes of request line and headers; SigV4 and a few cookies of proxies fit many times.
HEAD_BYTES: Final = 32_768
#: Bytes of a chunk's size line, extensions included.
_CHUNK_LINE = 1_024
#: Characters of a header's line that is kept for the next time.
_LINE_CHARS = 512

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class BadRequestError(Exception):
    """Bytes that are no request that is understood here; the connection cannot go on after it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Head(NamedTuple):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    keep_alive: bool
    length: int
    chunked: bool


class RequestReader:
    """
    Requests of one connection, one after the other, however the bytes arrive.

    Args:
        limit: Bytes of a body at most.

    Attributes:
        keep_alive: Whether the connection goes on after the last request that was returned.
        expects: The client waits for `CONTINUE` before it sends the body.  Whoever sends that sets it to False.
    """

    __slots__ = ("_at", "_body", "_data", "_head", "_limit", "_scanned", "expects", "keep_alive")

    def __init__(self, limit: int) -> None:
        self.keep_alive = True
        self.expects = False
        self._limit = limit
        # What came, used up as far as `_at`.  A request mostly comes whole: then it is used as it came, never copied.
        self._data: bytes | bytearray = b""
        self._at = 0
        self._scanned = 0
        self._head: _Head | None = None
        self._body: bytearray | None = None

    @property
    def buffered(self) -> int:
        """Bytes that were fed and belong to no request yet."""
        return len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        if self._at == len(self._data):
            self._data = data
        elif isinstance(self._data, bytearray):
            del self._data[: self._at]
            self._data += data
        else:
            self._data = bytearray(self._data[self._at :])
            self._data += data
        self._scanned -= self._at
        self._at = 0

    def next(self) -> HttpRequest | None:
        """
        Return the next request, or None until more is fed.

        Raises:
            BadRequestError: what comes is no request.
        """
        head = self._head or self._read_head()
        if head is None:
            return None
        body = self._read_chunks() if head.chunked else self._read_body(head.length)
        if body is None:
            return None
        self._head = None
        self.expects = False
        self.keep_alive = head.keep_alive
        return HttpRequest(head.method, head.path, head.query, head.headers, body)

    def _read_head(self) -> _Head | None:
        data = self._data
        while data.startswith(b"\r\n", self._at):  # RFC 9112, 2.2: at least one before the request line is ignored
            self._at += 2
        end = data.find(b"\r\n\r\n", max(self._at, self._scanned - 3))
        if end < 0:
            if self.buffered > HEAD_BYTES:
                raise BadRequestError(431, f"the headers have more than {HEAD_BYTES} bytes")
            self._scanned = len(data)
            return None
        head = self._head = _parsed(data[self._at : end].decode("latin-1"))
        self._at = self._scanned = end + 4
        if head.length > self._limit:
            raise BadRequestError(413, f"a request has at most {self._limit} bytes")
        self.expects = "expect" in head.headers and (head.chunked or self.buffered < head.length)
        self._body = bytearray() if head.chunked else None
        return head

    def _read_body(self, length: int) -> bytes | None:
        begin = self._at
        end = begin + length
        if len(self._data) < end:
            return None
        self._at = end
        return bytes(self._data[begin:end])

    def _read_chunks(self) -> bytes | None:
        data, body = self._data, self._body
        assert body is not None
        while True:
            begin = data.find(b"\r\n", self._at, self._at + _CHUNK_LINE)
            if begin < 0:
                if self.buffered >= _CHUNK_LINE:
                    raise BadRequestError(400, "a chunk has no size")
                return None
            size = _chunk_size(data[self._at : begin])
            if len(body) + size > self._limit:
                raise BadRequestError(413, f"a request has at most {self._limit} bytes")
            begin += 2
            end = begin + size
            if len(data) < end + 2:
                return None
            if data[end : end + 2] != b"\r\n":
                raise BadRequestError(400, "a chunk is longer than its size, or trailers follow the last one")
            body += data[begin:end]
            self._at = end + 2
            if not size:
                return bytes(body)


def _chunk_size(line: bytes | bytearray) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits.isalnum() or len(digits) > 8:
        raise BadRequestError(400, "a chunk has no size")
    try:
        return int(digits, 16)
    except ValueError:
        raise BadRequestError(400, "a chunk has no size") from None


#: Lines of headers as clients write them, read before: lower-case names and values.  Most come with every
#: request; only those that do are kept.
_LINES: dict[str, tuple[str, str]] = {}
_MOST_LINES = 512
_KEPT = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "user-agent", "x-amz-target"}
)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name[-1] in " \t" or name[0] in " \t":
        raise BadRequestError(400, "a header is no `Name: value`")
    header = name.lower(), value.strip(" \t")
    if header[0] in _KEPT and len(line) <= _LINE_CHARS and len(_LINES) < _MOST_LINES:
        _LINES[line] = header
    return header


def _parsed(text: str) -> _Head:
    first, *lines = text.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequestError(400, "the request line is not METHOD TARGET HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, value = _LINES.get(line) or _header(line)
        headers[name] = value
    path, query = words[1], ""
    if path != "/":
        path, query = _split(path)
    length, coding = headers.get("content-length", "0"), headers.get("transfer-encoding")
    if coding is not None and coding.lower() != "chunked":
        raise BadRequestError(501, "of transfer codings only chunked is understood")
    if not (length.isascii() and length.isdigit()) or len(length) > 12 or (coding and "content-length" in headers):
        raise BadRequestError(400, "the length of the body is not said in one way")
    connection = headers.get("connection", "").lower()
    keep_alive = connection != "close" if words[2] == "HTTP/1.1" else connection == "keep-alive"
    return _Head(words[0], path, query, headers, keep_alive, int(length), coding is not None)


def _split(target: str) -> tuple[str, str]:
    path, _, query = target.partition("?")
    if "://" in path:  # RFC 9112, 3.2.2: the absolute form is understood, too
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path, query


def serialized(answer: HttpAnswer, *, keep_alive: bool, head_only: bool = False) -> bytes:
    """Return *answer* as it travels.  *head_only*: to a HEAD request, the body is told of, not sent."""
    body = answer.body
    extra = "".join([f"{name}: {value}\r\n" for name, value in answer.headers])
    kind = f"Content-Type: {answer.type}\r\n" if answer.type else ""
    close = "" if keep_alive else "Connection: close\r\n"
    reason = _REASONS.get(answer.status, "Unknown")
    head = f"HTTP/1.1 {answer.status} {reason}\r\n{kind}Content-Length: {len(body)}\r\n{extra}{close}\r\n"
    return head.encode("latin-1", "replace") + (b"" if head_only else body)
