"""What of the server outlives its process, given a journal that keeps the broker's events."""

from __future__ import annotations

import json

from messagequeue.broker import Broker
from messagequeue.broker.storage import Event
from tests.server.sqs_driving import Client, Driven, counted


class Tape:
    """A journal that forgets nothing."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event, /) -> None:
        self.events.append(event)


def recorded(server: Driven) -> Tape:
    """Have everything recorded from now on; the server has done nothing yet but draw its secret."""
    tape = Tape()
    server.broker.journal = tape
    for key, text in server.broker.notes("").items():
        server.broker.remember(key, text)
    return tape


def killed(server: Driven, tape: Tape) -> None:
    """End the process and start another on what was recorded, with another secret to begin with."""
    server.broker = Broker(new_id=counted("30000000-0000-4000-8000-{:012d}"))
    for event in tape.events:
        server.broker.apply(event)
    server.broker.journal = tape
    server.secret = b"another"
    server.start()


def test_queues_and_messages_outlive_the_process(sqs: Client) -> None:
    """Attributes, tags, policies, in-flight state, counts, delays (behaviour 124)."""
    server = sqs.server
    tape = recorded(server)
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

    killed(server, tape)

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


def test_fifo_rules_outlive_the_process(sqs: Client) -> None:
    """Order, locks, sequence numbers, the deduplication window (behaviour 124)."""
    server = sqs.server
    tape = recorded(server)
    url = sqs.create("q.fifo", DeduplicationScope="messageGroup")
    sent = [sqs.send(url, str(n), MessageGroupId="g", MessageDeduplicationId=str(n)) for n in range(3)]
    [held] = sqs.receive(url, 1)

    killed(server, tape)

    assert sqs.send(url, "0", MessageGroupId="g", MessageDeduplicationId="0") == sent[0]
    assert sqs.receive(url) == []
    sqs.delete(url, held["ReceiptHandle"])
    assert sqs.bodies(url) == ["1", "2"]
    later = sqs.send(url, "3", MessageGroupId="h", MessageDeduplicationId="3")
    assert later["SequenceNumber"] > sent[2]["SequenceNumber"]


def test_move_task_outlives_the_process(sqs: Client) -> None:
    """It goes on where it was (behaviours 120 and 124)."""
    server = sqs.server
    tape = recorded(server)
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

    killed(server, tape)
    sqs.send(url)
    server.advance(10)

    [task] = sqs("ListMessageMoveTasks", SourceArn=sqs.arn(dead))["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 4)
    assert sqs.bodies(other) == ["0", "1", "2", "3"]


def test_queue_of_another_face_is_found_and_can_be_changed(server: Driven, json_client: Client) -> None:
    """As its settings say; a later queue of the same topic does not inherit."""
    tape = recorded(server)
    json_client.create("q", VisibilityTimeout=7)
    server.broker.delete("sqs.q")
    server.broker.create("sqs.q")
    server.broker.create("sqs@eu-west-1.q.fifo")
    server.broker.create("other.topic")

    assert json_client.attributes("q")["VisibilityTimeout"] == "30"
    assert [url.rpartition("/")[2] for url in json_client("ListQueues")["QueueUrls"]] == ["q"]
    json_client.set("q", DelaySeconds=3)
    killed(server, tape)
    assert json_client.attributes("q")["DelaySeconds"] == "3"
    assert json.loads(server.post("{}", "AmazonSQS.ListQueues").body)
