"""
Write a provider: two small classes over the broker, and everything else is the runtime's.

`Shelf` stands for the broker: a server that stores bytes, hands them out for a time, and knows nothing of Python.
`ShelfSender` and `ShelfSource` are one request each; they do not retry, gather, order, prolong or log.  The two
providers open them, `ProviderSpec` names them, and from then on `shelf` is a provider like every other: its options are
read from the environment, and concurrency, batches, heartbeats, retries and draining work.  Whether it keeps the
promises, 08_judge_a_provider.py asks the conformance kit.

In a package of its own, an entry point takes the place of `register_provider()`:

    [project.entry-points."messagequeue.providers"]
    shelf = "my_package:SHELF"

Prints:

    shelf is one of ...memory..., shelf, ...
    refused: topic 'parcels' takes no ordering_key...
    handled a on delivery 1
    failed b on delivery 1
    handled c on delivery 1
    handled b on delivery 2
    left on the shelf: 0
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from messagequeue import (
    Config,
    ConsumeError,
    ConsumeOptions,
    LeaseLostError,
    Message,
    MessageTooLargeError,
    PublishError,
    PublishOptions,
    Receipt,
    RetryLater,
    UnsupportedOptionError,
    open_consumers,
    open_publishers,
    provider_names,
    register_provider,
)
from messagequeue.driver import Capabilities, Delivery, EncodedMessage, LeaseSource, Limits, ProviderSpec, Sender
from messagequeue.runtime import RuntimeConsumerProvider, RuntimePublisherProvider

# ---- the broker


@dataclass
class Parcel:
    id: str
    body: bytes
    labels: Mapping[str, str | bytes]
    visible_at: float = 0.0
    takes: int = 0


@dataclass
class Shelf:
    """One topic of the broker.  A take hides a parcel until its time is up; a ticket is good until the next take."""

    parcels: dict[str, Parcel] = field(default_factory=dict)
    count: int = 0

    def put(self, body: bytes, labels: Mapping[str, str | bytes]) -> str:
        self.count += 1
        parcel = Parcel(f"p{self.count}", body, labels)
        self.parcels[parcel.id] = parcel
        return parcel.id

    def take(self, most: int, until: float, now: float) -> list[Parcel]:
        taken = [parcel for parcel in self.parcels.values() if parcel.visible_at <= now][:most]
        for parcel in taken:
            parcel.visible_at = until
            parcel.takes += 1
        return taken

    def find(self, ticket: tuple[str, int], now: float) -> Parcel | None:
        parcel = self.parcels.get(ticket[0])
        return parcel if parcel and parcel.takes == ticket[1] and parcel.visible_at > now else None


SHELVES: dict[str, Shelf] = {}


def shelf_of(topic: str) -> Shelf:
    return SHELVES.setdefault(topic, Shelf())


# ---- the driver: what a provider's author writes

#: No ordering, no deduplication, no delay: whoever asks for them gets an error instead of a surprise.
CAPABILITIES = Capabilities(receive_cancellable=True)
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfConfig:
    """The provider's options; each can be set by `MESSAGEQUEUE_SHELF_<OPTION>`."""

    lease: float = 30.0
    consume: ConsumeOptions = ConsumeOptions()
    publish: PublishOptions = PublishOptions()


class ShelfSender:
    capabilities = CAPABILITIES
    limits = Limits(batch_entries=10)

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def measure(self, message: EncodedMessage, /) -> int:
        size = len(body_of(message))
        if size > MAX_BYTES:
            raise MessageTooLargeError(size=size, limit=MAX_BYTES)
        return size

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        return [Receipt(self._shelf.put(body_of(message), labels_of(message))) for message in messages]

    async def close(self) -> None:
        """Nothing belongs to one topic alone."""


