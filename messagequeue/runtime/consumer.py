"""The consumer that providers hand out: its life cycle.  What happens while it consumes is `session`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from .._batch import BatchHandler
from .._errors import ClosedError, ErrorCode, MessageQueueError
from .._message import Message
from .._options import ConsumeOptions
from .._protocols import ErrorSink, Handler, Middleware
from ..driver import CheckedSource, LeaseSource
from ..middleware import compose
from ..telemetry import ConsumerTelemetry
from .batch_session import BatchSession
from .checks import Checks
from .observed_source import observed_source
from .opening import opened
from .session import Session
from .shared_session import SharedSession
from .sharing import Share
from .sink import Faults, logger
from .stats import ConsumerStats
from .tasks import OwnedTasks, outcome


class RuntimeConsumer:
    """
    A `Consumer` over a provider's `LeaseSource`.

    Attributes:
        topic: The topic as it was given.
        options: What is in force.
        stats: Counters, to be read at any time.
    """

    def __init__(
        self,
        topic: str,
        source: LeaseSource,
        handler: Handler,
        options: ConsumeOptions,
        *,
        middleware: Sequence[Middleware] = (),
        on_error: ErrorSink | None = None,
        on_closed: Callable[[], None] = lambda: None,
        share: Share | None = None,
        telemetry: ConsumerTelemetry | None = None,
    ) -> None:
        self.topic = topic
        self.options = options
        self.stats = ConsumerStats()
        self._telemetry = telemetry
        self._source = source if telemetry is None else observed_source(source, telemetry)
        self._handler = handler
        if not isinstance(handler, BatchHandler):
            self._handler = opened(
                source, compose(handler, *middleware), max_decompressed=options.max_decompressed, note=self._note
            )
        self._checks = Checks(topic, source if isinstance(source, CheckedSource) else None, options)
        self._share = share
        self._faults = Faults(topic, on_error)
        self._on_closed = on_closed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session | None = None
        self._ended: asyncio.Future[None] | None = None
        self._stop_asked = False
        self._closing: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks(logger)
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "consuming" if self._loop is not None else "idle"
        return f"<consumer of {self.topic!r}, {state}>"

    def _note(self, message: Message) -> None:
        if self._session is not None:
            self._session.note_opened(message)

    @property
    def in_flight(self) -> int:
        """Messages that were received and are neither settled nor handed back."""
        session = self._session
        return 0 if session is None else session.in_flight

    @property
    def blocked_keys(self) -> int:
        """Ordering keys whose messages wait for one that failed to come back."""
        session = self._session
        return 0 if session is None else session.blocked_keys

    async def consume(self) -> None:
        """See `Consumer.consume()`.  May be called again after it returned."""
        if self._closed or self._closing is not None:
            raise ClosedError(f"the consumer of topic {self.topic!r} is closed: make a new one")
        if self._loop is not None:
            raise MessageQueueError(
                f"consume() of topic {self.topic!r} runs already: await that one, or raise concurrency",
                code=ErrorCode.ALREADY_REGISTERED,
            )
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        try:
            if not self._stop_asked:
                await self._consume()
        finally:
            self._stop_asked = False
            self._session = self._loop = None
            self._ended.set_result(None)

    async def _consume(self) -> None:
        self._session = self._new_session()
        checking = None
        if self._checks.due and self.options.checks == "error":
            await self._checks.refuse()
        elif self._checks.due:
            checking = self._tasks.spawn(self._checks.warn(), name=f"messagequeue checks {self.topic}")
        try:
            await self._session.run()
        except BaseExceptionGroup as group:  # a bug in a service task: show it, not its wrapping
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from group
            raise
        finally:
            if checking is not None:
                checking.cancel()
                await asyncio.wait((checking,))

    def _new_session(self) -> Session:
        handler, options, faults, stats = self._handler, self.options, self._faults, self.stats
        telemetry = self._telemetry
        if isinstance(handler, BatchHandler):
            return BatchSession(self.topic, self._source, handler, options, faults, stats, telemetry)
        if self._share is not None:
            return SharedSession(self._share, self.topic, self._source, handler, options, faults, stats, telemetry)
        return Session(self.topic, self._source, handler, options, faults, stats, telemetry)

    def stop(self) -> None:
        """
        Ask `consume()` to end gracefully, and return at once.

        Before `consume()` it makes the next call return at once.  Safe from a signal handler and from other threads.
        """
        self._stop_asked = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop_session)

    def _stop_session(self) -> None:
        if self._session is not None:
            self._session.stop()

    async def close(self) -> None:
        """
        Stop, wait until nothing of this consumer runs, and give the topic free.  Every caller returns at the end.

        Raises:
            MessageQueueError: the caller is a handler of this consumer.
        """
        if self._closed:
            return
        self.refuse_own_handler()
        if self._closing is None:
            self._closing = self._tasks.share(self._close(), name=f"messagequeue close {self.topic}")
        await outcome(self._closing)

    def refuse_own_handler(self) -> None:
        """Raise `MessageQueueError` where the caller is a handler of this consumer: `close()` would wait for it."""
        if self._session is not None and self._session.runs(asyncio.current_task()):
            raise MessageQueueError(
                f"a handler of topic {self.topic!r} called close(), which waits for that handler to end: call stop() "
                "there, and close() where consume() was awaited"
            )

    async def _close(self) -> None:
        try:
            if self._ended is not None and not self._ended.done():
                self.stop()
                await asyncio.wait((self._ended,))  # which consume() sets, even if this is cancelled
            await self._source.close()
        finally:
            self._closed = True
            self._on_closed()
