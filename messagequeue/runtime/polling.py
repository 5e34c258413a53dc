"""
Receiving: how many receives run, how much each asks for, and what follows when one fails.

Not concerned with what becomes of the messages; they are handed to `on_deliveries`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from .. import _log_events as events
from .._errors import ConfigurationError, ErrorCode, MessageQueueError, ReceiveError
from .._options import ConsumeOptions
from ..driver import Delivery, LeaseSource
from .backoff import RECEIVE_FIRST, RECEIVE_LONGEST, Backoff
from .sink import Faults, logger
from .stats import ConsumerStats
from .tasks import OwnedTasks, own_cancellation

#: Seconds from the start of a receive that brought nothing to the next: a topic polled without waiting, or a broker
#: that answers an empty long poll at once (SQS does above its in-flight limit), must not be asked without a pause.
EMPTY_PACE = 1.0

#: Seconds that the answer of a receive may take beyond its wait before shutdown goes on without it.
LAST_ANSWER = 10.0


def next_ask(room: int, batch: int, parked: int, *, busy: bool, most: int) -> int:
    """
    How many messages the next receive asks for; 0 for no receive now.

    One receive is enough while it does not come back full: more of them on a quiet topic only cost money.

    Args:
        room: Messages that may be asked for beyond those already asked for.
        batch: Messages in one receive at most.
        parked: Receives that run.
        busy: The last receive came back full.
        most: Receives at once at most.
    """
    if room <= 0 or parked >= most or (parked and not busy):
        return 0
    return min(batch, room)


def terms(batch: int, wait: float, due_in: float | None) -> tuple[int, float]:
    """
    How many messages the next receive asks for at most, and how long it waits.

    Args:
        batch, wait: What it would be.
        due_in: Seconds until a failed message of an ordered topic is expected back; None where none is.  That one is
            received alone, so that those behind it are not received, and counted, with each of its failures.  Until
            then receives are full, and end before.
    """
    if due_in is None:
        return batch, wait
    before = math.floor(due_in) - 1  # brokers wait whole seconds; one is for the way
    return (batch, min(wait, before)) if before >= 1 else (1, wait)


class Polling:
    """
    The incoming half of a consumer.

    Args:
        awaited: When a failed message of an ordered topic is expected back; see `Lanes.awaited()`.
        room: Messages that the session can hold now, those already asked for not counted.
        on_deliveries: Called with what a receive brought, also after `stop()`.
        on_received: Called before it, with the time, whether the receive came back full, and the seconds that it took.
        on_launched: Called with the time when a receive begins.
        on_answered: Called before `on_received` and after a failed receive, with the number of messages it brought.
    """

    def __init__(
        self,
        source: LeaseSource,
        options: ConsumeOptions,
        faults: Faults,
        stats: ConsumerStats,
        topic: str,
        *,
        room: Callable[[], int],
        awaited: Callable[[float], float | None],
        on_deliveries: Callable[[Sequence[Delivery]], None],
        on_received: Callable[[float, bool, float], None] = lambda now, full, flight: None,
        on_launched: Callable[[float], None] = lambda now: None,
        on_answered: Callable[[int], None] = lambda brought: None,
    ) -> None:
        self._source = source
        self._options = options
        self._faults = faults
        self._stats = stats
        self._topic = topic
        self._room = room
        self._awaited = awaited
        self._on_deliveries = on_deliveries
        self._on_received = on_received
        self._on_launched = on_launched
        self._on_answered = on_answered
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._tasks = OwnedTasks(logger)
        self._asked = 0
        self._parked = 0
        self._live = False
        self._launching: asyncio.Handle | None = None
        self._busy = False
        self._stopping = False
        self._backoff = Backoff(RECEIVE_FIRST, RECEIVE_LONGEST)
        self._resume_at = 0.0  # 0: at any time
        self._fatal_since: float | None = None
        self._fatal: ReceiveError | None = None
        self._starting: asyncio.Timeout | None = None

    def wake(self) -> None:
        """
        There may be room now: receive, if so.

        Two turns of the loop later: what ended meanwhile is on its way to be settled then, and a handler that fails at
        its first step has failed, which decides about what to ask for (`Lanes.awaited()`).
        """
        if self._live and self._launching is None and self._loop.time() >= self._resume_at:
            self._launching = self._loop.call_soon(self._wait_a_turn)

    def _wait_a_turn(self) -> None:
        self._launching = self._loop.call_soon(self._launch)

    def stop(self) -> None:
        """Begin no more receives.  A `start()` under way, which captures nothing, ends at once."""
        if not self._stopping and self._starting is not None:
            self._starting.reschedule(self._loop.time())
        self._stopping = True
        self._wake.set()

    async def start(self) -> float | None:
        """
        Get the source ready, backing off while the broker cannot be asked.

        Returns:
            The lease in seconds; None where `stop()` came first.

        Raises:
            ConfigurationError, ReceiveError: it cannot work.
        """
        while not self._stopping:
            try:
                return await self._start_source()
            except ConfigurationError:
                raise
            except (Exception, asyncio.CancelledError) as error:
                if own_cancellation(error):
                    raise
                if self._stopping:
                    return None
                self._failed(error)
            if self._fatal is not None:
                raise self._fatal
            while not self._stopping and self._loop.time() < self._resume_at:
                await self._pause()
        return None

    async def _start_source(self) -> float:
        try:
            async with asyncio.timeout(None) as self._starting:
                return await self._source.start()
        finally:
            self._starting = None

    async def run(self) -> ReceiveError | None:
        """Receive until `stop()` (None) or until a fatal fault outlasted its grace (that fault)."""
        self._live = True
        try:
            while not self._stopping and self._fatal is None:
                self.wake()
                await self._pause()
        finally:
            self._live = False
        return self._fatal

    def _launch(self) -> None:
        self._launching = None
        if not self._live or self._stopping or self._loop.time() < self._resume_at:
            return
        limits = self._source.limits
        now = self._loop.time()
        back = self._awaited(now)
        batch, wait = terms(
            min(self._options.batch_size, limits.receive_messages),
            self._options.wait_time,
            None if back is None else back - now,
        )
        most = 1 if self._backoff.failures else limits.max_receives
        while ask := next_ask(self._room() - self._asked, batch, self._parked, busy=self._busy, most=most):
            self._asked += ask
            self._parked += 1
            self._on_launched(now)
            self._tasks.spawn(self._receive(ask, wait), name=f"messagequeue receive {self._topic}")

    async def _pause(self) -> None:
        """Until something changes, or the back-off is over."""
        until = self._resume_at if self._loop.time() < self._resume_at else None
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _receive(self, ask: int, wait: float) -> None:
        started = self._loop.time()
        try:
            deliveries = list(await self._source.receive(ask, wait=wait))
        except (Exception, asyncio.CancelledError) as error:
            if own_cancellation(error):
                raise
            self._failed(error)
        else:
            self._received(ask, deliveries, started)
        finally:
            self._asked -= ask
            self._parked -= 1
            if self._resume_at or self._fatal is not None:
                self._wake.set()  # there is something to wait for, or nothing more
            else:
                self.wake()

    def _received(self, ask: int, deliveries: Sequence[Delivery], started: float) -> None:
        if self._backoff.failures:
            events.RECEIVE_RECOVERED.log("topic %s: receives work again", self._topic, topic=self._topic)
        self._backoff.succeeded()
        if self._resume_at and self._resume_at <= self._loop.time():
            self._resume_at = 0.0
        self._fatal_since = None
        self._busy = len(deliveries) >= ask
        now = self._loop.time()
        self._on_answered(len(deliveries))
        self._on_received(now, self._busy, now - started)
        self._stats.receives += 1
        self._stats.received += len(deliveries)
        self._stats.empty_receives += not deliveries
        if deliveries:
            self._on_deliveries(deliveries)
        else:
            self._resume_at = max(self._resume_at, started + EMPTY_PACE)

    def _failed(self, raised: BaseException) -> None:
        error = as_receive_error(raised, self._topic)
        now = self._loop.time()
        self._stats.receive_errors += 1
        self._on_answered(0)
        self._busy = False
        self._faults.tell(error, now)
        wait = self._backoff.failed()
        if not error.fatal:
            self._fatal_since = None
        elif self._fatal_since is None:
            self._fatal_since = now
        if error.fatal and self._fatal_since is not None:
            grace = self._options.fatal_grace - (now - self._fatal_since)
            if grace <= 0:
                self._fatal = error
            wait = min(wait, max(grace, 0.0))
        self._resume_at = now + wait

    # -- shutdown

    async def finish(self) -> None:
        """
        Return when no receive runs any more.

        One that is out may be given a message until it ends, and nobody would know of it: SQS does not take back what
        it answers to a connection that is gone.  So it is waited for, unless the source says that it captures nothing.
        """
        if self._tasks and not self._source.capabilities.receive_cancellable:
            await asyncio.wait(set(self._tasks), timeout=self._options.wait_time + LAST_ANSWER)
        await self.close()

    async def close(self) -> None:
        """Tear down what runs."""
        await self._tasks.cancel_all()


def as_receive_error(raised: BaseException, topic: str) -> ReceiveError:
    """The fault as a `ReceiveError` of this topic."""
    if isinstance(raised, ReceiveError):
        raised.topic = raised.topic or topic
        return raised
    if isinstance(raised, MessageQueueError):
        error = ReceiveError(str(raised), topic=topic, code=raised.code, retryable=raised.retryable)
    else:
        error = ReceiveError(f"the provider raised {type(raised).__name__}", topic=topic, code=ErrorCode.OTHER)
    error.__cause__ = raised
    return error
