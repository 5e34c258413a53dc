"""A stand-in for SNS and for the queues that are subscribed: it records every call and answers what it was told."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from messagequeue_sqs._api import BatchAnswer
from messagequeue_sqs.sns._api import PublishEntry
from tests.unit.sqs.fake_sqs import failing

TOPIC = "arn:aws:sns:eu-west-1:123456789012:uploads"
FIFO_TOPIC = f"{TOPIC}.fifo"
QUEUE_ARN = "arn:aws:sqs:eu-west-1:123456789012:thumbnails"
QUEUE_URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/thumbnails"


class FakeSns:
    """
    An `SnsApi`.  `calls` holds (action, request) in order.

    Args:
        subscription: The attributes of a subscription that is there.
        pages: Lists of subscriptions, one for each page.
    """

    endpoint = "https://fake.example"

    def __init__(self, subscription: Mapping[str, str] | None = None, pending: bool = False) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.answers: deque[Any] = deque()
        self.subscription = None if subscription is None else dict(subscription)
        self.pending = pending

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def sent(self) -> list[Any]:
        return [entry for name, request in self.calls if name == "PublishBatch" for entry in request]

    async def publish_batch(self, topic_arn: str, entries: Sequence[PublishEntry], /) -> BatchAnswer:
        self.calls.append(("PublishBatch", list(entries)))
        answer: Any = (
            self.answers.popleft()
            if self.answers
            else {"Successful": [{"Id": entry["Id"], "MessageId": f"id-{entry['Id']}"} for entry in entries]}
        )
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def get_topic_attributes(self, topic_arn: str, /) -> Mapping[str, str]:
        self.calls.append(("GetTopicAttributes", topic_arn))
        return {}

    async def subscribe(self, topic_arn: str, queue_arn: str, attributes: Mapping[str, str], /) -> str:
        """As SNS: what is there with the same values is returned, what is there with others is refused."""
        self.calls.append(("Subscribe", (topic_arn, queue_arn, dict(attributes))))
        there = self.subscription
        if there is None:
            self.subscription = dict(attributes)
        elif any(there.get(name, "false") != value for name, value in attributes.items()):
            raise failing("InvalidParameter", words="Subscription already exists with different attributes")
        return f"{TOPIC}:1"

    async def find_subscription(self, topic_arn: str, queue_arn: str, /) -> str | None:
        self.calls.append(("ListSubscriptionsByTopic", topic_arn))
        return None if self.subscription is None else f"{TOPIC}:1"

    async def get_subscription_attributes(self, subscription_arn: str, /) -> Mapping[str, str]:
        self.calls.append(("GetSubscriptionAttributes", subscription_arn))
        return {**(self.subscription or {}), "PendingConfirmation": "true" if self.pending else "false"}

    async def set_subscription_attribute(self, subscription_arn: str, name: str, value: str, /) -> None:
        self.calls.append(("SetSubscriptionAttributes", (name, value)))
        assert self.subscription is not None
        self.subscription[name] = value

    async def unsubscribe(self, subscription_arn: str, /) -> None:
        self.calls.append(("Unsubscribe", subscription_arn))
        self.subscription = None


class FakeQueues:
    """A `QueueApi` of one queue."""

    def __init__(self, **attributes: str) -> None:
        self.attributes = {"QueueArn": QUEUE_ARN, **attributes}
        self.written: list[Mapping[str, str]] = []

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]:
        return {name: self.attributes[name] for name in names if name in self.attributes}

    async def set_queue_attributes(self, queue_url: str, attributes: Mapping[str, str], /) -> None:
        self.written.append(attributes)
        self.attributes |= attributes
