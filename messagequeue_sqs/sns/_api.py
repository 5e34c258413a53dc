"""The calls of SNS and SQS that topics and their subscriptions need, as protocols; not how they travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, Protocol, TypedDict

from .._api import BatchAnswer, WireAttribute


class PublishEntry(TypedDict):
    """PublishBatchRequestEntry."""

    Id: str
    Message: str
    MessageAttributes: NotRequired[Mapping[str, WireAttribute]]
    MessageDeduplicationId: NotRequired[str]
    MessageGroupId: NotRequired[str]


class SnsApi(Protocol):
    """
    One region's SNS.  Every method is one call, with the SDK's own retries and no others.

    Raises, each of them: `_faults.CallError`.
    """

    @property
    def endpoint(self) -> str:
        """The address that calls go to, for error texts."""
        ...

    async def publish_batch(self, topic_arn: str, entries: Sequence[PublishEntry], /) -> BatchAnswer: ...

    async def get_topic_attributes(self, topic_arn: str, /) -> Mapping[str, str]: ...

    async def subscribe(self, topic_arn: str, queue_arn: str, attributes: Mapping[str, str], /) -> str:
        """Return the ARN of the subscription, which may have been there."""
        ...

    async def find_subscription(self, topic_arn: str, queue_arn: str, /) -> str | None:
        """Return the ARN of the subscription of the queue, page by page; None for none."""
        ...

    async def get_subscription_attributes(self, subscription_arn: str, /) -> Mapping[str, str]: ...

    async def set_subscription_attribute(self, subscription_arn: str, name: str, value: str, /) -> None: ...

    async def unsubscribe(self, subscription_arn: str, /) -> None: ...


class QueueApi(Protocol):
    """One region's SQS, for who may change a queue.  Raises `_faults.CallError`."""

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]: ...

    async def set_queue_attributes(self, queue_url: str, attributes: Mapping[str, str], /) -> None: ...
