"""Reported faults of other libraries, tried on this one against LocalStack and our server: messages of any kind."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import pytest

from messagequeue import ConsumeError, InvalidMessageError, Message, Publisher, Receipt, RetryLater
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.localstack import Queues
from tests.support.realtime import consuming, real_time, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MARKUP = [
    "a\r\nb\rc\td",
    "<a>&amp;\"'</a>",
    "]]>",
    "%2B+ &=",
    "line\u2028separator",
    "\U0001f4ac four bytes",
    " leading and trailing ",
]


def config_for(queues: Queues) -> SQSConfig:
    return SQSConfig(queue_address=queues.endpoint)


async def take(queues: Queues, url: str, count: int) -> list[Message]:
    """Consume until *count* messages were handled, and return them."""
    handled: list[Message] = []

    async def handle(message: Message) -> None:
        handled.append(message)

    async with SQSConsumerProvider(config_for(queues)) as provider, consuming(provider, url, handle, wait_time=1):
        await until(lambda: len(handled) >= count)
    return handled


# -- receiving -----------------------------------------------------------------------------------------------------


@real_time()
async def test_empty_polls_are_no_fault_and_the_next_message_is_handled(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    """Five polls bring nothing: no error, no line above DEBUG, and then a message (CON-01)."""
    url = queues.create()
    told: list[ConsumeError] = []
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)

    options = {"wait_time": 1, "on_error": told.append, "visibility_timeout": 60, "checks": "off"}
    with caplog.at_level(logging.INFO, "messagequeue"):
        async with (
            SQSConsumerProvider(config_for(queues)) as provider,
            consuming(provider, url, handle, **options) as (consumer, _),
        ):
            stats: Any = consumer.stats  # type: ignore[attr-defined]
            await until(lambda: stats.empty_receives >= 5)
            await asyncio.to_thread(queues.send, url, "at last")
            await until(lambda: handled == ["at last"])

            assert stats.receive_errors == 0

    assert told == []
    assert [record for record in caplog.records if record.name.startswith("messagequeue")] == []


@real_time(60)
async def test_messages_that_cannot_be_read_end_in_the_dead_letter_queue(queues: Queues) -> None:
    """
    What is marked as base64 and is not never reaches the handler; what is no JSON makes it fail.  Neither is deleted
    by us, both end with the dead letters, and the good ones are handled meanwhile (CON-07).
    """
    url = queues.create(VisibilityTimeout=1, dead_letters=2)
    mark = {"messagequeue.encoding": {"DataType": "String", "StringValue": "base64"}}
    queues.send(url, "%%%", "not base64", MessageAttributes=mark)
    queues.send(url, "36|0|123", "{", '""')
    queues.send(url, '{"n": 1}', '{"n": 2}', '{"n": 3}')
    seen: Counter[str] = Counter()
    done: list[int] = []

    async def handle(message: Message) -> None:
        seen[message.text] += 1
        done.append(message.json()["n"])

    async with (
        SQSConsumerProvider(config_for(queues)) as provider,
        consuming(provider, url, handle, wait_time=1) as (consumer, consume),
    ):
        await until(lambda: queues.counts(url) == (0, 0, 0), within=30)

        assert not consume.done()
        stats: Any = consumer.stats  # type: ignore[attr-defined]
        counts = (stats.undecodable, stats.failed, stats.handled)

    assert sorted(done) == [1, 2, 3]
    assert seen == {"36|0|123": 2, "{": 2, '""': 2, '{"n": 1}': 1, '{"n": 2}': 1, '{"n": 3}': 1}
    assert counts == (4, 6, 3)
    dead = [message["Body"] for message in queues.drain(dead_letters_of(queues, url), wait=1)]
    assert sorted(dead) == sorted(["%%%", "not base64", "36|0|123", "{", '""'])


def dead_letters_of(queues: Queues, url: str) -> str:
    """Return the URL of the queue's dead-letter queue."""
    name = queues.attributes(url)["RedrivePolicy"].split('"deadLetterTargetArn"')[1].split('"')[1].rpartition(":")[2]
    found: str = queues.client.get_queue_url(QueueName=name)["QueueUrl"]
    return found


@real_time()
async def test_retry_later_brings_back_the_same_message_and_sends_nothing(queues: Queues) -> None:
    """Three rounds: one id, a rising delivery attempt, and a sum of the queue's counters that stays 1 (CON-19)."""
    url = queues.create(VisibilityTimeout=60)
    [sent] = queues.send(url, "x")
    seen: list[tuple[str, int | None]] = []
    sums: list[int] = []

    async def handle(message: Message) -> None:
        seen.append((message.id, message.delivery_attempt))
        sums.append(sum(await asyncio.to_thread(queues.counts, url)))
        if len(seen) < 4:
            raise RetryLater(1)

    async with SQSConsumerProvider(config_for(queues)) as provider, consuming(provider, url, handle, wait_time=1):
        await until(lambda: len(seen) == 4 and queues.counts(url) == (0, 0, 0))

    assert seen == [(sent, attempt) for attempt in (1, 2, 3, 4)]
    assert sums == [1, 1, 1, 1]


# -- deduplication and order ---------------------------------------------------------------------------------------


