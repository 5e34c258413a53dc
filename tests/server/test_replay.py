"""What of the server outlives its process, given a journal that keeps the broker's events, or the durable store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from messagequeue_sqs.server.engine import EngineOptions
from tests.server.journals import Folder, Tape, killed, recorded
from tests.server.sqs_driving import AWS, Client, Driven, Refused


@pytest.fixture(params=["tape", "folder"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tape | Folder]:
    if request.param == "tape":
        yield Tape()
        return
    folder = Folder(tmp_path)
    yield folder
    folder.close()


def test_queues_and_messages_outlive_the_process(sqs: Client, journal: Tape | Folder) -> None:
    """Attributes, tags, policies, in-flight state, counts, delays (behaviour 124)."""
    server = sqs.server
    recorded(server, journal)
    dead = sqs.create("dead")
    url = sqs.create("q", tags={"a": "b"}, VisibilityTimeout=10)
    sqs.redrive(url, dead, 2)
    sqs("AddPermission", QueueUrl=url, Label="l", AWSAccountIds=["1" * 12], Actions=["SendMessage"])
    attributes = {"n": {"DataType": "Number.x", "StringValue": "1"}}
    sqs.send(url, "flight", MessageAttributes=attributes)
    [held] = sqs.receive(url)
    sqs.send(url, "delayed", DelaySeconds=20)
    sqs.send(url, "gone")
    [gone] = sqs.receive(url)
    sqs.delete(url, gone["ReceiptHandle"])
    sqs("DeleteQueue", QueueUrl=sqs.create("deleted", DelaySeconds=7))
    before = sqs.attributes(url)

    killed(server, journal)

    assert sqs.attributes(url) == before
    assert sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "b"}}
    assert sqs("ListQueues")["QueueUrls"] == [dead, url]
    assert sqs.attributes(sqs.create("deleted"))["DelaySeconds"] == "0"
    sqs.change(url, held["ReceiptHandle"], 5)
    server.advance(5)
    [again] = sqs.receive(url, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert (again["Body"], again["Attributes"]["ApproximateReceiveCount"]) == ("flight", "2")
    assert again["MessageAttributes"] == attributes
    server.advance(15)
    assert sqs.bodies(url) == ["delayed"]
    assert sqs.bodies(dead) == ["flight"]


def test_fifo_rules_outlive_the_process(sqs: Client, journal: Tape | Folder) -> None:
    """Order, locks, sequence numbers, the deduplication window (behaviour 124)."""
    server = sqs.server
    recorded(server, journal)
    url = sqs.create("q.fifo", DeduplicationScope="messageGroup")
    sent = [sqs.send(url, str(n), MessageGroupId="g", MessageDeduplicationId=str(n)) for n in range(3)]
    [held] = sqs.receive(url, 1)

    killed(server, journal)

    assert sqs.send(url, "0", MessageGroupId="g", MessageDeduplicationId="0") == sent[0]
    assert sqs.receive(url) == []
    sqs.delete(url, held["ReceiptHandle"])
    assert sqs.bodies(url) == ["1", "2"]
    later = sqs.send(url, "3", MessageGroupId="h", MessageDeduplicationId="3")
    assert later["SequenceNumber"] > sent[2]["SequenceNumber"]


def test_move_task_outlives_the_process(sqs: Client, journal: Tape | Folder) -> None:
    """It goes on where it was (behaviours 120 and 124)."""
    server = sqs.server
    recorded(server, journal)
    dead, url, other = sqs.create("dead"), sqs.create("q"), sqs.create("other")
    sqs.redrive(url, dead)
    for number in range(4):
        sqs.send(dead, str(number))
    sqs(
        "StartMessageMoveTask",
        SourceArn=sqs.arn(dead),
        DestinationArn=sqs.arn(other),
        MaxNumberOfMessagesPerSecond=1,
    )
    server.advance(1)

    killed(server, journal)
    sqs.send(url)
    server.advance(10)

    [task] = sqs("ListMessageMoveTasks", SourceArn=sqs.arn(dead))["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 4)
    assert sqs.bodies(other) == ["0", "1", "2", "3"]


def test_move_task_does_not_make_up_for_the_time_without_a_process(sqs: Client, journal: Tape | Folder) -> None:
    """Its rate holds after a restart, too (behaviours 120 and 124)."""
    server = sqs.server
    recorded(server, journal)
    dead, url, other = sqs.create("dead"), sqs.create("q"), sqs.create("other")
    sqs.redrive(url, dead)
    for number in range(50):
        sqs.send(dead, str(number))
    arns = {"SourceArn": sqs.arn(dead), "DestinationArn": sqs.arn(other)}
    sqs("StartMessageMoveTask", **arns, MaxNumberOfMessagesPerSecond=2)
    server.parking.close()
    server.clock.advance(3600)

    killed(server, journal)
    sqs.send(url)
    server.advance(5)

    [task] = sqs("ListMessageMoveTasks", SourceArn=sqs.arn(dead))["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("RUNNING", pytest.approx(12, abs=2))


def test_receive_can_be_repeated_after_a_restart(sqs: Client, journal: Tape | Folder) -> None:
    """Its answer was lost with the process: the same id gets the same messages, for their whole time again."""
    server = sqs.server
    recorded(server, journal)
    url = sqs.create("q.fifo", VisibilityTimeout=30)
    for number in range(3):
        sqs.send(url, str(number), MessageGroupId="g", MessageDeduplicationId=str(number))
    [first] = sqs.receive(url, 1, ReceiveRequestAttemptId="a")

    killed(server, journal)
    server.advance(20)

    assert sqs.receive(url, 1, ReceiveRequestAttemptId="b") == []
    [again] = sqs.receive(url, 1, ReceiveRequestAttemptId="a", AttributeNames=["ApproximateReceiveCount"])
    assert (again["Body"], again["ReceiptHandle"]) == ("0", first["ReceiptHandle"])
    assert again["Attributes"] == {"ApproximateReceiveCount": "1"}
    server.advance(20)
    assert sqs.receive(url, 1) == []
    server.advance(300)
    sqs.receive(url, 1, ReceiveRequestAttemptId="c")
    kept = [key.rpartition(":")[2] for key in server.broker.notes("sqs:attempt:")]
    assert kept == ["c"]
    sqs("PurgeQueue", QueueUrl=url)
    assert server.broker.notes("sqs:attempt:") == {}


def test_cooldowns_outlive_the_process(json_client: Client, journal: Tape | Folder) -> None:
    """A name is free 60 s after its queue was deleted, and a queue can be purged 60 s after the last time."""
    server = json_client.server
    server.options = EngineOptions(purge_cooldown=60.0, reuse_cooldown=60.0)
    server.start()
    recorded(server, journal)
    json_client("PurgeQueue", QueueUrl=json_client.create("purged"))
    json_client("DeleteQueue", QueueUrl=json_client.create("deleted"))
    server.advance(59)

    killed(server, journal)

    with pytest.raises(Refused) as purged:
        json_client("PurgeQueue", QueueUrl="purged")
    with pytest.raises(Refused) as deleted:
        json_client.create("deleted")
    assert (purged.value.code, deleted.value.code) == (f"{AWS}PurgeQueueInProgress", f"{AWS}QueueDeletedRecently")
    server.advance(2)
    json_client("PurgeQueue", QueueUrl="purged")
    json_client.create("deleted")
    assert server.broker.notes("sqs:deleted:") == {}


def test_how_many_may_be_in_flight_is_the_servers_to_say(json_client: Client, journal: Tape | Folder) -> None:
    """Not what it was when the queue was made (behaviour 124)."""
    server = json_client.server
    recorded(server, journal)
    url = json_client.create("q")
    for body in ("1", "2"):
        json_client.send(url, body)

    server.options = EngineOptions(max_in_flight=1)
    killed(server, journal)

    assert json_client.bodies(url) == ["1"]


def test_queue_of_another_face_is_found_and_can_be_changed(
    server: Driven, json_client: Client, journal: Tape | Folder
) -> None:
    """As its settings say; a later queue of the same topic does not inherit."""
    recorded(server, journal)
    json_client.create("q", VisibilityTimeout=7)
    server.broker.delete("sqs.q")
    server.broker.create("sqs.q")
    server.broker.create("sqs@eu-west-1.q.fifo")
    server.broker.create("other.topic")

    assert json_client.attributes("q")["VisibilityTimeout"] == "30"
    assert [url.rpartition("/")[2] for url in json_client("ListQueues")["QueueUrls"]] == ["q"]
    json_client.set("q", DelaySeconds=3)
    killed(server, journal)
    assert json_client.attributes("q")["DelaySeconds"] == "3"
    assert json.loads(server.post("{}", "AmazonSQS.ListQueues").body)
