"""The sender: one batch per call, one result per message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from messagequeue import ErrorCode, PublishError, Receipt
from messagequeue.driver import EncodedMessage
from messagequeue.testing import run_virtual
from messagequeue_sqs._md5 import attributes_md5, body_md5
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._sender import SQSSender
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, FakeSqs, failed, failing


def send(api: FakeSqs, *messages: EncodedMessage, url: str = STANDARD_URL, verify: bool = True) -> Sequence[Any]:
    return run_virtual(SQSSender(api, parse_topic(url), verify_checksums=verify).send(messages))


def test_lone_message_is_sent_as_a_batch_of_one_with_nothing_unasked() -> None:
    """Id and body only, to the URL as it was given (PUB-01, CFG-06)."""
    api = FakeSqs()
    results = send(api, EncodedMessage("x"), url="https://anything.example:99/a/123456789012/orders")

    assert results == [Receipt("id-0")]
    assert api.calls == [
        ("SendMessageBatch", "https://anything.example:99/a/123456789012/orders", [{"Id": "0", "MessageBody": "x"}])
    ]


def test_capabilities_say_what_each_kind_of_queue_can_do() -> None:
    """FIFO orders, deduplicates and delays no single message; standard takes the key as a tag (PUB-03)."""
    fifo = SQSSender(FakeSqs(), parse_topic(FIFO_URL)).capabilities
    standard = SQSSender(FakeSqs(), parse_topic(STANDARD_URL)).capabilities

    assert (fifo.ordering, fifo.ordering_key, fifo.deduplication, fifo.max_delay) == (True, "required", True, 0)
    assert (standard.ordering, standard.ordering_key, standard.deduplication) == (False, "accepted", False)
    assert (standard.max_delay, standard.delay_resolution, standard.max_lease) == (900, 1, 43_200)


def test_every_entry_gets_the_result_of_its_own_place() -> None:
    """Seven stored, one refused, one failed at SQS, one not mentioned, one never sent (BAT-03)."""
    api = FakeSqs()
    api.answer(
        "SendMessageBatch",
        {
            "Successful": [{"Id": str(n), "MessageId": f"m{n}", "SequenceNumber": str(n)} for n in reversed(range(7))],
            "Failed": [
                failed("7", "InvalidMessageContents", sender_fault=True),
                failed("8", "InternalError", sender_fault=False),
                failed("77", "InternalError", sender_fault=False),
            ],
        },
    )
    results = send(api, *[EncodedMessage(f"b{n}") for n in range(10)])

    assert results[:7] == [Receipt(f"m{n}", str(n)) for n in range(7)]
    assert [(r.code, r.retryable) for r in results[7:]] == [
        (ErrorCode.INVALID, False),
        (ErrorCode.UNAVAILABLE, True),
        (ErrorCode.NOT_CONFIRMED, False),
    ]


def test_id_that_was_not_sent_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It is no crash and no result (BAT-03)."""
    api = FakeSqs()
    api.answer("SendMessageBatch", {"Failed": [failed("77", "InternalError", sender_fault=False)]})
    [result] = send(api, EncodedMessage("x"))

    assert result.code is ErrorCode.NOT_CONFIRMED
    assert "'77'" in caplog.text


@pytest.mark.parametrize("answer", [{}, {"Successful": [{"Id": "0"}]}, {"Successful": [], "Failed": []}])
def test_answer_without_a_message_id_is_not_confirmed(answer: Any) -> None:
    """No KeyError and no false success (PUB-12)."""
    api = FakeSqs()
    api.answer("SendMessageBatch", answer)
    [result] = send(api, EncodedMessage("x"))

    assert (result.code, result.retryable) == (ErrorCode.NOT_CONFIRMED, False)
    assert "fake.example" in str(result)


def test_entry_ids_are_places_whatever_the_messages_hold() -> None:
    """Keys with slashes, or equal ones, are never ids (BAT-05, BAT-06)."""
    api = FakeSqs()
    messages = [
        EncodedMessage("same", ordering_key="g", deduplication_key=key) for key in ("order/1:2", "x" * 128, "a")
    ]
    send(api, *messages, url=FIFO_URL)

    ids = [entry["Id"] for entry in api.requests("SendMessageBatch")[0]]
    assert ids == ["0", "1", "2"]
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,80}", entry_id) for entry_id in ids)


