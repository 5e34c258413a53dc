"""
The main job of the demo: an order pipeline that accounts for every message.  `make demo` runs it.

Reads orders, one JSON object to a line, publishes them with the customer as ordering key, and consumes them: each is
charged through a payment gateway which misbehaves by the card's token, as the test cards of payment providers do.

    tok_timeout_once, ..._twice   the gateway does not answer at first: the handler raises, the order comes back
    tok_confirm_in_app            the customer has to confirm: RetryLater
    tok_test_order                nothing to do: Discard
    tok_stolen                    no retry can help: the handler raises DeadLetter
    tok_garbled                   the handler fails each time: after three receives the broker gives up

A second consumer reads the dead-letter queue, so that the table at the end is made of what arrived, not of what was
meant.  Broker and options come from the environment; this file is the same for all of them.

    python examples/order_pipeline.py                     the orders beside this file
    python examples/order_pipeline.py - < my-orders.jsonl
    make demo PROVIDER=sqs                                the same on SQS wire

Exits with 0 if every order that was published is handled, discarded or dead-lettered, and each customer's order was
kept; with 1 if not, or there was nothing to publish; with 2 where input or configuration cannot be used.

Prints:

    60 orders of 8 customers; 1 line rejected
    line 37: not JSON...
    published
    customer...in order
    total...60...yes
    60 published = 55 handled + 1 discarded + 4 dead-lettered
    every order is accounted for

Runs on: memory, sqs
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections import Counter
from pathlib import Path

from _demo_account import Entry, Ledger, show_account
from _demo_orders import InputError, Order, read_orders
from _demo_setup import MAX_RECEIVES, Place, SetupError, place_for
from _demo_view import View

from messagequeue import (
    Config,
    ConfigurationError,
    ConsumeError,
    ConsumeKwargs,
    Consumer,
    DeadLetter,
    Discard,
    HandlerError,
    Message,
    MessageQueueError,
    Outgoing,
    Publisher,
    Receipt,
    RetryLater,
    open_consumers,
    open_publishers,
    run,
)

#: Seconds in which nothing happens before the pipeline gives up.
PATIENCE = 30.0

#: A short poll lets the demo end soon.  One message per receive: see "Poison messages" in docs/operations.md; with a
#: limit of three receives, those behind a failing order would be received with it, and counted out with it.
CONSUME: ConsumeKwargs = {"wait_time": 1.0, "batch_size": 1, "retry_delay": 0.5}


class PaymentGateway:
    """Charges cards, and behaves as their tokens say."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    async def charge(self, order: Order) -> None:
        await asyncio.sleep(0.02 + order.number % 5 / 100)
        self._tries[order.id] += 1
        tries = self._tries[order.id]
        match order.card:
            case "tok_timeout_once" if tries == 1:
                raise TimeoutError("the gateway timed out")
            case "tok_timeout_twice" if tries <= 2:
                raise TimeoutError("the gateway timed out")
            case "tok_confirm_in_app" if tries == 1:
                raise RetryLater(1, "the customer must confirm")
            case "tok_garbled":
                raise ValueError("the token cannot be read")
            case "tok_stolen":
                raise DeadLetter("the card is stolen")
            case "tok_test_order":
                raise Discard("a test order")


class OrderDesk:
    """The handlers of the order queue and of its dead-letter queue."""

    def __init__(self, ledger: Ledger, gateway: PaymentGateway, view: View) -> None:
        self._ledger = ledger
        self._gateway = gateway
        self._view = view

    async def handle(self, message: Message) -> None:
        entry = self._ledger.entries[message.json()["order"]]
        with self._ledger.delivery(entry):
            if entry.fate:  # at least once: a handler must be ready for a second delivery
                self._say("repeated", entry, "it was handled before; nothing is done")
                return
            try:
                await self._gateway.charge(entry.order)
            except RetryLater as signal:
                self._say("later", entry, f"{signal.reason}; again in {signal.after:g} s")
                raise
            except Discard as signal:
                self._ledger.close(entry, "discarded", signal.reason)
                self._say("discarded", entry, signal.reason)
                raise
            except DeadLetter as signal:
                entry.why = signal.reason
                raise
        self._ledger.close(entry, "handled")
        self._say("handled", entry, f"{entry.order.total:>7} EUR  {entry.order.items}")

    async def bury(self, message: Message) -> None:
        entry = self._ledger.entries[message.json()["order"]]
        why = entry.why or f"it failed {entry.deliveries} times"
        self._ledger.close(entry, "dead-lettered", why)
        self._say("dead-lettered", entry, why)

    def on_error(self, error: ConsumeError) -> None:
        """Told of every fault; the library logs it as well."""
        entry = self._ledger.entries.get(error.message.json()["order"]) if error.message else None
        if entry is None or not isinstance(error, HandlerError):
            self._view.event(type(error).__name__, "", "", str(error))
            return
        self._say("failed", entry, f"{error.__cause__}; try {entry.deliveries} of {MAX_RECEIVES}")

    def _say(self, what: str, entry: Entry, text: str) -> None:
        self._view.event(what, entry.order.id, entry.order.customer, text)


