"""DeleteMessage, ChangeMessageVisibility and their batches: what each handle is good for, and when."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.sqs_driving import BASE, CLIENTS, Client, Driven, Refused

IPV, MP = "InvalidParameterValue", "MissingParameter"
NOT_AVAILABLE = "Message does not exist or is not available for visibility timeout change."


def refusal(act: Callable[..., object], *args: Any, **params: Any) -> tuple[int, str, str]:
    with pytest.raises(Refused) as refused:
        act(*args, **params)
    return refused.value.status, refused.value.code, refused.value.message


def held(sqs: Client, url: str, timeout: int = 30) -> str:
    """Return the handle of a message that was just received."""
    [got] = sqs.receive(url, 1, VisibilityTimeout=timeout)
    handle: str = got["ReceiptHandle"]
    return handle


@pytest.fixture
def url(sqs: Client) -> str:
    made = sqs.create()
    sqs.send(made)
    return made


@pytest.fixture
def fifo(sqs: Client) -> str:
    made = sqs.create("q.fifo", ContentBasedDeduplication="true")
    sqs.send(made, MessageGroupId="g")
    return made


GARBAGE = ["x", "é", "1.1.1", base64.b64encode(b"x" * 12 + b"1.1.1").decode(), "A" * 5_000, "=", " "]


@pytest.mark.parametrize("handle", GARBAGE, ids=lambda handle: handle[:20])
def test_handle_that_was_never_issued_is_refused(sqs: Client, url: str, handle: str) -> None:
    """404, for deletes and changes; nothing can be made up (behaviour 89)."""
    sqs.receive(url)
    expected = 404, "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.'

    assert refusal(sqs.delete, url, handle) == expected
    assert refusal(sqs.change, url, handle, 5) == expected
    assert sqs.counts(url) == (0, 1, 0)


def test_handle_of_another_queue_is_refused(sqs: Client, url: str) -> None:
    """As one that was never issued (behaviour 89)."""
    handle = held(sqs, url)

    assert refusal(sqs.delete, sqs.create("other"), handle)[1] == "ReceiptHandleIsInvalid"


def test_parameters_are_needed(sqs: Client, url: str) -> None:
    """Handle and timeout (behaviour 90)."""
    handle = held(sqs, url)

    assert refusal(sqs, "DeleteMessage", QueueUrl=url)[1:] == (
        MP,
        "The request must contain the parameter ReceiptHandle.",
    )
    assert refusal(sqs, "ChangeMessageVisibility", QueueUrl=url, VisibilityTimeout=1)[1] == MP
    assert refusal(sqs, "ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle)[1:] == (
        MP,
        "The request must contain the parameter VisibilityTimeout.",
    )


def test_delete_can_be_repeated(sqs: Client, url: str) -> None:
    """Nothing is said of it (behaviour 91)."""
    handle = held(sqs, url)
    for _ in range(3):
        sqs.delete(url, handle)

    assert sqs.counts(url) == (0, 0, 0)


def test_delete_of_what_is_gone_is_fine(sqs: Client) -> None:
    """Purged, or its retention over (behaviour 91, SRV-16)."""
    url = sqs.create("q", MessageRetentionPeriod=60)
    for end in (lambda: sqs("PurgeQueue", QueueUrl=url), lambda: sqs.server.advance(60)):
        sqs.send(url)
        handle = held(sqs, url)
        end()
        sqs.delete(url, handle)


def test_standard_handle_deletes_after_its_time(sqs: Client, url: str) -> None:
    """While nobody else has received the message (behaviour 92)."""
    handle = held(sqs, url, 1)
    sqs.server.advance(5)
    sqs.delete(url, handle)

    assert sqs.counts(url) == (0, 0, 0)


def test_older_standard_handle_deletes_nothing_and_says_nothing(sqs: Client, url: str) -> None:
    """Only the latest counts (behaviour 92)."""
    old = held(sqs, url, 1)
    sqs.server.advance(1)
    new = held(sqs, url)
    sqs.delete(url, old)

    assert sqs.counts(url) == (0, 1, 0)
    sqs.delete(url, new)
    assert sqs.counts(url) == (0, 0, 0)


def test_fifo_handle_ends_with_its_time(sqs: Client, fifo: str) -> None:
    """Refused, and the message stays (behaviour 93)."""
    handle = held(sqs, fifo, 1)
    sqs.server.advance(1)

    assert refusal(sqs.delete, fifo, handle) == (
        400,
        IPV,
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
    )
    assert sqs.counts(fifo) == (1, 0, 0)


def test_one_deadline_decides_about_fifo_deletes(sqs: Client, fifo: str) -> None:
    """Extended in time it deletes, shortened it does not (behaviour 93, SRV-21)."""
    sqs.send(fifo, "second", MessageGroupId="g")
    first = held(sqs, fifo, 2)
    sqs.server.advance(1)
    sqs.change(fifo, first, 10)
    sqs.server.advance(4)
    sqs.delete(fifo, first)

    second = held(sqs, fifo, 2)
    sqs.change(fifo, second, 1)
    sqs.server.advance(1.5)
    assert refusal(sqs.delete, fifo, second)[1] == IPV


def test_change_to_zero_shows_the_message_and_a_later_one_hides_it(sqs: Client, url: str) -> None:
    """With the same handle (behaviour 94)."""
    handle = held(sqs, url)
    counts = []
    for timeout in (0, 10):
        sqs.change(url, handle, timeout)
        counts.append(sqs.counts(url))

    assert counts == [(1, 0, 0), (0, 1, 0)]


@pytest.mark.parametrize("timeout", [43_201, -1])
def test_change_has_a_range(sqs: Client, url: str, timeout: int) -> None:
    """0 to 12 hours (behaviour 95, SRV-23)."""
    assert refusal(sqs.change, url, held(sqs, url), timeout)[1] == IPV


def test_twelve_hours_are_counted_from_the_receive(sqs: Client, url: str) -> None:
    """All of them within the first second, and not later (behaviour 95, HB-02)."""
    handle = held(sqs, url)
    sqs.server.advance(0.5)
    sqs.change(url, handle, 43_200)
    sqs.server.advance(0.5)

    assert refusal(sqs.change, url, handle, 43_200) == (
        400,
        IPV,
        (
            "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message "
            "is beyond the limit [43200 seconds]"
        ),
    )
    sqs.change(url, handle, 43_199)
    sqs.server.advance(43_198)
    sqs.change(url, handle, 1)
    assert refusal(sqs.change, url, handle, 2)[1] == IPV
    sqs.server.advance(1)
    assert sqs.counts(url) == (1, 0, 0)


def test_change_of_a_deleted_message_is_refused(sqs: Client, url: str) -> None:
    """It is not there (behaviour 96)."""
    handle = held(sqs, url)
    sqs.delete(url, handle)

    assert refusal(sqs.change, url, handle, 5) == (
        400,
        IPV,
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: {NOT_AVAILABLE}",
    )


def test_change_with_an_older_handle_is_refused(sqs: Client, url: str) -> None:
    """The message is somebody else's by now."""
    old = held(sqs, url, 1)
    sqs.server.advance(1)
    held(sqs, url)

    assert refusal(sqs.change, url, old, 0)[1] == IPV
    assert sqs.counts(url) == (0, 1, 0)


