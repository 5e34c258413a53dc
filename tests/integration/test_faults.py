"""
The SQS provider through the public API against a server that misbehaves: nothing is lost, no consumer ends.

Real sockets and the real clock: what is judged here is the whole stack, the AWS SDK's retries and time-outs included.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Literal

import pytest
from botocore.config import Config

from messagequeue import ConsumeOptions, ErrorCode, Message, PublishError, Receipt
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.fault_stub import (
    CLOSE,
    EMPTY,
    HTML,
    SILENCE,
    Fault,
    FaultStub,
    cut,
    denied,
    edited,
    expired_token,
    no_queue,
    reset,
    status,
    throttled,
)
from tests.support.realtime import consuming, real_time, until
from tests.support.stub_queue import Json

pytestmark = pytest.mark.slow

FAULTS: dict[str, Fault] = {
    "500": status(500),
    "503": status(503),
    "502-html": status(502),
    "throttled": throttled(),
    "expired-token": expired_token(),
    "reset": reset(),
    "reset-after-commit": reset(commit=True),
    "cut": cut(),
    "silence": SILENCE,
    "html": HTML,
    "empty": EMPTY,
}


async def under_each_fault(scenario: Callable[[Fault], Coroutine[None, None, None]]) -> None:
    """Run *scenario* under every fault, all at the same time: what they do is mostly to wait."""

    async def named(name: str, fault: Fault) -> None:
        try:
            await scenario(fault)
        except Exception as error:
            error.add_note(f"under the fault {name!r}")
            raise

    async with asyncio.TaskGroup() as group:
        for name, fault in FAULTS.items():
            group.create_task(named(name, fault), name=name)


#: How the calls of a test travel: every test runs once over the short path and once over the SDK alone.
TRANSPORT: dict[str, Literal["fast", "sdk"]] = {"now": "fast"}


@pytest.fixture(autouse=True, params=["fast", "sdk"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSPORT, "now", request.param)


def config_for(stub: FaultStub, *, attempts: int = 1, region: str | None = None) -> SQSConfig:
    """A configuration with *attempts* of the SDK per call, short polls, and an answer in time or none."""
    sdk = Config(retries={"total_max_attempts": attempts, "mode": "standard"}, read_timeout=2)
    return SQSConfig(
        queue_address=stub.endpoint,
        region=region,
        transport=TRANSPORT["now"],
        connect_timeout=1.5,  # a busy machine takes its time to answer
        read_timeout=1.5,
        client_config=sdk,
        consume=ConsumeOptions(wait_time=1),
    )


# -- publishing ----------------------------------------------------------------------------------------------------


@real_time()
async def test_publish_outlives_a_connection_closed_by_the_service() -> None:
    """The SDK's retry makes good a connection that was reset or closed while idle: one message (PUB-11)."""
    async with FaultStub() as stub, SQSPublisherProvider(config_for(stub, attempts=3)) as provider:
        publisher = await provider.new_publisher(stub.queue_url)
        stub.script("SendMessageBatch", reset(), CLOSE)
        first = await publisher.publish("a")
        stub.close_idle_connections()
        second = await publisher.publish("b")

        assert isinstance(first, Receipt)
        assert isinstance(second, Receipt)
        assert stub.queue.stored == ["a", "b"]


@pytest.mark.parametrize("attempts", [1, 2, 3])
@real_time()
async def test_publish_makes_exactly_the_configured_attempts(attempts: int) -> None:
    """On a connection that always resets there is one typed error with its cause, and no second retry loop (PUB-11)."""
    async with FaultStub() as stub, SQSPublisherProvider(config_for(stub, attempts=attempts)) as provider:
        publisher = await provider.new_publisher(stub.queue_url)
        stub.always("SendMessageBatch", reset())
        with pytest.raises(PublishError) as caught:
            await publisher.publish("a")

        assert caught.value.code is ErrorCode.CONNECTION
        assert caught.value.__cause__ is not None
        assert stub.count("SendMessageBatch") == attempts


