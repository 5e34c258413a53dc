"""LocalStack and its queues for tests; not how it is installed and started, which is `tools.localstack`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config

from tools.localstack import AWS_ENVIRONMENT

#: What the machine's owner may have set and a test must not see.  `MESSAGEQUEUE_` is this library's own prefix.
_FOREIGN = ("AWS_", "BOTO_", "MESSAGEQUEUE_")


def isolate_environment() -> None:
    """Take the machine's AWS set-up and this library's variables out of `os.environ`; put dummy credentials in."""
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ.update(AWS_ENVIRONMENT)


class Queues:
    """Queues at one endpoint, made and looked at with plain boto3, so that a test does not judge itself."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.client: Any = boto3.client("sqs", endpoint_url=endpoint, config=Config(retries={"max_attempts": 0}))
        self._made: list[str] = []

    def create(
        self, name: str = "orders", *, fifo: bool = False, dead_letters: int | None = None, **attributes: object
    ) -> str:
        """
        Make a queue and return its URL; the name gets a suffix that makes it unique.

        Args:
            fifo: With content-based deduplication, unless *attributes* say otherwise.
            dead_letters: maxReceiveCount of a redrive to a queue made for it; see `dead_letter_queue()`.
            attributes: As SQS names them.
        """
        suffix = f"-{uuid.uuid4().hex[:12]}" + (".fifo" if fifo else "")
        wanted: dict[str, object] = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if fifo else {}
        if dead_letters is not None:
            target = self.create(f"{name}-dead", fifo=fifo)
            arn = self.attributes(target)["QueueArn"]
            wanted["RedrivePolicy"] = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": {dead_letters}}}'
        wanted |= attributes
        given = {name: str(value) for name, value in wanted.items()}
        url: str = self.client.create_queue(QueueName=name + suffix, Attributes=given)["QueueUrl"]
        self._made.append(url)
        return url

    def attributes(self, url: str) -> Mapping[str, str]:
        """Return every attribute of the queue."""
        found: Mapping[str, str] = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return found

    def counts(self, url: str) -> tuple[int, int, int]:
        """Return how many messages are visible, in flight and delayed."""
        found = self.attributes(url)
        kinds = ("", "NotVisible", "Delayed")
        visible, in_flight, delayed = (int(found[f"ApproximateNumberOfMessages{kind}"]) for kind in kinds)
        return visible, in_flight, delayed

    def receive(
        self, url: str, *, wait: int = 1, most: int = 10, visibility: int | None = None
    ) -> list[dict[str, Any]]:
        """Receive with plain boto3, everything asked for; in flight afterwards."""
        options = {} if visibility is None else {"VisibilityTimeout": visibility}
        answer = self.client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=wait,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
            **options,
        )
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def drain(self, url: str, *, wait: int = 0) -> list[dict[str, Any]]:
        """Receive and delete until nothing comes within *wait* seconds; return what came."""
        taken: list[dict[str, Any]] = []
        while batch := self.receive(url, wait=wait):
            taken += batch
            for message in batch:
                self.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def send(self, url: str, *bodies: str, **options: object) -> list[str]:
        """Send each body with plain boto3 and return the message ids."""
        return [self.client.send_message(QueueUrl=url, MessageBody=body, **options)["MessageId"] for body in bodies]

    def close(self) -> None:
        """Delete every queue that was made here."""
        for url in self._made:
            self.client.delete_queue(QueueUrl=url)
        self.client.close()