class ShelfSource:
    capabilities = CAPABILITIES
    limits = Limits(receive_messages=10)

    def __init__(self, topic: str, lease: float) -> None:
        self._topic = topic
        self._shelf = shelf_of(topic)
        self._lease = lease

    async def start(self) -> float:
        return self._lease

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        deadline = now() + wait
        while not (taken := self._shelf.take(max_messages, now() + self._lease, now())) and now() < deadline:
            await asyncio.sleep(0.01)  # a toy asks again; a real broker has long polls
        return [self._delivery(parcel) for parcel in taken]

    def _delivery(self, parcel: Parcel) -> Delivery:
        message = Message(self._topic, parcel.id, parcel.body, parcel.labels, delivery_attempt=parcel.takes)
        return Delivery(message, lease=(parcel.id, parcel.takes))

    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        return [self._end(lease) for lease in leases]

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        return [self._move(lease, now() + after) for lease in leases]

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        return [self._move(lease, now() + by) for lease in leases]

    async def dead_letter(self, lease: object, message: Message, /, *, reason: str) -> ConsumeError | None:
        raise NotImplementedError  # not called: Capabilities.dead_letters is not set

    async def close(self) -> None:
        """Nothing belongs to one topic alone."""

    def _find(self, lease: object) -> Parcel | None:
        assert isinstance(lease, tuple)
        return self._shelf.find(lease, now())

    def _end(self, lease: object) -> ConsumeError | None:
        parcel = self._find(lease)
        if parcel is None:
            return LeaseLostError("the shelf gave the parcel to somebody else", topic=self._topic)
        del self._shelf.parcels[parcel.id]
        return None

    def _move(self, lease: object, visible_at: float) -> ConsumeError | None:
        parcel = self._find(lease)
        if parcel is None:
            return LeaseLostError("the shelf gave the parcel to somebody else", topic=self._topic)
        parcel.visible_at = visible_at
        return None


def body_of(message: EncodedMessage) -> bytes:
    return message.body.encode() if isinstance(message.body, str) else message.body


def labels_of(message: EncodedMessage) -> dict[str, str | bytes]:
    """Attributes; numbers arrive as their text."""
    given = (message.attributes or {}).items()
    return {name: value if isinstance(value, str | bytes) else str(value) for name, value in given}


def now() -> float:
    return asyncio.get_running_loop().time()


class ShelfPublishers(RuntimePublisherProvider):
    def __init__(self, config: ShelfConfig) -> None:
        super().__init__("shelf", config.publish)

    async def _open_sender(self, topic: str) -> Sender:
        return ShelfSender(shelf_of(topic))

    async def _ping(self) -> None:
        """Ask the broker something cheap; raise `MessageQueueError` where it does not answer."""

    async def _release(self) -> None:
        """Close the connection."""


class ShelfConsumers(RuntimeConsumerProvider):
    def __init__(self, config: ShelfConfig) -> None:
        super().__init__("shelf", config.consume)
        self._config = config

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        return ShelfSource(topic, options.visibility_timeout or self._config.lease)

    async def _ping(self) -> None: ...

    async def _release(self) -> None: ...


SHELF = ProviderSpec(name="shelf", config=ShelfConfig, publisher=ShelfPublishers, consumer=ShelfConsumers)

# ---- an application, which knows nothing of it


async def main() -> None:
    register_provider(SHELF)
    print("shelf is one of", ", ".join(provider_names()))
    config = Config.from_env(environ={"MESSAGEQUEUE_PROVIDER": "shelf", "MESSAGEQUEUE_SHELF_LEASE": "5"})

    async with open_publishers(config) as publishers, open_consumers(config) as consumers:
        publisher = await publishers.new_publisher("parcels")
        try:
            await publisher.publish("a", ordering_key="ada")
        except UnsupportedOptionError as error:
            print(f"refused: {error}")
        await publisher.publish_many(["a", "b", "c"])

        async def handle(message: Message) -> None:
            if message.text == "b" and message.delivery_attempt == 1:
                print(f"failed b on delivery {message.delivery_attempt}")
                raise RetryLater(0.1)
            print(f"handled {message.text} on delivery {message.delivery_attempt}")
            if message.delivery_attempt == 2:
                consumer.stop()

        consumer = await consumers.new_consumer("parcels", handle)
        await consumer.consume()
    print("left on the shelf:", len(shelf_of("parcels").parcels))


if __name__ == "__main__":
    asyncio.run(main())