async def publish(publisher: Publisher, ledger: Ledger, view: View) -> None:
    """Publish every order; those of one customer keep their order, and a bad one fails alone."""
    items = [
        Outgoing(
            entry.order.data,
            ordering_key=entry.order.customer,
            deduplication_key=entry.order.id,
            attributes={"line": entry.order.number},
        )
        for entry in ledger.entries.values()
    ]
    results = await publisher.publish_many(items)
    for entry, result in zip(ledger.entries.values(), results, strict=True):
        if not isinstance(result, Receipt):
            ledger.close(entry, "not published", str(result))
            view.event("not published", entry.order.id, entry.order.customer, str(result))
    stored = sum(isinstance(result, Receipt) for result in results)
    view.event("published", "", "", f"{stored} orders, each confirmed by the broker")


async def stop_when_accounted(ledger: Ledger, consumers: list[Consumer]) -> None:
    """Stop the consumers once every order has its fate, or nothing happens any more."""
    try:
        while not (ledger.complete or ledger.given_up):
            ledger.changed.clear()
            async with asyncio.timeout(PATIENCE):
                await ledger.changed.wait()
    except TimeoutError:
        ledger.give_up(f"nothing happened for {PATIENCE:g} s")
    for consumer in consumers:
        consumer.stop()


async def pipeline(place: Place, ledger: Ledger, view: View) -> None:
    """Publish and consume until every order is accounted for, or a signal comes."""
    desk = OrderDesk(ledger, PaymentGateway(), view)
    async with open_publishers(place.config) as publishers, open_consumers(place.config) as consumers:
        publisher = await publishers.new_publisher(place.orders)
        orders = await consumers.new_consumer(place.orders, desk.handle, on_error=desk.on_error, **CONSUME)
        dead = await consumers.new_consumer(place.dead_letters, desk.bury, on_error=desk.on_error, **CONSUME)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publish(publisher, ledger, view), name="publish")
            tasks.create_task(stop_when_accounted(ledger, [orders, dead]), name="stop when accounted")
            await run(orders, dead)  # until they are stopped, or SIGINT or SIGTERM stops them
            ledger.give_up("the pipeline was stopped, and they are still on the queue")


async def main(source: str) -> int:
    config = Config.from_env()
    orders, rejected = read_orders(source)
    ledger = Ledger({order.id: Entry(order) for order in orders})
    view = View(on_closed=lambda: ledger.give_up("nobody reads the output"))
    show_input(source, orders, rejected, view)
    if not orders:
        return fail("there is no order to publish", 1)
    async with place_for(config) as place:
        view.text(f"provider: {place.provider}\ntopic:    {place.orders}\n")
        try:
            await pipeline(place, ledger, view)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
    accounted = show_account(ledger, view)
    return 141 if view.closed else 0 if accounted else 1  # 141: as shells report a broken pipe


def show_input(source: str, orders: list[Order], rejected: list[str], view: View) -> None:
    name = "standard input" if source == "-" else Path(source).name
    customers = len({order.customer for order in orders})
    lines = "1 line" if len(rejected) == 1 else f"{len(rejected)} lines"
    view.text(f"{name}: {len(orders)} orders of {customers} customers; {lines} rejected")
    for problem in rejected:
        view.text(f"  {problem}", "yellow")


def fail(text: str, status: int) -> int:
    print(f"order_pipeline: {text}", file=sys.stderr)
    return status


def program(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="order_pipeline.py", description="Publish and handle orders.")
    usual = str(Path(__file__).with_name("orders.jsonl"))
    parser.add_argument("orders", nargs="?", default=usual, help="a file of JSON lines, or - for standard input")
    source = parser.parse_args(arguments).orders
    logging.getLogger("messagequeue").addHandler(logging.NullHandler())  # faults are shown by `on_error`
    try:
        return asyncio.run(main(source))
    except (InputError, SetupError, ConfigurationError) as error:
        return fail(str(error), 2)
    except MessageQueueError as error:
        return fail(str(error), 1)


if __name__ == "__main__":
    sys.exit(program(sys.argv[1:]))
