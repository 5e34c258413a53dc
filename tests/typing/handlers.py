"""Typed handlers and routes as a type checker sees them; see `public_api.py`."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import assert_type

from messagequeue import ConsumerProvider, Handler, Message
from messagequeue.handlers import Router, TypedHandler, decoder, typed


@dataclass
class Order:
    number: int


@dataclass
class Payment:
    amount: int


async def order(value: Order) -> None: ...
async def order_and_message(value: Order, message: Message) -> None: ...
async def payment(value: Payment) -> None: ...
async def raw(message: Message) -> None: ...
def plain(value: Order) -> None: ...


@typed(Order)
async def decorated(value: Order) -> None:
    assert_type(value.number, int)


@typed(Order)
async def decorated_with_message(value: Order, message: Message) -> None: ...


def handlers() -> None:
    assert_type(typed(Order, order), TypedHandler[Order])
    assert_type(typed(Order, order_and_message), TypedHandler[Order])
    assert_type(decorated, TypedHandler[Order])
    assert_type(decorated_with_message.model, type[Order])
    handler: Handler = decorated
    assert_type(typed(list[Order], orders), TypedHandler[list[Order]])
    assert_type(typed(Order, order, decode=lambda message: Order(len(message.body))), TypedHandler[Order])
    del handler

    typed(Order, payment)  # type: ignore[arg-type]
    typed(Order, plain)  # type: ignore[arg-type]
    typed(Order)(payment)  # type: ignore[arg-type]
    typed(Order, order, decode=lambda message: Payment(1))  # type: ignore[arg-type,return-value]


async def orders(values: list[Order]) -> None: ...


def decoders(message: Message) -> None:
    assert_type(decoder(Order), Callable[[Message], Order])
    assert_type(decoder(list[Order])(message), list[Order])


router = Router(attribute="type")


@router.on("order", Order)
async def placed(value: Order) -> None: ...


@router.on("order.checked", Order)
@router.on("order.sent", Order)
async def sent(value: Order, message: Message) -> None: ...


@router.on("raw")
async def not_typed(message: Message) -> None: ...


@router.default
async def other(message: Message) -> None: ...


async def routes(provider: ConsumerProvider, value: Order, message: Message) -> None:
    assert_type(placed(value), Awaitable[None])
    await sent(value, message)
    await not_typed(message)
    await provider.new_consumer("orders", router)
    await provider.new_consumer("orders", decorated)
    router.add("a", order, Order)
    router.add("b", raw)

    router.on("c", Order)(payment)  # type: ignore[arg-type]
    router.on("d")(order)  # type: ignore[type-var]
    router.default(order)  # type: ignore[type-var]
    await provider.new_consumer("orders", order)  # type: ignore[arg-type]
    Router(attribute=5)  # type: ignore[arg-type]
