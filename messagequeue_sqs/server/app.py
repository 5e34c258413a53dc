"""The server: a socket, a clock and a broker around the engine; in a test, in a program, or behind a command."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType

from messagequeue import ClosedError, ConfigurationError
from messagequeue.broker import Broker, Peek

from ._clock import Clock, RealClock
from ._connection import Connection
from ._declared import declare
from ._parking import Parking
from ._service import Service, ServiceOptions
from ._troubles import Faults
from .engine import DEFAULT_ACCOUNT, DEFAULT_REGION, Engine, EngineOptions, SqsError

_log = logging.getLogger("messagequeue.server")

#: Bytes of one request: 1 MiB of batch, every byte of it escaped or a blob in base64, and what names it.
MAX_REQUEST_BYTES = 8 * 1_048_576
#: Receives that wait at the same time.
MAX_POLLS = 1_024
#: Seconds that `stop()` waits for answers on their way.
STOP_TIMEOUT = 10.0
_LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(slots=True)
class _Running:
    """What there is between `start()` and `stop()`."""

    listener: asyncio.Server
    service: Service
    parking: Parking
    connections: set[Connection]
    url: str


class SQSServer:
    """
    Amazon SQS on one machine, in memory unless told otherwise; `async with SQSServer() as server: ...`.

    Args:
        host: Where to listen; anything but this machine deserves `keys`.
        port: 0: a free one.
        broker: Shares the queues with others in this process; None: one of its own.
        clock: What time it is; None: the machine's.  `ManualClock` in tests.
        queues: Made at the start, as `[queues]` of a file has them.
        keys: Secrets by access key id.  Given, requests have to be signed with one of them.
        account, region: Of all queues, and of requests that name no region.
        auto_create: Queues come into being when they are first asked for.
        purge_cooldown, reuse_cooldown: Seconds; 60 as on AWS, 0 to purge and re-create at will.
        relaxed: Sizes and characters of messages are not checked.
        max_polls: Receives that wait at the same time; those beyond are answered at once, as short polls are.
        max_request_bytes: Bytes of one request's body.
        max_in_flight: Messages of one queue in flight.

    Attributes:
        broker: Has the queues; an SQS queue `orders` is its topic `sqs.orders`.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        broker: Broker | None = None,
        clock: Clock | None = None,
        queues: Mapping[str, Mapping[str, object]] | None = None,
        keys: Mapping[str, str] | None = None,
        account: str = DEFAULT_ACCOUNT,
        region: str = DEFAULT_REGION,
        auto_create: bool = False,
        purge_cooldown: float = 0.0,
        reuse_cooldown: float = 0.0,
        relaxed: bool = False,
        max_polls: int = MAX_POLLS,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_in_flight: int | None = None,
    ) -> None:
        if not account.isdigit() or len(account) != 12:
            raise ConfigurationError(f"account={account!r}: give twelve digits")
        options = EngineOptions(
            account=account,
            region=region,
            auto_create=auto_create,
            purge_cooldown=purge_cooldown,
            reuse_cooldown=reuse_cooldown,
            relaxed=relaxed,
        )
        self._options = options if max_in_flight is None else replace(options, max_in_flight=max_in_flight)
        self._host = host
        self._port = port
        self._queues = dict(queues or {})
        self._keys = dict(keys) if keys is not None else None
        self._max_polls = max_polls
        self._max_request_bytes = max_request_bytes
        self._clock: Clock = clock or RealClock()
        self.broker = broker or Broker(new_id=_uuids())
        self._engine = Engine(self.broker, secret=os.urandom(32), new_id=_uuids(), options=self._options)
        self._commit: Callable[[], None] | None = None
        self._running: _Running | None = None

    async def __aenter__(self) -> SQSServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """
        Make the declared queues and listen.

        Raises:
            ConfigurationError: a declared queue cannot be made.
            OSError: the address is not to be had.
        """
        if self._running is not None:
            return
        declare(self._engine, self._clock.now(), self._queues)
        loop = asyncio.get_running_loop()
        connections: set[Connection] = set()
        services: list[Service] = []

        def connected() -> Connection:
            connection = Connection(services[0], self._max_request_bytes, connections.discard)
            connections.add(connection)
            return connection

        listener = await loop.create_server(connected, self._host, self._port, backlog=1_024, start_serving=False)
        url = self._url(listener)
        parking = Parking(self.broker, self._engine, self._clock, loop.call_soon, self._max_polls)
        service = Service(
            self._engine,
            parking,
            self._clock,
            ServiceOptions(url, self._keys),
            commit=self._commit,
            call_soon=loop.call_soon,
            new_id=_uuids(),
        )
        services.append(service)
        self._running = _Running(listener, service, parking, connections, url)
        await listener.start_serving()
        self._say_where(url)

    def _url(self, listener: asyncio.Server) -> str:
        port = listener.sockets[0].getsockname()[1]
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"

    def _say_where(self, url: str) -> None:
        _log.info("SQS answers at %s", url, extra={"url": url, "region": self._options.region})
        if self._host not in _LOCAL and self._keys is None:
            _log.warning(
                "SQS answers on %s to everybody who can reach it, without asking for a signature: give it keys, or "
                "have it listen on 127.0.0.1",
                self._host or "every address",
                extra={"host": self._host},
            )

    async def stop(self) -> None:
        """
        Stop listening, answer the receives that wait, and close every connection; a second call does nothing.

        Waits up to 10 s for answers that are on their way; messages in flight stay where they are.
        """
        running, self._running = self._running, None
        if running is None:
            return
        running.listener.close()
        running.parking.close()
        running.service.flush()
        for connection in list(running.connections):
            connection.finish()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                while running.connections:
                    await asyncio.sleep(0.001)
        except TimeoutError:
            for connection in list(running.connections):
                connection.abort()
            await asyncio.sleep(0)
        await running.listener.wait_closed()

    # --- for who holds it

    @property
    def endpoint_url(self) -> str:
        """What clients take as `endpoint_url`.  Raises `ClosedError` while it does not run."""
        return self._now_running().url

    @property
    def faults(self) -> Faults:
        """What a test wants to go wrong.  Raises `ClosedError` while it does not run."""
        return self._now_running().service.faults

    @property
    def waiting(self) -> int:
        """Receives that wait for a message."""
        return len(self._now_running().parking)

    def queue_url(self, name: str) -> str:
        """Return the URL of a queue, whether it exists or not."""
        return f"{self.endpoint_url}/{self._options.account}/{name}"

    def peek(self, queue: str, *, region: str | None = None) -> list[Peek]:
        """
        Return the messages of a queue, in flight and delayed ones too, without receiving any.

        Args:
            queue: Its name, URL or ARN.

        Raises:
            LookupError: there is none.
        """
        try:
            return list(self._engine.peek(self._clock.now(), queue, region))
        except SqsError as error:
            raise LookupError(f"there is no queue {queue!r}") from error

    def _now_running(self) -> _Running:
        if self._running is None:
            raise ClosedError("the server does not run: use `async with SQSServer() as server`, or start() it")
        return self._running


#: The digit of a UUID that says how it is laid out, for each that may be drawn.
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


def _uuids() -> Callable[[], str]:
    """Return a source of version 4 UUIDs, seeded by the system; asking the system for each costs more than the rest."""
    draw_bytes = random.Random(os.urandom(16)).randbytes

    def draw() -> str:
        text = draw_bytes(16).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"

    return draw
