"""
A broker that does as it is told, at the driver level: for tests of the runtime, not for tests of an application.

    source = ScriptedSource("orders")
    source.put("a", "b")                                               # two messages are waiting
    source.script("receive", ReceiveError("down"), ReceiveError("down"))   # the next two receives fail
    source.script("settle", {"m1": SettleError("busy", retryable=True)})   # in the next settle, one entry fails
    source.takes("extend", 0.5)                                        # every extend takes half a second
    ...
    assert source.settled == ["m2", "m1"]

Leases do not run out by themselves here: `lose()` takes one away.  The `memory` provider has a real queue.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TypeVar

from .._errors import ConsumeError, LeaseLostError, MessageQueueError, MessageTooLargeError, PublishError
from .._message import Message, Receipt
from ..driver import Capabilities, Delivery, EncodedMessage, Limits
from ._messages import message

E = TypeVar("E", bound=MessageQueueError)

#: What a scripted source and sender can do: everything but what has to be asked for.
ABLE = Capabilities(ordering_key="accepted", deduplication=True, max_delay=900.0, dead_letters=True)


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call of a scripted source or sender, as it began.

    Attributes:
        action: The method's name.
        at: The loop's time.
        items: Message ids (of a source), or the messages (of a sender).
        number: `wait`, `after` or `by` in seconds; 0 where the method has none.
        most: `max_messages` of a receive.
    """

    action: str
    at: float
    items: tuple[object, ...] = ()
    number: float = 0.0
    most: int = 0


@dataclass(slots=True)
class _Script:
    """What the next calls of each action meet, how long they take, and what was called."""

    calls: list[Call] = field(default_factory=list)
    faults: dict[str, deque[object]] = field(default_factory=dict)
    durations: dict[str, float] = field(default_factory=dict)

    async def enter(self, call: Call) -> Mapping[object, MessageQueueError]:
        """Record *call*, take its time, raise what is scripted for the whole of it, return what is for its entries."""
        self.calls.append(call)
        faults = self.faults.get(call.action)
        fault = faults.popleft() if faults else None
        if call.action in self.durations:
            await asyncio.sleep(self.durations[call.action])
        if isinstance(fault, BaseException):
            raise fault
        return fault if isinstance(fault, Mapping) else {}


class _Scripted:
    def __init__(self, topic: str, capabilities: Capabilities, limits: Limits) -> None:
        self.topic = topic
        self.capabilities = capabilities
        self.limits = limits
        self.closed = 0
        self._script = _Script()

    def script(self, action: str, *faults: BaseException | Mapping[object, MessageQueueError] | None) -> None:
        """
        Let the next calls of *action* meet *faults*, one each; calls after them succeed.

        An exception fails the whole call.  A mapping fails entries: message id (of a source) or position (of a
        sender) to error.  None lets that call succeed.
        """
        self._script.faults.setdefault(action, deque()).extend(faults)

    def takes(self, action: str, seconds: float) -> None:
        """Let every later call of *action* take *seconds* before it has an effect."""
        self._script.durations[action] = seconds

    @property
    def calls(self) -> list[Call]:
        """Every call, in the order they began."""
        return self._script.calls

    def count(self, action: str) -> int:
        """Return how many calls of *action* began."""
        return sum(call.action == action for call in self.calls)

    async def close(self) -> None:
        self.closed += 1
        await self._script.enter(Call("close", _now()))


@dataclass(frozen=True, slots=True)
class Lease:
    """What a `ScriptedSource` gives out with a message: its id and which delivery it was."""

    message_id: str
    attempt: int