def test_call_that_failed_as_a_whole_raises_its_kind() -> None:
    """Typed, with the SDK's exception as the cause, and not sent a second time (PUB-11)."""
    api = FakeSqs()
    cause = RuntimeError("the SDK's own")
    error = failing("ServiceUnavailable", 503)
    error.__cause__ = cause
    api.answer("SendMessageBatch", error)
    with pytest.raises(PublishError) as caught:
        send(api, EncodedMessage("x"))

    assert (caught.value.code, caught.value.retryable) == (ErrorCode.UNAVAILABLE, True)
    assert caught.value.topic == STANDARD_URL
    assert caught.value.__cause__ is cause
    assert len(api.calls) == 1


def test_fifo_refusal_without_deduplication_names_the_option() -> None:
    """As a whole and per entry; neither is retried (FIFO-09)."""
    api = FakeSqs()
    words = "The queue should either have ContentBasedDeduplication enabled or ..."
    api.answer("SendMessageBatch", failing("InvalidParameterValue", words=words))
    api.answer("SendMessageBatch", {"Failed": [failed("0", "InvalidParameterValue", sender_fault=True, words=words)]})
    message = EncodedMessage("x", ordering_key="g")
    with pytest.raises(PublishError, match="deduplication_key=") as whole:
        send(api, message, url=FIFO_URL)
    [entry] = send(api, message, url=FIFO_URL)

    assert whole.value.code is entry.code is ErrorCode.INVALID
    assert not whole.value.retryable
    assert not entry.retryable
    assert "deduplication_key=" in str(entry)


def test_fifo_refusal_of_one_message_spares_those_with_a_deduplication_key() -> None:
    """SQS refuses the whole batch for it and stores nothing; only the one at fault fails (FIFO-09)."""
    api = FakeSqs()
    api.answer("SendMessageBatch", failing("InvalidParameterValue"))
    messages = [
        EncodedMessage(str(n), ordering_key="g", deduplication_key=key) for n, key in enumerate(("a", None, "c"))
    ]
    first, second, third = send(api, *messages, url=FIFO_URL)

    assert (first, third) == (Receipt("id-0"), Receipt("id-2"))
    assert second.code is ErrorCode.INVALID
    assert [entry["MessageBody"] for entry in api.requests("SendMessageBatch")[1]] == ["0", "2"]


def test_refusal_of_an_entry_that_has_a_deduplication_key_says_nothing_of_it() -> None:
    """The hint is given where it can be the reason."""
    api = FakeSqs()
    api.answer("SendMessageBatch", {"Failed": [failed("0", "InvalidParameterValue", sender_fault=True)]})
    [result] = send(api, EncodedMessage("x", ordering_key="g", deduplication_key="d"), url=FIFO_URL)

    assert "deduplication_key" not in str(result)


def test_checksum_that_differs_is_an_error_and_not_retryable() -> None:
    """SQS holds a message, so sending again would make a second one; its id is told (SER-06)."""
    message = EncodedMessage("x", attributes={"a": "b"})
    for field in ("MD5OfMessageBody", "MD5OfMessageAttributes", "MD5OfMessageSystemAttributes"):
        api = FakeSqs()
        api.answer("SendMessageBatch", {"Successful": [{"Id": "0", "MessageId": "m1", field: "0" * 32}]})
        [result] = send(api, message)

        assert (result.code, result.retryable) == (ErrorCode.CHECKSUM, False)
        assert "m1" in str(result)


def test_checksum_that_is_right_or_absent_is_no_error() -> None:
    """Absent is not different (SER-06)."""
    right = {
        "MD5OfMessageBody": body_md5("x"),
        "MD5OfMessageAttributes": attributes_md5({"a": {"DataType": "String", "StringValue": "b"}}),
    }
    for fields in (right, {}):
        api = FakeSqs()
        api.answer("SendMessageBatch", {"Successful": [{"Id": "0", "MessageId": "m1", **fields}]})

        assert send(api, EncodedMessage("x", attributes={"a": "b"})) == [Receipt("m1")]


def test_checksums_are_not_looked_at_where_switched_off() -> None:
    """For servers that compute them wrongly."""
    api = FakeSqs()
    api.answer("SendMessageBatch", {"Successful": [{"Id": "0", "MessageId": "m1", "MD5OfMessageBody": "0"}]})

    assert send(api, EncodedMessage("x"), verify=False) == [Receipt("m1")]
