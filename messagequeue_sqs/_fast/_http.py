"""
The answers of an HTTP/1.1 server, from bytes; no sockets, no requests, no redirects, no compression.

Strict where a lenient reader would have to guess where an answer ends: two lengths, a length that is no number, folded
header lines, an unknown transfer coding are faults.  Source: RFC 9112, sections 2 to 7.
"""

from __future__ import annotations

import re
from functools import cached_property

#: Bytes of an answer's head, and of a line within a chunked body, at most.  SQS' heads have some 300.
HEAD_BYTES = 65_536
LINE_BYTES = 4_096

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?")
_FIELD = re.compile(rb"\r\n([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n|\Z)")
_FOLDED = re.compile(rb"\n[ \t]")
_CR = 13
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class BadAnswer(Exception):
    """What came is no HTTP answer, or its end cannot be known.  Nothing more can be read from that connection."""


class Answer:
    """
    One whole answer.

    Attributes:
        status: 200 to 599.
        body: Without transfer coding.
        reusable: The connection may carry another request.
    """

    __slots__ = ("__dict__", "_head", "body", "reusable", "status")

    def __init__(self, status: int, head: bytes, body: bytes, *, reusable: bool) -> None:
        self.status = status
        self.body = body
        self.reusable = reusable
        self._head = head

    @cached_property
    def headers(self) -> dict[str, str]:
        """Lower-case name to value; repeated ones are joined with a comma."""
        found: dict[str, str] = {}
        for name, value in _FIELD.findall(self._head):
            key, text = name.decode("ascii").lower(), value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
        return found


