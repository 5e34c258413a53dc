"""Compression through publishers and consumers: the memory provider in virtual time, and SQS' wire."""

from __future__ import annotations

import asyncio
import base64
import gzip
import uuid

import pytest

from messagequeue import (
    ConsumeError,
    ConsumeOptions,
    DecodeError,
    Message,
    MessageTooLargeError,
    PublishOptions,
)
from messagequeue._compression import COMPRESSION_ATTRIBUTE
from messagequeue.embedded import MemoryConfig, MemoryConsumerProvider, MemoryPublisherProvider
from messagequeue.runtime.prepare import Preparer, Terms, stages_of
from messagequeue.testing import ScriptedSender, run_virtual
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._sender import SQSSender
from messagequeue_sqs._wire import ENCODING_ATTRIBUTE, decode_message
from tests.unit.sqs.fake_sqs import STANDARD_URL, FakeSqs

LARGE = {"lines": ["the same line again"] * 100_000}


async def roundtrip(
    data: object, *, publish: PublishOptions, consume: ConsumeOptions = ConsumeOptions(), attributes: dict[str, str]
) -> tuple[list[Message], list[ConsumeError]]:
    """Publish one message in memory and consume it until it is handled or cannot be."""
    config = MemoryConfig(name=str(uuid.uuid4()), publish=publish, consume=consume)
    handled: list[Message] = []
    told: list[ConsumeError] = []

    async def handle(message: Message) -> None:
        handled.append(message)
        consumer.stop()

    def on_error(error: ConsumeError) -> None:
        told.append(error)
        consumer.stop()

    async with MemoryPublisherProvider(config) as publishers, MemoryConsumerProvider(config) as consumers:
        consumer = await consumers.new_consumer("orders", handle, on_error=on_error)
        await (await publishers.new_publisher("orders")).publish(data, attributes=attributes)
        async with asyncio.timeout(600):
            await consumer.consume()
        assert consumer.stats.settled == len(handled)
    return handled, told


@pytest.mark.parametrize("algorithm", ["gzip", "zstd"])
def test_consumer_gets_the_plain_body_without_an_option_of_its_own(algorithm: str) -> None:
    """The mark is taken off; the other attributes stay; a body above the broker's limit fits when compressed."""
    options = PublishOptions(compression=algorithm)  # type: ignore[arg-type]
    [message], told = run_virtual(roundtrip(LARGE, publish=options, attributes={"kind": "log"}))

    assert message.json() == LARGE
    assert dict(message.attributes) == {"kind": "log"}
    assert told == []


def test_body_above_the_limit_is_too_large_without_compression() -> None:
    """So the test above shows what it says."""
    with pytest.raises(MessageTooLargeError):
        run_virtual(roundtrip(LARGE, publish=PublishOptions(), attributes={}))


@pytest.mark.parametrize(
    ("body", "limit"), [(b"not gzip at all", 1_000), (gzip.compress(bytes(100_000)), 99_999)], ids=["not gzip", "bomb"]
)
def test_body_that_cannot_be_opened_is_not_handled_and_not_deleted(body: bytes, limit: int) -> None:
    """The error sink gets a `DecodeError` about that message, without its body."""
    consume = ConsumeOptions(max_decompressed=limit)
    marked = {COMPRESSION_ATTRIBUTE: "gzip"}
    handled, [error] = run_virtual(roundtrip(body, publish=PublishOptions(), consume=consume, attributes=marked))

    assert handled == []
    assert isinstance(error, DecodeError)
    assert error.message is not None
    assert error.topic == "orders"


def test_errors_are_about_the_message_as_the_handler_got_it() -> None:
    """An error sink sees the plain body, not what the broker has."""
    told: list[ConsumeError] = []

    async def main() -> None:
        config = MemoryConfig(name=str(uuid.uuid4()), publish=PublishOptions(compression="gzip"))

        async def handle(message: Message) -> None:
            consumer.stop()
            raise ValueError

        async with MemoryPublisherProvider(config) as publishers, MemoryConsumerProvider(config) as consumers:
            consumer = await consumers.new_consumer("orders", handle, on_error=told.append)
            await (await publishers.new_publisher("orders")).publish(LARGE)
            await consumer.consume()

    run_virtual(main())

    [error] = told
    assert error.message is not None
    assert error.message.json() == LARGE


def test_messages_without_the_mark_are_the_same_object_as_received() -> None:
    """What looks like gzip, but is not marked, is the sender's own."""
    body = gzip.compress(b"x" * 1000)
    [message], _ = run_virtual(roundtrip(body, publish=PublishOptions(compression="gzip"), attributes={}))

    assert message.body == body


def test_nothing_is_added_where_compression_is_off() -> None:
    """No stage stands between codec and sender."""
    assert stages_of(ScriptedSender(), PublishOptions()) == ()


def test_on_sqs_a_compressed_body_is_base64_with_both_marks() -> None:
    """A reader of another language takes off base64, then gzip, as the two attributes say."""

    async def send() -> FakeSqs:
        api = FakeSqs()
        sender = SQSSender(api, parse_topic(STANDARD_URL))
        preparer = Preparer(STANDARD_URL, sender, _Codec(), stages_of(sender, PublishOptions(compression="gzip")))
        message, size = preparer.message("a" * 2_000_000, Terms())
        assert size < 10_000
        await sender.send([message])
        return api

    [[entry]] = run_virtual(send()).requests("SendMessageBatch")
    names = {name: value["StringValue"] for name, value in entry["MessageAttributes"].items()}
    message, fault = decode_message(STANDARD_URL, {"Body": entry["MessageBody"], **entry})

    assert names == {ENCODING_ATTRIBUTE: "base64", COMPRESSION_ATTRIBUTE: "gzip"}
    assert gzip.decompress(base64.b64decode(entry["MessageBody"])) == b"a" * 2_000_000
    assert fault is None
    assert dict(message.attributes) == {COMPRESSION_ATTRIBUTE: "gzip"}


class _Codec:
    def encode(self, data: object, /) -> str | bytes:
        assert isinstance(data, str)
        return data
