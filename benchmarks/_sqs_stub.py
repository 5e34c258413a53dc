"""
A server for `sqs.py` that costs little: it answers SQS' hot calls with prepared bytes, and counts.

One queue, whose messages all have the same body.  It checks nothing, keeps nothing but counts, and takes as long for
each answer as it is told to: not a model of SQS.  A core of it serves some 100,000 messages a second in batches of ten;
the client's CPU is what is measured, so that this does not bound the figures.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from multiprocessing.connection import Connection

BATCH = 10


class Counts:
    """What the server saw, and what it has to give."""

    def __init__(self, size: int) -> None:
        self.body = "x" * size
        self.left = self.given = self.sent = self.deleted = self.doubled = 0
        self.handles: set[bytes] = set()
        md5 = hashlib.md5(self.body.encode(), usedforsecurity=False).hexdigest()
        self.md5 = md5.encode()
        handle, system = "h" * 400, '{"ApproximateReceiveCount":"1","SentTimestamp":"1700000000000"}'
        # Filled in for each message: "%08d".
        self.message = (
            f'{{"MessageId":"m%08d","ReceiptHandle":"{handle}%08d","MD5OfBody":"{md5}","Body":"{self.body}",'
            f'"Attributes":{system}}}'
        ).encode()
        self.stored = f'{{"Id":"%d","MessageId":"m%08d","MD5OfMessageBody":"{md5}"}}'.encode()

    def answer(self, action: bytes, body: bytes) -> bytes:
        """Return the JSON of one call."""
        if action == b"SendMessageBatch":
            count = body.count(b'"MessageBody"')
            self.sent += count
            return b'{"Successful":[%b]}' % b",".join([self.stored % (at, at) for at in range(count)])
        if action == b"SendMessage":
            self.sent += 1
            return b'{"MessageId":"m%08d","MD5OfMessageBody":"%b"}' % (self.sent, self.md5)
        if action == b"ReceiveMessage":
            count = min(BATCH, self.left)
            self.left -= count
            first, self.given = self.given, self.given + count
            made = [self.message % (number, number) for number in range(first, first + count)]
            return b'{"Messages":[%b]}' % b",".join(made)
        if action == b"DeleteMessageBatch":
            handles = [part[:408] for part in body.split(b'"hhhhhhhh')[1:]]
            self.doubled += len(set(handles) & self.handles)
            self.handles.update(handles)
            self.deleted += len(handles)
            return b'{"Successful":[%b]}' % b",".join([b'{"Id":"%d"}' % at for at in range(len(handles))])
        return json.dumps({"Attributes": {"VisibilityTimeout": "300"}}).encode()


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self, counts: Counts, delay: float) -> None:
        self._counts = counts
        self._delay = delay
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._data[:end].lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._data) < end + 4 + size:
            return
        target = self._data[: end + 2].lower().find(b"amazonsqs.") + len("amazonsqs.")
        action = self._data[target : self._data.find(b"\r\n", target)]
        body, self._data = self._data[end + 4 : end + 4 + size], self._data[end + 4 + size :]
        answer = self._counts.answer(action, body)
        whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b" % (
            len(answer),
            answer,
        )
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._transport.write, whole)
        else:
            self._transport.write(whole)


def serve(pipe: Connection, size: int, preload: int, delay: float = 0.0) -> None:
    """
    Serve until the other end of *pipe* asks for the counts.

    Args:
        delay: Seconds that every answer takes.
    """
    asyncio.run(_serve(pipe, size, preload, delay))


async def _serve(pipe: Connection, size: int, preload: int, delay: float) -> None:
    counts = Counts(size)
    counts.left = preload
    server = await asyncio.get_running_loop().create_server(lambda: Server(counts, delay), "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    asked = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), asked.set)
    await asked.wait()
    pipe.send((counts.sent, counts.given, counts.deleted, counts.doubled))
    server.close()
