"""
Moves a message to the dead-letter queue that its queue's RedrivePolicy names; SQS' own counting is left alone.

The message keeps its body and attributes as they were on the wire.  Three String attributes say why it was moved,
from where, and the type of the exception behind it, as far as ten attributes and 1 MiB leave room.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from messagequeue._errors import ConfigurationError, ConsumeError, ErrorCode, SettleError
from messagequeue._message import Message

from . import _limits, _wire
from ._api import BatchFailure, ReceivedMessage, SendEntry, SqsApi, WireAttribute
from ._faults import CallError, Fault, fault_of_entry
from ._queue import Queue, parse_arn
from ._sender import checksum_problem, reconcile
from ._settling import Lease, Settler, settle_error

REASON_ATTRIBUTE = "messagequeue.dead_letter_reason"
SOURCE_ATTRIBUTE = "messagequeue.dead_letter_source"
ERROR_ATTRIBUTE = "messagequeue.dead_letter_error"

#: In the order in which they get room: a message may have ten attributes of its own.
_STORY = (REASON_ATTRIBUTE, SOURCE_ATTRIBUTE, ERROR_ATTRIBUTE)

_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class DeadLetters:
    """The way from one queue to its dead-letter queue, which is looked up once."""

    def __init__(self, api: SqsApi, queue: Queue, settler: Settler, *, verify_checksums: bool) -> None:
        self._api = api
        self._queue = queue
        self._settler = settler
        self._verify = verify_checksums
        self._target: Queue | None = None

    async def move(self, lease: Lease, message: Message, reason: str, error: str | None = None) -> ConsumeError | None:
        """
        Send the message there, then delete it here, and return None or why it is still here.

        The two calls are not one: where the second fails, the message is in both queues.  On FIFO the dead-letter
        queue drops a repetition of the first for five minutes.
        """
        try:
            target = await self._find()
            failure = await self._send(target, build_entry(lease, self._queue, reason, error), message)
            return failure if failure is not None else (await self._settler.delete([lease]))[0]
        except CallError as failed:
            return settle_error(failed, self._queue)
        except SettleError as failed:
            return failed

    async def _find(self) -> Queue:
        if self._target is None:
            attributes = await self._api.get_queue_attributes(self._queue.url, ["RedrivePolicy"])
            try:
                self._target = target_of(attributes, self._queue)
            except ConfigurationError as error:
                raise SettleError(str(error), topic=self._queue.url, code=ErrorCode.CONFIGURATION) from error
        return self._target

    async def _send(self, target: Queue, entry: SendEntry, message: Message) -> SettleError | None:
        answer = await self._api.send_message_batch(target.url, [entry])
        done, failed = reconcile([entry], answer, target.url)
        failure, stored = failed.get(entry["Id"]), done.get(entry["Id"])
        if failure is None and stored is not None and not (self._verify and checksum_problem(entry, stored)):
            return None
        return self._not_moved(target, failure, message)

    def _not_moved(self, target: Queue, failure: BatchFailure | None, message: Message) -> SettleError:
        if failure is None:
            name, fault = "not confirmed", Fault(ErrorCode.NOT_CONFIRMED, retryable=True)
        else:
            name = failure.get("Code", "?")
            fault = fault_of_entry(name, sender_fault=failure.get("SenderFault", False))
        return SettleError(
            f"message {message.id} could not be put into {target.url} ({name}); it stays where it is",
            topic=self._queue.url,
            about=message,
            code=fault.code,
            retryable=fault.retryable,
        )


def target_of(attributes: Mapping[str, str], source: Queue) -> Queue:
    """
    Return the dead-letter queue of *source*.

    Args:
        attributes: What GetQueueAttributes answered for `RedrivePolicy`.

    Raises:
        ConfigurationError: it has none, or its policy cannot be read.
    """
    text = attributes.get("RedrivePolicy")
    if not text:
        raise ConfigurationError(
            f"queue {source.url} has no dead-letter queue, so the message stays: give it a RedrivePolicy"
        )
    try:
        arn = json.loads(text)["deadLetterTargetArn"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"the RedrivePolicy of {source.url} names no deadLetterTargetArn") from error
    named = parse_arn(str(arn))
    return Queue(named.name, named.region, named.account, source.sibling_url(named), source.host)


def build_entry(raw: ReceivedMessage, source: Queue, reason: str, error: str | None = None) -> SendEntry:
    """
    Return the batch entry that puts a received message into the dead-letter queue.

    On FIFO it keeps its group, and the message's id is its deduplication id, as when SQS moves it (guide,
    "Using dead-letter queues"): moving it twice within five minutes leaves one.
    """
    system = raw.get("Attributes", {})
    entry: SendEntry = {"Id": "0", "MessageBody": raw.get("Body", "")}
    attributes = _with_story(raw, (reason, source.url, error or ""))
    if attributes:
        entry["MessageAttributes"] = attributes
    if "MessageGroupId" in system:
        entry["MessageGroupId"] = system["MessageGroupId"]
    if source.is_fifo:
        entry.setdefault("MessageGroupId", raw.get("MessageId", ""))
        entry["MessageDeduplicationId"] = raw.get("MessageId", "")
    if "AWSTraceHeader" in system:
        trace: WireAttribute = {"DataType": "String", "StringValue": system["AWSTraceHeader"]}
        entry["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
    return entry


def _with_story(raw: ReceivedMessage, story: tuple[str, str, str]) -> dict[str, WireAttribute]:
    attributes = {name: _sendable(value) for name, value in raw.get("MessageAttributes", {}).items()}
    body_size = len(raw.get("Body", "").encode())
    for name, text in zip(_STORY, story, strict=True):
        attributes.pop(name, None)
        room = _limits.MESSAGE_BYTES - body_size - _wire.attributes_size(attributes) - len(name) - len("String")
        value = _fitted(text, room)
        if value and len(attributes) < _limits.ATTRIBUTES:
            attributes[name] = {"DataType": "String", "StringValue": value}
    return attributes


def _sendable(value: WireAttribute) -> WireAttribute:
    # Only what SendMessage takes: the list values of the model are reserved and refused.
    kept: WireAttribute = {"DataType": value.get("DataType", "String")}
    data = value.get("BinaryValue")
    if data is None:
        kept["StringValue"] = value.get("StringValue", "")
    else:
        kept["BinaryValue"] = bytes(data)
    return kept


#: Bytes of a reason at most: it is to be read, and a traceback is not it.
_REASON_BYTES = 4_096


def _fitted(text: str, room: int) -> str:
    if room <= 0:
        return ""
    clean = _REFUSED.sub("\ufffd", text)
    return clean.encode()[: min(room, _REASON_BYTES)].decode(errors="ignore")
