"""The orders that the demo reads: one JSON object to a line, and what is wrong with those that are none."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Order:
    """One line of the input.  `number` is that of its line."""

    number: int
    id: str
    customer: str
    card: str
    total: Decimal
    items: str
    data: dict[str, Any]


class InputError(Exception):
    """The input cannot be read at all."""


class BadLine(ValueError):
    """Why a line is no order."""


def parse(number: int, line: bytes) -> Order:
    try:
        data = json.loads(line)
    except UnicodeDecodeError:
        raise BadLine("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} (column {error.colno})") from None
    if not isinstance(data, dict):
        raise BadLine("not a JSON object")
    items = _member(data, "items", list)
    try:
        total = sum((Decimal(item["price"]) * int(item["quantity"]) for item in items), Decimal())
        summary = ", ".join(f"{int(item['quantity'])} x {item['sku']}" for item in items)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise BadLine("items: each needs sku, quantity and price") from None
    return Order(number, _key(data, "order"), _key(data, "customer"), _member(data, "card", str), total, summary, data)


def _member(data: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(data.get(name), kind) or not data[name]:
        raise BadLine(f"{name} is missing" if name not in data else f"{name} is empty or of the wrong type")
    return data[name]


def _key(data: dict[str, Any], name: str) -> str:
    value: str = _member(data, name, str)
    if not re.fullmatch("[!-~]{1,128}", value):  # it becomes an ordering or deduplication key
        raise BadLine(f"{name}: give 1 to 128 printable ASCII characters without blanks")
    return value


def read_orders(source: str) -> tuple[list[Order], list[str]]:
    """
    Return the orders of a file, `-` for standard input, and what is wrong with the other lines.

    Raises:
        InputError: it cannot be read.
    """
    try:
        lines = (sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()).split(b"\n")
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}") from None
    orders: dict[str, Order] = {}
    rejected: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            order = parse(number, line)
            if order.id in orders:
                raise BadLine(f"order {order.id} is in line {orders[order.id].number} already")
            orders[order.id] = order
        except BadLine as error:
            rejected.append(f"line {number}: {error}")
    return list(orders.values()), rejected
