"""Moving a message to the dead-letter queue on a handler's word."""

from __future__ import annotations

from typing import Any

import pytest

from messagequeue import ConsumeError, ErrorCode, SettleError
from messagequeue._options import ConsumeOptions
from messagequeue.testing import run_virtual
from messagequeue_sqs._dead_letter import REASON_ATTRIBUTE, SOURCE_ATTRIBUTE
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._source import SQSSource
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, FakeSqs, failed, failing

DEAD_URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/dead"


def api_with_policy(name: str = "dead") -> FakeSqs:
    api = FakeSqs()
    arn = f"arn:aws:sqs:eu-west-1:123456789012:{name}"
    api.attributes["RedrivePolicy"] = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "5"}}'
    return api


def move(
    api: FakeSqs, raw: dict[str, Any], *, url: str = STANDARD_URL, reason: str = "hopeless"
) -> ConsumeError | None:
    source = SQSSource(api, api, parse_topic(url), ConsumeOptions(), read_timeout=30)

    async def run() -> ConsumeError | None:
        api.answer("ReceiveMessage", [{"MessageId": "m1", "ReceiptHandle": "h1", "Body": "b1", **raw}])
        [delivery] = await source.receive(1, wait=0)
        return await source.dead_letter(delivery.lease, delivery.message, reason=reason)

    return run_virtual(run())


def string(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def test_dead_letter_is_sent_as_it_was_on_the_wire_and_then_deleted() -> None:
    """The encoding attribute and labelled types too; reason and source are added."""
    api = api_with_policy()
    attributes = {
        "messagequeue.encoding": string("base64"),
        "n": {"DataType": "Number.int", "StringValue": "1"},
        "b": {"DataType": "Binary", "BinaryValue": b"\x00"},
    }
    result = move(api, {"Body": "/wA=", "MessageAttributes": attributes})

    assert result is None
    assert [action for action, _, _ in api.calls[1:]] == [
        "GetQueueAttributes",
        "SendMessageBatch",
        "DeleteMessageBatch",
    ]
    assert api.calls[2][1] == DEAD_URL
    [entry] = api.requests("SendMessageBatch")[0]
    story = {REASON_ATTRIBUTE: string("hopeless"), SOURCE_ATTRIBUTE: string(STANDARD_URL)}
    assert entry == {"Id": "0", "MessageBody": "/wA=", "MessageAttributes": attributes | story}
    assert api.requests("DeleteMessageBatch") == [[{"Id": "0", "ReceiptHandle": "h1"}]]


def test_dead_letter_on_fifo_keeps_its_group_and_is_deduplicated_by_its_id() -> None:
    """As SQS does when it moves a message itself."""
    api = api_with_policy("dead.fifo")
    system = {"MessageGroupId": "g", "MessageDeduplicationId": "d", "AWSTraceHeader": "Root=1"}
    move(api, {"Attributes": system}, url=FIFO_URL)

    [entry] = api.requests("SendMessageBatch")[0]
    assert (entry["MessageGroupId"], entry["MessageDeduplicationId"]) == ("g", "m1")
    assert entry["MessageSystemAttributes"] == {"AWSTraceHeader": string("Root=1")}


def test_dead_letter_tells_its_story_only_as_far_as_there_is_room() -> None:
    """Ten attributes, 1 MiB and the alphabet hold for it too; the message itself is never cut."""
    nine = {f"a{n}": string("v") for n in range(9)}
    api = api_with_policy()
    move(api, {"MessageAttributes": nine}, reason="why\x07")
    [entry] = api.requests("SendMessageBatch")[0]
    assert entry["MessageAttributes"] == nine | {REASON_ATTRIBUTE: string("why\ufffd")}

    api = api_with_policy()
    body = "x" * (1_048_576 - len(REASON_ATTRIBUTE) - len("String") - 3)
    move(api, {"Body": body}, reason="hopeless")
    [entry] = api.requests("SendMessageBatch")[0]
    assert entry["MessageAttributes"] == {REASON_ATTRIBUTE: string("hop")}

    api = api_with_policy()
    move(api, {"Body": "x" * 1_048_576})
    assert api.requests("SendMessageBatch")[0] == [{"Id": "0", "MessageBody": "x" * 1_048_576}]


def test_dead_letter_without_a_dead_letter_queue_stays() -> None:
    """Nothing is deleted, and the error says what to do."""
    api = FakeSqs()
    result = move(api, {})

    assert isinstance(result, SettleError)
    assert "give it a RedrivePolicy" in str(result)
    assert api.requests("DeleteMessageBatch") == []


@pytest.mark.parametrize("policy", ["no json", "[]", "{}", '{"deadLetterTargetArn": "x"}'])
def test_dead_letter_with_an_unreadable_policy_stays(policy: str) -> None:
    """A queue of another server may say anything."""
    api = FakeSqs()
    api.attributes["RedrivePolicy"] = policy
    result = move(api, {})

    assert isinstance(result, SettleError)
    assert result.code is ErrorCode.CONFIGURATION
    assert api.requests("SendMessageBatch") == []


@pytest.mark.parametrize(
    ("answer", "kind", "retryable"),
    [
        ({"Failed": [failed("0", "AccessDenied", sender_fault=True)]}, ErrorCode.ACCESS_DENIED, False),
        ({"Failed": [failed("0", "InternalError", sender_fault=False)]}, ErrorCode.UNAVAILABLE, True),
        ({}, ErrorCode.NOT_CONFIRMED, True),
        ({"Successful": [{"Id": "0", "MessageId": "x", "MD5OfMessageBody": "0"}]}, ErrorCode.NOT_CONFIRMED, True),
        (failing("QueueDoesNotExist"), ErrorCode.NOT_FOUND, False),
    ],
)
def test_dead_letter_that_was_not_stored_is_not_deleted(answer: Any, kind: ErrorCode, retryable: bool) -> None:
    """First there, then not here: a message is in two places rather than in none."""
    api = api_with_policy()
    api.answer("SendMessageBatch", answer)
    result = move(api, {})

    assert isinstance(result, SettleError)
    assert (result.code, result.retryable) == (kind, retryable)
    assert api.requests("DeleteMessageBatch") == []
