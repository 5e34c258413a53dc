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


class _Start(NamedTuple):
    """A request line, and what its version says of a connection whose headers say nothing."""

    method: str
    path: str
    query: str
    keep_alive: bool


class _Head(NamedTuple):
    start: _Start
    headers: dict[str, str]
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
        head = self._head
        if head is None:
            if self._at == len(self._data):
                return None
            head = self._read_head()
            if head is None:
                return None
        (method, path, query, keep_alive), headers, length, chunked = head
        body = self._read_chunks() if chunked else self._read_body(length)
        if body is None:
            return None
        self._head = None
        self.expects = False
        self.keep_alive = keep_alive
        return HttpRequest(method, path, query, headers, body)

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
        _, headers, length, chunked = head
        if length > self._limit:
            raise BadRequestError(413, f"a request has at most {self._limit} bytes")
        self.expects = "expect" in headers and (chunked or self.buffered < length)
        self._body = bytearray() if chunked else None
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


class _Headers(dict[str, tuple[str, str]]):
    """
    Lines of headers as clients write them: lower-case names and values.

    Most come with every request, and are read once; only those that do are kept.
    """

    def __missing__(self, line: str) -> tuple[str, str]:
        name, colon, value = line.partition(":")
        if not colon or not name or name[-1] in " \t" or name[0] in " \t":
            raise BadRequestError(400, "a header is no `Name: value`")
        header = name.lower(), value.strip(" \t")
        if header[0] in _KEPT and len(line) <= _LINE_CHARS and len(self) < _MOST_LINES:
            self[line] = header
        return header


class _Starts(dict[str, _Start]):
    """Request lines; the one that nearly all requests have is read once."""

    def __missing__(self, line: str) -> _Start:
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequestError(400, "the request line is not METHOD TARGET HTTP/1.1")
        path, query = (words[1], "") if words[1] == "/" else _split(words[1])
        start = _Start(words[0], path, query, words[2] == "HTTP/1.1")
        if path == "/" and not query and len(self) < _MOST_LINES:
            self[line] = start
        return start


_MOST_LINES = 512
_KEPT = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "user-agent", "x-amz-target"}
)
_headers, _starts = _Headers(), _Starts()


def _parsed(text: str) -> _Head:
    lines = text.split("\r\n")
    start = _starts[lines[0]]
    del lines[0]
    headers = dict(map(_headers.__getitem__, lines))
    length, coding = headers.get("content-length", "0"), headers.get("transfer-encoding")
    if coding is not None and coding.lower() != "chunked":
        raise BadRequestError(501, "of transfer codings only chunked is understood")
    if not (length.isascii() and length.isdigit()) or len(length) > 12 or (coding and "content-length" in headers):
        raise BadRequestError(400, "the length of the body is not said in one way")
    connection = headers.get("connection")
    if connection is not None:
        word = connection.lower()
        start = start._replace(keep_alive=word != "close" if start.keep_alive else word == "keep-alive")
    return _Head(start, headers, int(length), coding is not None)


def _split(target: str) -> tuple[str, str]:
    path, _, query = target.partition("?")
    if "://" in path:  # RFC 9112, 3.2.2: the absolute form is understood, too
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path, query


def serialized(answer: HttpAnswer, *, keep_alive: bool, head_only: bool = False) -> bytes:
    """Return *answer* as it travels.  *head_only*: to a HEAD request, the body is told of, not sent."""
    status, kind, body, headers = answer
    head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\nContent-Length: {len(body)}\r\n"
    if kind:
        head += f"Content-Type: {kind}\r\n"
    for name, value in headers:
        head += f"{name}: {value}\r\n"
    head += "\r\n" if keep_alive else "Connection: close\r\n\r\n"
    data = head.encode("latin-1", "replace")
    return data if head_only else data + body
