"""
A provider in few lines over the queue engine, and one that is broken on purpose for each thing the kit must notice.

Not the `memory` provider: that one is judged by the kit, and the kit is judged by this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from messagequeue import ConsumeError, ConsumeOptions, LeaseLostError, Message, PublishError, Receipt, SettleError
from messagequeue.broker import Broker, DeadLetterPolicy, Lease, Ordering, Outcome, Queue, QueueSettings
from messagequeue.driver import Capabilities, Delivery, EncodedMessage, LeaseSource, Limits, Sender
from messagequeue.runtime.consumer_provider import RuntimeConsumerProvider
from messagequeue.runtime.publisher_provider import RuntimePublisherProvider
from messagequeue.testing.conformance import BaseHarness, Features, Main, run_in_virtual_time

DEAD = "dead-"


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(eq=False)
class World:
    """The broker, and who waits for a message."""

    broker: Broker = field(default_factory=Broker)
    sleepers: list[asyncio.Future[None]] = field(default_factory=list)

    def wake(self) -> None:
        sleepers, self.sleepers = self.sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)


class TinySender:
    """A `Sender`."""

    limits = Limits(batch_entries=10)

    def __init__(self, queue: Queue, world: World) -> None:
        self.queue = queue
        self.world = world
        self.capabilities = capabilities_of(queue)

    def measure(self, message: EncodedMessage, /) -> int:
        return len(message.body)

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        await asyncio.sleep(0.001)
        receipts = [self.put(message) for message in messages]
        self.world.wake()
        return receipts

    def put(self, message: EncodedMessage) -> Receipt:
        body = message.body.encode() if isinstance(message.body, str) else message.body
        stored = self.queue.put(
            now(),
            body,
            key=message.ordering_key,
            dedup_id=message.deduplication_key,
            delay=message.delay,
            attributes=message.attributes or {},
        )
        return Receipt(stored.id, str(stored.sequence) if self.capabilities.ordering else None)

    async def close(self) -> None:
        pass


class TinySource:
    """A `LeaseSource`."""

    limits = Limits(receive_messages=10)

    def __init__(self, queue: Queue, world: World, options: ConsumeOptions) -> None:
        self.queue = queue
        self.world = world
        self.options = options
        self.capabilities = capabilities_of(queue)

    async def start(self) -> float:
        return self.options.visibility_timeout or self.queue.settings.visibility_timeout

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        deadline = now() + wait
        while not (leases := self.take(max_messages)) and now() < deadline:
            sleeper = asyncio.get_running_loop().create_future()
            self.world.sleepers.append(sleeper)
            change = self.queue.next_change(now())
            # Not less than the clock can tell apart: a timer of less would fire without time having passed.
            await asyncio.wait([sleeper], timeout=max(1e-6, min(deadline, change or deadline) - now()))
        return [Delivery(self.message(lease), lease) for lease in leases]

    def take(self, most: int) -> list[Lease]:
        return self.queue.take(now(), most, visibility=self.options.visibility_timeout)

    def message(self, lease: Lease) -> Message:
        stored = lease.message
        assert isinstance(stored.body, bytes)
        assert isinstance(stored.attributes, dict) or hasattr(stored.attributes, "items")
        attributes = {name: v if isinstance(v, bytes) else str(v) for name, v in stored.attributes.items()}
        sequence = str(stored.sequence) if self.capabilities.ordering else None
        return Message(
            self.queue.name,
            stored.id,
            stored.body,
            attributes,
            ordering_key=stored.key,
            deduplication_key=stored.dedup_id,
            sequence_number=sequence,
            delivery_attempt=lease.receives,
        )

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        return self.each(leases, lambda handle: self.queue.settle(now(), handle))

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        return self.each(leases, lambda handle: self.queue.release(now(), handle, after=after))

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        return self.each(leases, lambda handle: self.queue.extend(now(), handle, by))

    async def dead_letter(
        self, lease: object, message: Message, /, *, reason: str, error: str | None = None
    ) -> ConsumeError | None:
        return self.each([lease], lambda handle: self.queue.dead_letter(now(), handle))[0]

    def each(self, leases: Sequence[object], do: Callable[[str], Outcome]) -> list[ConsumeError | None]:
        outcomes = [do(lease.handle) for lease in leases if isinstance(lease, Lease)]
        self.world.wake()
        return [_error(outcome) for outcome in outcomes]

    async def close(self) -> None:
        pass


def _error(outcome: Outcome) -> ConsumeError | None:
    if outcome is Outcome.DONE:
        return None
    return SettleError("no dead-letter queue") if outcome is Outcome.NO_TARGET else LeaseLostError(outcome.value)


def capabilities_of(queue: Queue) -> Capabilities:
    ordered = queue.settings.ordering is Ordering.FIFO
    return Capabilities(
        ordering=ordered,
        ordering_key="required" if ordered else "accepted",
        deduplication=True,
        max_delay=0 if ordered else 900,
        dead_letters=queue.settings.dead_letters is not None,
        receive_cancellable=True,
    )


class TinyPublishers(RuntimePublisherProvider):
    def __init__(self, world: World, sender: type[TinySender]) -> None:
        super().__init__("tiny")
        self._world = world
        self._sender = sender

    async def _open_sender(self, topic: str) -> Sender:
        return self._sender(self._world.broker.queue(topic), self._world)

    async def _ping(self) -> None:
        pass

    async def _release(self) -> None:
        pass


class TinyConsumers(RuntimeConsumerProvider):
    def __init__(self, world: World, source: type[TinySource]) -> None:
        super().__init__("tiny")
        self._world = world
        self._source = source

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        return self._source(self._world.broker.queue(topic), self._world, options)

    async def _ping(self) -> None:
        pass

    async def _release(self) -> None:
        pass


class TinyHarness(BaseHarness):
    """The kit's view of it; with another sender or source in place, of a broken one."""

    features = Features(
        unit=2.0, patience=300.0, slack=0.2, ordered_topics=True, delays=True, deduplication=True, dead_letters=True
    )

    def __init__(self, sender: type[TinySender] = TinySender, source: type[TinySource] = TinySource) -> None:
        self._world = World()
        self._sender = sender
        self._source = source
        self._number = 0

    def run(self, main: Main, /) -> None:
        run_in_virtual_time(main)

    async def publisher_provider(self) -> TinyPublishers:
        return TinyPublishers(self._world, self._sender)

    async def consumer_provider(self) -> TinyConsumers:
        return TinyConsumers(self._world, self._source)

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        self._number += 1
        name = f"tiny-{self._number}"
        ordering = Ordering.FIFO if ordered else Ordering.STANDARD
        dead = None if max_receives is None else DeadLetterPolicy(DEAD + name, max_receives)
        if dead is not None:
            self._world.broker.create(dead.target, QueueSettings(ordering=ordering))
        settings = QueueSettings(ordering=ordering, visibility_timeout=visibility_timeout, dead_letters=dead)
        self._world.broker.create(name, settings)
        return name

    async def dead_letters(self, topic: str) -> list[bytes]:
        bodies = [peek.message.body for peek in self._world.broker.queue(DEAD + topic).peek(now())]
        return [body for body in bodies if isinstance(body, bytes)]

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        counts = self._world.broker.queue(topic).counts(now())
        return counts.visible, counts.in_flight, counts.delayed

    async def steal(self, topic: str, message: Message) -> bool:
        queue = self._world.broker.queue(topic)
        for peek in list(queue.peek(now())):
            if peek.message.id == message.id:
                queue.settle(now(), f"{queue.serial}.{peek.message.sequence}.{peek.receives}")
        return True