@pytest.mark.parametrize(
    ("answer", "code"),
    [(HTML, ErrorCode.BAD_RESPONSE), (EMPTY, ErrorCode.BAD_RESPONSE), (status(502), ErrorCode.UNAVAILABLE)],
    ids=["html", "empty", "502-html"],
)
@real_time()
async def test_publish_names_the_endpoint_that_does_not_answer_like_sqs(answer: Fault, code: ErrorCode) -> None:
    """An answer that is not from SQS is a typed error with the address in it, never a success (PUB-12)."""
    async with FaultStub() as stub, SQSPublisherProvider(config_for(stub)) as provider:
        publisher = await provider.new_publisher(stub.queue_url)
        stub.always("SendMessageBatch", answer)
        with pytest.raises(PublishError) as caught:
            await publisher.publish("a")

        assert caught.value.code is code
        assert stub.endpoint in str(caught.value)
        assert "<html>" not in str(caught.value)


@real_time()
async def test_publish_tells_the_truth_about_every_fault() -> None:
    """Two failing calls, then good ones: every receipt is of a stored message, every loss is a `PublishError`."""

    async def scenario(fault: Fault) -> None:
        async with FaultStub() as stub, SQSPublisherProvider(config_for(stub)) as provider:
            publisher = await provider.new_publisher(stub.queue_url)
            stub.script("SendMessageBatch", fault, fault)
            results = []
            for number in range(4):
                results += await publisher.publish_many([f"m{number}"])

            assert [isinstance(result, PublishError) for result in results] == [True, True, False, False]
            assert stub.queue.stored[-2:] == ["m2", "m3"]
            assert stub.count("SendMessageBatch") == 4

    await under_each_fault(scenario)


def damaged(field: str, value: str | None) -> Fault:
    """Store the message, and answer another *field* for it, or none."""

    def edit(answer: Json) -> Json:
        for entry in answer["Successful"]:
            entry.pop(field, None)
            entry.update({} if value is None else {field: value})
        return answer

    return edited(edit)


@pytest.mark.parametrize("field", ["MD5OfMessageBody", "MD5OfMessageAttributes"])
@real_time()
async def test_publish_with_a_wrong_checksum_fails_once_and_names_the_message(field: str) -> None:
    """SQS holds the message already: the error has its id, and it is not sent again (SER-06)."""
    async with FaultStub() as stub, SQSPublisherProvider(config_for(stub, attempts=3)) as provider:
        publisher = await provider.new_publisher(stub.queue_url)
        stub.always("SendMessageBatch", damaged(field, "0" * 32))
        with pytest.raises(PublishError, match="id-0") as caught:
            await publisher.publish("a", attributes={"k": "v"})

        assert caught.value.code is ErrorCode.CHECKSUM
        assert not caught.value.retryable
        assert stub.queue.stored == ["a"]
        assert stub.count("SendMessageBatch") == 1


@real_time()
async def test_publish_without_a_checksum_in_the_answer_succeeds() -> None:
    """A checksum that is absent is not a wrong one (SER-06)."""
    async with FaultStub() as stub, SQSPublisherProvider(config_for(stub)) as provider:
        publisher = await provider.new_publisher(stub.queue_url)
        stub.script("SendMessageBatch", damaged("MD5OfMessageBody", None), damaged("MD5OfMessageAttributes", None))

        for _ in range(2):
            assert isinstance(await publisher.publish("a", attributes={"k": "v"}), Receipt)


# -- consuming -----------------------------------------------------------------------------------------------------


# Receives have 30 s at least for their answer, so that one which never comes takes that long, twice.
@pytest.mark.parametrize("action", ["ReceiveMessage", "DeleteMessageBatch", "GetQueueAttributes"])
@real_time(100)
async def test_consumer_outlives_every_fault_of_every_call(action: str) -> None:
    """Two failures of a call cost no message, end no consumer, never make two receives of one (CON-03, PUB-12)."""

    async def scenario(fault: Fault) -> None:
        handled: set[str] = set()

        async def handle(message: Message) -> None:
            handled.add(message.text)

        async with FaultStub() as stub, SQSConsumerProvider(config_for(stub)) as provider:
            stub.queue.visibility_timeout = 3
            bodies = {f"m{number}" for number in range(5)}
            stub.queue.put(*bodies)
            stub.script(action, fault, fault)
            async with consuming(provider, stub.queue_url, handle) as (_, consume):
                await until(lambda: set(stub.queue.deleted) == bodies, within=90)
                stub.queue.put("afterwards")
                await until(lambda: "afterwards" in stub.queue.deleted)

                assert not consume.done()

            assert handled == bodies | {"afterwards"}
            assert stub.unused() == 0
            assert stub.most_outstanding["ReceiveMessage"] == 1

    await under_each_fault(scenario)


