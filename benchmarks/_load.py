"""
A client of SQS that costs the server's machine as little as it can: prebuilt requests, many connections, one loop.

It knows as much of HTTP as finding the end of an answer takes.  Requests look signed; servers that check would refuse.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

_HANDLE = re.compile(rb'"ReceiptHandle":\s*"([^"]+)"')
_LENGTH = re.compile(rb"[Cc]ontent-[Ll]ength: *(\d+)")
_SIGNED = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260131/us-east-1/sqs/aws4_request, "
    f"SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={'0' * 64}"
)
TIMEOUT = 30.0


def request(action: str, **params: object) -> bytes:
    """Return a whole request in AWS JSON, with the headers that an SDK sends."""
    return _request(action, json.dumps(params).encode())


def _request(action: str, body: bytes) -> bytes:
    return (
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"X-Amz-Target: AmazonSQS.{action}\r\nX-Amz-Date: 20260131T000000Z\r\nAuthorization: {_SIGNED}\r\n"
        f"User-Agent: benchmark\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def delete_request(queue: str, answer: bytes) -> tuple[bytes, int]:
    """Return the request that deletes every message of the *answer* to a receive, and how many they are."""
    handles = _HANDLE.findall(answer)
    entries = b",".join(b'{"Id":"%d","ReceiptHandle":"%s"}' % pair for pair in enumerate(handles))
    return _request("DeleteMessageBatch", b'{"QueueUrl":"%s","Entries":[%s]}' % (queue.encode(), entries)), len(handles)


class Connection:
    """One request at a time; `Load` drives many of them, or `call()` waits."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self._needed = 0

    def send(self, data: bytes) -> None:
        self.socket.settimeout(TIMEOUT)
        self.socket.sendall(data)

    def answer(self) -> bytes | None:
        """Read what has come; return the body once the answer is whole.  Raises RuntimeError for what is no 200."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the server closed the connection")
        self._data = data = self._data + data if self._data else data
        if len(data) < self._needed:
            return None
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            return None
        length = _LENGTH.search(data, 0, end)
        if length is None:
            return self._chunked(data, end)
        self._needed = end + int(length[1])
        if len(data) < self._needed:
            return None
        return self._whole(data, data[end : self._needed])

    def _chunked(self, data: bytes, end: int) -> bytes | None:
        if b"Content-Length" not in data[:end] and b"hunked" not in data[:end]:
            return self._whole(data, b"")
        if not data.endswith(b"0\r\n\r\n"):
            return None
        return self._whole(data, b"".join(data[end:].split(b"\r\n")[1::2]))

    def _whole(self, data: bytes, body: bytes) -> bytes:
        self._data, self._needed = b"", 0
        if not data.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"no 200: {data[:500]!r}")
        return body

    def call(self, data: bytes) -> bytes:
        """Send a request and wait for its answer."""
        self.send(data)
        while (body := self.answer()) is None:
            pass
        return body

    def close(self) -> None:
        self.socket.close()


#: Given the body of an answer (b"" at first) and the seat's own notes, the next request and what was done by the last.
Step = Callable[[bytes, dict[str, int]], tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class Rate:
    """How much was done a second, and the share of the time that the client itself was busy."""

    per_second: float
    client: float


def rate(url: str, step: Step, *, connections: int, seconds: float) -> Rate:
    """Have every connection make request after request as *step* says."""
    seats = {}
    poll = select.epoll()
    for _ in range(connections):
        seat = Connection(url)
        seats[seat.socket.fileno()] = (seat, {})
        poll.register(seat.socket, select.EPOLLIN)
    done, started, busy = 0, time.perf_counter(), time.process_time()
    for seat, notes in seats.values():
        seat.send(step(b"", notes)[0])
    end = started + seconds
    while time.perf_counter() < end:
        for number, _ in poll.poll(TIMEOUT):
            seat, notes = seats[number]
            body = seat.answer()
            if body is not None:
                data, did = step(body, notes)
                done += did
                seat.send(data)
    spent, busy = time.perf_counter() - started, time.process_time() - busy
    poll.close()
    for seat, _ in seats.values():
        seat.close()
    return Rate(done / spent, busy / spent)


def same(data: bytes, each: int) -> Step:
    """The same request again and again; each counts as *each*."""
    return lambda body, _: (data, each if body else 0)


def receive_and_delete(queue: str, refill: bytes) -> Step:
    """Receive by tens and delete them by tens; where nothing is left, send *refill*, which does not count."""
    receive = request("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)

    def step(body: bytes, notes: dict[str, int]) -> tuple[bytes, int]:
        state = notes.get("state", 0)
        if state == 1 and body:  # a receive was answered
            data, found = delete_request(queue, body)
            notes["state"], notes["found"] = (2, found) if found else (3, 0)
            return (data, 0) if found else (refill, 0)
        notes["state"] = 1
        return receive, notes.get("found", 0) if state == 2 else 0

    return step
