"""The provider's parts put together, down to the requests that leave: publishers over a stand-in for the service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from messagequeue import (
    ConsumeOptions,
    ErrConsumerAlreadyRegistered,
    ErrorCode,
    InvalidMessageError,
    Message,
    Outgoing,
    PublishError,
    PublishOptions,
    Receipt,
    UnsupportedOptionError,
)
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import run_virtual
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from messagequeue_sqs._md5 import body_md5
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._sender import SQSSender
from messagequeue_sqs._source import SQSSource
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, FakeSqs, failed


def publishing(
    api: FakeSqs, test: Callable[[RuntimePublisher], Awaitable[None]], *, url: str = STANDARD_URL
) -> RuntimePublisher:
    """Run *test* on a publisher of *url* in virtual time, and stop the publisher."""

    async def main() -> RuntimePublisher:
        publisher = RuntimePublisher(url, SQSSender(api, parse_topic(url)), PublishOptions())
        try:
            await test(publisher)
        finally:
            await publisher.stop()
        return publisher

    return run_virtual(main())


def entries(api: FakeSqs) -> list[dict[str, Any]]:
    """Return every entry sent, without its id."""
    sent = [entry for request in api.requests("SendMessageBatch") for entry in request]
    return [{name: value for name, value in entry.items() if name != "Id"} for entry in sent]


# -- what leaves


@pytest.mark.parametrize("options", [{}, {"attributes": {}}, {"attributes": None}, {"ordering_key": None}])
def test_publish_without_options_sends_a_body_and_nothing_else(options: Any) -> None:
    """None and {} are left out, never sent empty (PUB-01)."""
    api = FakeSqs()

    async def test(publisher: RuntimePublisher) -> None:
        await publisher.publish(b"x", **options)

    publishing(api, test)

    assert entries(api) == [{"MessageBody": "x"}]


@pytest.mark.parametrize("url", [STANDARD_URL, FIFO_URL])
@pytest.mark.parametrize("option", ["ordering_key", "deduplication_key"])
def test_publish_with_an_empty_key_is_refused_by_the_options_name(url: str, option: str) -> None:
    """On both kinds of queue, before any request (PUB-01)."""
    api = FakeSqs()

    async def test(publisher: RuntimePublisher) -> None:
        # A standard queue takes no deduplication key at all, which is a ConfigurationError whatever the key.
        with pytest.raises((InvalidMessageError, UnsupportedOptionError), match=option):
            await publisher.publish(b"x", **({"ordering_key": "k"} | {option: ""}))

    publishing(api, test, url=url)

    assert api.calls == []


@pytest.mark.parametrize(("delay", "sent"), [(0, 0), (1, 1), (900, 900), (timedelta(seconds=2), 2)])
def test_publish_sends_a_delay_as_a_whole_number(delay: float | timedelta, sent: int) -> None:
    """Whatever it was given as (PUB-04)."""
    api = FakeSqs()

    async def test(publisher: RuntimePublisher) -> None:
        await publisher.publish(b"x", delay=delay)  # type: ignore[arg-type]

    publishing(api, test)

    [entry] = entries(api)
    assert entry["DelaySeconds"] == sent
    assert type(entry["DelaySeconds"]) is int


@pytest.mark.parametrize("delay", [901, -1, 1.5, "2", True, float("nan")])
def test_publish_with_a_delay_that_sqs_refuses_makes_no_request(delay: Any) -> None:
    """A ValueError that names the range; nothing is cut to 0 (PUB-04)."""
    api = FakeSqs()

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(ValueError, match="0 to 900"):
            await publisher.publish(b"x", delay=delay)

    publishing(api, test)

    assert api.calls == []


def test_publish_without_a_delay_leaves_it_to_the_queue() -> None:
    """Nothing is sent, so the queue's own delay applies; an explicit 0 is sent and wins over it (PUB-01, PUB-04)."""
    api = FakeSqs()

    async def test(publisher: RuntimePublisher) -> None:
        await publisher.publish_many([b"queue's", Outgoing(b"now", delay=0), Outgoing(b"own", delay=5)])
        await publisher.publish_many([b"call's", Outgoing(b"own", delay=5)], delay=60)

    publishing(api, test)

    assert [(entry["MessageBody"], entry.get("DelaySeconds")) for entry in entries(api)] == [
        *(("queue's", None), ("now", 0), ("own", 5)),
        *(("call's", 60), ("own", 5)),
    ]


def test_publish_to_fifo_with_a_delay_makes_no_request() -> None:
    """The error says where a FIFO queue's delay is set, and what a handler can do; 0 asks for nothing."""
    api = FakeSqs()

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(
            UnsupportedOptionError, match=r"leave delay=5 out; set a delay on the topic itself.*RetryLater"
        ):
            await publisher.publish(b"x", ordering_key="k", delay=5)
        with pytest.raises(UnsupportedOptionError, match="leave delay=5 out"):
            await publisher.publish_many([b"x", Outgoing(b"y", delay=5)], ordering_key="k")
        assert api.calls == []
        await publisher.publish(b"x", ordering_key="k", delay=0)

    publishing(api, test, url=FIFO_URL)

    [entry] = entries(api)
    assert "DelaySeconds" not in entry