@real_time(60)
async def test_consumer_keeps_its_lease_through_faults_of_the_heartbeat() -> None:
    """Two failing heartbeats in a row neither end the consumer nor let a second delivery happen while there is time."""

    async def scenario(fault: Fault) -> None:
        attempts: list[int | None] = []

        async def handle(message: Message) -> None:
            attempts.append(message.delivery_attempt)
            await asyncio.sleep(4.5)

        async with FaultStub() as stub, SQSConsumerProvider(config_for(stub)) as provider:
            stub.queue.visibility_timeout = 4
            stub.queue.put("slow")
            stub.script("ChangeMessageVisibilityBatch", fault, fault)
            async with consuming(provider, stub.queue_url, handle, heartbeat_interval=0.5) as (_, consume):
                await until(lambda: stub.queue.deleted)

                assert not consume.done()

            assert attempts == [1]
            assert stub.unused() == 0

    await under_each_fault(scenario)


@real_time()
async def test_consumer_backs_off_from_a_queue_that_does_not_exist_and_recovers() -> None:
    """Failing receives are few and grow apart; when the queue appears the same consumer takes from it (CON-02)."""
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    async with FaultStub() as stub, SQSConsumerProvider(config_for(stub)) as provider:
        stub.always("*", no_queue())
        async with consuming(provider, stub.queue_url, handle) as (_, consume):
            await asyncio.sleep(4)
            failing = list(stub.requests)
            stub.relent()
            stub.queue.put("at last")
            await until(lambda: handled == ["at last"])

            assert not consume.done()
            assert 3 <= len(failing) <= 8
            gaps = [after.at - before.at for before, after in pairwise(failing)]
            assert gaps[-1] > 4 * gaps[0]


@real_time()
async def test_consumer_back_off_begins_anew_after_one_success() -> None:
    """After a good receive the next failure waits for a tenth of a second again, not for what came last (CON-02)."""

    async def handle(_message: Message) -> None: ...

    async with FaultStub() as stub, SQSConsumerProvider(config_for(stub)) as provider:
        stub.script("ReceiveMessage", *[status(503)] * 4)
        async with consuming(provider, stub.queue_url, handle):
            stub.queue.put("a")
            await until(lambda: stub.queue.deleted)
            failing = stub.count("ReceiveMessage")  # what runs now has met its answer already
            stub.script("ReceiveMessage", status(503))
            await until(lambda: stub.count("ReceiveMessage") >= failing + 2)
        receives = [request.at for request in stub.requests if request.action == "ReceiveMessage"]

        assert 0.04 < receives[failing + 1] - receives[failing] < 0.4


@real_time()
async def test_consumer_of_an_address_that_does_not_resolve_goes_on_trying() -> None:
    """A name that is not resolved is a fault like any other: reported, backed off, not the end (CON-03)."""
    told: list[ErrorCode] = []

    async def handle(_message: Message) -> None: ...

    config = SQSConfig(
        queue_address="http://sqs.invalid:1", client_config=Config(retries={"total_max_attempts": 1}), connect_timeout=1
    )
    async with SQSConsumerProvider(config) as provider:
        topic = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"
        options = {"on_error": lambda error: told.append(error.code)}
        async with consuming(provider, topic, handle, **options) as (_, consume):
            await until(lambda: told)

            assert not consume.done()
            assert told[0] is ErrorCode.CONNECTION


# -- region, credentials, permissions --------------------------------------------------------------------------------

WEST = "https://sqs.us-west-2.amazonaws.com/123456789012/orders"


