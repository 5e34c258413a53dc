"""The SQS provider on LocalStack and on our own server, through the public API, looked at with plain boto3."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from messagequeue import (
    ConsumeError,
    ErrorCode,
    Handler,
    LeaseLostError,
    Message,
    MessageTooLargeError,
    Outgoing,
    PublishError,
    Receipt,
)
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.localstack import Queues
from tests.support.realtime import consuming, real_time, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MIB = 1_048_576
BINARY = bytes(range(256))


#: How the calls of a test travel: over the short path, or over the SDK alone.
TRANSPORT: dict[str, Literal["fast", "sdk"]] = {"now": "fast"}


@pytest.fixture(params=["localstack-fast", "localstack-sdk", "server-fast"])
def queues(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    """Every test runs over both ways on LocalStack, and once on this package's own server."""
    target, transport = request.param.split("-")
    monkeypatch.setitem(TRANSPORT, "now", transport)
    made = Queues(request.getfixturevalue(f"{target}_endpoint"))
    yield made
    made.close()


def publishers(queues: Queues) -> SQSPublisherProvider:
    return SQSPublisherProvider(SQSConfig(queue_address=queues.endpoint, transport=TRANSPORT["now"]))


def consumers(queues: Queues) -> SQSConsumerProvider:
    return SQSConsumerProvider(SQSConfig(queue_address=queues.endpoint, transport=TRANSPORT["now"]))


async def publish(queues: Queues, url: str, *items: object, **options: Any) -> list[Receipt | PublishError]:
    async with publishers(queues) as provider:
        publisher = await provider.new_publisher(url)
        return await publisher.publish_many(items, **options)


async def consume_until(queues: Queues, url: str, count: int) -> list[Message]:
    """Consume until *count* messages were handled, and return them."""
    handled: list[Message] = []
    told: list[ConsumeError] = []

    async def handle(message: Message) -> None:
        handled.append(message)

    options = {"wait_time": 1, "on_error": told.append}
    async with consumers(queues) as provider, consuming(provider, url, handle, **options) as (consumer, _):
        try:
            await until(lambda: len(handled) >= count)
        except AssertionError as error:
            counts = await asyncio.to_thread(queues.counts, url)
            error.add_note(f"told {told}; queue has {counts}; {getattr(consumer, 'stats', '')}")
            raise
    return handled


# -- what goes out -----------------------------------------------------------------------------------------------


@real_time()
async def test_ordering_key_goes_through_on_a_standard_queue_and_orders_nothing(queues: Queues) -> None:
    """It arrives as MessageGroupId, is absent where it was not given, and locks no group (PUB-03)."""
    url = queues.create()
    items = [Outgoing("a", ordering_key="tenant-1"), Outgoing("b", ordering_key="tenant-1"), Outgoing("c")]
    await publish(queues, url, *items)
    first = queues.receive(url, most=1)
    rest = queues.receive(url) + queues.receive(url)
    groups = {message["Body"]: message["Attributes"].get("MessageGroupId") for message in first + rest}

    assert groups == {"a": "tenant-1", "b": "tenant-1", "c": None}


@pytest.mark.parametrize("fifo", [False, True])
@real_time()
async def test_ordering_key_that_sqs_would_refuse_is_refused_before_the_call(queues: Queues, fifo: bool) -> None:
    """Over 128 characters, or with a space, on either kind of queue (PUB-03)."""
    url = queues.create(fifo=fifo)
    items = [Outgoing("a", ordering_key="x" * 129), Outgoing("a", ordering_key="a b"), Outgoing("b", ordering_key="k")]
    results = await publish(queues, url, *items)

    assert [isinstance(result, PublishError) for result in results] == [True, True, False]
    assert [message["Body"] for message in queues.drain(url)] == ["b"]


@pytest.mark.parametrize("text", ["ok\x07", "\x00", "a\ufffe"])
@real_time()
async def test_text_that_sqs_forbids_is_refused_and_nothing_is_sent(queues: Queues, text: str) -> None:
    """In the body and in an attribute (PUB-06)."""
    url = queues.create()
    results = await publish(queues, url, text, Outgoing("fine", attributes={"k": text}))

    assert [isinstance(result, PublishError) for result in results] == [True, True]
    assert queues.drain(url) == []


@pytest.mark.parametrize("body", [b"\xff\x00\x01", BINARY, "text \U0001f4ac \r\n\t", "<&>\"'", {"a": [1, None]}])
@real_time()
async def test_bodies_arrive_as_they_were_sent(queues: Queues, body: object) -> None:
    """Bytes of any value, text with everything that SQS allows, and JSON (PUB-06)."""
    url = queues.create()
    await publish(queues, url, body)
    [message] = await consume_until(queues, url, 1)

    assert body in (message.body, message.text if isinstance(body, str) else None, _json(message))


def _json(message: Message) -> object:
    try:
        return message.json()
    except ValueError:
        return None


