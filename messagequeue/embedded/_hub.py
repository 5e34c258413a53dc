"""
A broker that tasks of one event loop share: its clock, its topics, and who waits at them.

Not what a message looks like on the outside (`_source`, `_sender`).  A parked receive is woken by what happens, never
by looking again: each change of the broker names the queues worth another try, and one timer per topic stands for what
time alone brings.  One message wakes one receive.

Another face may use the same broker on the same loop, such as the SQS server: it takes the time from here, and what it
changes wakes those who wait here.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable

from .._errors import ConfigurationError
from ..broker import Broker, DeadLetterPolicy, Lease, Ordering, Queue, QueueSettings, UnknownQueueError
from ._config import TopicOptions

#: Seconds.  SQS API Reference, SetQueueAttributes: MessageRetentionPeriod is 14 days at most.
_LONGEST_RETENTION = 1_209_600.0

#: A topic of such a name is as strict as the SQS queue it may become: a key on every message, no delay of its own.
FIFO_SUFFIX = ".fifo"

_hubs: dict[str, Hub] = {}


def hub(name: str) -> Hub:
    """Return the hub of that name in this process; it comes into being on first use."""
    found = _hubs.get(name)
    if found is None:
        found = _hubs[name] = Hub(what=f"the memory broker {name!r}")
    return found


def memory_broker(name: str = "default") -> Broker:
    """
    Return the broker behind the `memory` providers of that name, to look into: `broker.queue(topic).counts(now)`.

    *now* is what `memory_now()` returns.
    """
    return hub(name).broker


def memory_now(name: str = "default") -> float:
    """
    Return the seconds of that broker's clock, since the epoch.

    It follows the running event loop's, so there must be one.
    """
    return hub(name).now()


def forget(name: str = "default") -> None:
    """Drop the broker of that name with all that it holds; open providers keep the old one.  For tests."""
    _hubs.pop(name, None)


def new_broker() -> Broker:
    """Return an empty broker whose messages get UUIDs."""
    return Broker(new_id=lambda: str(uuid.uuid4()))


def settings_of(topic: str, config: TopicOptions) -> QueueSettings:
    """Return what a topic of that name is like; one that is named as a dead-letter topic has none of its own."""
    policy = None
    if not topic.endswith(config.dead_letter_suffix):
        policy = DeadLetterPolicy(topic + config.dead_letter_suffix, config.max_receives)
    return QueueSettings(
        ordering=Ordering.FIFO if topic.endswith(FIFO_SUFFIX) else Ordering.KEYED,
        visibility_timeout=config.visibility_timeout,
        delay=config.delay if policy is not None else 0.0,
        # A dead letter keeps its age; there it has as long as any broker gives it.
        retention=config.retention if policy is not None else _LONGEST_RETENTION,
        dead_letters=policy,
    )


class Hub:
    """
    Args:
        broker: None: an empty one.
        what: Names it in errors.
        wall: Returns seconds since the epoch.

    Attributes:
        broker: What holds the messages.
    """

    def __init__(
        self, broker: Broker | None = None, *, what: str = "the broker", wall: Callable[[], float] = time.time
    ) -> None:
        self.broker = new_broker() if broker is None else broker
        self._what = what
        self._wall = wall
        self._loop: asyncio.AbstractEventLoop | None = None
        self._offset = 0.0
        self._last = 0.0
        self._waiters: dict[str, deque[asyncio.Future[None]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._changed: set[str] = set()
        self.broker.watchers.append(self._note)

    def now(self) -> float:
        """
        Seconds of the broker's clock, since the epoch: it follows the running loop's, which no correction of the
        system's moves, and a change of loops never sets it back.

        Raises:
            ConfigurationError: another loop that runs uses the broker already.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._bind(loop)
        return self.seconds()

    def seconds(self) -> float:
        """What `now()` returns, for who knows that the loop is the one of the last call of it."""
        assert self._loop is not None
        self._last = max(self._last, self._loop.time() + self._offset)
        return self._last

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """A broker outlives event loops (one `asyncio.run()` after another); those who waited in the old one do not."""
        if self._loop is not None and self._loop.is_running():
            raise ConfigurationError(f"{self._what} is in use by another event loop of this process: share that loop")
        self._loop = loop
        self._offset = max(self._last, self._wall()) - loop.time()
        self._waiters.clear()
        self._timers.clear()
        self._changed.clear()

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back at *when* of the broker's clock, which stands there by then; after `now()`, on the same loop."""
        assert self._loop is not None

        def due() -> None:
            self._reached(when)
            callback()
            self.commit_soon()

        return self._loop.call_at(when - self._offset, due)

    async def committed(self) -> None:
        """Return when what was done so far is as safe as this hub makes it.  Here it is at once."""

    def commit_soon(self) -> None:
        """Have what was done so far made as safe, though nobody waits for it."""

    async def _hand_out(self, queue: Queue, leases: list[Lease]) -> None:
        """Make the leases good before their receiver gets them, or give all of them back and raise."""

    def queue(self, topic: str, config: TopicOptions) -> Queue:
        """Return the queue of *topic*; it and its dead-letter queue come into being on first use."""
        found = self.broker.get(topic)
        return self._create(topic, config) if found is None else found

    def _create(self, topic: str, config: TopicOptions) -> Queue:
        settings = settings_of(topic, config)
        if settings.dead_letters is not None:
            self.queue(settings.dead_letters.target, config)
        return self.broker.create(topic, settings)

    async def take(self, queue: Queue, most: int, *, visibility: float, wait: float) -> list[Lease]:
        """
        Take up to *most* messages, waiting up to *wait* seconds for the first.  Cancelled, it takes nothing.

        Raises:
            UnknownQueueError: the queue was deleted.
        """
        until = self.now() + wait
        deadline = asyncio.get_running_loop().time() + wait  # the same moment; `until` is too large to be as exact
        woken_in_vain = False
        while True:
            leases = queue.take(now := self.now(), most, visibility=visibility)
            self.announce(queue)
            if leases or now >= until:
                if queue.name in self._waiters and queue.has_takeable(now):
                    self._wake(queue.name)  # what was not taken is for the next in line
                if leases:
                    await self._hand_out(queue, leases)
                return leases
            if not await self._park(queue, deadline, first=woken_in_vain):
                self._reached(until)
            woken_in_vain = True

    async def _park(self, queue: Queue, deadline: float, *, first: bool) -> bool:
        """
        Wait until something is worth another try, or until the loop's *deadline*.

        Args:
            first: Keeps the place that the receive had.

        Returns:
            Whether it was woken before.
        """
        waiter = asyncio.get_running_loop().create_future()
        line = self._waiters.setdefault(queue.name, deque())
        if first:
            line.appendleft(waiter)
        else:
            line.append(waiter)
        self._arm(queue)
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except TimeoutError:
            return False
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake(queue.name)  # it was woken and will not come: another must
            raise
        finally:
            if waiter in line:
                line.remove(waiter)
            if not line and self._waiters.get(queue.name) is line:
                del self._waiters[queue.name]
                self._disarm(queue.name)
        return True

    def announce(self, queue: Queue) -> None:
        """
        Wake those for whom the last change brought something, and set the timer for what time alone will bring.

        Call it after each change of *queue*: one that brings nothing yet (a delayed message, a lease) moves the timer.
        """
        if self.broker.ready:
            for name in self.broker.drain_ready():
                self._wake(name)
        if queue.name in self._waiters:
            self._arm(queue)

    def _note(self, name: str) -> None:
        """A queue has changed, by whomever: those who wait there hear of it at the end of this turn of the loop."""
        if name not in self._waiters or self._loop is None:
            return
        if not self._changed:
            self._loop.call_soon(self._tell)
        self._changed.add(name)

    def _tell(self) -> None:
        changed, self._changed = self._changed, set()
        for name in changed:
            queue = self.broker.get(name)
            if queue is not None:
                self.announce(queue)
                continue
            for _ in range(len(self._waiters.get(name, ()))):  # each finds out, and tells its caller
                self._wake(name)

    def _wake(self, name: str) -> None:
        line = self._waiters.get(name)
        while line:
            waiter = line.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self, queue: Queue) -> None:
        """Have `_due()` called when time alone brings something; a timer that comes earlier sees to the later one."""
        change = queue.next_change(self.now())
        if change is None:
            return
        at = change - self._offset
        timer = self._timers.get(queue.name)
        if timer is not None:
            if timer.when() <= at:
                return
            timer.cancel()
        self._timers[queue.name] = asyncio.get_running_loop().call_at(at, self._due, queue, change)

    def _disarm(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _due(self, queue: Queue, change: float) -> None:
        self._timers.pop(queue.name, None)
        self._reached(change)
        try:
            queue.advance(self.now())
        except UnknownQueueError:
            self._wake(queue.name)  # it finds out, and tells its caller
            return
        self.announce(queue)
        self.commit_soon()

    def _reached(self, moment: float) -> None:
        """
        Note that a timer for *moment* has fired.

        A loop runs timers up to its clock's resolution early; a clock that then still stands before *moment* would have
        the same timer set again, and again.
        """
        self._last = max(self._last, moment)
