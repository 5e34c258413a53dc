"""One connection to an HTTP/1.1 server, which carries one request at a time; no limits of number or time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from enum import Enum

from ._http import Answer, AnswerReader, BadAnswer


class Lost(Enum):
    """What went wrong with a connection."""

    NOT_MADE = "no connection"
    NOT_MADE_IN_TIME = "no connection in time"
    NOT_TRUSTED = "no TLS, or a certificate that is not trusted"
    CLOSED = "the connection ended before the answer did"
    SILENT = "no answer in time"
    NOT_HTTP = "no HTTP answer"


class TransportError(Exception):
    """No answer came.  The request may have arrived or not, unless *lost* says that there was no connection."""

    def __init__(self, lost: Lost, cause: BaseException | None = None) -> None:
        super().__init__(lost.value)
        self.lost = lost
        self.__cause__ = cause


class Connection(asyncio.Protocol):
    """
    Args:
        on_lost: Called once, when the socket is closed.

    Attributes:
        usable: It may carry a request, as far as is known.
        at: For its pool: when it was last heard of, or given back.
    """

    __slots__ = ("_loop", "_on_lost", "_reader", "_transport", "_waiter", "at", "usable")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: Callable[[Connection], None]) -> None:
        self._loop = loop
        self._on_lost = on_lost
        self._reader = AnswerReader()
        self._waiter: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None
        self.usable = False
        self.at = 0.0

    def request(self, data: bytes) -> asyncio.Future[Answer]:
        """
        Send a request and return the future of its answer, which may fail with `TransportError`.

        Whoever gives up waiting must `abort()`: the answer may still come, and must not be taken for the next one's.
        """
        assert self._transport is not None
        self._waiter = waiter = self._loop.create_future()
        self._transport.write(data)
        return waiter

    def abort(self, lost: Lost | None = None, cause: BaseException | None = None) -> None:
        """Close the socket at once, whatever is under way; who waits for an answer gets *lost*, if given."""
        self.usable = False
        waiter, self._waiter = self._waiter, None
        if waiter is not None and lost is not None and not waiter.done():
            waiter.set_exception(TransportError(lost, cause))
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.usable = True
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.abort()  # nobody asked
            return
        try:
            answer = self._reader.feed(data)
        except BadAnswer as error:
            self.abort(Lost.NOT_HTTP, error)
            return
        if answer is None:
            self.at = self._loop.time()
        else:
            self._deliver(answer)

    def eof_received(self) -> None:
        """The server sends no more: an answer without a length is complete, any other is cut off."""
        self.usable = False
        if self._waiter is None:
            return
        try:
            answer = self._reader.eof()
        except BadAnswer as error:
            self.abort(Lost.CLOSED, error)
            return
        if answer is not None:
            self._deliver(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(TransportError(Lost.CLOSED, exc))
        self._on_lost(self)

    def _deliver(self, answer: Answer) -> None:
        waiter, self._waiter = self._waiter, None
        if not answer.reusable:
            self.usable = False
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)
