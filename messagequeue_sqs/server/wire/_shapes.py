"""The members of the 23 actions: their types, and what the older protocol calls them; not what they may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final


class Kind(Enum):
    """What a member is."""

    TEXT = auto()
    NUMBER = auto()
    TEXTS = auto()
    PAIRS = auto()
    """Text by text."""
    ATTRIBUTES = auto()
    """Message attributes by name."""
    ENTRIES = auto()
    """The entries of a batch."""


@dataclass(frozen=True, slots=True)
class Member:
    """
    Attributes:
        kind: See `Kind`.
        flat: What the query protocol calls it, before `.N` where there are several.
        parts: Of pairs: the words for key and value there.
        fields: Of entries: their members.
        is_text: Its kind is TEXT; for those who ask often.
    """

    kind: Kind
    flat: str
    parts: tuple[str, str] = ("Name", "Value")
    fields: Mapping[str, Member] | None = None
    is_text: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_text", self.kind is Kind.TEXT)


@dataclass(frozen=True, slots=True)
class Action:
    """
    Attributes:
        members: Of the request.
        answers: Whether there is anything in the answer.
        on_queue: It may be addressed to the path of a queue.
        entry: In the answer of a batch, what the query protocol calls an entry that went well.
    """

    members: Mapping[str, Member]
    answers: bool = False
    on_queue: bool = True
    entry: str = ""


def _texts(*names: str) -> dict[str, Member]:
    return {name: Member(Kind.TEXT, name) for name in names}


def _numbers(*names: str) -> dict[str, Member]:
    return {name: Member(Kind.NUMBER, name) for name in names}


def _list(name: str, flat: str) -> dict[str, Member]:
    return {name: Member(Kind.TEXTS, flat)}


def _pairs(name: str, flat: str, key: str = "Name") -> dict[str, Member]:
    return {name: Member(Kind.PAIRS, flat, (key, "Value"))}


def _entries(action: str, fields: Mapping[str, Member]) -> dict[str, Member]:
    return {"Entries": Member(Kind.ENTRIES, f"{action}RequestEntry", fields=fields)}


_QUEUE = _texts("QueueUrl")
_PAGE = {**_texts("NextToken"), **_numbers("MaxResults")}
_MESSAGE = {
    **_texts("MessageBody", "MessageDeduplicationId", "MessageGroupId"),
    **_numbers("DelaySeconds"),
    "MessageAttributes": Member(Kind.ATTRIBUTES, "MessageAttribute"),
    "MessageSystemAttributes": Member(Kind.ATTRIBUTES, "MessageSystemAttribute"),
}
_HANDLE = _texts("ReceiptHandle")
_VISIBILITY = _numbers("VisibilityTimeout")
_ID = _texts("Id")

#: The parts of one message attribute.  Lists are refused by the engine, so what is in them does not matter.
ATTRIBUTE_PARTS: Final = frozenset({"DataType", "StringValue", "BinaryValue", "StringListValues", "BinaryListValues"})

ACTIONS: Final[Mapping[str, Action]] = {
    "AddPermission": Action(
        {
            **_QUEUE,
            **_texts("Label"),
            **_list("AWSAccountIds", "AWSAccountId"),
            **_list("Actions", "ActionName"),
        }
    ),
    "CancelMessageMoveTask": Action(_texts("TaskHandle"), answers=True, on_queue=False),
    "ChangeMessageVisibility": Action({**_QUEUE, **_HANDLE, **_VISIBILITY}),
    "ChangeMessageVisibilityBatch": Action(
        {**_QUEUE, **_entries("ChangeMessageVisibilityBatch", {**_ID, **_HANDLE, **_VISIBILITY})},
        answers=True,
        entry="ChangeMessageVisibilityBatchResultEntry",
    ),
    "CreateQueue": Action(
        {**_texts("QueueName"), **_pairs("Attributes", "Attribute"), **_pairs("tags", "Tag", "Key")},
        answers=True,
        on_queue=False,
    ),
    "DeleteMessage": Action({**_QUEUE, **_HANDLE}),
    "DeleteMessageBatch": Action(
        {**_QUEUE, **_entries("DeleteMessageBatch", {**_ID, **_HANDLE})},
        answers=True,
        entry="DeleteMessageBatchResultEntry",
    ),
    "DeleteQueue": Action(_QUEUE),
    "GetQueueAttributes": Action({**_QUEUE, **_list("AttributeNames", "AttributeName")}, answers=True),
    "GetQueueUrl": Action(_texts("QueueName", "QueueOwnerAWSAccountId"), answers=True),
    "ListDeadLetterSourceQueues": Action({**_QUEUE, **_PAGE}, answers=True),
    "ListMessageMoveTasks": Action({**_texts("SourceArn"), **_numbers("MaxResults")}, answers=True, on_queue=False),
    "ListQueueTags": Action(_QUEUE, answers=True),
    "ListQueues": Action({**_texts("QueueNamePrefix"), **_PAGE}, answers=True, on_queue=False),
    "PurgeQueue": Action(_QUEUE),
    "ReceiveMessage": Action(
        {
            **_QUEUE,
            **_list("AttributeNames", "AttributeName"),
            **_list("MessageSystemAttributeNames", "MessageSystemAttributeName"),
            **_list("MessageAttributeNames", "MessageAttributeName"),
            **_numbers("MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds"),
            **_texts("ReceiveRequestAttemptId"),
        },
        answers=True,
    ),
    "RemovePermission": Action({**_QUEUE, **_texts("Label")}),
    "SendMessage": Action({**_QUEUE, **_MESSAGE}, answers=True),
    "SendMessageBatch": Action(
        {**_QUEUE, **_entries("SendMessageBatch", {**_ID, **_MESSAGE})},
        answers=True,
        entry="SendMessageBatchResultEntry",
    ),
    "SetQueueAttributes": Action({**_QUEUE, **_pairs("Attributes", "Attribute")}),
    "StartMessageMoveTask": Action(
        {**_texts("SourceArn", "DestinationArn"), **_numbers("MaxNumberOfMessagesPerSecond")},
        answers=True,
        on_queue=False,
    ),
    "TagQueue": Action({**_QUEUE, **_pairs("Tags", "Tag", "Key")}),
    "UntagQueue": Action({**_QUEUE, **_list("TagKeys", "TagKey")}),
}
