"""A trace that goes through SQS: over our own server and over LocalStack, by the short path and by the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from opentelemetry.trace import format_span_id, format_trace_id

from messagequeue import Message
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.localstack import Queues
from tests.support.realtime import consuming, real_time, until
from tests.unit.telemetry.recording import Recording, attributes, identity, links, parent_of, trace_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TEN = {f"a{n}": "x" for n in range(10)}
OTHER = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"


class Bench:
    """Queues, and a way to them."""

    def __init__(self, queues: Queues, transport: Literal["fast", "sdk"]) -> None:
        self.queues = queues
        self.config = SQSConfig(queue_address=queues.endpoint, transport=transport)


@pytest.fixture(params=["localstack-fast", "localstack-sdk", "server-fast", "server-sdk"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    target, transport = request.param.split("-")
    made = Queues(request.getfixturevalue(f"{target}_endpoint"))
    yield Bench(made, transport)
    made.close()


async def consume(bench: Bench, recording: Recording, url: str, count: int) -> list[Message]:
    seen: list[Message] = []

    async def handle(message: Message) -> None:
        seen.append(message)

    async with (
        SQSConsumerProvider(bench.config, telemetry=recording.telemetry) as provider,
        consuming(provider, url, handle, wait_time=1) as (consumer, _),
    ):
        await until(lambda: consumer.stats.settled == count)  # type: ignore[attr-defined]
    return seen


def test_a_trace_goes_on_from_publisher_to_handler(bench: Bench):
    """In the attributes where there is room, and beside them where not; both ways the handler is the publisher's."""
    recording = Recording()
    url = bench.queues.create()

    @real_time(60)
    async def run() -> None:
        async with SQSPublisherProvider(bench.config, telemetry=recording.telemetry) as provider:
            publisher = await provider.new_publisher(url)
            await publisher.publish("roomy", attributes={"k": "v"})
            await publisher.publish("full", attributes=TEN)
            results = await publisher.publish_many(["many 1", "many 2"])
            assert not [result for result in results if isinstance(result, Exception)]
        messages = {message.text: message for message in await consume(bench, recording, url, 4)}

        produced = {identity(span): span for span in [*recording.spans("send")[:2], *recording.spans("create")]}
        processes = {attributes(span, "messaging.message.id")[0]: span for span in recording.spans("process")}
        assert set(messages) == {"roomy", "full", "many 1", "many 2"}
        for message in messages.values():
            process = processes[message.id]
            parent = produced.pop(parent_of(process) or 0)
            assert trace_of(process) == trace_of(parent)
            assert links(process) == {identity(parent)}
            assert attributes(process, "messaging.system", "aws.sqs.queue.url") == ("aws_sqs", url)
        assert produced == {}
        assert set(messages["full"].attributes) == set(TEN)
        assert set(messages["roomy"].attributes) == {"k", "traceparent"}
        raw: Any = messages["full"].raw
        assert raw["Attributes"]["AWSTraceHeader"].startswith("Root=1-")

    run()


def test_what_another_client_sends_is_read(bench: Bench):
    """X-Ray's header alone, and W3C's attributes as any other SDK writes them; the latter win."""
    recording = Recording()
    url = bench.queues.create()
    header = {"AWSTraceHeader": {"DataType": "String", "StringValue": OTHER}}
    w3c = {
        "traceparent": {
            "DataType": "String",
            "StringValue": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        }
    }
    send = bench.queues.client.send_message
    send(QueueUrl=url, MessageBody="header", MessageSystemAttributes=header)
    send(QueueUrl=url, MessageBody="both", MessageSystemAttributes=header, MessageAttributes=w3c)

    @real_time(60)
    async def run() -> None:
        messages = {message.id: message.text for message in await consume(bench, recording, url, 2)}
        found = {
            messages[attributes(span, "messaging.message.id")[0]]: (
                format_trace_id(trace_of(span)),
                format_span_id(parent_of(span) or 0),
            )
            for span in recording.spans("process")
        }

        assert found == {
            "header": ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"),
            "both": ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"),
        }

    run()


def test_the_attributes_on_the_wire_are_those_of_the_standard(bench: Bench):
    """Read with plain boto3: names in lower case, type String, checksums right (TEL-05)."""
    recording = Recording()
    url = bench.queues.create()

    @real_time(60)
    async def run() -> None:
        async with SQSPublisherProvider(bench.config, telemetry=recording.telemetry) as provider:
            await (await provider.new_publisher(url)).publish("x")
        [received] = await asyncio.to_thread(bench.queues.receive, url)

        [send] = recording.spans("send")
        assert received["MessageAttributes"] == {
            "traceparent": {
                "DataType": "String",
                "StringValue": f"00-{format_trace_id(trace_of(send))}-{format_span_id(identity(send))}-"
                + received["MessageAttributes"]["traceparent"]["StringValue"][-2:],
            }
        }
        trace = format_trace_id(trace_of(send))
        header = f"Root=1-{trace[:8]}-{trace[8:]};Parent={format_span_id(identity(send))};Sampled=1"
        assert received["Attributes"]["AWSTraceHeader"] == header
        assert recording.total("messagequeue.client.billable_requests", messaging__destination__name=name_of(url)) >= 1

    run()


def name_of(url: str) -> str:
    return url.rpartition("/")[2]
