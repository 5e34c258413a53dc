"""
Every action of SQS by plain boto3 of any release, with its answers looked at; a script, too.

    python every_action.py http://localhost:9324

It imports nothing of this package: boto3 of another environment runs it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import boto3
from botocore.config import Config


def every_action(sqs: Any) -> set[str]:
    """Go through the life of a queue on an empty server, and return the actions that were called."""
    called: set[str] = set()
    sqs.meta.events.register("before-call.sqs.*", lambda model, **_: called.add(model.name))
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": policy}, tags={"a": "b"})["QueueUrl"]

    assert sqs.get_queue_url(QueueName="q")["QueueUrl"] == url
    assert sqs.list_queues()["QueueUrls"] == [dead, url]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "60"})
    sqs.tag_queue(QueueUrl=url, Tags={"c": "d"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"c": "d"}
    sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=["1" * 12], Actions=["SendMessage"])
    sqs.remove_permission(QueueUrl=url, Label="l")
    blob = {"b": {"DataType": "Binary", "BinaryValue": bytes(range(256))}}
    sqs.send_message(QueueUrl=url, MessageBody="1", MessageAttributes=blob)
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": n, "MessageBody": n} for n in "23"])
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])["Messages"]
    assert got[0]["MessageAttributes"] == blob
    handles = [message["ReceiptHandle"] for message in got]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handles[0], VisibilityTimeout=0)
    entries = [{"Id": "x", "ReceiptHandle": handles[1], "VisibilityTimeout": 9}]
    assert sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)["Successful"] == [{"Id": "x"}]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handles[1])
    entries = [{"Id": "x", "ReceiptHandle": handles[2]}]
    assert "Failed" not in sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    handle = sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    assert sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["ApproximateNumberOfMessagesToMove"] == 1
    with contextlib.suppress(sqs.exceptions.ResourceNotFoundException):  # it may have moved its one message by now
        sqs.cancel_message_move_task(TaskHandle=handle)
    sqs.purge_queue(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)

    return called


def main(endpoint: str) -> None:
    sqs = boto3.client("sqs", endpoint_url=endpoint, config=Config(retries={"max_attempts": 0}))
    called = every_action(sqs)
    assert called == set(sqs.meta.service_model.operation_names)
    sys.stdout.write(f"{sqs.meta.service_model.metadata['protocol']} {len(called)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
