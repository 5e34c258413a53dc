"""Connections to one address, kept open and used again; not what is sent, and no retries."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass
from math import inf

from ._connection import Connection, Lost, TransportError
from ._http import Answer


@dataclass(frozen=True, slots=True)
class Address:
    """
    Where to connect and how long to wait.

    Attributes:
        tls: None for plain HTTP.
        connect_timeout: Seconds to a connection, TLS included; None for no limit.
        read_timeout: Seconds of silence while an answer is awaited; None for no limit.
        keep_idle: Seconds after which an unused connection is closed rather than used: less than the 20 s after which
            AWS closes it, as a request that meets the close is lost.  The SDK has 12 s.
        connections: At most; who comes later waits for one.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    connect_timeout: float | None
    read_timeout: float | None
    keep_idle: float
    connections: int


class Pool:
    """
    The connections to one address, opened when they are needed.  The last one given back is used first.

    One timer looks after all of them, idle and waiting ones: a timer per request would cost more than the request's
    other bookkeeping together.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._silence = inf if address.read_timeout is None else address.read_timeout
        self._keep_idle = address.keep_idle
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._open: set[Connection] = set()
        self._connecting = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._closing = False
        self._closed: asyncio.Future[None] | None = None

    @property
    def sockets(self) -> int:
        """Connections that are open now."""
        return len(self._open)

    async def exchange(self, data: bytes) -> Answer:
        """
        Send *data*, one whole request, and return its answer.

        A caller that is cancelled closes the connection: what still comes on it is nobody's.

        Raises:
            TransportError: no answer.
        """
        connection = self._take_idle() or await self._connect()
        waiter = connection.request(data)
        del data  # which may be large, and whose answer may take long
        connection.at = now = self._loop.time()
        self._busy.add(connection)
        if now + self._silence < self._timer_at:
            self._set_timer(now + self._silence)
        try:
            return await waiter
        except BaseException:
            connection.abort()
            raise
        finally:
            self._give_back(connection)

    async def close(self) -> None:
        """Close every connection, those in use too, and return when the sockets are closed.  Later requests fail."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._open):
            connection.abort(Lost.CLOSED)
        while self._open:
            self._closed = self._loop.create_future()
            await self._closed

    # -- taking and giving back

    def _take_idle(self) -> Connection | None:
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    async def _connect(self) -> Connection:
        while len(self._open) + self._connecting >= self._address.connections:
            await self._wait()
            connection = self._take_idle()
            if connection is not None:
                return connection
        self._connecting += 1
        try:
            connection = await self._make()
        finally:
            self._connecting -= 1
            self._wake()
        return connection

    async def _make(self) -> Connection:
        address = self._address
        try:
            async with asyncio.timeout(address.connect_timeout):
                _, connection = await self._loop.create_connection(
                    self._new, address.host, address.port, ssl=address.tls
                )
        except TimeoutError as error:
            raise TransportError(Lost.NOT_MADE_IN_TIME, error) from error
        except ssl.SSLError as error:
            raise TransportError(Lost.NOT_TRUSTED, error) from error
        except OSError as error:
            raise TransportError(Lost.NOT_MADE, error) from error
        if self._closing or not connection.usable:
            connection.abort()
            raise TransportError(Lost.CLOSED)
        self._open.add(connection)
        return connection

    def _new(self) -> Connection:
        return Connection(self._loop, self._lost)

    def _give_back(self, connection: Connection) -> None:
        self._busy.discard(connection)
        if not connection.usable:
            connection.abort()
            return
        connection.at = now = self._loop.time()
        self._idle.append(connection)
        if self._waiters:
            self._wake()
        if now + self._keep_idle < self._timer_at:
            self._set_timer(now + self._keep_idle)

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._wake()
        if not self._open and self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    async def _wait(self) -> None:
        """Until there may be a connection, or room for one."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # the turn was ours, and is the next one's now
            raise
        finally:
            if not waiter.done() or waiter.cancelled():
                self._forget(waiter)

    def _forget(self, waiter: asyncio.Future[None]) -> None:
        try:
            self._waiters.remove(waiter)
        except ValueError:
            pass

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    # -- time limits

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._look), at

    def _look(self) -> None:
        """Close what is silent or idle for too long, and say when to look again."""
        self._timer, self._timer_at = None, inf
        now = self._loop.time()
        for connection in [c for c in self._busy if c.at + self._silence <= now]:
            connection.abort(Lost.SILENT)
        for connection in [c for c in self._idle if c.at + self._keep_idle <= now or not c.usable]:
            self._idle.remove(connection)
            connection.abort()
        due = min((c.at + self._silence for c in self._busy), default=inf)
        due = min(due, min((c.at + self._keep_idle for c in self._idle), default=inf))
        if due < inf:
            self._set_timer(max(due, now + 0.001))
