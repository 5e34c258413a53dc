"""The two attributes that tie queues together as dead-letter queue and source; not the moving of messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ..._limits import RECEIVE_COUNT_MAX, RECEIVE_COUNT_MIN, REDRIVE_SOURCES
from ._attributes import load_json
from ._errors import SqsError, bad_value
from ._names import parse_arn

REDRIVE, ALLOW = "RedrivePolicy", "RedriveAllowPolicy"


@dataclass(frozen=True, slots=True)
class Redrive:
    """A RedrivePolicy: the ARN it names and its maxReceiveCount."""

    arn: str
    receives: int

    @property
    def text(self) -> str:
        """As it is returned: the count is a number, whatever it was set as."""
        return json.dumps({"deadLetterTargetArn": self.arn, "maxReceiveCount": self.receives}, separators=(",", ":"))


def parse_redrive(text: str) -> Redrive:
    """
    Read a RedrivePolicy.

    Raises:
        SqsError: it is no JSON object, lacks a part, or a part is not what it has to be.
    """
    policy = load_json(text)
    if not isinstance(policy, dict):
        raise bad_redrive(text, "Redrive policy is not a valid JSON map.")
    for part in ("deadLetterTargetArn", "maxReceiveCount"):
        if policy.get(part) in (None, ""):
            raise bad_redrive(text, f"Redrive policy does not contain mandatory attribute: {part}.")
    arn, count = policy["deadLetterTargetArn"], _count(policy["maxReceiveCount"])
    if count is None:
        raise bad_redrive(
            text,
            f"Invalid value for maxReceiveCount: {policy['maxReceiveCount']}, valid values are from "
            f"{RECEIVE_COUNT_MIN} to {RECEIVE_COUNT_MAX} both inclusive.",
        )
    if not isinstance(arn, str) or parse_arn(arn) is None:
        raise bad_redrive(text, f"Invalid value for deadLetterTargetArn: {arn}.")
    return Redrive(arn, count)


def bad_redrive(text: str, reason: str) -> SqsError:
    return bad_value(text, REDRIVE, reason)


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if RECEIVE_COUNT_MIN <= value <= RECEIVE_COUNT_MAX else None


def check_allow(text: str) -> None:
    """
    Hold a RedriveAllowPolicy against its rules.  Source: API Reference, SetQueueAttributes.

    Raises:
        SqsError: it breaks one.
    """
    policy = load_json(text)
    if not isinstance(policy, dict):
        raise bad_value(text, ALLOW, "Redrive allow policy is not a valid JSON map.")
    permission, arns = policy.get("redrivePermission"), policy.get("sourceQueueArns")
    if permission not in ("allowAll", "denyAll", "byQueue"):
        raise bad_value(text, ALLOW, f"Invalid value for redrivePermission: {permission}.")
    if permission != "byQueue":
        if arns is not None:
            raise bad_value(text, ALLOW, f"Cannot specify sourceQueueArns when redrivePermission is {permission}.")
    elif not isinstance(arns, list) or not 1 <= len(arns) <= REDRIVE_SOURCES or not all(map(_is_arn, arns)):
        raise bad_value(text, ALLOW, f"Give 1 to {REDRIVE_SOURCES} sourceQueueArns when redrivePermission is byQueue.")


def _is_arn(value: object) -> bool:
    return isinstance(value, str) and parse_arn(value) is not None


def allows(target: Mapping[str, str], source_arn: str) -> bool:
    """Whether a queue of the attributes *target* lets the queue of *source_arn* send its dead letters there."""
    text = target.get(ALLOW)
    if text is None:
        return True
    policy = cast("dict[str, object]", load_json(text))
    if policy["redrivePermission"] == "byQueue":
        return source_arn in cast("list[str]", policy["sourceQueueArns"])
    return policy["redrivePermission"] == "allowAll"
