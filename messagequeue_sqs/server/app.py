"""The server: a socket, a clock and a broker around the engine; in a test, in a program, or behind a command."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal

from messagequeue import ClosedError, ConfigurationError
from messagequeue import _log_events as events
from messagequeue.broker import Broker, Peek

from ._clock import Clock
from ._connection import Connection
from ._declared import declare
from ._home import FolderHome, Home, MemoryHome, OwnHome
from ._parking import Parking
from ._service import Service, ServiceOptions
from ._troubles import Faults
from .engine import DEFAULT_ACCOUNT, DEFAULT_REGION, Engine, EngineOptions, SqsError

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

    home: Home
    engine: Engine
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
        data: Folder that the queues are kept in, made where it is missing; the `embedded` providers of this process on
            the same folder share them.  None: nothing is kept.
        fsync: `second`: what was answered survives the end of the process, and within a second a power cut; `always`:
            a power cut, too.
        memory: Shares the queues of the `memory` providers of that name in this process; None: it has its own.
        clock: What time it is, where nothing is shared or kept; None: the machine's.  `ManualClock` in tests.
        queues: Made at the start, as `[queues]` of a file has them.
        keys: Secrets by access key id.  Given, requests have to be signed with one of them.
        account, region: Of all queues, and of requests that name no region.
        auto_create: Queues come into being when they are first asked for.
        purge_cooldown, reuse_cooldown: Seconds; 60 as on AWS, 0 to purge and re-create at will.
        relaxed: Sizes and characters of messages are not checked.
        max_polls: Receives that wait at the same time; those beyond are answered at once, as short polls are.
        max_request_bytes: Bytes of one request's body.
        max_in_flight: Messages of one queue in flight.

    Raises:
        ConfigurationError: an argument is wrong, or two contradict each other.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        data: str | os.PathLike[str] | None = None,
        *,
        fsync: Literal["second", "always"] = "second",
        memory: str | None = None,
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
        self._home = _home(data, fsync, memory, clock)
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
            FolderInUseError: another process has the data folder.
            ConfigurationError: the folder cannot be used, or a declared queue cannot be made.
            StorageError: the folder cannot be written.
            OSError: the address is not to be had.
        """
        if self._running is not None:
            return
        home = await self._home.enter()
        try:
            self._running = await self._listen(home)
        except BaseException:
            await home.leave()
            raise
        self._say_where(self._running.url, home)

    async def _listen(self, home: Home) -> _Running:
        engine = Engine(home.broker, secret=os.urandom(32), new_id=_uuids(), options=self._options)
        declare(engine, home.clock.now(), self._queues)
        if home.commits is not None:
            await home.commits.committed()
        loop = asyncio.get_running_loop()
        connections: set[Connection] = set()
        services: list[Service] = []

        def connected() -> Connection:
            connection = Connection(services[0], self._max_request_bytes, connections.discard)
            connections.add(connection)
            return connection

        listener = await loop.create_server(connected, self._host, self._port, backlog=1_024, start_serving=False)
        url = self._url(listener)
        parking = Parking(home.broker, engine, home.clock, loop.call_soon, self._max_polls)
        options = ServiceOptions(url, self._keys)
        service = Service(engine, parking, home.clock, options, commits=home.commits, new_id=_uuids())
        services.append(service)
        try:
            await listener.start_serving()
        except BaseException:
            parking.close()
            listener.close()
            raise
        return _Running(home, engine, listener, service, parking, connections, url)

    def _url(self, listener: asyncio.Server) -> str:
        port = listener.sockets[0].getsockname()[1]
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"

    def _say_where(self, url: str, home: Home) -> None:
        keeps = f"its queues are in {home.path}" if home.path else "it keeps nothing"
        region = self._options.region
        events.SERVER_STARTED.log("SQS answers at %s; %s", url, keeps, url=url, region=region, data=home.path)
        if self._host not in _LOCAL and self._keys is None:
            events.SERVER_UNGUARDED.log(
                "SQS answers on %s to everybody who can reach it, without asking for a signature: give it keys, or "
                "have it listen on 127.0.0.1",
                self._host or "every address",
                host=self._host,
            )

    async def stop(self) -> None:
        """
        Stop listening, answer the receives that wait, and close every connection; a second call does nothing.

        Waits up to 10 s for answers that are on their way; messages in flight stay where they are.

        Raises:
            StorageError: what nobody was told of yet could not be written to the data folder, and is lost.
        """
        running, self._running = self._running, None
        if running is None:
            return
        try:
            await _hang_up(running)
        finally:
            await running.home.leave()

    # --- for who holds it

    @property
    def endpoint_url(self) -> str:
        """What clients take as `endpoint_url`.  Raises `ClosedError` while it does not run."""
        return self._now_running().url

    @property
    def broker(self) -> Broker:
        """Has the queues; `orders` is its topic `sqs.orders`.  Raises `ClosedError` while it does not run."""
        return self._now_running().home.broker

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
        running = self._now_running()
        try:
            return list(running.engine.peek(running.home.clock.now(), queue, region))
        except SqsError as error:
            raise LookupError(f"there is no queue {queue!r}") from error

    def _now_running(self) -> _Running:
        if self._running is None:
            raise ClosedError("the server does not run: use `async with SQSServer() as server`, or start() it")
        return self._running


def _home(
    data: str | os.PathLike[str] | None, fsync: str, memory: str | None, clock: Clock | None
) -> OwnHome | MemoryHome | FolderHome:
    if fsync not in ("second", "always"):
        raise ConfigurationError(f"fsync={fsync!r}: give 'second' or 'always'")
    if fsync != "second" and data is None:
        raise ConfigurationError(f"fsync={fsync!r} without data: nothing is kept; give a data folder")
    if data is not None and not os.fspath(data):
        raise ConfigurationError("data is empty: give a folder, or None to keep nothing")
    if data is not None and memory is not None:
        raise ConfigurationError("data and memory contradict each other: queues are kept in a folder, or they are not")
    if clock is not None and (data is not None or memory is not None):
        raise ConfigurationError("clock goes with neither data nor memory: those who share the queues share their time")
    if data is not None:
        return FolderHome(data, fsync)
    return OwnHome(_uuids(), clock) if memory is None else MemoryHome(memory)


async def _hang_up(running: _Running) -> None:
    running.listener.close()
    running.parking.close()
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


#: UUIDs that are drawn at a time, as one number; the random bits of each, and those that say how it is laid out.
_DRAWN = 64
_RANDOM_BITS, _LAYOUT_BITS = (
    sum(bits << 128 * place for place in range(_DRAWN))
    for bits in (0xFFFFFFFF_FFFF_0FFF_3FFF_FFFFFFFFFFFF, 0x00000000_0000_4000_8000_000000000000)
)
_parts_of_uuids = re.compile("(.{8})(.{4})(.{4})(.{4})(.{12})").findall


def _uuids() -> Callable[[], str]:
    """Return a source of version 4 UUIDs, seeded by the system; asking the system for each costs more than the rest."""
    draw_bits = random.Random(os.urandom(16)).getrandbits
    drawn: list[str] = []

    def draw() -> str:
        if not drawn:
            number = draw_bits(128 * _DRAWN) & _RANDOM_BITS | _LAYOUT_BITS
            drawn.extend(map("-".join, _parts_of_uuids(number.to_bytes(16 * _DRAWN, "big").hex())))
        return drawn.pop()

    return draw
