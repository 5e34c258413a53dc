"""The queue policy that lets a topic deliver, merged into what is there; no requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from messagequeue._errors import ConfigurationError

#: What a policy of our own begins with.  Source: IAM guide, "Version": the newest language.
_VERSION = "2012-10-17"


def merged_policy(policy: str | None, *, queue_arn: str, topic_arn: str) -> str | None:
    """
    Return the policy of a queue with a statement that allows the topic to send to it; None where nothing has to change.

    Every other statement stays as it is, whoever wrote it.

    Raises:
        ConfigurationError: *policy* cannot be read, so that writing another would lose what it says.
    """
    wanted = _statement(queue_arn, topic_arn)
    shape, statements = _read(policy)
    if any(_same(statement, wanted) for statement in statements):
        return None
    others = [statement for statement in statements if not _is_ours(statement, wanted)]
    return json.dumps({**shape, "Statement": [*others, wanted]}, separators=(",", ":"))


def reduced_policy(policy: str | None, *, queue_arn: str, topic_arn: str) -> str | None:
    """
    Return the policy of a queue without the statement that `merged_policy()` adds, "" where nothing is left of it.

    None where it is not there; one that says the same, but that somebody else wrote, stays.

    Raises:
        ConfigurationError: *policy* cannot be read.
    """
    ours = _statement(queue_arn, topic_arn)
    shape, statements = _read(policy)
    others = [statement for statement in statements if not _is_ours(statement, ours)]
    if len(others) == len(statements):
        return None
    return json.dumps({**shape, "Statement": others}, separators=(",", ":")) if others else ""


def _statement(queue_arn: str, topic_arn: str) -> dict[str, Any]:
    # Source: SNS developer guide, "Give permission to the Amazon SNS topic to send messages to the Amazon SQS queue".
    name = hashlib.sha256(topic_arn.encode()).hexdigest()[:16]
    return {
        "Sid": f"messagequeue{name}",
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
    }


def _read(policy: str | None) -> tuple[dict[str, Any], list[Any]]:
    if not policy:
        return {"Version": _VERSION}, []
    try:
        shape = json.loads(policy)
        statements = shape.get("Statement", [])
    except (ValueError, AttributeError) as error:
        raise ConfigurationError("the queue's policy cannot be read: it is left alone, look at it first") from error
    return shape, statements if isinstance(statements, list) else [statements]


def _is_ours(statement: Any, wanted: Mapping[str, Any]) -> bool:
    return isinstance(statement, dict) and statement.get("Sid") == wanted["Sid"]


def _same(statement: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether *statement* says the same, whatever it is called and whether it writes one value as a list."""
    if not isinstance(statement, dict):
        return False
    return bool(_plain(statement) == _plain(wanted))


def _plain(statement: Mapping[str, Any]) -> Any:
    kept = {name: _single(value) for name, value in statement.items() if name != "Sid"}
    # Action names are not case-sensitive, and SQS itself writes SQS:SendMessage.
    action = kept.get("Action")
    return {**kept, "Action": action.lower() if isinstance(action, str) else action}


def _single(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1:
        return _single(value[0])
    return {name: _single(inner) for name, inner in value.items()} if isinstance(value, dict) else value
