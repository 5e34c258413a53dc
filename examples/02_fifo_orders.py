"""
Keep what belongs together in order: an ordering key per customer.

Events of one customer are handled one at a time, in the order they were published, while different customers run in
parallel.  When one fails it comes back, and the later ones of its customer wait for it: nothing overtakes.  On SQS this
takes a FIFO queue, whose MessageGroupId the ordering key is.

Prints:

    ada: placed, paid failed, paid, shipped
    ben: placed, paid, shipped
    in between, ben did not wait for ada: True
"""

import asyncio
from collections import defaultdict

from messagequeue import Message, RetryLater, open_consumers, open_publishers

EVENTS = [
    ("ada", "placed"),
    ("ada", "paid"),
    ("ben", "placed"),
    ("ada", "shipped"),
    ("ben", "paid"),
    ("ben", "shipped"),
]


class OrderBook:
    """Writes down what happens to each customer's order; the payment service fails once, for ada."""

    def __init__(self) -> None:
        self.history: dict[str, list[str]] = defaultdict(list)
        self.log: list[str] = []
        self.complete = asyncio.Event()

    async def handle(self, message: Message) -> None:
        customer, event = str(message.ordering_key), message.text
        if customer == "ada" and event == "paid" and message.delivery_attempt == 1:
            self.note(customer, "paid failed")
            raise RetryLater(0.2, "the payment service does not answer")  # any exception would do; it is logged
        self.note(customer, event)
        if all(self.history[name][-1:] == ["shipped"] for name in ("ada", "ben")):
            self.complete.set()

    def note(self, customer: str, event: str) -> None:
        self.history[customer].append(event)
        self.log.append(f"{customer} {event}")


async def main() -> None:
    book = OrderBook()
    async with open_publishers("memory://") as publishers, open_consumers("memory://") as consumers:
        publisher = await publishers.new_publisher("orders.fifo")
        for customer, event in EVENTS:
            await publisher.publish(event, ordering_key=customer)

        consumer = await consumers.new_consumer("orders.fifo", book.handle)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await book.complete.wait()
            consumer.stop()

    for customer, events in sorted(book.history.items()):
        print(f"{customer}: {', '.join(events)}")
    print("in between, ben did not wait for ada:", book.log.index("ben shipped") < book.log.index("ada shipped"))


asyncio.run(main())