@real_time()
async def test_a_message_of_exactly_one_mebibyte_is_taken_and_one_byte_more_is_not(queues: Queues) -> None:
    """The size is that of the UTF-8 bytes and of the attributes' names, types and values (PUB-07)."""
    url = queues.create()
    attributes = {"k": "v"}  # 1 + len("String") + 1
    [exact] = await publish(queues, url, "x" * (MIB - 8), attributes=attributes)
    assert isinstance(exact, Receipt)
    over, wide = await publish(queues, url, Outgoing("x" * (MIB - 7), attributes=attributes), Outgoing("é" * 600_000))
    [message] = await consume_until(queues, url, 1)

    assert isinstance(over, MessageTooLargeError)
    assert (over.size, over.limit) == (MIB + 1, MIB)
    assert isinstance(wide, MessageTooLargeError)
    assert wide.size == 1_200_000
    assert len(message.body) == MIB - 8


@pytest.mark.parametrize("together", [False, True], ids=["singly", "batch"])
@real_time()
async def test_fifo_send_without_a_deduplication_source_reaches_its_caller(queues: Queues, together: bool) -> None:
    """SQS's refusal comes back per message, says which option helps, and nothing is stored (FIFO-09)."""
    url = queues.create(fifo=True, ContentBasedDeduplication="false")
    items = ["a", "b"] if together else ["a"]
    results = await publish(queues, url, *items, ordering_key="k")

    assert all(isinstance(result, PublishError) and result.code is ErrorCode.INVALID for result in results)
    assert all("deduplication_key" in str(result) for result in results)
    assert queues.drain(url) == []
    assert isinstance((await publish(queues, url, "c", ordering_key="k", deduplication_key="1"))[0], Receipt)