async def every_kind_of_call(stub: FaultStub, config: SQSConfig, topic: str) -> None:
    """Publish, receive, prolong, hand back and delete."""
    attempts: list[str] = []

    async def handle(message: Message) -> None:
        attempts.append(message.text)
        await asyncio.sleep(0.5)
        if len(attempts) == 1:
            raise ValueError("once more")

    async with SQSPublisherProvider(config) as publishers, SQSConsumerProvider(config) as consumers:
        publisher = await publishers.new_publisher(topic)
        await publisher.publish_many(["a"])
        options = {"heartbeat_interval": 0.2, "visibility_timeout": 5, "retry_delay": 0}
        async with consuming(consumers, topic, handle, **options):
            await until(lambda: stub.queue.deleted)


@real_time()
async def test_every_call_is_signed_for_the_region_of_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue URL's region wins over the ambient one, in every kind of call (CFG-02)."""
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    async with FaultStub() as stub:
        await every_kind_of_call(stub, config_for(stub), WEST)

        assert {request.region for request in stub.requests} == {"us-west-2"}
        assert stub.count("ChangeMessageVisibilityBatch") >= 2


@real_time()
async def test_an_explicit_region_wins_over_the_queue_url_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Who names a region gets it for every call, and is told that the URL says another (CFG-02)."""
    async with FaultStub() as stub:
        with caplog.at_level(logging.WARNING):
            await every_kind_of_call(stub, config_for(stub, region="eu-west-1"), WEST)

        assert {request.region for request in stub.requests} == {"eu-west-1"}
        warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert any("eu-west-1" in text and "us-west-2" in text for text in warned)


def needless(stub: FaultStub) -> Sequence[str]:
    """Return calls that look a queue up or make one."""
    return [
        request.action for request in stub.requests if request.action in ("CreateQueue", "GetQueueUrl", "ListQueues")
    ]


@real_time()
async def test_publisher_needs_no_permission_but_to_send() -> None:
    """With a key that may only send, publishing works; nothing else is called (CFG-09)."""
    async with FaultStub() as stub, SQSPublisherProvider(config_for(stub)) as provider:
        stub.allow_only("SendMessage", "SendMessageBatch")
        publisher = await provider.new_publisher(stub.queue_url)
        receipts = await publisher.publish_many([f"m{number}" for number in range(25)])

        assert all(isinstance(receipt, Receipt) for receipt in receipts)
        assert {request.action for request in stub.requests} == {"SendMessageBatch"}


@real_time()
async def test_consumer_needs_no_permission_but_to_receive_and_settle(caplog: pytest.LogCaptureFixture) -> None:
    """Without GetQueueAttributes it works fully, and says once what it could not look up (CFG-09)."""
    attempts: list[int | None] = []

    async def handle(message: Message) -> None:
        attempts.append(message.delivery_attempt)
        if len(attempts) == 1:
            raise ValueError("once more")

    async with FaultStub() as stub, SQSConsumerProvider(config_for(stub)) as provider:
        stub.allow_only("ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")
        stub.queue.put("a")
        with caplog.at_level(logging.INFO):
            async with consuming(provider, stub.queue_url, handle, retry_delay=0):
                await until(lambda: stub.queue.deleted)

        assert attempts == [1, 2]
        assert needless(stub) == []
        assert len([record for record in caplog.records if "GetQueueAttributes" in record.getMessage()]) == 1


@real_time()
async def test_consumer_without_permission_to_receive_ends_with_the_typed_error_after_its_grace() -> None:
    """Access denied is not asked for ever: after `fatal_grace` consume() raises what SQS said (CFG-09)."""

    async def handle(_message: Message) -> None: ...

    async with FaultStub() as stub, SQSConsumerProvider(config_for(stub)) as provider:
        stub.always("ReceiveMessage", denied())
        consumer = await provider.new_consumer(stub.queue_url, handle, fatal_grace=0.3)
        with pytest.raises(Exception, match="AccessDenied") as caught:
            await consumer.consume()

        assert getattr(caught.value, "code", None) is ErrorCode.ACCESS_DENIED