def test_publish_to_fifo_without_ordering_key_is_refused_and_no_key_is_made_up() -> None:
    """A made-up one would put every message into one group, one at a time; the error names the option (FIFO-10)."""
    api = FakeSqs()

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(InvalidMessageError, match="ordering_key"):
            await publisher.publish(b"x")
        [result] = await publisher.publish_many([b"x"])
        assert isinstance(result, InvalidMessageError)

    publishing(api, test, url=FIFO_URL)

    assert api.calls == []


# -- what comes back


def test_every_caller_of_a_batch_has_the_result_of_its_own_message() -> None:
    """
    Of ten: seven stored, one refused for good, one failed at SQS and sent again, one in neither list and so not
    confirmed; an id nobody sent harms none; the counters say the same (BAT-03).
    """
    api = FakeSqs()
    api.answer(
        "SendMessageBatch",
        {
            "Successful": [{"Id": str(n), "MessageId": f"m{n}"} for n in range(7)],
            "Failed": [
                failed("7", "InvalidMessageContents", sender_fault=True),
                failed("8", "InternalError", sender_fault=False),
                failed("77", "InternalError", sender_fault=False),
            ],
        },
        {"Successful": [{"Id": "0", "MessageId": "m8"}]},
    )
    results: list[Receipt | PublishError] = []

    async def test(publisher: RuntimePublisher) -> None:
        results.extend(await publisher.publish_many([f"b{n}" for n in range(10)]))

    publisher = publishing(api, test)

    assert results[:7] == [Receipt(f"m{n}") for n in range(7)]
    assert results[8] == Receipt("m8")
    refused, unsure = results[7], results[9]
    assert isinstance(refused, PublishError)
    assert isinstance(unsure, PublishError)
    assert (refused.code, unsure.code) == (ErrorCode.INVALID, ErrorCode.NOT_CONFIRMED)
    assert [entry["MessageBody"] for entry in entries(api)[10:]] == ["b8"]
    stats = publisher.stats
    assert (stats.published, stats.failed, stats.entries_retried, stats.pending) == (8, 2, 1, 0)


def test_checksum_that_differs_is_not_sent_again() -> None:
    """SQS holds the message: one request, one error with its id (SER-06)."""
    api = FakeSqs()
    api.answer("SendMessageBatch", {"Successful": [{"Id": "0", "MessageId": "m1", "MD5OfMessageBody": "0" * 32}]})

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(PublishError, match="m1") as caught:
            await publisher.publish(b"x")
        assert caught.value.code is ErrorCode.CHECKSUM

    publishing(api, test)

    assert len(api.calls) == 1


def test_resend_within_the_deduplication_window_has_the_first_receipt() -> None:
    """SQS answers the first id and number with the MD5 of what was sent now: that is no mismatch (SER-06)."""
    api = FakeSqs()
    for body in ("first", "changed"):
        stored = {"Id": "0", "MessageId": "m1", "SequenceNumber": "5", "MD5OfMessageBody": body_md5(body)}
        api.answer("SendMessageBatch", {"Successful": [stored]})

    async def test(publisher: RuntimePublisher) -> None:
        for body in ("first", "changed"):
            receipt = await publisher.publish(body, ordering_key="g", deduplication_key="d")
            assert receipt == Receipt("m1", "5")

    publishing(api, test, url=FIFO_URL)


# -- settling, registering


@pytest.mark.parametrize(("method", "options"), [("settle", {}), ("release", {"after": 0.0}), ("extend", {"by": 9.0})])
def test_settling_of_nothing_makes_no_request(method: str, options: dict[str, float]) -> None:
    """SQS refuses an empty batch, so none is sent (BAT-09)."""
    api = FakeSqs()
    source = SQSSource(api, api, parse_topic(STANDARD_URL), ConsumeOptions(), read_timeout=30)

    assert run_virtual(getattr(source, method)([], **options)) == []
    assert api.calls == []


@pytest.mark.parametrize(
    "other", [STANDARD_URL + "/", "https://eu-west-1.queue.amazonaws.com/123456789012/orders"], ids=["slash", "legacy"]
)
def test_one_queue_under_two_urls_has_one_consumer_and_one_publisher(other: str) -> None:
    """The second consumer is refused until the first is closed; the publisher is the same one (CON-22)."""

    async def handle(_message: Message) -> None: ...

    async def main() -> None:
        config = SQSConfig(queue_address="http://localhost:1")
        async with SQSConsumerProvider(config) as consumers, SQSPublisherProvider(config) as publishers:
            first = await consumers.new_consumer(STANDARD_URL, handle)
            with pytest.raises(ErrConsumerAlreadyRegistered):
                await consumers.new_consumer(other, handle)
            await first.close()
            assert (await consumers.new_consumer(other, handle)).topic == other
            assert await publishers.new_publisher(STANDARD_URL) is await publishers.new_publisher(other)

    asyncio.run(main())
