"""SNS, and the part of SQS that changes queues, over clients of the AWS SDK; not what they are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._api import BatchAnswer
from .._client import Clients, SdkCalls, stream_large_body
from .._queue import Queue
from ._api import PublishEntry
from ._topic import Topic

#: Account and name of a topic that nobody has: account numbers have no such value.
_NOBODY = "000000000000:messagequeue-ping"


async def open_sns(clients: Clients, address: str | None, topic: Topic | None) -> BotoSns:
    """Return the SNS of the topic's region, of the ambient one without a topic; opened with the first call."""
    return BotoSns(await clients.other("sns", address, None if topic is None else topic.region))


async def open_queues(clients: Clients, address: str | None, queue: Queue) -> BotoQueues:
    """Return the SQS of the queue's region; its client is opened with the first call."""
    return BotoQueues(await clients.other("sqs", address, None, queue))


class BotoSns:
    """The `_api.SnsApi` over a client of aioboto3."""

    def __init__(self, client: Any) -> None:
        client.meta.events.register("before-send.sns", stream_large_body)
        self._calls = SdkCalls(client)
        self._place = f"arn:{client.meta.partition}:sns:{client.meta.region_name}"

    @property
    def endpoint(self) -> str:
        return self._calls.endpoint

    @property
    def nobodys_topic(self) -> str:
        """The ARN, in this region, of a topic that nobody has."""
        return f"{self._place}:{_NOBODY}"

    async def publish_batch(self, topic_arn: str, entries: Sequence[PublishEntry], /) -> BatchAnswer:
        answer: Any = await self._calls.call(
            "publish_batch", topic_arn, TopicArn=topic_arn, PublishBatchRequestEntries=entries
        )
        return answer  # type: ignore[no-any-return]

    async def get_topic_attributes(self, topic_arn: str, /) -> Mapping[str, str]:
        answer = await self._calls.call("get_topic_attributes", topic_arn, TopicArn=topic_arn)
        return answer.get("Attributes") or {}

    async def subscribe(self, topic_arn: str, queue_arn: str, attributes: Mapping[str, str], /) -> str:
        answer = await self._calls.call(
            "subscribe",
            topic_arn,
            TopicArn=topic_arn,
            Protocol="sqs",
            Endpoint=queue_arn,
            Attributes=attributes,
            ReturnSubscriptionArn=True,
        )
        return str(answer["SubscriptionArn"])

    async def find_subscription(self, topic_arn: str, queue_arn: str, /) -> str | None:
        page: dict[str, str] = {}
        while True:
            answer = await self._calls.call("list_subscriptions_by_topic", topic_arn, TopicArn=topic_arn, **page)
            for found in answer.get("Subscriptions", ()):
                if found.get("Protocol") == "sqs" and found.get("Endpoint") == queue_arn:
                    return str(found["SubscriptionArn"])
            if not answer.get("NextToken"):
                return None
            page = {"NextToken": answer["NextToken"]}

    async def get_subscription_attributes(self, subscription_arn: str, /) -> Mapping[str, str]:
        answer = await self._calls.call(
            "get_subscription_attributes", subscription_arn, SubscriptionArn=subscription_arn
        )
        return answer.get("Attributes") or {}

    async def set_subscription_attribute(self, subscription_arn: str, name: str, value: str, /) -> None:
        await self._calls.call(
            "set_subscription_attributes",
            subscription_arn,
            SubscriptionArn=subscription_arn,
            AttributeName=name,
            AttributeValue=value,
        )

    async def unsubscribe(self, subscription_arn: str, /) -> None:
        await self._calls.call("unsubscribe", subscription_arn, SubscriptionArn=subscription_arn)


class BotoQueues:
    """The `_api.QueueApi` over a client of aioboto3."""

    def __init__(self, client: Any) -> None:
        self._calls = SdkCalls(client)

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]:
        answer = await self._calls.call(
            "get_queue_attributes", f"queue {queue_url}", QueueUrl=queue_url, AttributeNames=names
        )
        return answer.get("Attributes") or {}

    async def set_queue_attributes(self, queue_url: str, attributes: Mapping[str, str], /) -> None:
        await self._calls.call("set_queue_attributes", f"queue {queue_url}", QueueUrl=queue_url, Attributes=attributes)