def test_change_is_for_this_receive_only(sqs: Client) -> None:
    """The next one has the queue's timeout (behaviour 97)."""
    url = sqs.create("q", VisibilityTimeout=10)
    sqs.send(url)
    sqs.change(url, sqs.receive(url)[0]["ReceiptHandle"], 2)
    sqs.server.advance(2)
    sqs.receive(url)
    sqs.server.advance(9)

    assert sqs.counts(url) == (0, 1, 0)


@pytest.mark.parametrize(
    ("action", "more"), [("DeleteMessageBatch", {}), ("ChangeMessageVisibilityBatch", {"VisibilityTimeout": 0})]
)
def test_batch_does_what_it_can(sqs: Client, url: str, action: str, more: dict[str, int]) -> None:
    """A bad handle fails alone, and a missing one (behaviour 98, SRV-27)."""
    sqs.send(url)
    handles = [one["ReceiptHandle"] for one in sqs.receive(url)]
    entries = [
        {"Id": "a", "ReceiptHandle": handles[0], **more},
        {"Id": "b", "ReceiptHandle": "garbage", **more},
        {"Id": "c", **more},
        {"Id": "d", "ReceiptHandle": handles[1], **more},
    ]

    result = sqs(action, QueueUrl=url, Entries=entries)

    assert result["Successful"] == [{"Id": "a"}, {"Id": "d"}]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in result["Failed"]] == [
        ("b", "ReceiptHandleIsInvalid", True),
        ("c", MP, True),
    ]
    assert sqs.counts(url)[1] == 0


def test_batch_refuses_timeouts_alone(sqs: Client, url: str) -> None:
    """Out of range, or none (behaviour 98)."""
    handle = held(sqs, url)
    entries = [
        {"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 43_201},
        {"Id": "b", "ReceiptHandle": handle},
    ]

    failed = sqs("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=entries)["Failed"]

    assert [one["Code"] for one in failed] == [IPV, MP]


@pytest.mark.parametrize("protocol", CLIENTS)
def test_handles_of_another_server_are_refused(protocol: str) -> None:
    """Each has a secret of its own (behaviour 89)."""
    one, other = (CLIENTS[protocol](Driven(secret=secret)) for secret in (b"one", b"other"))
    for sqs in (one, other):
        sqs.create("q")
        sqs.send("q")
    handle = held(one, "q")
    held(other, "q")

    assert refusal(other.delete, f"{BASE}/000000000000/q", handle)[1] == "ReceiptHandleIsInvalid"
