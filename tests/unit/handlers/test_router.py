"""`Router`: each message to the handler of its type."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from messagequeue import (
    ConsumeError,
    DecodeError,
    Discard,
    Handler,
    Message,
    Middleware,
    UnroutedError,
    compose,
    open_consumers,
    open_publishers,
)
from messagequeue.handlers import Router, typed
from messagequeue.middleware import timeout
from messagequeue.testing import deliver, run_virtual
from tests.unit.handlers.shop import Item, Tree

ROUTERS: list[tuple[Callable[[], Router], Callable[[object], dict[str, Any]]]] = [
    (lambda: Router(attribute="type"), lambda name: {"data": {"sku": "x"}, "attributes": {"type": name}}),
    (lambda: Router(field="type"), lambda name: {"data": {"sku": "x", "type": name}}),
    (
        lambda: Router(key=lambda message: message.ordering_key),
        lambda name: {"data": {"sku": "x"}, "ordering_key": name},
    ),
]


@pytest.mark.parametrize(("make", "given"), ROUTERS, ids=["attribute", "field", "key"])
def test_each_type_goes_to_its_handler(make: Callable[[], Router], given: Callable[[object], dict[str, Any]]) -> None:
    """By an attribute, a field of the body, or a function; typed or not; what is left goes to the default."""
    router, seen = make(), []

    @router.on("placed", Item)
    async def placed(item: Item) -> None:
        seen.append(("placed", item.sku))

    @router.on("moved", Item)
    @router.on("sent", Item)
    async def sent(item: Item, message: Message) -> None:
        seen.append((message.id, item.sku))

    @router.on("raw")
    async def raw(message: Message) -> None:
        seen.append(("raw", message.json()["sku"]))

    @router.default
    async def other(message: Message) -> None:
        seen.append(("other", message.json()["sku"]))

    async def main() -> None:
        for name in ("placed", "moved", "sent", "raw", "unknown"):
            message = given(name)
            assert (await deliver(router, message.pop("data"), id=f"m {name}", **message)).settled

    run_virtual(main())

    assert [name for name, _ in seen] == ["placed", "m moved", "m sent", "raw", "other"]
    assert sorted(router.routes) == ["moved", "placed", "raw", "sent"]


@pytest.mark.parametrize(("make", "given"), ROUTERS, ids=["attribute", "field", "key"])
def test_a_type_without_a_route_is_an_error(
    make: Callable[[], Router], given: Callable[[object], dict[str, Any]]
) -> None:
    """That says which type and which routes there are; as a body that cannot be decoded it is never dropped."""
    router = make()
    router.add("b", no_handler)
    router.add("a", no_handler)

    message = given("order.cancelled")
    outcome = run_virtual(deliver(router, message.pop("data"), id="m-1", topic="orders", **message))

    assert outcome.retried
    assert isinstance(outcome.error, UnroutedError)
    assert isinstance(outcome.error, DecodeError)
    assert str(outcome.error).startswith("message m-1 has no route: ")
    assert str(outcome.error).endswith("is 'order.cancelled'; routes: a, b; add one, or a default()")
    assert outcome.error.topic == "orders"
    assert outcome.error.message is outcome.message


async def no_handler(message: Message) -> None:
    raise AssertionError("it was called")


@pytest.mark.parametrize(
    ("router", "fields", "says"),
    [
        (Router(attribute="type"), {}, "the attribute 'type' is absent; routes: none"),
        (Router(attribute="type"), {"attributes": {"type": b"a"}}, "the attribute 'type' is of type bytes, not text"),
        (
            Router(attribute="type"),
            {"attributes": {"type": "ada@example.com "}},
            "is a text of 16 characters that is no plain name",
        ),
        (Router(field="type"), {}, "the field 'type' of its body is absent"),
        (Router(key=lambda _: None), {}, "what Router(key=...) returned is absent"),
    ],
)
def test_a_message_of_no_type_is_an_error(router: Router, fields: dict[str, Any], says: str) -> None:
    """What is no name may be somebody's data, and is not quoted."""
    error = run_virtual(deliver(router, {"x": 1}, **fields)).error

    assert isinstance(error, UnroutedError)
    assert says in str(error)


@pytest.mark.parametrize("body", ["no JSON", "[1]", b"\xff", "[" * 100_000])
def test_a_body_without_fields_goes_to_the_default_or_is_a_decode_error(body: str | bytes) -> None:
    """It has no field to route by."""
    router = Router(field="type")
    router.add("a", no_handler)
    error = run_virtual(deliver(router, body)).error
    assert type(error) is DecodeError
    assert "is no JSON object, so it has no field 'type' to route by" in str(error)

    @router.default
    async def takes(message: Message) -> None: ...

    assert run_virtual(deliver(router, body)).settled


