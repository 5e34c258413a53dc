"""The attributes of queues: which there are, what they may be, how they go together; not those of messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from ..._limits import (
    DELAY_MAX,
    MESSAGE_BYTES,
    QUEUE_MESSAGE_BYTES_MIN,
    RETENTION_DEFAULT,
    RETENTION_MAX,
    RETENTION_MIN,
    VISIBILITY_DEFAULT,
    VISIBILITY_MAX,
    WAIT_MAX,
)
from ._errors import INVALID_ATTRIBUTE_NAME, INVALID_ATTRIBUTE_VALUE, SqsError

#: Seconds.  API Reference, SetQueueAttributes, KmsDataKeyReusePeriodSeconds; the default is not shown.
_KMS_PERIOD: Final = (60, 86_400)
_KMS_PERIOD_DEFAULT: Final = "300"

DEFAULTS: Final[Mapping[str, str]] = {
    "VisibilityTimeout": str(VISIBILITY_DEFAULT),
    "MaximumMessageSize": str(MESSAGE_BYTES),
    "MessageRetentionPeriod": str(RETENTION_DEFAULT),
    "DelaySeconds": "0",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
}
FIFO_DEFAULTS: Final[Mapping[str, str]] = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
#: Known, and for the server alone to write.
READ_ONLY: Final = frozenset(
    {
        "QueueArn",
        "CreatedTimestamp",
        "LastModifiedTimestamp",
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    }
)

_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def unknown(name: str) -> SqsError:
    return SqsError(INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {name}.")


def wrong(name: str, reason: str = "") -> SqsError:
    text = f"Invalid value for the parameter {name}."
    return SqsError(INVALID_ATTRIBUTE_VALUE, f"{text} Reason: {reason}" if reason else text)


def _integer(low: int, high: int) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if not _INTEGER.fullmatch(value) or not low <= int(value) <= high:
            raise wrong(name)
        return str(int(value))

    return check


def _boolean(name: str, value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise wrong(name)
    return value.lower()


def _choice(*choices: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value not in choices:
            raise wrong(name)
        return value

    return check


def _policy(name: str, value: str) -> str:
    if value and not isinstance(load_json(value), dict):
        raise wrong(name, "Policy is not a valid JSON map.")
    return value


def _as_it_is(name: str, value: str) -> str:
    return value


#: Writable attributes and what makes their values canonical.  Those of dead letters need other queues: `_redrive`.
_CHECKS: Final[Mapping[str, Callable[[str, str], str]]] = {
    "VisibilityTimeout": _integer(0, VISIBILITY_MAX),
    "MaximumMessageSize": _integer(QUEUE_MESSAGE_BYTES_MIN, MESSAGE_BYTES),
    "MessageRetentionPeriod": _integer(RETENTION_MIN, RETENTION_MAX),
    "DelaySeconds": _integer(0, DELAY_MAX),
    "ReceiveMessageWaitTimeSeconds": _integer(0, WAIT_MAX),
    "KmsDataKeyReusePeriodSeconds": _integer(*_KMS_PERIOD),
    "SqsManagedSseEnabled": _boolean,
    "KmsMasterKeyId": _as_it_is,
    "Policy": _policy,
    "RedrivePolicy": _as_it_is,
    "RedriveAllowPolicy": _as_it_is,
    "FifoQueue": _boolean,
    "ContentBasedDeduplication": _boolean,
    "DeduplicationScope": _choice("queue", "messageGroup"),
    "FifoThroughputLimit": _choice("perQueue", "perMessageGroupId"),
}
_FIFO_ONLY: Final = frozenset(FIFO_DEFAULTS)
_SCOPES: Final = frozenset({"DeduplicationScope", "FifoThroughputLimit"})
#: An empty value takes these off the queue.
_REMOVABLE: Final = frozenset({"Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"})

KNOWN: Final = frozenset(_CHECKS) | READ_ONLY


def canonical(given: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    """
    Return *given* with canonical values.

    Raises:
        SqsError: a name is unknown, read-only or for FIFO queues only; a value is not allowed; the encryptions clash.
    """
    checked = {}
    for name, value in given.items():
        check = _CHECKS.get(name)
        if check is None:
            raise unknown(name)
        if name in _FIFO_ONLY and not fifo:
            raise _fifo_only(name)
        checked[name] = check(name, value)
    if checked.get("KmsMasterKeyId") and checked.get("SqsManagedSseEnabled") == "true":
        raise SqsError(
            INVALID_ATTRIBUTE_NAME,
            "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS "
            "SSE.",
        )
    return checked


def _fifo_only(name: str) -> SqsError:
    if name in _SCOPES:
        return SqsError(INVALID_ATTRIBUTE_NAME, f"You can specify the {name} only when FifoQueue is set to true.")
    return unknown(name)


def merged(current: Mapping[str, str], change: Mapping[str, str]) -> dict[str, str]:
    """
    Return the attributes of a queue after a *change* that is `canonical()`.

    Raises:
        SqsError: the throughput limit does not go with the deduplication scope.
    """
    after = {**current, **change}
    if change.get("KmsMasterKeyId"):
        after["SqsManagedSseEnabled"] = "false"
    elif change.get("SqsManagedSseEnabled") == "true":
        after["KmsMasterKeyId"] = ""
    for name in _REMOVABLE:
        if after.get(name) == "":
            del after[name]
    if after.get("KmsDataKeyReusePeriodSeconds") == _KMS_PERIOD_DEFAULT:
        del after["KmsDataKeyReusePeriodSeconds"]
    if after.get("FifoThroughputLimit") == "perMessageGroupId" and after["DeduplicationScope"] != "messageGroup":
        raise wrong(
            "FifoThroughputLimit",
            "The perMessageGroupId value is allowed only when DeduplicationScope is messageGroup.",
        )
    return after


def differing(current: Mapping[str, str], given: Mapping[str, str]) -> str | None:
    """Return the first attribute of *given*, which is `canonical()`, that the queue does not have so; else None."""
    for name, value in given.items():
        have = current.get(name, _KMS_PERIOD_DEFAULT if name == "KmsDataKeyReusePeriodSeconds" else "")
        if have != value and (name not in _JSON or load_json(have) != load_json(value)):
            return name
    return None


_JSON: Final = frozenset({"Policy", "RedrivePolicy", "RedriveAllowPolicy"})


def load_json(text: str) -> object:
    """Return what *text* says in JSON; None where it says nothing."""
    try:
        loaded: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return loaded
