"""
The answers of the four hot calls: are they what the service's model says, and in the shape that the SDK gives.

Answers are taken only where nothing in them is strange; the SDK judges the others.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from .._api import BatchAnswer, ReceivedMessage
from ._http import Answer


def batch_answer(found: Any, answer: Answer) -> BatchAnswer | None:
    """Return what a batch call answered, or None."""
    if type(found) is not dict:
        return None
    done, failed = found.get("Successful"), found.get("Failed")
    if not (_are_objects(done) and _are_objects(failed)):
        return None
    if done is None and failed is None and not _says_json(answer):
        return None
    return {"Successful": done or (), "Failed": failed or ()}


def received_messages(found: Any, answer: Answer) -> Sequence[ReceivedMessage] | None:
    """Return the messages of a receive, or None."""
    if type(found) is not dict:
        return None
    messages = found.get("Messages")
    if messages is None:
        return () if _says_json(answer) else None
    if not _are_objects(messages):
        return None
    for message in messages:
        if "MessageAttributes" in message and not _decode_blobs(message["MessageAttributes"]):
            return None
    return messages  # type: ignore[no-any-return]


def _are_objects(value: object) -> bool:
    # A set of the few types is three times as fast as asking each item.
    return value is None or (type(value) is list and set(map(type, value)) <= _OBJECT)


_OBJECT = {dict}


def _decode_blobs(attributes: object) -> bool:
    """Make bytes of base64, in place; return whether all of it was as it should be."""
    if type(attributes) is not dict or not _are_objects(list(attributes.values())):
        return False
    for value in attributes.values():
        data = value.get("BinaryValue")
        if data is not None:
            try:
                value["BinaryValue"] = base64.b64decode(data)
            except (binascii.Error, ValueError, TypeError):
                return False
    return True


def _says_json(answer: Answer) -> bool:
    """An object without any known member is an answer only of who says that it is one."""
    return "json" in answer.headers.get("content-type", "")
