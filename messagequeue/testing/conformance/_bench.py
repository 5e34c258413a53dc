"""What the facts are written with: topics, publishing, recorded handlers, waiting, a strict end; no fact is here."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar, Unpack

import pytest

from ..._errors import ConsumeError
from ..._message import Message, Outgoing, Receipt
from ..._options import ConsumeKwargs, PublishKwargs
from ..._protocols import Consumer, ConsumerProvider, Middleware, Publisher, PublisherProvider
from ._harness import Harness

#: What a recorded handler does.
Behaviour = Callable[[Message], Awaitable[object]]
F = TypeVar("F", bound=ConsumeError)

#: Units of a lease that does not run out during a fact.
LONG = 30.0


@dataclass(slots=True)
class Handling:
    """One run of a handler.  Times are the loop's; `ended` is None while it runs."""

    message: Message
    began: float
    ended: float | None = None
    error: BaseException | None = None

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def done(self) -> bool:
        """It returned."""
        return self.ended is not None and self.error is None


class OwnKey(TypedDict, total=False):
    """What `Bench.key()` gives."""

    ordering_key: str


class Worker:
    """
    A consumer under observation; its `consume()` runs as a task.

    Attributes:
        handlings: Every run of its handler, in the order they began.
        faults: What `on_error` was told.
    """

    def __init__(self, bench: Bench, behaviour: Behaviour | None) -> None:
        self.handlings: list[Handling] = []
        self.faults: list[ConsumeError] = []
        self.running = 0
        self.most_running = 0
        self._bench = bench
        self._behaviour = behaviour
        self.consumer: Consumer
        self.task: asyncio.Task[None]

    async def handle(self, message: Message) -> None:
        """The handler."""
        handling = Handling(message, self._bench.now())
        self.handlings.append(handling)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self._bench.notice()
        try:
            if self._behaviour is not None:
                await self._behaviour(message)
        except BaseException as error:
            handling.error = error
            raise
        finally:
            handling.ended = self._bench.now()
            self.running -= 1
            self._bench.notice()

    def blame(self, error: ConsumeError) -> None:
        """The `on_error`."""
        self.faults.append(error)
        self._bench.notice()

    @property
    def begun(self) -> list[str]:
        """Texts of the messages, in the order their handlers began."""
        return [handling.text for handling in self.handlings]

    @property
    def done(self) -> list[str]:
        """Texts of the messages whose handler returned, in the order they began."""
        return [handling.text for handling in self.handlings if handling.done]

    async def until_begun(self, count: int) -> None:
        await self._bench.until(lambda: len(self.handlings) >= count, f"{count} handlers begin")

    async def until_done(self, count: int) -> None:
        await self._bench.until(
            lambda: sum(handling.done for handling in self.handlings) >= count, f"{count} handlers return"
        )

    async def until_blamed(self, kind: type[F]) -> F:
        """Wait for a fault of that kind, and take it for expected."""
        await self._bench.until(
            lambda: any(isinstance(fault, kind) for fault in self.faults), f"{kind.__name__} is told"
        )
        return self.expect(kind)[0]

    def expect(self, kind: type[F]) -> list[F]:
        """Take out the faults of that kind that were told: what is left at the end of a fact fails it."""
        found = [fault for fault in self.faults if isinstance(fault, kind)]
        self.faults = [fault for fault in self.faults if not isinstance(fault, kind)]
        return found

    async def stop(self) -> float:
        """Stop gracefully; return the seconds until `consume()` returned."""
        asked = self._bench.now()
        self.consumer.stop()
        await self.end()
        return self._bench.now() - asked

    async def end(self) -> None:
        """Wait for `consume()` to return."""
        async with asyncio.timeout(self._bench.patience):
            await self.task


