"""Dead-letter queues and message move tasks."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.server.sqs_driving import AWS, Client, Refused

IPV = "InvalidParameterValue"
NOT_FOUND = "ResourceNotFoundException"


def fail(sqs: Client, url: str, times: int = 1) -> None:
    """Receive every message *times* times, and let it come back."""
    for _ in range(times):
        sqs.receive(url, VisibilityTimeout=0)
    sqs.receive(url, VisibilityTimeout=0)


def refusal(sqs: Client, action: str, **params: Any) -> tuple[int, str, str]:
    with pytest.raises(Refused) as refused:
        sqs(action, **params)
    return refused.value.status, refused.value.code, refused.value.message


# --- moving at a receive


def test_message_moves_at_the_receive_that_would_exceed_the_count(sqs: Client) -> None:
    """With its id, body, attributes, and the count goes on (behaviour 112)."""
    dead, url = sqs.create("dead"), sqs.create("q", VisibilityTimeout=0)
    sqs.redrive(url, dead, 2)
    attributes = {"a": {"DataType": "Number.x", "StringValue": "1"}}
    sent = sqs.send(url, "it", MessageAttributes=attributes)

    assert [len(sqs.receive(url)) for _ in range(3)] == [1, 1, 0]
    [got] = sqs.receive(dead, AttributeNames=["All"], MessageAttributeNames=["All"])

    assert (got["MessageId"], got["Body"], got["MessageAttributes"]) == (sent["MessageId"], "it", attributes)
    assert got["Attributes"]["ApproximateReceiveCount"] == "3"
    assert got["Attributes"]["DeadLetterQueueSourceArn"] == sqs.arn(url)


def test_count_is_two_in_the_target_of_one_receive(sqs: Client) -> None:
    """The receive there is the second (behaviour 112)."""
    dead, url = sqs.create("dead"), sqs.create("q")
    sqs.redrive(url, dead, 1)
    sqs.send(url)
    fail(sqs, url)

    [got] = sqs.receive(dead, AttributeNames=["ApproximateReceiveCount"])
    assert got["Attributes"] == {"ApproximateReceiveCount": "2"}


@pytest.mark.parametrize(("suffix", "restarts"), [("", False), (".fifo", True)])
def test_retention_after_a_move(sqs: Client, suffix: str, restarts: bool) -> None:
    """Goes on where it is standard, starts again where it is FIFO (behaviours 85 and 112)."""
    extra = {"ContentBasedDeduplication": "true"} if suffix else {}
    dead = sqs.create(f"dead{suffix}", MessageRetentionPeriod=60, **extra)
    url = sqs.create(f"q{suffix}", **extra)
    sqs.redrive(url, dead)
    sqs.send(url, **({"MessageGroupId": "g"} if suffix else {}))
    sqs.server.advance(50)
    fail(sqs, url)
    sqs.server.advance(10)

    assert sqs.counts(dead)[0] == int(restarts)


def test_fifo_message_keeps_its_keys(sqs: Client) -> None:
    """Group and deduplication id (behaviour 112)."""
    dead, url = sqs.create("dead.fifo"), sqs.create("q.fifo")
    sqs.redrive(url, dead)
    sqs.send(url, MessageGroupId="g", MessageDeduplicationId="d")
    fail(sqs, url)

    [got] = sqs.receive(dead, AttributeNames=["All"])
    assert (got["Attributes"]["MessageGroupId"], got["Attributes"]["MessageDeduplicationId"]) == ("g", "d")


def test_policy_in_force_at_the_receive_decides(sqs: Client) -> None:
    """Not the one at the send (behaviour 112)."""
    dead, url = sqs.create("dead"), sqs.create("q")
    sqs.redrive(url, dead, 1)
    sqs.send(url)
    sqs.receive(url, VisibilityTimeout=0)
    sqs.redrive(url, dead, 5)

    assert len(sqs.receive(url)) == 1


POLICIES = {
    "no json": ("{", "Redrive policy is not a valid JSON map."),
    "no map": ("[]", "Redrive policy is not a valid JSON map."),
    "no count": ({"deadLetterTargetArn": "ARN"}, "does not contain mandatory attribute: maxReceiveCount."),
    "no target": ({"maxReceiveCount": 1}, "does not contain mandatory attribute: deadLetterTargetArn."),
    "zero": ({"deadLetterTargetArn": "ARN", "maxReceiveCount": 0}, "Invalid value for maxReceiveCount: 0"),
    "too many": ({"deadLetterTargetArn": "ARN", "maxReceiveCount": 1001}, "Invalid value for maxReceiveCount: 1001"),
    "text": ({"deadLetterTargetArn": "ARN", "maxReceiveCount": "x"}, "Invalid value for maxReceiveCount: x"),
    "list": ({"deadLetterTargetArn": "ARN", "maxReceiveCount": [1]}, "Invalid value for maxReceiveCount"),
    "boolean": ({"deadLetterTargetArn": "ARN", "maxReceiveCount": True}, "Invalid value for maxReceiveCount"),
    "no arn": ({"deadLetterTargetArn": "dead", "maxReceiveCount": 1}, "Invalid value for deadLetterTargetArn"),
    "unknown": (
        {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:nope", "maxReceiveCount": 1},
        "Dead letter target does not exist.",
    ),
    "other region": (
        {"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000000:dead", "maxReceiveCount": 1},
        "Dead letter target does not exist.",
    ),
    "other kind": ({"deadLetterTargetArn": "FIFO", "maxReceiveCount": 1}, "must be same type of queue as the source."),
}


@pytest.mark.parametrize("case", POLICIES)
def test_redrive_policies_that_are_refused(sqs: Client, case: str) -> None:
    """And the queue goes on as before (behaviours 113 and 126, SRV-11)."""
    policy, text = POLICIES[case]
    dead, fifo, url = sqs.create("dead"), sqs.create("dead.fifo"), sqs.create("q")
    given = policy if isinstance(policy, str) else json.dumps(policy)
    given = given.replace("ARN", sqs.arn(dead)).replace("FIFO", sqs.arn(fifo))

    status, code, message = refusal(sqs, "SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": given})

    assert (status, code) == (400, IPV)
    assert message.startswith(f"Value {given} for parameter RedrivePolicy is invalid. Reason: ")
    assert text in message
    assert "RedrivePolicy" not in sqs.attributes(url)
    sqs.send(url)


@pytest.mark.parametrize("count", [3, "3"])
def test_redrive_policy_is_returned_with_a_number(sqs: Client, count: object) -> None:
    """Whatever it was set as; an equal one is the same (behaviours 30 and 113)."""
    arn = sqs.arn(sqs.create("dead"))
    policy = json.dumps({"maxReceiveCount": count, "deadLetterTargetArn": arn})
    url = sqs.create("q", RedrivePolicy=policy)

    assert json.loads(sqs.attributes(url)["RedrivePolicy"]) == {"deadLetterTargetArn": arn, "maxReceiveCount": 3}
    assert sqs.create("q", RedrivePolicy=policy) == url


def test_queue_may_be_its_own_target(sqs: Client) -> None:
    """The message goes round (behaviour 114)."""
    url = sqs.create("q")
    sqs.redrive(url, url)
    sqs.send(url)
    fail(sqs, url)

    assert sqs.counts(url)[0] == 1
    assert len(sqs.receive(url)) == 1


@pytest.mark.parametrize(
    "policy",
    [
        {"redrivePermission": "byQueue"},
        {"redrivePermission": "byQueue", "sourceQueueArns": []},
        {"redrivePermission": "byQueue", "sourceQueueArns": ["x"]},
        {"redrivePermission": "byQueue", "sourceQueueArns": ["arn:aws:sqs:us-east-1:000000000000:q"] * 11},
        {"redrivePermission": "allowAll", "sourceQueueArns": ["arn:aws:sqs:us-east-1:000000000000:q"]},
        {"redrivePermission": "maybe"},
        {},
        [],
    ],
    ids=lambda policy: str(policy)[:60],
)
def test_redrive_allow_policies_that_are_refused(sqs: Client, policy: object) -> None:
    """Permission and sources have to fit (behaviour 115)."""
    url = sqs.create("dead")

    assert refusal(sqs, "SetQueueAttributes", QueueUrl=url, Attributes={"RedriveAllowPolicy": json.dumps(policy)})[
        :2
    ] == (
        400,
        IPV,
    )


def test_redrive_allow_policy_decides_who_may_name_the_queue(sqs: Client) -> None:
    """Nobody, some, everybody; returned as it was set (behaviour 115)."""
    dead, url = sqs.create("dead"), sqs.create("q")
    deny = '{"redrivePermission" : "denyAll"}'
    sqs.set(dead, RedriveAllowPolicy=deny)
    assert sqs.attributes(dead)["RedriveAllowPolicy"] == deny
    with pytest.raises(Refused) as refused:
        sqs.redrive(url, dead)
    assert refused.value.code == IPV

    sqs.set(dead, RedriveAllowPolicy=json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [sqs.arn(url)]}))
    sqs.redrive(url, dead)
    with pytest.raises(Refused):
        sqs.redrive(sqs.create("other"), dead)
    sqs.set(dead, RedriveAllowPolicy='{"redrivePermission": "allowAll"}')
    sqs.redrive(sqs.create("other"), dead)


def test_sources_of_a_dead_letter_queue_have_pages(sqs: Client) -> None:
    """In lower case (behaviour 116)."""
    dead = sqs.create("dead")
    urls = [sqs.create(f"q{number}") for number in range(3)]
    for url in urls:
        sqs.redrive(url, dead)

    first = sqs("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2)
    second = sqs("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2, NextToken=first["NextToken"])

    assert (first["queueUrls"], second) == (urls[:2], {"queueUrls": urls[2:]})


def test_message_stays_where_its_target_was_deleted(sqs: Client) -> None:
    """And is received on (behaviour 117)."""
    dead, url = sqs.create("dead"), sqs.create("q")
    sqs.redrive(url, dead)
    sqs.send(url)
    sqs("DeleteQueue", QueueUrl=dead)
    fail(sqs, url, 3)

    assert len(sqs.receive(url)) == 1


# --- move tasks


@pytest.fixture
def queues(sqs: Client) -> tuple[str, str, str]:
    """A source, its dead-letter queue, and another queue."""
    dead, url, other = sqs.create("dead"), sqs.create("q"), sqs.create("other")
    sqs.redrive(url, dead)
    return url, dead, other


def dead_letters(sqs: Client, url: str, number: int) -> None:
    for n in range(number):
        sqs.send(url, str(n))
    for _ in range(number // 10 + 1):
        for message in sqs.receive(url):
            sqs.change(url, message["ReceiptHandle"], 0)
            sqs.receive(url, 1, VisibilityTimeout=0)
    while sqs.counts(url)[0]:
        sqs.receive(url, VisibilityTimeout=0)


def start(sqs: Client, dead: str, **params: Any) -> str:
    handle: str = sqs("StartMessageMoveTask", SourceArn=sqs.arn(dead), **params)["TaskHandle"]
    return handle


def tasks(sqs: Client, dead: str, most: int = 10) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs("ListMessageMoveTasks", SourceArn=sqs.arn(dead), MaxResults=most).get(
        "Results", []
    )
    return found


ARN = "arn:aws:sqs:us-east-1:000000000000:"


@pytest.mark.parametrize(
    ("params", "status", "code", "text"),
    [
        ({"SourceArn": f"{ARN}nope"}, 404, NOT_FOUND, "for the SourceArn parameter doesn't exist."),
        ({"SourceArn": "garbage"}, 404, NOT_FOUND, "for the SourceArn parameter doesn't exist."),
        ({"SourceArn": f"{ARN}q"}, 400, IPV, "Source queue must be configured as a Dead Letter Queue."),
        ({"SourceArn": f"{ARN}dead", "DestinationArn": f"{ARN}nope"}, 404, NOT_FOUND, "DestinationArn parameter"),
        ({"SourceArn": f"{ARN}dead", "MaxNumberOfMessagesPerSecond": 0}, 400, IPV, "MaxNumberOfMessagesPerSecond"),
        ({"SourceArn": f"{ARN}dead", "MaxNumberOfMessagesPerSecond": 501}, 400, IPV, "MaxNumberOfMessagesPerSecond"),
        ({}, 400, "MissingParameter", "SourceArn"),
    ],
)
def test_move_tasks_that_are_refused(
    sqs: Client, queues: tuple[str, str, str], params: dict[str, Any], status: int, code: str, text: str
) -> None:
    """Nothing is moved (behaviour 118, SRV-13)."""
    refused = refusal(sqs, "StartMessageMoveTask", **params)

    assert refused[:2] == (status, code)
    assert text in refused[2]


def test_one_task_of_a_source_at_a_time(sqs: Client, queues: tuple[str, str, str]) -> None:
    """The second is refused while the first runs (behaviour 118, SRV-13)."""
    url, dead, _ = queues
    dead_letters(sqs, url, 3)
    start(sqs, dead, MaxNumberOfMessagesPerSecond=1)

    assert refusal(sqs, "StartMessageMoveTask", SourceArn=sqs.arn(dead)) == (
        400,
        IPV,
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    )
    sqs.server.advance(5)
    start(sqs, dead, MaxNumberOfMessagesPerSecond=500)


def test_messages_go_back_to_their_own_sources(sqs: Client, queues: tuple[str, str, str]) -> None:
    """Where no destination is named, as new messages (behaviour 119)."""
    url, dead, other = queues
    sqs.redrive(other, dead)
    dead_letters(sqs, url, 2)
    sqs.send(other, "from the other")
    fail(sqs, other)
    start(sqs, dead)
    sqs.server.advance(0)

    assert (sqs.counts(dead)[0], sqs.bodies(other)) == (0, ["from the other"])
    got = sqs.receive(url, AttributeNames=["All"])
    assert sorted(one["Body"] for one in got) == ["0", "1"]
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in got} == {"1"}
    assert all("DeadLetterQueueSourceArn" not in one["Attributes"] for one in got)


def test_messages_go_to_the_destination(sqs: Client, queues: tuple[str, str, str]) -> None:
    """All of them, however many (behaviour 118)."""
    _, dead, other = queues
    for number in range(500):
        sqs.send(dead, str(number))
    start(sqs, dead, DestinationArn=sqs.arn(other))
    sqs.server.advance(0)

    assert (sqs.counts(dead)[0], sqs.counts(other)[0]) == (0, 500)
    assert tasks(sqs, dead)[0]["ApproximateNumberOfMessagesMoved"] == 500


def test_task_keeps_its_rate_and_can_be_cancelled(sqs: Client, queues: tuple[str, str, str]) -> None:
    """2 a second: about 6 after 3 s, 10 after 5 s, then no more (behaviours 120 and 121, SRV-13)."""
    _, dead, other = queues
    for number in range(20):
        sqs.send(dead, str(number))
    at = int(sqs.server.clock.now() * 1000)
    handle = start(sqs, dead, DestinationArn=sqs.arn(other), MaxNumberOfMessagesPerSecond=2)
    sqs.server.advance(3)

    [running] = tasks(sqs, dead)
    assert running == {
        "TaskHandle": handle,
        "Status": "RUNNING",
        "SourceArn": sqs.arn(dead),
        "DestinationArn": sqs.arn(other),
        "MaxNumberOfMessagesPerSecond": 2,
        "ApproximateNumberOfMessagesMoved": 7,
        "ApproximateNumberOfMessagesToMove": 20,
        "StartedTimestamp": at,
    }
    sqs.server.advance(2)
    moved = sqs("CancelMessageMoveTask", TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    sqs.server.advance(10)

    assert moved == 11
    assert (sqs.counts(dead)[0], sqs.counts(other)[0]) == (9, 11)
    [cancelled] = tasks(sqs, dead)
    assert cancelled["Status"] == "CANCELLED"
    assert "TaskHandle" not in cancelled


def test_tasks_are_listed_newest_first(sqs: Client, queues: tuple[str, str, str]) -> None:
    """One by default, ten at most (behaviour 120, SRV-13)."""
    _, dead, _ = queues
    assert sqs("ListMessageMoveTasks", SourceArn=sqs.arn(dead)) == {}
    for _ in range(12):
        start(sqs, dead)
        sqs.server.advance(1)

    ten = tasks(sqs, dead)
    started = [task["StartedTimestamp"] for task in ten]
    assert (len(ten), started) == (10, sorted(started, reverse=True))
    assert {task["Status"] for task in ten} == {"COMPLETED"}
    assert sqs("ListMessageMoveTasks", SourceArn=sqs.arn(dead))["Results"] == ten[:1]
    for most in (0, 11):
        assert refusal(sqs, "ListMessageMoveTasks", SourceArn=sqs.arn(dead), MaxResults=most)[1] == IPV
    assert refusal(sqs, "ListMessageMoveTasks", SourceArn=f"{ARN}nope")[:2] == (404, NOT_FOUND)


def test_task_fails_where_its_destination_vanishes(sqs: Client, queues: tuple[str, str, str]) -> None:
    """What was not moved stays (behaviour 120, SRV-13)."""
    _, dead, other = queues
    for number in range(3):
        sqs.send(dead, str(number))
    start(sqs, dead, DestinationArn=sqs.arn(other), MaxNumberOfMessagesPerSecond=1)
    sqs.server.advance(0)
    sqs("DeleteQueue", QueueUrl=other)
    sqs.server.advance(5)

    [task] = tasks(sqs, dead)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", f"{AWS}NonExistentQueue")
    assert sqs.counts(dead)[0] == 2


def test_task_fails_where_a_message_has_no_source(sqs: Client, queues: tuple[str, str, str]) -> None:
    """It was sent to the dead-letter queue itself; it stays."""
    _, dead, _ = queues
    sqs.send(dead)
    start(sqs, dead)
    sqs.server.advance(0)

    assert (tasks(sqs, dead)[0]["Status"], sqs.counts(dead)[0]) == ("FAILED", 1)


def test_fifo_message_is_new_after_a_move(sqs: Client) -> None:
    """In order, with its former id to be known by; it is no duplicate of itself (behaviour 119)."""
    dead, url = sqs.create("dead.fifo"), sqs.create("q.fifo")
    sqs.redrive(url, dead)
    ids = [sqs.send(url, str(n), MessageGroupId="g", MessageDeduplicationId=str(n))["MessageId"] for n in range(3)]
    fail(sqs, url)
    start(sqs, dead)
    sqs.server.advance(0)

    got = sqs.receive(url, AttributeNames=["All"])
    assert [one["Body"] for one in got] == ["0", "1", "2"]
    assert [one["Attributes"]["MessageDeduplicationId"] for one in got] == ids


def test_task_handle_is_readable(sqs: Client, queues: tuple[str, str, str]) -> None:
    """Base64 of the task and its source (behaviour 121)."""
    _, dead, _ = queues
    handle = json.loads(base64.b64decode(start(sqs, dead)))

    assert handle["sourceArn"] == sqs.arn(dead)
    assert len(handle["taskId"]) == 36


def encoded(**handle: str) -> str:
    return base64.b64encode(json.dumps(handle).encode()).decode()


@pytest.mark.parametrize(
    ("handle", "status", "code", "text"),
    [
        ("garbage", 400, IPV, "Value for parameter TaskHandle is invalid."),
        (encoded(taskId="x"), 400, IPV, "Value for parameter TaskHandle is invalid."),
        ("/w==", 400, IPV, "Value for parameter TaskHandle is invalid."),
        (encoded(taskId="x", sourceArn=f"{ARN}nope"), 404, NOT_FOUND, "SourceArn parameter doesn't exist."),
        (encoded(taskId="x", sourceArn=f"{ARN}dead"), 404, NOT_FOUND, "Task does not exist."),
        ("", 400, "MissingParameter", "TaskHandle"),
    ],
)
def test_handles_that_cancel_nothing(
    sqs: Client, queues: tuple[str, str, str], handle: str, status: int, code: str, text: str
) -> None:
    """Garbage, unknown sources, unknown tasks (behaviour 121)."""
    refused = refusal(sqs, "CancelMessageMoveTask", TaskHandle=handle)

    assert refused[:2] == (status, code)
    assert text in refused[2]
