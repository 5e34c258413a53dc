"""The source: receives with every field, and settles with one result per message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from messagequeue import ConfigurationError, ErrorCode, LeaseLostError, ReceiveError, SettleError
from messagequeue._options import ConsumeOptions
from messagequeue.driver import Delivery
from messagequeue.testing import run_virtual
from messagequeue_sqs._md5 import body_md5
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs._source import SQSSource
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, FakeSqs, failed, failing


def source_of(api: FakeSqs, *, url: str = STANDARD_URL, read_timeout: float = 30.0, **options: Any) -> SQSSource:
    return SQSSource(api, api, parse_topic(url), ConsumeOptions(**options), read_timeout=read_timeout)


def raw(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {"MessageId": f"m{number}", "ReceiptHandle": f"h{number}", "Body": f"b{number}", **fields}


def receive(source: SQSSource, wait: float = 20.0) -> Sequence[Delivery]:
    return run_virtual(source.receive(10, wait=wait))


def leases(source: SQSSource, api: FakeSqs, count: int) -> list[object]:
    api.answer("ReceiveMessage", [raw(n) for n in range(count)])
    return [delivery.lease for delivery in receive(source)]


# -- start


def test_lease_is_the_queues_own_where_nothing_is_given() -> None:
    """Read once; receives then send no VisibilityTimeout, so the queue's own holds."""
    api = FakeSqs()
    api.attributes["VisibilityTimeout"] = "120"
    source = source_of(api)

    assert run_virtual(source.start()) == 120.0
    receive(source)
    assert "VisibilityTimeout" not in api.requests("ReceiveMessage")[0]


def test_lease_that_is_given_is_asked_for_and_needs_no_look_up() -> None:
    """No GetQueueAttributes; a fraction is rounded up (CFG-09)."""
    api = FakeSqs()
    source = source_of(api, visibility_timeout=44.5)

    assert run_virtual(source.start()) == 45.0
    receive(source)
    assert api.requests("ReceiveMessage")[0]["VisibilityTimeout"] == 45
    assert not api.requests("GetQueueAttributes")


def test_lease_that_may_not_be_read_is_chosen_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Receives then ask for 30 s, so that the number is a fact and no guess (CFG-09, HB-09)."""
    api = FakeSqs()
    api.answer("GetQueueAttributes", failing("AccessDenied", 403), failing("AccessDenied", 403))
    source = source_of(api)

    assert [run_virtual(source.start()) for _ in range(2)] == [30.0, 30.0]
    receive(source)
    assert api.requests("ReceiveMessage")[0]["VisibilityTimeout"] == 30
    assert len(caplog.records) == 1
    assert "may not be read" in caplog.text


def test_heartbeat_interval_without_a_known_lease_asks_for_it() -> None:
    """The user chose the one and must say the other (HB-09)."""
    api = FakeSqs()
    api.answer("GetQueueAttributes", failing("AccessDenied", 403))

    with pytest.raises(ConfigurationError, match=r"heartbeat_interval=10.*give visibility_timeout=\.\.\."):
        run_virtual(source_of(api, heartbeat_interval=10).start())


def test_heartbeat_interval_is_held_against_the_queues_lease() -> None:
    """Both numbers are told; below it is fine (HB-09)."""
    with pytest.raises(ConfigurationError, match=r"heartbeat_interval=30.*30 s"):
        run_virtual(source_of(FakeSqs(), heartbeat_interval=30).start())
    assert run_virtual(source_of(FakeSqs(), heartbeat_interval=10).start()) == 30.0


def test_queue_with_a_lease_of_zero_is_refused() -> None:
    """Nobody could hold a message of it."""
    api = FakeSqs()
    api.attributes["VisibilityTimeout"] = "0"

    with pytest.raises(ConfigurationError, match="0 s"):
        run_virtual(source_of(api).start())


@pytest.mark.parametrize(
    ("code", "kind", "fatal"),
    [
        ("AWS.SimpleQueueService.NonExistentQueue", ErrorCode.NOT_FOUND, True),
        ("ServiceUnavailable", ErrorCode.UNAVAILABLE, False),
    ],
)
def test_start_that_fails_otherwise_raises_for_the_runtime_to_back_off(code: str, kind: ErrorCode, fatal: bool) -> None:
    """Only denial is taken for a missing permission; everything else is the receive error it would be."""
    api = FakeSqs()
    api.answer("GetQueueAttributes", failing(code))
    with pytest.raises(ReceiveError) as caught:
        run_virtual(source_of(api).start())

    assert (caught.value.code, caught.value.fatal) == (kind, fatal)


def test_lease_below_the_read_timeout_of_receives_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A receive whose answer is lost may have taken messages (CON-05)."""
    api = FakeSqs()
    api.attributes["VisibilityTimeout"] = "5"
    source = source_of(api, read_timeout=30)
    for _ in range(2):
        run_virtual(source.start())

    assert len(caplog.records) == 1
    assert "5 s is below the read timeout of receives, 30 s" in caplog.text