class AnswerReader:
    """
    Reads the answers of one connection, one at a time.

    `feed()` whatever arrives; where it returns an answer, the next `feed()` begins the next one.
    """

    __slots__ = ("_body", "_buffer", "_chunked", "_head", "_left", "_reusable", "_status")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._buffer = b""
        self._head = b""
        self._body: list[bytes] = []
        self._left: int | None = 0  # bytes of body or chunk to come; None: up to the connection's end
        self._chunked = False

    @property
    def begun(self) -> bool:
        """Part of an answer is here."""
        return bool(self._buffer or self._head)

    def feed(self, data: bytes) -> Answer | None:
        """
        Take what arrived and return the answer that it completes, if so.

        Raises:
            BadAnswer: the connection is of no more use.
        """
        if not self._head:
            if self._buffer:
                data = self._buffer + data
            rest = self._read_head(data)
            if rest is None:
                return None
            data = rest
        if self._chunked:
            return self._feed_chunks(data)
        left = self._left
        if left is None:
            self._body.append(data)
            return None
        return self._feed_sized(data, left)

    def eof(self) -> Answer | None:
        """
        Take note of the connection's end and return the answer that it completes; None where nothing was begun.

        Raises:
            BadAnswer: it ended within an answer.
        """
        if self._head and self._left is None:
            return self._finish(reusable=False)
        if self.begun:
            raise BadAnswer("the connection ended within an answer")
        return None

    # -- head

    def _read_head(self, data: bytes) -> bytes | None:
        """Read a head and return what follows it; None where it is not all here."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > HEAD_BYTES or not b"HTTP/1.".startswith(data[:7]):
                    raise BadAnswer("what came is no head of an HTTP answer")
                self._buffer = data
                return None
            head, data = data[:end], data[end + 4 :]
            self._buffer = b""
            status = self._parse_head(head)
            if status >= 200:
                self._head, self._status = head, status
                return data
            if status == 101:
                raise BadAnswer("the server changes the protocol, unasked")
            if not data:  # an interim answer (RFC 9110, 15.2), and nothing of the real one yet
                return None

    def _parse_head(self, head: bytes) -> int:
        first = _STATUS.match(head)
        if first is None:
            raise BadAnswer("what came does not begin like an HTTP answer")
        end = first.end()
        if (end < len(head) and head[end] != _CR) or _FOLDED.search(head) is not None:
            raise BadAnswer("the answer's head has a malformed line")
        status = int(first[2])
        low = head.lower()
        self._reusable = _stays_open(low, minor=first[1])
        self._chunked = False
        coding, length = low.find(b"\r\ntransfer-encoding:"), _length(low)
        if status < 200 or status in (204, 304):
            self._left = 0
        elif coding >= 0:
            if _value(low, coding + 20) != b"chunked" or low.count(b"\r\ntransfer-encoding:") > 1:
                raise BadAnswer("the answer has a transfer coding that was not asked for")
            if length is not None:  # a length beside it is how answers are smuggled (RFC 9112, 6.3)
                raise BadAnswer("the answer has both a length and a transfer coding")
            self._chunked, self._left = True, 0
        else:
            self._left = length
        return status

    # -- body

    def _feed_sized(self, data: bytes, left: int) -> Answer | None:
        size = len(data)
        if size < left:
            self._body.append(data)
            self._left = left - size
            return None
        if size > left:
            data = data[:left]
        self._body.append(data)
        return self._finish(reusable=self._reusable and size == left)

    def _feed_chunks(self, data: bytes) -> Answer | None:
        """`_left` is what the current chunk lacks, its line end included; 0 before a size line; -1 in the trailer."""
        data = self._buffer + data
        at = 0
        while True:
            if self._left:
                if self._left < 0:
                    return self._feed_trailer(data, at)
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                self._take_chunk(piece)
                if self._left:
                    self._buffer = b""
                    return None
            end = data.find(b"\r\n", at)
            if end < 0:
                self._keep_line(data[at:])
                return None
            size = _CHUNK.fullmatch(data, at, end)
            if size is None:
                raise BadAnswer("the answer has a malformed chunk")
            at = end + 2
            self._left = int(size[1], 16) + 2 if int(size[1], 16) else -1

    def _take_chunk(self, piece: bytes) -> None:
        """The last two of a chunk's bytes are its line end, which may come apart."""
        assert self._left is not None
        tail = max(0, 2 - self._left)  # how many of the two are within `piece`
        ending = piece[len(piece) - min(tail, len(piece)) :] if tail else b""
        if ending and ending != b"\r\n"[2 - self._left - len(ending) : 2 - self._left]:
            raise BadAnswer("a chunk of the answer is longer than it said")
        self._body.append(piece[: len(piece) - len(ending)])

    def _feed_trailer(self, data: bytes, at: int) -> Answer | None:
        """Skip trailer fields up to the empty line."""
        while True:
            end = data.find(b"\r\n", at)
            if end < 0:
                self._keep_line(data[at:])
                return None
            if end == at:
                return self._finish(reusable=self._reusable and end + 2 == len(data))
            at = end + 2

    def _keep_line(self, rest: bytes) -> None:
        if len(rest) > LINE_BYTES:
            raise BadAnswer("the answer has an endless line in its body")
        self._buffer = rest

    def _finish(self, *, reusable: bool) -> Answer:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        answer = Answer(self._status, self._head, body, reusable=reusable)
        self._begin()
        return answer


def _value(low: bytes, start: int) -> bytes:
    end = low.find(b"\r\n", start)
    return (low[start:] if end < 0 else low[start:end]).strip(b" \t")


def _length(low: bytes) -> int | None:
    at = low.find(b"\r\ncontent-length:")
    if at < 0:
        return None
    value = _value(low, at + 17)
    if not value.isdigit() or len(value) > 15 or low.find(b"\r\ncontent-length:", at + 17) >= 0:
        raise BadAnswer("the answer's length is not one number")
    return int(value)


def _stays_open(low: bytes, *, minor: bytes) -> bool:
    at = low.find(b"\r\nconnection:")
    if at < 0:
        return minor == b"1"
    words = _value(low, at + 13)
    return b"close" not in words and (minor == b"1" or b"keep-alive" in words)
