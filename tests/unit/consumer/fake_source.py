"""A small queue with leases in virtual time, and a source over it that fails, hangs and answers late as it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from messagequeue import (
    ConsumeError,
    ConsumeOptions,
    DecodeError,
    LeaseLostError,
    Message,
    SettleError,
)
from messagequeue.driver import Capabilities, Delivery, Limits
from messagequeue.runtime import RuntimeConsumer
from messagequeue.runtime.sharing import Share

#: Seconds by which a timer may fire early; what is due then is due.
RESOLUTION = 1e-6


@dataclass
class Stored:
    id: str
    body: bytes
    key: str | None
    visible_at: float = 0.0
    attempts: int = 0
    handle: str = ""
    fault: bool = False


Script = BaseException | Callable[[], object]


@dataclass
class FakeSource:
    """
    A LeaseSource.

    `script[op]` holds what the next calls of an operation do first: raise, or call something whose result, where not
    None, is the answer.  `latency[op]` is how long each call takes.  `calls` records them.
    """

    lease: float = 30.0
    ordered: bool = False
    max_lease: float | None = 43_200.0
    cancellable: bool = False
    dead_letters: bool = False
    entries: int = 10
    receive_messages: int = 10
    max_receives: int = 1
    script: dict[str, deque[Script]] = field(default_factory=lambda: defaultdict(deque))
    latency: dict[str, float] = field(default_factory=dict)
    calls: list[tuple[float, str, tuple[object, ...]]] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    buried: list[tuple[str, str]] = field(default_factory=list)
    bury_errors: list[str | None] = field(default_factory=list)
    settled_ids: list[str] = field(default_factory=list)
    parked: int = 0
    most_parked: int = 0
    closed: int = 0

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        self._handles = itertools.count(1)
        self._waiters: list[asyncio.Future[None]] = []

    # -- the test's side

    def put(self, *bodies: str, key: str | None = None, fault: bool = False) -> list[str]:
        ids = []
        for body in bodies:
            item = Stored(f"m{next(self._ids)}", body.encode(), key, fault=fault)
            self.stored.append(item)
            ids.append(item.id)
        self._notify()
        return ids

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def hidden(self) -> list[str]:
        return [item.id for item in self.stored if item.visible_at > self.now()]

    def steal(self, message_id: str) -> None:
        """Give the message a new handle, as another consumer's receive does."""
        for item in self.stored:
            if item.id == message_id:
                item.handle = f"h{next(self._handles)}"
                item.attempts += 1
                item.visible_at = self.now() + self.lease

    def ops(self, name: str) -> list[tuple[float, tuple[object, ...]]]:
        return [(at, args) for at, op, args in self.calls if op == name]

    def _notify(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- the runtime's side

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            ordering=self.ordered,
            ordering_key="accepted",
            max_lease=self.max_lease,
            receive_cancellable=self.cancellable,
            dead_letters=self.dead_letters,
        )

    @property
    def limits(self) -> Limits:
        return Limits(
            batch_entries=self.entries, receive_messages=self.receive_messages, max_receives=self.max_receives
        )

    async def _enter(self, op: str, *args: object) -> object:
        self.calls.append((self.now(), op, args))
        if self.latency.get(op):
            await asyncio.sleep(self.latency[op])
        if self.script[op]:
            step = self.script[op].popleft()
            if isinstance(step, BaseException):
                raise step
            result = step()
            if asyncio.iscoroutine(result):
                return await result
            return result
        return None

    async def start(self) -> float:
        await self._enter("start")
        return self.lease

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        self.parked += 1
        self.most_parked = max(self.parked, self.most_parked)
        try:
            scripted = await self._enter("receive", max_messages, wait)
            if scripted is not None:
                return scripted  # type: ignore[return-value]
            return await self._long_poll(max_messages, self.now() + wait)
        finally:
            self.parked -= 1

    async def _long_poll(self, most: int, until: float) -> list[Delivery]:
        while True:
            taken = self._take(most)
            if taken or self.now() >= until:
                return taken
            times = [item.visible_at for item in self.stored if item.visible_at > self.now() + RESOLUTION]
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                async with asyncio.timeout_at(min([until, *times])):
                    await waiter
            except TimeoutError:
                pass
            finally:
                self._waiters.remove(waiter)

    def _take(self, most: int) -> list[Delivery]:
        now, soon = self.now(), self.now() + RESOLUTION
        locked = {i.key for i in self.stored if self.ordered and i.key is not None and i.visible_at > soon}
        out = []
        for item in self.stored:
            if len(out) == most:
                break
            if item.visible_at > soon or (self.ordered and item.key in locked):
                continue
            item.visible_at = now + self.lease
            item.attempts += 1
            item.handle = f"h{next(self._handles)}"
            out.append(self._delivery(item))
        return out

    def _delivery(self, item: Stored) -> Delivery:
        message = Message("t", item.id, item.body, ordering_key=item.key, delivery_attempt=item.attempts)
        fault = DecodeError("not readable") if item.fault else None
        return Delivery(message, item.handle, fault)

    def _find(self, handle: object) -> Stored | None:
        return next((item for item in self.stored if item.handle == handle), None)

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        scripted = await self._enter("settle", *leases)
        if scripted is not None:
            return scripted  # type: ignore[return-value]
        return [self._settle(lease) for lease in leases]

    def _settle(self, lease: object) -> ConsumeError | None:
        item = self._find(lease)
        if item is None:
            return LeaseLostError("stale")
        self.stored.remove(item)
        self.settled_ids.append(item.id)
        self._notify()
        return None

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        scripted = await self._enter("release", after, *leases)
        if scripted is not None:
            return scripted  # type: ignore[return-value]
        return [self._change(lease, after) for lease in leases]

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        scripted = await self._enter("extend", by, *leases)
        if scripted is not None:
            return scripted  # type: ignore[return-value]
        return [self._change(lease, by) for lease in leases]

    def _change(self, lease: object, by: float) -> ConsumeError | None:
        item = self._find(lease)
        if item is None or item.visible_at <= self.now():
            return LeaseLostError("not in flight")
        item.visible_at = self.now() + by
        self._notify()
        return None

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        scripted = await self._enter("dead_letter", lease)
        if scripted is not None:
            return scripted  # type: ignore[return-value]
        item = self._find(lease)
        if item is None:
            return SettleError("stale")
        self.stored.remove(item)
        self.buried.append((item.id, reason))
        self.bury_errors.append(error)
        return None

    async def close(self) -> None:
        self.closed += 1


@dataclass
class Bench:
    """A consumer over a fake source, and what it reported."""

    source: FakeSource
    consumer: RuntimeConsumer
    errors: list[ConsumeError]
    task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.consumer.consume())

    async def stop(self) -> None:
        self.consumer.stop()
        assert self.task is not None
        await self.task

    def kinds(self) -> list[str]:
        return [type(error).__name__ for error in self.errors]


def bench(
    source: FakeSource, handler: Callable[..., object], *, share: Share | None = None, **options: object
) -> Bench:
    errors: list[ConsumeError] = []
    consumer = RuntimeConsumer(
        "t",
        source,
        handler,
        ConsumeOptions(**options),
        on_error=errors.append,  # type: ignore[arg-type]
        share=share,
    )
    return Bench(source, consumer, errors)