# -- receive


def test_receive_asks_for_every_attribute() -> None:
    """By the names of today, and AttributeNames is not used (CON-20)."""
    api = FakeSqs()
    receive(source_of(api), wait=19.2)

    assert api.requests("ReceiveMessage") == [
        {
            "QueueUrl": STANDARD_URL,
            "MaxNumberOfMessages": 10,
            "WaitTimeSeconds": 20,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["All"],
        }
    ]


def test_receive_of_nothing_is_an_empty_answer_without_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """An empty queue is no fault (CON-01)."""
    assert receive(source_of(FakeSqs())) == []
    assert caplog.records == []


def test_message_that_comes_twice_in_one_answer_is_two_deliveries() -> None:
    """Each with its own handle, and both are deleted by place (BAT-05)."""
    api = FakeSqs()
    source = source_of(api)
    api.answer("ReceiveMessage", [raw(1), raw(1, ReceiptHandle="h1b")])
    got = receive(source)
    run_virtual(source.settle([delivery.lease for delivery in got]))

    assert [delivery.message.id for delivery in got] == ["m1", "m1"]
    assert api.requests("DeleteMessageBatch") == [
        [{"Id": "0", "ReceiptHandle": "h1"}, {"Id": "1", "ReceiptHandle": "h1b"}]
    ]