@real_time()
async def test_repeat_after_the_first_was_deleted_has_its_id_and_is_not_delivered(queues: Queues) -> None:
    """By key, and by content with other attributes: only the body counts there (FIFO-12)."""
    url = queues.create(fifo=True)
    async with SQSPublisherProvider(config_for(queues)) as provider:
        publisher = await provider.new_publisher(url)
        keyed = [await publisher.publish("a", ordering_key="g", deduplication_key="k")]
        content = [await publisher.publish("b", ordering_key="g", attributes={"n": 1})]
        assert [message.text for message in await take(queues, url, 2)] == ["a", "b"]
        keyed.append(await publisher.publish("a", ordering_key="g", deduplication_key="k"))
        content.append(await publisher.publish("b", ordering_key="g", attributes={"n": 2}))

    # Not the sequence number: SQS gives the first one again, and so does our server; LocalStack gives a new one.
    assert keyed[0].message_id == keyed[1].message_id
    assert content[0].message_id == content[1].message_id
    assert queues.receive(url) == []


@real_time()
async def test_fifo_message_without_ordering_key_is_refused_and_nothing_is_stored(queues: Queues) -> None:
    """No group is made up for it, singly or among others (FIFO-10)."""
    url = queues.create(fifo=True)
    async with SQSPublisherProvider(config_for(queues)) as provider:
        publisher = await provider.new_publisher(url)
        with pytest.raises(InvalidMessageError, match="ordering_key"):
            await publisher.publish("a")
        results = await publisher.publish_many(["b", "c"])

    assert all(isinstance(result, InvalidMessageError) for result in results)
    assert queues.counts(url) == (0, 0, 0)


# -- bodies --------------------------------------------------------------------------------------------------------


@real_time()
async def test_foreign_bodies_that_look_like_base64_arrive_as_they_are(queues: Queues) -> None:
    """Nothing is guessed from a body; our own bytes that look so arrive as those bytes (SER-01)."""
    bodies = ["cGFy", "[[[[{{{", '{"b64_field":"cGFy"}', "abcd"]
    url, own = queues.create(), queues.create()
    queues.send(url, *bodies)
    got = await take(queues, url, len(bodies))
    await publish(queues, own, b"cGFy")
    [ours] = await take(queues, own, 1)

    assert sorted(message.text for message in got) == sorted(bodies)
    assert ours.body == b"cGFy"


@real_time()
async def test_body_whose_mark_is_wrong_is_a_fault_of_that_message_alone(queues: Queues) -> None:
    """It stays on the queue and is told; a right one is decoded (SER-01)."""
    url = queues.create(VisibilityTimeout=60)
    mark = {"messagequeue.encoding": {"DataType": "String", "StringValue": "base64"}}
    queues.send(url, "abc", base64.b64encode(b"\x00\xff").decode(), MessageAttributes=mark)
    told: list[ConsumeError] = []
    handled: list[bytes] = []

    async def handle(message: Message) -> None:
        handled.append(message.body)

    options = {"wait_time": 1, "on_error": told.append}
    async with SQSConsumerProvider(config_for(queues)) as provider, consuming(provider, url, handle, **options):
        await until(lambda: told and handled)

    assert handled == [b"\x00\xff"]
    assert [type(error).__name__ for error in told] == ["DecodeError"]
    assert sum(queues.counts(url)) == 1


@real_time()
async def test_line_ends_and_markup_are_the_same_bytes_after_the_round_trip(queues: Queues) -> None:
    """In body and attribute, from us to boto3 and back; the MD5 is that of the bytes sent (SER-04)."""
    url, back = queues.create(), queues.create()
    for text in MARKUP:
        await publish(queues, url, text, attributes={"a": text})
        queues.send(back, text, MessageAttributes={"a": {"DataType": "String", "StringValue": text}})
    theirs = {message["Body"]: message for message in queues.drain(url, wait=1)}
    ours = await take(queues, back, len(MARKUP))

    assert theirs.keys() == set(MARKUP)
    for text, message in theirs.items():
        assert message["MessageAttributes"]["a"]["StringValue"] == text
        assert message["MD5OfBody"] == md5(text)
    assert sorted(message.text for message in ours) == sorted(MARKUP)
    assert all(message.attributes["a"] == message.text for message in ours)


@real_time()
async def test_line_ends_and_markup_pass_between_us_and_a_client_of_the_xml_protocol(queues: Queues) -> None:
    """What an older SDK sends we read, and what we publish it reads, byte for byte (SER-04)."""
    url, back = queues.create(), queues.create()
    for text in MARKUP:
        sent = await asyncio.to_thread(query, queues, url, "SendMessage", MessageBody=text)
        assert sent.findtext(".//{*}MD5OfMessageBody") == md5(text)
        await publish(queues, back, text)
    ours = await take(queues, url, len(MARKUP))
    theirs = [await asyncio.to_thread(query, queues, back, "ReceiveMessage") for _ in MARKUP]

    assert sorted(message.text for message in ours) == sorted(MARKUP)
    assert sorted(answer.findtext(".//{*}Body") or "" for answer in theirs) == sorted(MARKUP)
    assert all(answer.findtext(".//{*}MD5OfBody") == md5(answer.findtext(".//{*}Body") or "") for answer in theirs)


def query(queues: Queues, url: str, action: str, **parameters: str) -> ElementTree.Element:
    """Call *action* as SDKs did before 2023: a form in, XML out."""
    form: Mapping[str, str] = {"Action": action, "Version": "2012-11-05", "QueueUrl": url} | parameters
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, "
        "SignedHeaders=host, Signature=0",
    }
    request = urllib.request.Request(queues.endpoint, urllib.parse.urlencode(form).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return ElementTree.fromstring(answer.read())


async def publish(queues: Queues, url: str, body: object, **options: Any) -> Receipt:
    async with SQSPublisherProvider(config_for(queues)) as provider:
        publisher: Publisher = await provider.new_publisher(url)
        return await publisher.publish(body, **options)


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
