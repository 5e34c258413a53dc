"""
A broker that tasks of one event loop share: its clock, its topics, and who waits at them.

Not what a message looks like on the outside (`_source`, `_sender`).  A parked receive is woken by what happens, never
by looking again: each change of the broker names the queues worth another try, and one timer per topic stands for what
time alone brings.  One message wakes one receive.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque

from ..broker import Broker, DeadLetterPolicy, Lease, Ordering, Queue, QueueSettings
from ._config import MemoryConfig

_hubs: dict[str, Hub] = {}


def hub(name: str) -> Hub:
    """Return the hub of that name in this process; it comes into being on first use."""
    found = _hubs.get(name)
    if found is None:
        found = _hubs[name] = Hub()
    return found


def memory_broker(name: str = "default") -> Broker:
    """
    Return the broker behind the `memory` providers of that name, to look into: `broker.queue(topic).counts(now)`.

    *now* is the broker's clock; see `Hub.now`.
    """
    return hub(name).broker


def forget(name: str = "default") -> None:
    """Drop the broker of that name with all that it holds; open providers keep the old one.  For tests."""
    _hubs.pop(name, None)


class Hub:
    """
    Attributes:
        broker: What holds the messages.
    """

    def __init__(self) -> None:
        self.broker = Broker(new_id=lambda: str(uuid.uuid4()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._offset = 0.0
        self._last = 0.0
        self._waiters: dict[str, deque[asyncio.Future[None]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def now(self) -> float:
        """Seconds of the broker's clock: the running loop's, moved so that it never runs backwards between loops."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._bind(loop)
        self._last = loop.time() + self._offset
        return self._last

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """A broker outlives event loops (one `asyncio.run()` after another); those who waited in the old one do not."""
        self._loop = loop
        self._offset = max(0.0, self._last - loop.time())
        self._waiters.clear()
        self._timers.clear()

    def queue(self, topic: str, config: MemoryConfig) -> Queue:
        """Return the queue of *topic*; it and its dead-letter queue come into being on first use."""
        found = self.broker.get(topic)
        return self._create(topic, config) if found is None else found

    def _create(self, topic: str, config: MemoryConfig) -> Queue:
        policy = None
        if not topic.endswith(config.dead_letter_suffix):
            target = topic + config.dead_letter_suffix
            policy = DeadLetterPolicy(target, config.max_receives)
            self.queue(target, config)
        settings = QueueSettings(
            ordering=Ordering.KEYED,
            visibility_timeout=config.visibility_timeout,
            delay=config.delay if policy is not None else 0.0,
            retention=config.retention,
            dead_letters=policy,
        )
        return self.broker.create(topic, settings)

    async def take(self, queue: Queue, most: int, *, visibility: float, wait: float) -> list[Lease]:
        """Take up to *most* messages, waiting up to *wait* seconds for the first.  Cancelled, it takes nothing."""
        until = self.now() + wait
        while True:
            leases = queue.take(now := self.now(), most, visibility=visibility)
            self.announce()
            if leases or now >= until:
                if queue.name in self._waiters and queue.has_takeable(now):
                    self._wake(queue.name)  # what was not taken is for the next in line
                return leases
            await self._park(queue, until)

    async def _park(self, queue: Queue, until: float) -> None:
        """Wait for something to try again for, or for *until*."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        line = self._waiters.setdefault(queue.name, deque())
        line.append(waiter)
        self._arm(queue)
        try:
            async with asyncio.timeout_at(until - self._offset):
                await waiter
        except TimeoutError:
            pass
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

    def announce(self) -> None:
        """Wake those for whom the last change of the broker brought something.  Call it after each change."""
        if self.broker.ready:
            for name in self.broker.drain_ready():
                self._wake(name)

    def _wake(self, name: str) -> None:
        line = self._waiters.get(name)
        while line:
            waiter = line.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self, queue: Queue) -> None:
        """Have the first in line woken when time alone brings something."""
        self._disarm(queue.name)
        change = queue.next_change(self.now())
        if change is not None and queue.name in self._waiters:
            at = max(change - self._offset, asyncio.get_running_loop().time())
            self._timers[queue.name] = asyncio.get_running_loop().call_at(at, self._due, queue)

    def _disarm(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _due(self, queue: Queue) -> None:
        self._timers.pop(queue.name, None)
        if queue.has_takeable(self.now()):
            self._wake(queue.name)
        self._arm(queue)