def test_fifo_message_without_a_group_has_no_key_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Absent is not a group; the others keep theirs (FIFO-06)."""
    api = FakeSqs()
    source = source_of(api, url=FIFO_URL)
    api.answer("ReceiveMessage", [raw(1), raw(2, Attributes={"MessageGroupId": "A"}), raw(3)])
    got = receive(source)

    assert [delivery.message.ordering_key for delivery in got] == [None, "A", None]
    assert len(caplog.records) == 1
    assert "without MessageGroupId" in caplog.text


def test_standard_message_without_a_group_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """It is the usual case there (FIFO-06)."""
    api = FakeSqs()
    api.answer("ReceiveMessage", [raw(1)])
    receive(source_of(api))

    assert caplog.records == []


def test_message_whose_checksum_differs_is_a_fault() -> None:
    """Body and attributes; it stays on the queue and is not handled."""
    api = FakeSqs()
    attributes = {"a": {"DataType": "String", "StringValue": "b"}}
    api.answer(
        "ReceiveMessage",
        [
            raw(1, MD5OfBody="0" * 32),
            raw(2, MD5OfMessageAttributes="0" * 32, MessageAttributes=attributes),
            raw(3, MD5OfBody=body_md5("b3")),
        ],
    )
    first, second, third = receive(source_of(api))

    assert first.fault is not None
    assert second.fault is not None
    assert first.fault.code is second.fault.code is ErrorCode.CHECKSUM
    assert first.fault.message is first.message
    assert third.fault is None


@pytest.mark.parametrize(
    ("code", "status", "kind", "fatal"),
    [
        ("AccessDenied", 403, ErrorCode.ACCESS_DENIED, True),
        ("QueueDoesNotExist", 400, ErrorCode.NOT_FOUND, True),
        ("ExpiredToken", 403, ErrorCode.CREDENTIALS, False),
        ("OverLimit", 403, ErrorCode.THROTTLED, False),
        ("InternalError", 500, ErrorCode.UNAVAILABLE, False),
    ],
)
def test_receive_that_fails_says_whether_asking_again_can_help(
    code: str, status: int, kind: ErrorCode, fatal: bool
) -> None:
    """A consumer ends for a queue that is gone, and not for a token that ran out (CFG-07)."""
    api = FakeSqs()
    api.answer("ReceiveMessage", failing(code, status))
    with pytest.raises(ReceiveError) as caught:
        receive(source_of(api))

    assert (caught.value.code, caught.value.fatal, caught.value.topic) == (kind, fatal, STANDARD_URL)


# -- settle, release, extend


def test_settle_gives_every_message_its_own_result() -> None:
    """Eight deleted, one to try again, one refused for good (CON-14)."""
    api = FakeSqs()
    source = source_of(api)
    held = leases(source, api, 10)
    api.answer(
        "DeleteMessageBatch",
        {
            "Successful": [{"Id": str(n)} for n in range(8)],
            "Failed": [
                failed("8", "InternalError", sender_fault=False),
                failed("9", "AccessDenied", sender_fault=True),
            ],
        },
    )
    results = run_virtual(source.settle(held))

    assert results[:8] == [None] * 8
    assert [(type(r), getattr(r, "retryable", None)) for r in results[8:]] == [
        (SettleError, True),
        (SettleError, False),
    ]


def test_settle_entry_that_is_in_no_list_may_be_tried_again() -> None:
    """Deleting twice does no harm (BAT-03)."""
    api = FakeSqs()
    source = source_of(api)
    held = leases(source, api, 1)
    api.answer("DeleteMessageBatch", {})
    [result] = run_virtual(source.settle(held))

    assert isinstance(result, SettleError)
    assert (result.code, result.retryable) == (ErrorCode.NOT_CONFIRMED, True)


EXPIRED = "Value h for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
TOO_LONG = "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message ..."


@pytest.mark.parametrize("sender_fault", [True, False])
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("ReceiptHandleIsInvalid", ""),
        ("MessageNotInflight", ""),
        ("AWS.SimpleQueueService.MessageNotInflight", ""),
        ("InvalidParameterValue", EXPIRED),
        ("InvalidParameterValueException", EXPIRED),
    ],
)
def test_handle_that_is_no_longer_good_is_a_lost_lease(code: str, words: str, sender_fault: bool) -> None:
    """Whatever the call, and however a server flags it (CON-15)."""
    for method in ("settle", "release", "extend"):
        api = FakeSqs()
        source = source_of(api)
        held = leases(source, api, 1)
        action = "DeleteMessageBatch" if method == "settle" else "ChangeMessageVisibilityBatch"
        api.answer(action, {"Failed": [failed("0", code, sender_fault=sender_fault, words=words)]})
        options: dict[str, float] = {"settle": {}, "release": {"after": 0.0}, "extend": {"by": 9.0}}[method]  # type: ignore[assignment]
        [result] = run_virtual(getattr(source, method)(held, **options))

        assert isinstance(result, LeaseLostError)


def test_extension_beyond_twelve_hours_is_no_lost_lease() -> None:
    """The message is still held; it only cannot be held longer."""
    api = FakeSqs()
    source = source_of(api)
    held = leases(source, api, 1)
    failure = failed("0", "InvalidParameterValue", sender_fault=True, words=TOO_LONG)
    api.answer("ChangeMessageVisibilityBatch", {"Failed": [failure]})
    [result] = run_virtual(source.extend(held, by=43_200))

    assert isinstance(result, SettleError)
    assert not result.retryable


@pytest.mark.parametrize(
    ("method", "option", "given", "sent"),
    [
        ("release", "after", 0.0, 0),
        ("release", "after", 0.2, 1),
        ("release", "after", 99_999.0, 43_200),
        ("extend", "by", 30.9, 30),
        ("extend", "by", 0.5, 1),
        ("extend", "by", 99_999.0, 43_200),
    ],
)
def test_visibility_is_changed_to_whole_seconds_in_range(method: str, option: str, given: float, sent: int) -> None:
    """Giving back never comes early, extending never says more than it was asked."""
    api = FakeSqs()
    source = source_of(api)
    held = leases(source, api, 1)
    run_virtual(getattr(source, method)(held, **{option: given}))

    [entry] = api.requests("ChangeMessageVisibilityBatch")[0]
    assert entry == {"Id": "0", "ReceiptHandle": "h0", "VisibilityTimeout": sent}


def test_settle_that_is_denied_raises_its_kind() -> None:
    """The runtime reports it; nothing is swallowed here (CON-13)."""
    api = FakeSqs()
    source = source_of(api)
    held = leases(source, api, 2)
    api.answer("DeleteMessageBatch", failing("AccessDenied", 403))
    with pytest.raises(SettleError) as caught:
        run_virtual(source.settle(held))

    assert (caught.value.code, caught.value.retryable) == (ErrorCode.ACCESS_DENIED, False)


def test_settle_of_more_than_ten_is_several_calls_that_fail_apart() -> None:
    """What one call deleted is not reported as kept because another failed (CON-14)."""
    api = FakeSqs()
    source = source_of(api)
    held = leases(source, api, 10) + leases(source, api, 2)
    api.answer("DeleteMessageBatch", failing("InternalError", 500))
    results = run_virtual(source.settle(held))

    assert [len(request) for request in api.requests("DeleteMessageBatch")] == [10, 2]
    assert all(isinstance(result, SettleError) and result.retryable for result in results[:10])
    assert results[10:] == [None, None]


def test_settle_of_a_foreign_lease_is_a_mistake_of_the_caller() -> None:
    """Only what this source gave out can be settled here."""
    with pytest.raises(TypeError):
        run_virtual(source_of(FakeSqs()).settle([object()]))


def test_consumer_makes_only_the_calls_it_may(caplog: pytest.LogCaptureFixture) -> None:
    """Receive, delete and change; the one look-up may fail, and no queue is made or listed (CFG-09)."""
    api = FakeSqs()
    api.answer("GetQueueAttributes", failing("AccessDenied", 403))
    source = source_of(api)

    async def life() -> None:
        await source.start()
        api.answer("ReceiveMessage", [raw(1), raw(2)])
        first, second = await source.receive(10, wait=20)
        await source.extend([first.lease, second.lease], by=30)
        assert await source.settle([first.lease]) == [None]
        assert await source.release([second.lease], after=0) == [None]
        await source.close()

    run_virtual(life())

    assert [action for action, _, _ in api.calls] == [
        "GetQueueAttributes",
        "ReceiveMessage",
        "ChangeMessageVisibilityBatch",
        "DeleteMessageBatch",
        "ChangeMessageVisibilityBatch",
    ]
    assert len(caplog.records) == 1


def test_receives_are_as_many_as_the_room_needs() -> None:
    """Where receiving ahead is off: one for ten handlers, more for more.  Up to fifty in any case."""
    fixed = [source_of(FakeSqs(), concurrency=n, adaptive=False).limits.max_receives for n in (1, 10, 11, 100, 5_000)]

    assert fixed == [1, 1, 2, 10, 50]
    assert source_of(FakeSqs(), concurrency=1).limits.max_receives == 50
