"""Tags and permissions of queues; what a policy would allow is nobody's concern here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, cast

from ..._limits import TAGS
from ._attributes import load_json
from ._call import Call, Result
from ._directory import Directory
from ._errors import OVER_LIMIT, SqsError, bad_value, invalid, missing
from ._queue import SqsQueue

# API Reference, TagQueue; guide, "Amazon SQS cost allocation tags".
_KEY_CHARS, _VALUE_CHARS = 128, 256
#: API Reference, AddPermission.
_MOST_ACTIONS: Final = 7
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")
#: What may be shared; everything else is for the owner.
_SHARED: Final = frozenset(
    {
        "*",
        "SendMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
    }
)


def check_tags(name: str, tags: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Refuse tags that are malformed, or too many together with those *before*, with `SqsError`."""
    for key, value in tags.items():
        if not 1 <= len(key) <= _KEY_CHARS:
            raise invalid(f"Tag keys must be between 1 and {_KEY_CHARS} characters in length.")
        if len(value) > _VALUE_CHARS:
            raise invalid(f"Tag values must be between 0 and {_VALUE_CHARS} characters in length.")
    if len({*tags, *before}) > TAGS:
        raise invalid(f"Too many tags added for queue {name}.")


def tag_queue(directory: Directory, now: float, call: Call) -> None:
    queue, tags = directory.find(now, call), call.pairs("Tags")
    if not tags:
        raise missing("Tags")
    check_tags(queue.name, tags, queue.tags)
    queue.tags.update(tags)
    directory.save(queue)


def untag_queue(directory: Directory, now: float, call: Call) -> None:
    queue, keys = directory.find(now, call), call.texts("TagKeys")
    if not keys:
        raise missing("TagKeys")
    for key in keys:
        queue.tags.pop(key, None)
    directory.save(queue)


def list_queue_tags(directory: Directory, now: float, call: Call) -> Result:
    tags = directory.find(now, call).tags
    return {"Tags": dict(tags)} if tags else {}


# --- permissions


def add_permission(directory: Directory, now: float, call: Call) -> None:
    queue, label = directory.find(now, call), _label(call)
    accounts, actions = call.texts("AWSAccountIds"), call.texts("Actions")
    if not accounts:
        raise missing("AWSAccountIds")
    if not actions:
        raise missing("Actions")
    if len(actions) > _MOST_ACTIONS:
        raise SqsError(OVER_LIMIT, f"{len(actions)} Actions were found, maximum allowed is {_MOST_ACTIONS}.")
    for action in actions:
        if action not in _SHARED:
            reason = "Only the queue owner is allowed to invoke this action."
            raise bad_value(f"SQS:{action}", "ActionName", reason)
    statements = _statements(queue)
    if any(statement.get("Sid") == label for statement in statements):
        raise bad_value(label, "Label", "Already exists.")
    principals = [f"arn:aws:iam::{account}:root" for account in accounts]
    named = [f"SQS:{action}" for action in actions]
    statement: dict[str, object] = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
        "Action": named[0] if len(named) == 1 else named,
        "Resource": queue.arn,
    }
    _write(directory, queue, [*statements, statement])


def remove_permission(directory: Directory, now: float, call: Call) -> None:
    queue, label = directory.find(now, call), _label(call)
    statements = _statements(queue)
    kept = [statement for statement in statements if statement.get("Sid") != label]
    if len(kept) == len(statements):
        raise bad_value(label, "Label", "can't find label.")
    _write(directory, queue, kept)


def _label(call: Call) -> str:
    label = call.text("Label")
    if not label:
        raise missing("Label")
    if not _LABEL.fullmatch(label):
        raise bad_value(
            label, "Label", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    return label


def _policy(queue: SqsQueue) -> dict[str, object]:
    """The queue's policy, or the one that SQS begins with."""
    found = load_json(queue.attributes.get("Policy", ""))
    if isinstance(found, dict):
        return found
    return {"Version": "2008-10-17", "Id": f"{queue.arn}/SQSDefaultPolicy", "Statement": []}


def _statements(queue: SqsQueue) -> list[dict[str, object]]:
    found = _policy(queue).get("Statement")
    statements = found if isinstance(found, list) else [found]
    return [cast("dict[str, object]", statement) for statement in statements if isinstance(statement, dict)]


def _write(directory: Directory, queue: SqsQueue, statements: list[dict[str, object]]) -> None:
    if statements:
        policy = {**_policy(queue), "Statement": statements}
        queue.set({**queue.attributes, "Policy": json.dumps(policy, separators=(",", ":"))})
    else:
        queue.set({name: text for name, text in queue.attributes.items() if name != "Policy"})
    directory.save(queue)