class Bench:
    """
    One fact's access to the broker under judgement.

    Attributes:
        ordered: Topics are ordered; every message then has an ordering key, of its own where the fact gives none.
    """

    def __init__(self, harness: Harness, ordered: bool) -> None:
        self.harness = harness
        self.ordered = ordered
        self.features = harness.features
        self.unit, self.patience, self.slack = self.features.unit, self.features.patience, self.features.slack
        self._changed = asyncio.Event()
        self._numbers = itertools.count(1)
        self._workers: list[Worker] = []
        self._publishers: PublisherProvider | None = None
        self._consumers: ConsumerProvider | None = None
        self._providers: list[PublisherProvider | ConsumerProvider] = []

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def notice(self) -> None:
        """Something changed: let `until()` look again."""
        self._changed.set()

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until *holds()*, or fail: *what* did not happen."""
        try:
            async with asyncio.timeout(self.patience):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            seen = [[handling.message.body for handling in worker.handlings] for worker in self._workers]
            faults = [fault for worker in self._workers for fault in worker.faults]
            pytest.fail(f"not within {self.patience:g} s: {what}; handlers began for {seen}; faults: {faults}")

    # -- making

    async def publishers(self) -> PublisherProvider:
        """Return a publishing half of its own."""
        made = await self.harness.publisher_provider()
        self._providers.append(made)
        return made

    async def consumers(self) -> ConsumerProvider:
        """Return a consuming half of its own."""
        made = await self.harness.consumer_provider()
        self._providers.append(made)
        return made

    async def new_topic(self, *, lease: float = LONG, max_receives: int | None = None) -> str:
        """Make a topic whose lease is *lease* units."""
        return await self.harness.new_topic(
            ordered=self.ordered, visibility_timeout=lease * self.unit, max_receives=max_receives
        )

    async def publisher(self, topic: str) -> Publisher:
        """Return the fact's usual publisher of *topic*."""
        if self._publishers is None:
            self._publishers = await self.publishers()
        return await self._publishers.new_publisher(topic)

    def key(self) -> OwnKey:
        """The options that every message of this kind of topic needs, with an ordering key of its own."""
        return {"ordering_key": f"key-{next(self._numbers)}"} if self.ordered else {}

    async def publish(self, topic: str, *data: object, **options: Unpack[PublishKwargs]) -> list[Receipt]:
        """Publish all of *data*, in order, and return the receipts; a failure fails the fact."""
        items = [Outgoing(item, **{**self.key(), **options}) for item in data]  # type: ignore[arg-type]
        results = await (await self.publisher(topic)).publish_many(items)
        receipts = [result for result in results if isinstance(result, Receipt)]
        assert len(receipts) == len(data), f"not everything was published: {results}"
        return receipts

    async def consume(
        self,
        topic: str,
        behaviour: Behaviour | None = None,
        *,
        provider: ConsumerProvider | None = None,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[ConsumeKwargs],
    ) -> Worker:
        """Start a consumer whose handler does *behaviour*; nothing where None."""
        if provider is None:
            provider = self._consumers = self._consumers or await self.consumers()
        worker = Worker(self, behaviour)
        options.setdefault("wait_time", self.features.wait)
        worker.consumer = await provider.new_consumer(
            topic, worker.handle, middleware=middleware, on_error=worker.blame, **options
        )
        worker.task = asyncio.create_task(worker.consumer.consume(), name=f"kit consume {topic}")
        self._workers.append(worker)
        return worker

    # -- looking

    async def receive(self, topic: str, count: int = 1) -> list[Message]:
        """Consume exactly *count* messages and stop; they are off the queue."""
        worker = await self.consume(topic, provider=await self.consumers())
        await worker.until_done(count)
        await self._cancel([worker])
        assert len(worker.handlings) == count
        return [handling.message for handling in worker.handlings]

    async def gone(self, topic: str, lease: float = 1.0) -> None:
        """Wait until the topic is empty; by waiting for *lease* units where the broker cannot tell."""
        before = sum(len(worker.handlings) for worker in self._workers)
        if await self.harness.counts(topic) is None:
            await asyncio.sleep(1.5 * lease * self.unit)
            assert sum(len(worker.handlings) for worker in self._workers) == before
        else:
            await self.until_counts(topic, (0, 0, 0))

    async def until_counts(self, topic: str, wanted: tuple[int, int, int]) -> None:
        """Wait until the counts are *wanted*, where the broker can tell."""
        pause = self.unit / 40
        found: tuple[int, int, int] | None = None
        for _ in range(math.ceil(self.patience / pause)):
            found = await self.harness.counts(topic)
            if found is None or found == wanted:
                return
            await asyncio.sleep(pause)
        pytest.fail(f"not within {self.patience:g} s: counts are {wanted} (visible, in flight, delayed), not {found}")

    # -- the end

    async def close(self) -> None:
        """
        End everything.

        Raises:
            AssertionError: a consumer had ended by an error, or faults were told that the fact did not expect.
        """
        try:
            await self._cancel(self._workers)
        finally:
            for provider in self._providers:
                await provider.close()
        for worker in self._workers:
            assert worker.task.cancelled() or worker.task.exception() is None, "consume() ended by an error"
            assert not worker.faults, f"unexpected faults: {worker.faults}"
            assert not worker.running, "a handler runs after the end"

    async def _cancel(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.task.cancel()
        await asyncio.gather(*(worker.task for worker in workers), return_exceptions=True)


async def fail(_: Message) -> None:
    """A behaviour: raise."""
    raise RuntimeError("the handler fails, as the fact asks")


def fail_once() -> Behaviour:
    """A behaviour: raise on the first handling of each message."""
    seen: set[str] = set()

    async def behaviour(message: Message) -> None:
        if message.id not in seen:
            seen.add(message.id)
            await fail(message)

    return behaviour


def numbers(count: int, first: int = 1) -> list[str]:
    """Texts that differ: "1", "2", ..."""
    return [str(number) for number in range(first, first + count)]


__all__ = ["LONG", "Behaviour", "Bench", "Worker", "fail", "fail_once", "numbers"]