def test_a_route_has_middleware_of_its_own() -> None:
    """The first outermost, around the decoding; other routes do not have it."""
    lines: list[str] = []

    def logs(name: str) -> Middleware:
        def wrap(handler: Handler) -> Handler:
            async def logged(message: Message) -> None:
                lines.append(name)
                try:
                    await handler(message)
                except DecodeError:
                    raise Discard("not worth it") from None

            return logged

        return wrap

    router = Router(attribute="type")

    @router.on("a", Item, middleware=[logs("1"), logs("2")])
    async def a(item: Item) -> None:
        lines.append("a")

    @router.on("b")
    async def b(message: Message) -> None:
        lines.append("b")

    async def main() -> None:
        await deliver(router, Item("x"), attributes={"type": "a"})
        assert (await deliver(router, "no item", attributes={"type": "a"})).discarded
        await deliver(router, Item("x"), attributes={"type": "b"})
        await deliver(compose(router, logs("all")), Item("x"), attributes={"type": "b"})

    run_virtual(main())

    assert lines == ["1", "2", "a", "1", "2", "b", "all", "b"]


def test_decorated_functions_stay_as_they_are() -> None:
    """So a test calls them with values."""
    router = Router(attribute="type")

    async def handle(item: Item) -> None: ...

    assert router.on("a", Item)(handle) is handle
    assert router.default(no_handler) is no_handler


def test_a_router_is_a_handler_of_another_router() -> None:
    """Routes within a route; typed handlers fit as they are."""
    seen: list[str] = []
    inner, outer = Router(field="kind"), Router(attribute="type")

    @inner.on("leaf", Tree)
    async def leaf(tree: Tree) -> None:
        seen.append(tree.name)

    outer.add("tree", inner)
    outer.add("item", typed(Item, lambda item: record(item)))

    async def record(item: Item) -> None:
        seen.append(item.sku)

    async def main() -> None:
        assert (await deliver(outer, {"kind": "leaf", "name": "a"}, attributes={"type": "tree"})).settled
        assert (await deliver(outer, {"sku": "b"}, attributes={"type": "item"})).settled
        assert isinstance((await deliver(outer, {"kind": "x"}, attributes={"type": "tree"})).error, UnroutedError)

    run_virtual(main())

    assert seen == ["a", "b"]


def test_duplicates_are_refused_at_registration() -> None:
    """The first keeps its type; so it is with the default."""
    router = Router(attribute="type")
    router.add("a", no_handler)
    router.default(no_handler)

    with pytest.raises(ValueError, match="'a' has a handler in this router already: <function no_handler"):
        router.on("a", Item)(lambda item: no_handler(item))  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="a default already"):
        router.default(no_handler)
    assert dict(router.routes) == {"a": no_handler}
    assert repr(router) == "<Router by the attribute 'type': 1 routes and a default>"


def test_mistakes_of_the_set_up_are_told_at_once() -> None:
    """Not when the first message comes."""
    for arguments in ({}, {"attribute": "a", "field": "b"}, {"attribute": "a", "key": str}):
        with pytest.raises(TypeError, match="one of attribute=, field= and key="):
            Router(**arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Router\(key=...\) is str"):
        Router(key="type")  # type: ignore[arg-type]
    for wrong in ("", 5, b"type"):
        for place in ("attribute", "field"):
            with pytest.raises(TypeError, match=rf"Router\({place}=...\) is"):
                Router(**{place: wrong})  # type: ignore[arg-type]
    router = Router(attribute="type")
    for name in ("", None, 5):
        with pytest.raises(ValueError, match="a route needs the type's name"):
            router.add(name, no_handler)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the handler is int"):
        router.add("a", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the handler is int"):
        router.default(5)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="bytes have no form"):
        router.add("a", no_handler, bytes)
    with pytest.raises(TypeError, match=r"middleware is a function: give a list"):
        router.add("a", no_handler, middleware=timeout(5))  # type: ignore[arg-type]
    assert dict(router.routes) == {}


def test_a_function_that_fails_fails_the_message() -> None:
    """A key function's exception is a handler's."""

    def broken(message: Message) -> str:
        raise KeyError("type")

    assert isinstance(run_virtual(deliver(Router(key=broken), "x")).error, KeyError)


def test_a_consumer_keeps_what_has_no_route() -> None:
    """It counts as undecodable and is reported; what has one is handled and deleted."""
    errors: list[ConsumeError] = []
    router, seen = Router(attribute="type"), []

    @router.on("item", Item)
    async def item(value: Item) -> None:
        seen.append(value)

    async def main() -> None:
        broker = f"memory://?name={uuid.uuid4()}&visibility_timeout=60"
        async with open_publishers(broker) as publishers, open_consumers(broker) as consumers:
            publisher = await publishers.new_publisher("t")
            await publisher.publish(Item("a"), attributes={"type": "new"})
            await publisher.publish(Item("a"), attributes={"type": "item"})

            def stop(error: ConsumeError) -> None:
                errors.append(error)
                consumer.stop()

            consumer = await consumers.new_consumer("t", router, on_error=stop)
            await consumer.consume()
            assert consumer.stats.undecodable == 1  # type: ignore[attr-defined]
            assert consumer.stats.settled == 1  # type: ignore[attr-defined]

    run_virtual(main())

    assert [type(error) for error in errors] == [UnroutedError]
    assert seen == [Item("a")]
