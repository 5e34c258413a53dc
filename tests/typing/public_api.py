"""
The public API as a type checker sees it; `make types` checks this file, and `test_typing.py` runs the checkers on it.

Lines that must be errors carry an ignore; a checker that finds no error there complains about the ignore itself (mypy's
`warn_unused_ignores`, pyright's `reportUnnecessaryTypeIgnoreComment`).
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import assert_type

from messagequeue import (
    Config,
    ConsumeError,
    ConsumeOptions,
    Consumer,
    ConsumerProvider,
    Handler,
    Message,
    Middleware,
    Outgoing,
    ProviderConfig,
    Publisher,
    PublisherProvider,
    PublishError,
    PublishOptions,
    Receipt,
    RetryLater,
    compose,
    open_consumers,
    open_publishers,
    run,
)
from messagequeue.telemetry import Destination, OpenTelemetry, Telemetry
from messagequeue_sqs import SQSServer


async def handle(message: Message) -> None:
    assert_type(message.body, bytes)
    assert_type(message.text, str)
    assert_type(message.ordering_key, str | None)
    assert_type(message.delivery_attempt, int | None)
    raise RetryLater(5)


def logged(handler: Handler) -> Handler:
    async def wrapped(message: Message) -> None:
        await handler(message)

    return wrapped


def tell(error: ConsumeError) -> None:
    assert_type(error.message, Message | None)


async def publishes(publisher: Publisher) -> None:
    receipt = await publisher.publish({"id": 1}, ordering_key="a", deduplication_key="b", delay=timedelta(seconds=1))
    assert_type(receipt, Receipt)
    await publisher.publish(b"x", delay=1, attributes={"a": "text", "b": b"bytes", "c": 1, "d": 1.5})
    results = await publisher.publish_many([1, "x", Outgoing(b"y", ordering_key="a")], delay=1)
    assert_type(results, list[Receipt | PublishError])
    assert_type(publisher.publish_nowait("x"), Awaitable[Receipt])
    await publisher.stop()

    await publisher.publish("x", orderingkey="a")  # type: ignore[call-arg]
    await publisher.publish("x", delay="1")  # type: ignore[arg-type]
    await publisher.publish("x", attributes={"a": None})  # type: ignore[dict-item]
    await publisher.publish(data="x")  # type: ignore[call-arg]
    await publisher.publish_many(["x"], dealy=1)  # type: ignore[call-arg]
    publisher.publish_nowait("x", ordering=True)  # type: ignore[call-arg]
    Outgoing("x", order_key="a")  # type: ignore[call-arg]


async def consumes(provider: ConsumerProvider) -> None:
    consumer = await provider.new_consumer(
        "orders", handle, middleware=[logged], on_error=tell, concurrency=5, visibility_timeout=None
    )
    assert_type(consumer, Consumer)
    assert_type(consumer.stop(), None)
    await run(consumer)

    await provider.new_consumer("orders", handle, concurency=5)  # type: ignore[call-arg]
    await provider.new_consumer("orders", handle, drain_timeout=None)  # type: ignore[arg-type]
    await provider.new_consumer("orders", lambda message: None)  # type: ignore[arg-type,return-value]
    await provider.new_consumer("orders", handle, on_error=handle)  # type: ignore[arg-type]
    await run("orders")  # type: ignore[arg-type]


async def opens() -> None:
    config = Config(ProviderConfig("memory"), ProviderConfig("sqs", {"region": "eu-west-1"}))
    async with open_publishers(config) as publishers, open_consumers("memory://") as consumers:
        assert_type(publishers, PublisherProvider)
        assert_type(consumers, ConsumerProvider)
        assert_type(await publishers.new_publisher("orders"), Publisher)
    async with open_publishers(), open_consumers({"provider": "memory"}):
        pass

    telemetry: Telemetry = OpenTelemetry(create_spans=False, client_id="shop-1")
    async with open_publishers(config, telemetry=telemetry), open_consumers(telemetry=OpenTelemetry()):
        pass
    telemetry.watch(Destination(system="mine", name="orders"), lambda: {"mine.metric": 1.5})()

    open_publishers(telemetry="otel")  # type: ignore[arg-type]
    OpenTelemetry(spans=True)  # type: ignore[call-arg]
    open_publishers(5)  # type: ignore[arg-type]
    config.publisher = ProviderConfig()  # type: ignore[misc]
    Config.from_mapping("sqs")  # type: ignore[arg-type]


def options() -> None:
    assert_type(ConsumeOptions(concurrency=5).drain_timeout, float)
    assert_type(PublishOptions().batch_size, int)

    ConsumeOptions(concurency=5)  # type: ignore[call-arg]
    ConsumeOptions(5)  # type: ignore[call-arg]
    PublishOptions(linger="1")  # type: ignore[arg-type]


def composes(middleware: Middleware) -> None:
    assert_type(compose(handle, logged, middleware), Handler)

    compose(handle, handle)  # type: ignore[arg-type]


async def serves() -> None:
    async with SQSServer("127.0.0.1", 0, "queues", fsync="always") as server:
        assert_type(server.endpoint_url, str)
    SQSServer(fsync="never")  # type: ignore[arg-type]
