"""
The calls of SQS that publishers and consumers make, as a protocol with the service's own words; not how they travel.

`_client` is what speaks to a service.  A test puts a class with these six members in its place.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NotRequired, Protocol, TypedDict, TypeVar


class WireAttribute(TypedDict, total=False):
    """MessageAttributeValue.  `DataType` and one of the two values; `BinaryValue` is bytes, the SDK encodes it."""

    DataType: str
    StringValue: str
    BinaryValue: bytes


class SendEntry(TypedDict):
    """SendMessageBatchRequestEntry."""

    Id: str
    MessageBody: str
    DelaySeconds: NotRequired[int]
    MessageAttributes: NotRequired[Mapping[str, WireAttribute]]
    MessageSystemAttributes: NotRequired[Mapping[str, WireAttribute]]
    MessageDeduplicationId: NotRequired[str]
    MessageGroupId: NotRequired[str]


class HandleEntry(TypedDict):
    """DeleteMessageBatchRequestEntry and ChangeMessageVisibilityBatchRequestEntry."""

    Id: str
    ReceiptHandle: str
    VisibilityTimeout: NotRequired[int]


class ReceiveRequest(TypedDict):
    """ReceiveMessageRequest."""

    QueueUrl: str
    MaxNumberOfMessages: int
    WaitTimeSeconds: int
    MessageAttributeNames: Sequence[str]
    MessageSystemAttributeNames: Sequence[str]
    VisibilityTimeout: NotRequired[int]


class BatchSuccess(TypedDict, total=False):
    """SendMessageBatchResultEntry; the other batches have the `Id` only."""

    Id: str
    MessageId: str
    MD5OfMessageBody: str
    MD5OfMessageAttributes: str
    MD5OfMessageSystemAttributes: str
    SequenceNumber: str


class BatchFailure(TypedDict, total=False):
    """BatchResultErrorEntry."""

    Id: str
    Code: str
    Message: str
    SenderFault: bool


class BatchAnswer(TypedDict, total=False):
    """What the three batch calls answer.  A list without members may be absent."""

    Successful: Sequence[BatchSuccess]
    Failed: Sequence[BatchFailure]


class ReceivedMessage(TypedDict, total=False):
    """Message, as ReceiveMessage returns it."""

    MessageId: str
    ReceiptHandle: str
    MD5OfBody: str
    Body: str
    Attributes: Mapping[str, str]
    MD5OfMessageAttributes: str
    MessageAttributes: Mapping[str, WireAttribute]


R = TypeVar("R")

#: What a method returns that is a coroutine function, or hands on the coroutine of another: one less costs less.
Call = Coroutine[Any, Any, R]


class SqsApi(Protocol):
    """
    One region's SQS.  Every method is one call, with the SDK's own retries and no others.

    Raises, each of them: `_faults.CallError`.
    """

    @property
    def endpoint(self) -> str:
        """The address that calls go to, for error texts."""
        ...

    def send_message_batch(self, queue_url: str, entries: Sequence[SendEntry], /) -> Call[BatchAnswer]: ...

    def receive_message(self, request: ReceiveRequest, /) -> Call[Sequence[ReceivedMessage]]: ...

    def delete_message_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> Call[BatchAnswer]: ...

    def change_message_visibility_batch(
        self, queue_url: str, entries: Sequence[HandleEntry], /
    ) -> Call[BatchAnswer]: ...

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]: ...
