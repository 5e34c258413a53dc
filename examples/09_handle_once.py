"""
Charge each order once, however often its message comes: published twice, delivered twice, or after a crash.

`idempotent()` claims a message's key, runs the handler, and records that it is done.  `Idempotency` does the same for a
single call and gives its result back, so that a handler that fails half-way does not charge again when it is retried.

Prints:

    charging o-1
    o-1 is charged, but its mail server does not answer: it comes back
    mailed the receipt of o-1: charge-1
    charging o-2
    mailed the receipt of o-2: charge-2
    o-1 again, for another amount: FingerprintMismatchError
    charged: ['o-1', 'o-2']
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from messagequeue import ConsumeError, Message, RetryLater, open_consumers, open_publishers
from messagequeue.idempotency import Idempotency, SqliteStore, idempotent

#: What the producer sends: it repeats o-1, because it did not see our answer, and later confuses two orders.
PUBLISHED: Sequence[dict[str, object]] = [
    {"order": "o-1", "amount": 1250},
    {"order": "o-1", "amount": 1250},
    {"order": "o-2", "amount": 400},
    {"order": "o-1", "amount": 9900},
]


class Shop:
    """Charges orders and mails receipts; its mail server does not answer at first."""

    def __init__(self, calls: Idempotency) -> None:
        self.calls = calls
        self.charged: list[str] = []
        self.mails = 0

    async def charge(self, order: str) -> str:
        print("charging", order)
        self.charged.append(order)
        return f"charge-{len(self.charged)}"

    async def handle(self, message: Message) -> None:
        order = message.json()["order"]
        # Done once, even where what comes after it fails and the whole handler runs again.
        receipt = await self.calls.run(order, lambda: self.charge(order))
        self.mails += 1
        if self.mails == 1:
            print(order, "is charged, but its mail server does not answer: it comes back")
            raise RetryLater(0.1, "the mail server does not answer")
        print("mailed the receipt of", f"{order}: {receipt}")


async def main() -> None:
    seen = asyncio.Event()

    def on_error(error: ConsumeError) -> None:
        print("o-1 again, for another amount:", type(error.__cause__).__name__)
        seen.set()

    async with SqliteStore(Path("claims.db")) as store:
        shop = Shop(Idempotency(store, namespace="charges"))
        # The key is what the producer repeats.  The broker's id would be another one for each copy.
        once = idempotent(store, key=lambda message: message.json()["order"], namespace="orders")
        async with open_publishers("memory://") as publishers, open_consumers("memory://") as consumers:
            publisher = await publishers.new_publisher("orders")
            consumer = await consumers.new_consumer(
                "orders", shop.handle, middleware=[once], on_error=on_error, concurrency=1
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consumer.consume())
                for order in PUBLISHED:
                    await publisher.publish(order, ordering_key="shop")
                await seen.wait()
                consumer.stop()
    print("charged:", shop.charged)


asyncio.run(main())