@pytest.mark.parametrize(("count", "size"), [(10, 150 * 1024), (2, 600 * 1024), (3, MIB // 3 + 1)])
@real_time()
async def test_entries_that_fit_alone_but_not_together_are_split(queues: Queues, count: int, size: int) -> None:
    """All of them arrive, in order on FIFO; one that is too large fails alone (BAT-01)."""
    url = queues.create(fifo=True)
    items: list[object] = [f"{number:02}" + "x" * (size - 2) for number in range(count)]
    results = await publish(queues, url, *items, "y" * (MIB + 1), ordering_key="k")
    got = await consume_until(queues, url, count)

    assert isinstance(results.pop(), MessageTooLargeError)
    assert all(isinstance(result, Receipt) for result in results)
    assert [message.text[:2] for message in got] == [f"{number:02}" for number in range(count)]


# -- what comes in -------------------------------------------------------------------------------------------------


@real_time()
async def test_handler_sees_everything_that_was_sent_with_a_message(queues: Queues) -> None:
    """Attributes with their types, keys, sequence number, delivery attempt and time (CON-20)."""
    url = queues.create(fifo=True)
    attributes = {"text": "v", "number": 7, "bytes": BINARY}
    [receipt] = await publish(queues, url, "a", ordering_key="k", deduplication_key="once", attributes=attributes)
    [message] = await consume_until(queues, url, 1)

    assert isinstance(receipt, Receipt)
    assert message.id == receipt.message_id
    assert dict(message.attributes) == {"text": "v", "number": "7", "bytes": BINARY}
    assert (message.ordering_key, message.deduplication_key) == ("k", "once")
    assert message.sequence_number == receipt.sequence_number is not None
    assert message.delivery_attempt == 1
    assert message.published_at is not None
    assert abs(message.published_at.timestamp() - time.time()) < 60


@pytest.mark.parametrize("value", [BINARY, b"\x00"])
@real_time()
async def test_binary_attributes_are_the_same_bytes_in_both_directions(queues: Queues, value: bytes) -> None:
    """Published here and received with boto3, and the other way round (SER-03)."""
    url = queues.create()
    await publish(queues, url, "ours", attributes={"b": value})
    [theirs] = queues.drain(url, wait=1)
    queues.send(url, "theirs", MessageAttributes={"b": {"DataType": "Binary", "BinaryValue": value}})
    [ours] = await consume_until(queues, url, 1)

    assert theirs["MessageAttributes"]["b"] == {"DataType": "Binary", "BinaryValue": value}
    assert ours.attributes["b"] == value


@real_time()
async def test_messages_of_other_clients_are_read_and_ours_are_plain_to_them(queues: Queues) -> None:
    """Text is text on the wire in both directions; only a binary body carries a mark."""
    url = queues.create()
    await publish(queues, url, "text", {"a": 1}, attributes={"n": 1.5})
    plain = {message["Body"]: message.get("MessageAttributes", {}) for message in queues.drain(url, wait=1)}
    number = {"DataType": "Number.int", "StringValue": "42"}
    queues.send(url, "from boto3", MessageAttributes={"n": number})
    [message] = await consume_until(queues, url, 1)

    sent = {"n": {"DataType": "Number", "StringValue": "1.5"}}
    assert plain == {'{"a":1}': sent, "text": sent}
    assert (message.text, message.attributes["n"]) == ("from boto3", "42")


# -- leases and shutdown ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fifo", [True, False], ids=["fifo", "standard"])
@real_time()
async def test_a_lease_that_ran_out_is_told_and_the_message_comes_again(queues: Queues, fifo: bool) -> None:
    """Without a heartbeat a handler slower than the lease loses it; the consumer goes on (CON-15)."""
    url = queues.create(fifo=fifo, VisibilityTimeout=2)
    told: list[ConsumeError] = []
    attempts: list[int | None] = []

    async def handle(message: Message) -> None:
        attempts.append(message.delivery_attempt)
        if len(attempts) == 1:
            await asyncio.sleep(4)

    await publish(queues, url, "slow", **({"ordering_key": "k"} if fifo else {}))
    # One at a time: a receive that is parked as the lease ends gets the message first, and work goes on under it.
    options = {"wait_time": 1, "heartbeat": False, "on_error": told.append, "concurrency": 1}
    async with consumers(queues) as provider, consuming(provider, url, handle, **options) as (_, consume):
        await until(lambda: len(attempts) >= 2 and queues.counts(url) == (0, 0, 0))

        assert not consume.done()

    assert any(isinstance(error, LeaseLostError) for error in told)


@real_time()
async def test_heartbeats_keep_one_lease_and_do_not_outlive_the_other(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two messages of one receive the short one is deleted without an error, the long one delivered once (HB-01)."""
    url = queues.create(VisibilityTimeout=3)
    told: list[ConsumeError] = []
    handled: list[tuple[str, int | None]] = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(float(message.text))
        handled.append((message.text, message.delivery_attempt))

    queues.send(url, "0.9", "4")
    options = {"wait_time": 1, "heartbeat_interval": 1.0, "on_error": told.append}
    async with consumers(queues) as provider, consuming(provider, url, handle, **options):
        await until(lambda: len(handled) == 2 and queues.counts(url) == (0, 0, 0))

    assert handled == [("0.9", 1), ("4", 1)]
    assert told == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def stop_and_send(
    queues: Queues, url: str, text: str, offset: float, handle: Handler, handled: list[str]
) -> None:
    """Stop a parked consumer and send *text* *offset* seconds later; return once a second consumer, or it, has it."""
    async with consumers(queues) as provider, consumers(queues) as other:
        first = await provider.new_consumer(url, handle, wait_time=2)
        task = asyncio.create_task(first.consume(), name="first")
        await asyncio.sleep(0.2)
        if offset < 0:
            await asyncio.to_thread(queues.send, url, text)
            await asyncio.sleep(-offset)
        first.stop()
        if offset >= 0:
            await asyncio.sleep(offset)
            await asyncio.to_thread(queues.send, url, text)
        async with consuming(other, url, handle, wait_time=1):
            await until(lambda: text in handled, within=8)
        await task


@pytest.mark.parametrize("offset", [-0.05, 0.0, 0.05], ids=["before", "at", "after"])
@real_time(60)
async def test_stop_strands_no_message_in_a_parked_receive(queues: Queues, offset: float) -> None:
    """A message sent around stop() is with the second consumer at once, never hidden for its lease (SHUT-01)."""
    urls = [queues.create(VisibilityTimeout=30, dead_letters=2) for _ in range(6)]
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    async with asyncio.TaskGroup() as group:
        for number, url in enumerate(urls):
            group.create_task(stop_and_send(queues, url, f"m{number}", offset, handle, handled))

    assert [queues.counts(url) for url in urls] == [(0, 0, 0)] * 6
    assert sorted(handled) == [f"m{number}" for number in range(6)]


@real_time()
async def test_stop_lets_running_handlers_finish_and_touches_nothing_else(queues: Queues) -> None:
    """Four run and are deleted; sixteen were never received, so none is a step nearer to the dead letters (SHUT-03)."""
    url = queues.create(VisibilityTimeout=60, dead_letters=1)
    queues.send(url, *[f"m{number}" for number in range(20)])
    started: list[str] = []
    finished: list[str] = []

    async def handle(message: Message) -> None:
        started.append(message.text)
        await asyncio.sleep(3)
        finished.append(message.text)

    async with consumers(queues) as provider:
        consumer = await provider.new_consumer(url, handle, wait_time=1, concurrency=4)
        task = asyncio.create_task(consumer.consume(), name="consume")
        await until(lambda: len(started) == 4)
        await asyncio.sleep(1)
        consumer.stop()
        await task

    assert sorted(finished) == sorted(started)
    assert len(started) == 4
    assert queues.counts(url) == (16, 0, 0)
    rest = queues.receive(url) + queues.receive(url)
    assert len(rest) == 16
    assert {message["Attributes"]["ApproximateReceiveCount"] for message in rest} == {"1"}