class ScriptedSource(_Scripted):
    """
    A `messagequeue.driver.LeaseSource` for tests; see the module's example.

    Attributes:
        settled: Ids of the messages taken off the queue, in order.
        released: Ids of the messages given back, with the seconds after which they come again.
        extended: Ids of the messages whose lease was prolonged, with the seconds.
        dead: Ids of the messages put into the dead-letter queue, with the reason.
    """

    def __init__(
        self,
        topic: str = "test",
        *,
        lease: float = 30.0,
        capabilities: Capabilities = ABLE,
        limits: Limits = Limits(max_receives=10),  # noqa: B008 (a frozen value)
    ) -> None:
        super().__init__(topic, capabilities, limits)
        self.lease = lease
        self.settled: list[str] = []
        self.released: list[tuple[str, float]] = []
        self.extended: list[tuple[str, float]] = []
        self.dead: list[tuple[str, str]] = []
        self.receiving = 0
        self.most_receiving = 0
        self._waiting: list[tuple[float, int, Delivery]] = []
        self._held: dict[str, Delivery] = {}
        self._lost: set[str] = set()
        self._numbers = itertools.count(1)
        self._sleepers: list[asyncio.Future[None]] = []

    def put(self, *data: object, after: float = 0.0) -> list[str]:
        """
        Let messages arrive, in this order, *after* seconds from now; return their ids.

        Args:
            data: A `Message`, a `Delivery` (to script a `fault`), or data to make a message of; ids m1, m2, ...
        """
        return [self._put(item, after) for item in data]

    def _put(self, item: object, after: float) -> str:
        number = next(self._numbers)
        if not isinstance(item, Delivery):
            made = item if isinstance(item, Message) else message(item, topic=self.topic, id=f"m{number}")
            item = Delivery(made, Lease(made.id, made.delivery_attempt or 1))
        heappush(self._waiting, (_now(default=0.0) + after, number, item))
        self._wake()
        return item.message.id

    def lose(self, *message_ids: str) -> None:
        """Give the leases of these messages away: every later use of them is a `LeaseLostError`."""
        self._lost.update(message_ids)

    @property
    def held(self) -> list[str]:
        """Ids of the messages given out and neither settled nor given back."""
        return list(self._held)

    # -- messagequeue.driver.LeaseSource

    async def start(self) -> float:
        await self._script.enter(Call("start", _now()))
        return self.lease

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        self.receiving += 1
        self.most_receiving = max(self.most_receiving, self.receiving)
        try:
            await self._script.enter(Call("receive", _now(), number=wait, most=max_messages))
            await self._arrival(_now() + wait)
            return self._take(min(max_messages, self.limits.receive_messages))
        finally:
            self.receiving -= 1

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        answers = await self._change("settle", leases)
        for lease in _done(leases, answers):
            self.settled.append(lease.message_id)
            self._held.pop(lease.message_id, None)
        return answers

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        answers = await self._change("release", leases, after)
        for lease in _done(leases, answers):
            self.released.append((lease.message_id, after))
            self._return(lease, after)
        return answers

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        answers = await self._change("extend", leases, by)
        self.extended += [(lease.message_id, by) for lease in _done(leases, answers)]
        return answers

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        answers = await self._change("dead_letter", [lease])
        if answers[0] is None:
            self.dead.append((message.id, reason))
            self._held.pop(message.id, None)
        return answers[0]

    # -- inside

    def _take(self, most: int) -> list[Delivery]:
        taken: list[Delivery] = []
        while self._waiting and len(taken) < most and self._waiting[0][0] <= _now():
            delivery = heappop(self._waiting)[2]
            self._held[delivery.message.id] = delivery
            self._lost.discard(delivery.message.id)
            taken.append(delivery)
        return taken

    def _return(self, lease: Lease, after: float) -> None:
        delivery = self._held.pop(lease.message_id, None)
        if delivery is None:
            return
        again = replace(delivery.message, delivery_attempt=lease.attempt + 1)
        self.put(Delivery(again, Lease(again.id, lease.attempt + 1), delivery.fault), after=after)

    async def _change(self, action: str, leases: Sequence[object], number: float = 0.0) -> list[ConsumeError | None]:
        """Return one answer per lease: what was scripted, a lost lease, or None."""
        names = [lease.message_id for lease in leases if isinstance(lease, Lease)]
        scripted = await self._script.enter(Call(action, _now(), tuple(names), number))
        return [_as_consume_error(scripted.get(name)) or self._lost_lease(name) for name in names]

    def _lost_lease(self, name: str) -> LeaseLostError | None:
        if name in self._lost:
            return LeaseLostError(f"the lease of message {name} was given away", topic=self.topic)
        return None

    async def _arrival(self, deadline: float) -> None:
        while (now := _now()) < deadline and not (self._waiting and self._waiting[0][0] <= now):
            until = min([deadline, *(due for due, _, _ in self._waiting[:1])])
            sleeper = asyncio.get_running_loop().create_future()
            self._sleepers.append(sleeper)
            await asyncio.wait([sleeper], timeout=until - now)

    def _wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)


class ScriptedSender(_Scripted):
    """
    A `messagequeue.driver.Sender` for tests; see the module's example.

    Attributes:
        sent: The messages that were taken, in order.
    """

    def __init__(
        self,
        topic: str = "test",
        *,
        capabilities: Capabilities = ABLE,
        limits: Limits = Limits(),  # noqa: B008 (a frozen value)
        max_size: int | None = None,
    ) -> None:
        super().__init__(topic, capabilities, limits)
        self.max_size = max_size
        self.sent: list[EncodedMessage] = []
        self.sending = 0
        self.most_sending = 0

    def measure(self, message: EncodedMessage, /) -> int:
        size = len(_octets(message.body))
        for name, value in (message.attributes or {}).items():
            size += len(name.encode()) + len(value if isinstance(value, bytes) else str(value).encode())
        if self.max_size is not None and size > self.max_size:
            raise MessageTooLargeError(size=size, limit=self.max_size, topic=self.topic)
        return size

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        self.sending += 1
        self.most_sending = max(self.most_sending, self.sending)
        try:
            scripted = await self._script.enter(Call("send", _now(), tuple(messages)))
        finally:
            self.sending -= 1
        return [self._result(item, scripted.get(index)) for index, item in enumerate(messages)]

    def _result(self, item: EncodedMessage, fault: MessageQueueError | None) -> Receipt | PublishError:
        if isinstance(fault, PublishError):
            return fault
        self.sent.append(item)
        return Receipt(f"s{len(self.sent)}", f"{len(self.sent):020}" if self.capabilities.ordering else None)


def _octets(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


def _as_consume_error(fault: MessageQueueError | None) -> ConsumeError | None:
    if fault is not None and not isinstance(fault, ConsumeError):
        raise TypeError(f"an entry was scripted to fail with {type(fault).__name__}: give a ConsumeError")
    return fault


def _done(leases: Sequence[object], answers: Sequence[ConsumeError | None]) -> list[Lease]:
    pairs = zip(leases, answers, strict=True)
    return [lease for lease, answer in pairs if answer is None and isinstance(lease, Lease)]


def _now(*, default: float | None = None) -> float:
    """The running loop's time; *default* outside of one."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        if default is None:
            raise
        return default
