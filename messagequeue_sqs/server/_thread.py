"""A server for clients that block: it runs in a loop of its own, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from messagequeue import ClosedError
from messagequeue.broker import Peek

from .app import SQSServer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Stop:
    """What ends the server; the event is the loop's own."""

    loop: asyncio.AbstractEventLoop
    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class _Running:
    """What there is between `start()` and `stop()`."""

    thread: threading.Thread
    stop: _Stop
    ended: Future[None]


class ServerThread:
    """
    Runs an `SQSServer` beside blocking code, such as tests with boto3: `with ServerThread(SQSServer()) as server: ...`.

    Args:
        server: Not started yet; None: `SQSServer()`.  It can be started again after its end.

    What the server offers beyond these methods (faults, its broker) is not safe from other threads: use `call()`.
    """

    def __init__(self, server: SQSServer | None = None) -> None:
        self._server = server or SQSServer()
        self._running: _Running | None = None

    def __enter__(self) -> ServerThread:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """
        Return once the server listens; a second call does nothing.

        Raises:
            ConfigurationError, OSError: as `SQSServer.start()`.
        """
        if self._running is not None:
            return
        started: Future[_Stop] = Future()
        ended: Future[None] = Future()
        # A daemon: a test run that was interrupted is not held up by it.
        thread = threading.Thread(
            target=_run, args=(self._server, started, ended), name="messagequeue-sqs", daemon=True
        )
        thread.start()
        self._running = _Running(thread, started.result(), ended)

    def stop(self) -> None:
        """Stop the server as `SQSServer.stop()` does, and end the thread; a second call does nothing."""
        running, self._running = self._running, None
        if running is None:
            return
        running.stop.loop.call_soon_threadsafe(running.stop.event.set)
        running.thread.join()
        running.ended.result()

    def call(self, work: Callable[[SQSServer], T]) -> T:
        """
        Have *work* done with the server, in the server's thread, and return what it returns.

        Raises:
            ClosedError: the server does not run.
            Exception: what *work* raises.
        """
        if self._running is None:
            raise ClosedError("the server does not run: use `with ServerThread() as server`, or start() it")
        done: Future[T] = Future()
        self._running.stop.loop.call_soon_threadsafe(_do, done, work, self._server)
        return done.result()

    @property
    def endpoint_url(self) -> str:
        """What clients take as `endpoint_url`.  Raises `ClosedError` while it does not run."""
        return self._server.endpoint_url

    def queue_url(self, name: str) -> str:
        """Return the URL of a queue, whether it exists or not."""
        return self._server.queue_url(name)

    def peek(self, queue: str, *, region: str | None = None) -> list[Peek]:
        """
        Return the messages of a queue without receiving any, as `SQSServer.peek()` does.

        Raises:
            LookupError: there is none.
        """
        return self.call(lambda server: server.peek(queue, region=region))


def _run(server: SQSServer, started: Future[_Stop], ended: Future[None]) -> None:
    try:
        asyncio.run(_serve(server, started))
    except BaseException as error:
        (ended if started.done() else started).set_exception(error)
    else:
        ended.set_result(None)


async def _serve(server: SQSServer, started: Future[_Stop]) -> None:
    async with server:
        stop = _Stop(asyncio.get_running_loop(), asyncio.Event())
        started.set_result(stop)
        await stop.event.wait()


def _do(done: Future[T], work: Callable[[SQSServer], T], server: SQSServer) -> None:
    try:
        done.set_result(work(server))
    except BaseException as error:
        done.set_exception(error)
