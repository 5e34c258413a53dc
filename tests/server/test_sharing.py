"""One broker, two faces: what a provider of this process publishes an SQS client receives, and the other way round."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from messagequeue import ConfigurationError, ConsumerProvider, Message, PublisherProvider
from messagequeue.driver import EncodedMessage
from messagequeue.embedded import (
    EmbeddedConfig,
    EmbeddedConsumerProvider,
    EmbeddedPublisherProvider,
    MemoryConfig,
    MemoryConsumerProvider,
    MemoryPublisherProvider,
    forget,
)
from messagequeue.telemetry import Telemetry
from messagequeue_sqs import SQSServer
from tests.server.test_transport import Raw
from tests.support.realtime import consuming, real_time, until
from tests.unit.telemetry.recording import Recording, identity, parent_of, trace_of

#: Seconds in which a receive that waits is to be woken; it waits for 20.
SOON = 5.0


#: A trace and its span as X-Ray writes them.
TRACE = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"


class Shared:
    """A server and both halves of the provider that shares its queues."""

    def __init__(self, server: SQSServer, publishers: PublisherProvider, consumers: ConsumerProvider, raw: Raw) -> None:
        self.server = server
        self.publishers = publishers
        self.consumers = consumers
        self.raw = raw


@asynccontextmanager
async def shared(where: str | Path, telemetry: Telemetry | None = None) -> AsyncIterator[Shared]:
    publishers: PublisherProvider
    consumers: ConsumerProvider
    if isinstance(where, Path):
        server, folder = SQSServer(data=where), EmbeddedConfig(path=where)
        publishers = EmbeddedPublisherProvider(folder, telemetry=telemetry)
        consumers = EmbeddedConsumerProvider(folder, telemetry=telemetry)
    else:
        server, memory = SQSServer(memory=where), MemoryConfig(name=where)
        publishers = MemoryPublisherProvider(memory, telemetry=telemetry)
        consumers = MemoryConsumerProvider(memory, telemetry=telemetry)
    async with server, publishers, consumers:
        raw = await Raw.to(server)
        try:
            yield Shared(server, publishers, consumers, raw)
        finally:
            await raw.close()


@pytest.fixture(params=["memory", "folder"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | Path]:
    name = str(uuid.uuid4())
    yield tmp_path if request.param == "folder" else name
    forget(name)


def test_what_a_provider_publishes_a_parked_http_receive_gets_at_once(where: str | Path) -> None:
    """Body, attributes with their types, and the time of the publish."""

    @real_time()
    async def run() -> None:
        async with shared(where) as both:
            await both.raw.call("CreateQueue", QueueName="orders")
            publisher = await both.publishers.new_publisher("sqs.orders")
            started = time.time()
            receiving = asyncio.create_task(
                both.raw.call(
                    "ReceiveMessage",
                    QueueUrl="orders",
                    WaitTimeSeconds=20,
                    AttributeNames=["All"],
                    MessageAttributeNames=["All"],
                )
            )
            await until(lambda: both.server.waiting)
            receipt = await publisher.publish({"order": 1}, attributes={"n": 7, "raw": b"\x00", "text": "t"})
            async with asyncio.timeout(SOON):
                [message] = (await receiving)["Messages"]

            assert (message["Body"], message["MessageId"]) == ('{"order":1}', receipt.message_id)
            assert {name: value["DataType"] for name, value in message["MessageAttributes"].items()} == {
                "n": "Number",
                "raw": "Binary",
                "text": "String",
            }
            assert int(message["Attributes"]["SentTimestamp"]) / 1000 == pytest.approx(started, abs=SOON)

    run()


def test_what_comes_by_http_a_parked_consumer_handles_at_once(where: str | Path) -> None:
    """And what it has handled is gone for the SQS client."""

    @real_time()
    async def run() -> None:
        got: list[Message] = []

        async def handle(message: Message) -> None:
            got.append(message)

        async with shared(where) as both:
            await both.raw.call("CreateQueue", QueueName="orders")
            async with consuming(both.consumers, "sqs.orders", handle, wait_time=20):
                await asyncio.sleep(0.05)
                sent = await both.raw.call(
                    "SendMessage",
                    QueueUrl="orders",
                    MessageBody="hello",
                    MessageAttributes={"n": {"DataType": "Number", "StringValue": "7"}},
                )
                await until(lambda: got, SOON)
                await until(lambda: not both.server.peek("orders"), SOON)

            [message] = got
            assert (message.id, message.text, dict(message.attributes)) == (sent["MessageId"], "hello", {"n": "7"})
            assert message.published_at is not None
            assert message.published_at.timestamp() == pytest.approx(time.time(), abs=SOON)

    run()


def test_a_trace_goes_on_across_both_faces(where: str | Path) -> None:
    """The header of an SQS client is the handler's parent; what a provider publishes has header and attribute."""
    recording = Recording()

    @real_time()
    async def run() -> None:
        async def handle(message: Message) -> None:
            pass

        async with shared(where, recording.telemetry) as both:
            await both.raw.call("CreateQueue", QueueName="orders")
            header = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
            await both.raw.call("SendMessage", QueueUrl="orders", MessageBody="hello", MessageSystemAttributes=header)
            async with consuming(both.consumers, "sqs.orders", handle):
                await until(lambda: recording.spans("process"), SOON)
            publisher = await both.publishers.new_publisher("sqs.orders")
            await publisher.publish("x", attributes={f"a{n}": "1" for n in range(9)})
            [message] = (
                await both.raw.call(
                    "ReceiveMessage", QueueUrl="orders", AttributeNames=["All"], MessageAttributeNames=["All"]
                )
            )["Messages"]

            process, [send] = recording.span("process"), recording.spans("send")
            assert (trace_of(process), parent_of(process)) == (0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
            assert f"Parent={identity(send):016x}" in message["Attributes"]["AWSTraceHeader"]
            assert f"-{identity(send):016x}-" in message["MessageAttributes"]["traceparent"]["StringValue"]

    run()


def test_fifo_order_holds_across_both_faces(where: str | Path) -> None:
    """One sequence, one deduplication window: a repeat through the other face is a duplicate."""

    @real_time()
    async def run() -> None:
        async with shared(where) as both:
            publisher = await both.publishers.new_publisher("sqs.jobs.fifo")
            await publisher.publish("1", ordering_key="g", deduplication_key="d1")
            two = await both.raw.call(
                "SendMessage",
                QueueUrl="jobs.fifo",
                MessageBody="2",
                MessageGroupId="g",
                MessageDeduplicationId="d2",
            )
            again = await publisher.publish("2 again", ordering_key="g", deduplication_key="d2")
            await publisher.publish("3", ordering_key="g", deduplication_key="d3")
            assert (again.message_id, again.sequence_number) == (two["MessageId"], two["SequenceNumber"])

            got = await both.raw.call("ReceiveMessage", QueueUrl="jobs.fifo", MaxNumberOfMessages=2)
            assert [message["Body"] for message in got["Messages"]] == ["1", "2"]
            bodies: list[str] = []

            async def handle(message: Message) -> None:
                bodies.append(message.text)

            async with consuming(both.consumers, "sqs.jobs.fifo", handle, wait_time=20):
                entries = [
                    {"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(got["Messages"])
                ]
                assert bodies == []  # the group is locked by what HTTP holds
                await both.raw.call("DeleteMessageBatch", QueueUrl="jobs.fifo", Entries=entries)
                await until(lambda: bodies, SOON)
            assert bodies == ["3"]

    run()


def test_a_lease_that_one_face_lets_end_wakes_the_other(where: str | Path) -> None:
    """What time alone brings back is seen by whoever waits."""

    @real_time()
    async def run() -> None:
        attempts: list[int | None] = []

        async def handle(message: Message) -> None:
            attempts.append(message.delivery_attempt)

        async with shared(where) as both:
            await both.raw.call("CreateQueue", QueueName="orders", Attributes={"VisibilityTimeout": "1"})
            await both.raw.call("SendMessage", QueueUrl="orders", MessageBody="x")
            await both.raw.call("ReceiveMessage", QueueUrl="orders")
            async with consuming(both.consumers, "sqs.orders", handle, wait_time=20):
                await until(lambda: attempts, SOON)

        assert attempts == [2]

    run()


def test_a_queue_that_is_deleted_by_http_ends_the_consumer_of_its_topic(where: str | Path) -> None:
    """At once, with an error that says so."""

    @real_time()
    async def run() -> None:
        async def handle(message: Message) -> None:
            """Nothing comes."""

        async with shared(where) as both:
            await both.raw.call("CreateQueue", QueueName="orders")
            consumer = await both.consumers.new_consumer("sqs.orders", handle, wait_time=20, fatal_grace=0.0)
            consume = asyncio.create_task(consumer.consume(), name="consume")
            await asyncio.sleep(0.05)
            await both.raw.call("DeleteQueue", QueueUrl="orders")
            async with asyncio.timeout(SOON):
                with pytest.raises(Exception, match="was deleted"):
                    await consume
            await consumer.close()

    run()


def test_another_loop_of_the_process_is_told_to_share_the_first(where: str | Path) -> None:
    """Two loops would wake nobody of each other, and change queues under each other's hands."""

    async def use() -> None:
        async with SQSServer(data=where) if isinstance(where, Path) else SQSServer(memory=where):
            """Nothing more."""

    @real_time()
    async def run() -> None:
        async with shared(where):
            with pytest.raises(ConfigurationError, match="share that loop"):
                await asyncio.to_thread(asyncio.run, use())

    run()


def test_a_standard_queue_of_the_server_promises_a_provider_no_order(where: str | Path) -> None:
    """One that the server made as such; a topic that the provider made keeps order per key, for SQS clients, too."""

    @real_time()
    async def run() -> None:
        async with shared(where) as both:
            await both.raw.call("CreateQueue", QueueName="standard")
            orders = {}
            for name in ("standard", "own"):
                sender = await both.publishers._open_sender(f"sqs.{name}")  # type: ignore[attr-defined]
                orders[name] = sender.capabilities.ordering
                for body in ("1", "2"):
                    await sender.send([EncodedMessage(body, ordering_key="k")])
            got = {name: await both.raw.call("ReceiveMessage", QueueUrl=name, MaxNumberOfMessages=1) for name in orders}
            more = {
                name: await both.raw.call("ReceiveMessage", QueueUrl=name, MaxNumberOfMessages=1) for name in orders
            }

        assert orders == {"standard": False, "own": True}
        assert [answer["Messages"][0]["Body"] for answer in got.values()] == ["1", "1"]
        assert [len(answer.get("Messages", [])) for answer in more.values()] == [1, 0]

    run()
