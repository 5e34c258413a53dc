"""What became of each order: noted while the pipeline runs, added up at the end."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from _demo_orders import Order
from _demo_view import View

FATES = ("handled", "discarded", "dead-lettered")


@dataclass
class Entry:
    order: Order
    deliveries: int = 0
    fate: str = ""
    why: str = ""


@dataclass
class Ledger:
    """Every order and its fate; and for each customer, in which order the handler got the orders."""

    entries: dict[str, Entry]
    begun: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    overlaps: Counter[str] = field(default_factory=Counter)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: str = ""
    _running: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def delivery(self, entry: Entry) -> Iterator[None]:
        """Note that the handler has the order."""
        customer = entry.order.customer
        entry.deliveries += 1
        self.begun[customer].append(entry.order.number)
        self.overlaps[customer] += bool(self._running[customer])
        self._running[customer] += 1
        self.changed.set()
        try:
            yield
        finally:
            self._running[customer] -= 1

    def close(self, entry: Entry, fate: str, why: str = "") -> None:
        entry.fate, entry.why = fate, why or entry.why
        self.changed.set()

    def give_up(self, why: str) -> None:
        """Nobody waits for what is still open."""
        self.given_up = self.given_up or why
        self.changed.set()

    def in_order(self, customer: str) -> bool:
        """No order of the customer was begun before an earlier one was finished."""
        return not self.overlaps[customer] and all(a <= b for a, b in pairwise(self.begun[customer]))

    def count(self, fate: str, customer: str | None = None) -> int:
        return sum(entry.fate == fate for entry in self.of(customer))

    def of(self, customer: str | None) -> list[Entry]:
        return [entry for entry in self.entries.values() if customer in (None, entry.order.customer)]

    @property
    def complete(self) -> bool:
        return all(entry.fate for entry in self.entries.values())


def show_account(ledger: Ledger, view: View) -> bool:
    """Write the closing tables and return whether every order is accounted for and every customer's order was kept."""
    customers = sorted({entry.order.customer for entry in ledger.entries.values()})
    view.heading("what became of the orders")
    view.table(
        ["customer", "orders", *FATES, "open", "deliveries", "in order"],
        [_row(ledger, customer, customer) for customer in customers],
        _row(ledger, "total", None),
    )
    buried = [entry for entry in ledger.entries.values() if entry.fate == "dead-lettered"]
    if buried:
        view.heading("dead letters")
        rows = [[entry.order.id, entry.order.customer, entry.deliveries, entry.why] for entry in buried]
        view.table(["order", "customer", "deliveries", "why"], rows)
    return _show_sum(ledger, all(ledger.in_order(customer) for customer in customers), view)


def _row(ledger: Ledger, name: str, customer: str | None) -> list[object]:
    entries = ledger.of(customer)
    kept = all(ledger.in_order(entry.order.customer) for entry in entries)
    counts = [ledger.count(fate, customer) for fate in (*FATES, "")]
    return [name, len(entries), *counts, sum(entry.deliveries for entry in entries), "yes" if kept else "NO"]


def _show_sum(ledger: Ledger, in_order: bool, view: View) -> bool:
    unpublished = ledger.count("not published")
    published = len(ledger.entries) - unpublished
    open_ = ledger.count("")
    parts = [f"{ledger.count(fate)} {fate}" for fate in FATES] + ([f"{open_} open"] if open_ else [])
    view.text(f"\n{published} published = {' + '.join(parts)}")
    problems = [
        f"{unpublished} orders were not published" if unpublished else "",
        f"{open_} orders are not accounted for: {ledger.given_up}" if open_ else "",
        "" if in_order else "an order overtook another of its customer",
    ]
    for problem in filter(None, problems):
        view.text(problem, "bold red")
    if any(problems):
        return False
    view.text("every order is accounted for, and no order overtook another of its customer", "bold green")
    return True
