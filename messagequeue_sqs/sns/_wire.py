"""
Messages in the shape of SNS' API, and every rule that can be held against them without asking; no requests.

Bodies and attributes are those of `messagequeue_sqs._wire`: what is published to a topic arrives in queues.
"""

from __future__ import annotations

from messagequeue._errors import InvalidMessageError, MessageTooLargeError
from messagequeue.driver import EncodedMessage

from .. import _wire
from ._api import PublishEntry


def measure(message: EncodedMessage, *, fifo: bool, limit: int) -> int:
    """
    Hold *message* against the rules of SNS and return its size in bytes: body and attributes.

    Not more than ten attributes, as in a queue: SNS discards a message with more where a queue is subscribed with raw
    delivery (SNS developer guide, "Amazon SNS message attributes").

    Raises:
        InvalidMessageError: the body, an attribute or a key breaks a rule.
        MessageTooLargeError: body and attributes are above *limit* together.
    """
    _check_keys(message, fifo)
    text, encoding = _wire.encode_body(message.body)
    size = len(text) if text.isascii() else len(text.encode())
    if message.attributes or encoding:
        size += _wire.attributes_size(_wire.encode_attributes(message.attributes, encoding))
    if size > limit:
        raise MessageTooLargeError(
            f"the message has {size} bytes, body and attributes together; the topic takes {limit}: raise the topic's "
            "MaximumMessageSize (up to 1 MiB) and max_message_size, or put the data elsewhere, as "
            "SNSConfig(payloads=S3Payloads(bucket=...)) does",
            size=size,
            limit=limit,
        )
    return size


def _check_keys(message: EncodedMessage, fifo: bool) -> None:
    if message.ordering_key is not None:
        _wire.check_key("ordering_key", message.ordering_key)
    elif fifo:
        raise InvalidMessageError("the topic is FIFO: pass ordering_key=... on every publish")
    if message.deduplication_key is not None:
        _wire.check_key("deduplication_key", message.deduplication_key)


def build_entry(message: EncodedMessage, entry_id: str) -> PublishEntry:
    """Return the batch entry of a message that `measure()` accepted.  What was not asked for is not in it."""
    text, encoding = _wire.encode_body(message.body)
    entry: PublishEntry = {"Id": entry_id, "Message": text}
    attributes = _wire.encode_attributes(message.attributes, encoding)
    if attributes:
        entry["MessageAttributes"] = attributes
    if message.ordering_key is not None:
        entry["MessageGroupId"] = message.ordering_key
    if message.deduplication_key is not None:
        entry["MessageDeduplicationId"] = message.deduplication_key
    return entry
