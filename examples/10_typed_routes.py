"""
Handle events of several types as values, with middleware around handlers and around publishing.

A `Router` reads each event's type from an attribute, which a publish middleware sets, and hands the event, decoded
into its dataclass, to the handler of that type.  An event that does not fit its type, or has no route, is reported and
is not deleted.  A payment service that fails is tried again while the message is kept.

Prints:

    order o-1 of ada: 2 items
    payment of o-1 failed
    payment of o-1: 24.50
    DecodeError: ... is no OrderPlaced: items[0].count is text, not a whole number
    UnroutedError: ... the attribute 'type' is 'OrderShipped'; routes: OrderPlaced, PaymentMade; ...
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from decimal import Decimal

from messagequeue import ConsumeError, Outgoing, Publish, Receipt, open_consumers, open_publishers
from messagequeue import middleware as mw
from messagequeue.handlers import Router

# ---- the events, shared by both sides


@dataclass
class Item:
    sku: str
    count: int = 1


@dataclass
class OrderPlaced:
    order: str
    customer: str
    items: list[Item]


@dataclass
class PaymentMade:
    order: str
    amount: Decimal


@dataclass
class OrderShipped:
    order: str


# ---- the publishing side


def with_type(publish: Publish) -> Publish:
    """Say what kind of event it is, so that nobody forgets to."""

    async def wrapped(item: Outgoing) -> Receipt:
        kind = {"type": type(item.data).__name__}
        return await publish(replace(item, attributes={**kind, **(item.attributes or {})}))

    return wrapped


# ---- the consuming side

router = Router(attribute="type")
payments_tried = 0
all_paid = asyncio.Event()


@router.on("OrderPlaced", OrderPlaced)
async def placed(event: OrderPlaced) -> None:
    print(f"order {event.order} of {event.customer}: {sum(item.count for item in event.items)} items")


@router.on("PaymentMade", PaymentMade, middleware=[mw.retry(ConnectionError), mw.timeout(5)])
async def paid(event: PaymentMade) -> None:
    global payments_tried
    payments_tried += 1
    if payments_tried == 1:
        print(f"payment of {event.order} failed")
        raise ConnectionError
    print(f"payment of {event.order}: {event.amount}")
    all_paid.set()


async def main() -> None:
    logging.getLogger("messagequeue").addHandler(logging.NullHandler())  # `report` prints the faults here
    reported = asyncio.Semaphore(0)

    def report(error: ConsumeError) -> None:
        print(f"{type(error).__name__}: {error}")
        reported.release()

    async with (
        open_publishers("memory://") as behind,
        mw.with_middleware(behind, mw.publish_logging(), with_type) as publishers,
        open_consumers("memory://") as consumers,
    ):
        events = await publishers.new_publisher("events")
        consumer = await consumers.new_consumer("events", router, middleware=[mw.logging()], on_error=report)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.consume())
            await events.publish(OrderPlaced("o-1", "ada", [Item("a"), Item("b")]), ordering_key="o-1")
            await events.publish(PaymentMade("o-1", Decimal("24.50")), ordering_key="o-1")
            await all_paid.wait()
            odd = {"order": "o-2", "customer": "ben", "items": [{"sku": "a", "count": "two"}]}
            await events.publish(odd, ordering_key="o-2", attributes={"type": "OrderPlaced"})
            await reported.acquire()
            await events.publish(OrderShipped("o-3"), ordering_key="o-3")
            await reported.acquire()
            consumer.stop()


asyncio.run(main())
