"""A TCP server that answers each HTTP request with scripted bytes, cut and delayed as a test likes; plain or TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

#: Sends the pieces one by one, each in a segment of its own; then what the `Reply` says.
Pieces = Sequence[bytes]


class Reply:
    """
    What one request gets.

    Args:
        pieces: Sent one after another, each only when the one before is out.
        then: `keep` the connection, `close` it, `reset` it, send `eof` and keep reading, or `hang`.
        gate: Waited for before anything is sent.
    """

    def __init__(self, *pieces: bytes, then: str = "keep", gate: asyncio.Event | None = None) -> None:
        self.pieces = pieces
        self.then = then
        self.gate = gate


def ok(body: bytes, *extra: str) -> bytes:
    """Return a whole good answer."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/x-amz-json-1.0", f"Content-Length: {len(body)}", *extra]
    return "\r\n".join([*lines, "", ""]).encode() + body


class RawServer:
    """
    The server.

    Attributes:
        requests: Head and body of each.
        connections: How many were ever accepted.
        open: How many are open now.
    """

    def __init__(self, default: Callable[[bytes], bytes], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self.script: deque[Reply] = deque()
        self._default = default
        self._tls = tls
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.endpoint = f"https://localhost:{port}" if self._tls else f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        if self._tls is not None:
            await asyncio.sleep(0.05)  # asyncio's own tasks of handshakes that failed

    @property
    def open(self) -> int:
        return len(self._tasks)

    def close_idle(self) -> None:
        """Close every connection without a word."""
        for writer in self._tasks.values():
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = writer
        self.connections += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # only __aexit__ cancels
        finally:
            del self._tasks[task]
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(size)
        self.requests.append((head, body))
        reply = self.script.popleft() if self.script else Reply(self._default(body))
        if reply.gate is not None:
            await reply.gate.wait()
        for piece in reply.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if reply.then == "eof":
            writer.write_eof()
            await reader.read()
        elif reply.then == "hang":
            await reader.read()
        elif reply.then == "close":
            writer.close()
            await writer.wait_closed()
        return reply.then == "keep"
