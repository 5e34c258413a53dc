"""How a queue is set up, from its attributes; what is doubtful in that is the runtime's to say."""

from __future__ import annotations

import json
from collections.abc import Mapping

from messagequeue._errors import ConfigurationError
from messagequeue.driver import TopicFacts

from ._api import SqsApi
from ._dead_letter import target_of
from ._faults import CallError
from ._queue import Queue


async def facts_of(attributes: Mapping[str, str], queue: Queue, api: SqsApi) -> TopicFacts:
    """
    Return what the *attributes* of *queue* say, and those of its dead-letter queue, where they may be read.

    A queue whose attributes could not be read at all has none here, and nothing is known of it.
    """
    if "MessageRetentionPeriod" not in attributes:
        return TopicFacts()
    retention = _seconds(attributes)
    if not attributes.get("RedrivePolicy"):
        return TopicFacts(dead_letters=False, retention=retention)
    return TopicFacts(
        dead_letters=True,
        max_receives=max_receives(attributes["RedrivePolicy"]),
        retention=retention,
        dead_letter_retention=await _dead_letter_retention(attributes, queue, api),
        keeps_age=not queue.is_fifo,  # on FIFO the move begins it anew
    )


async def _dead_letter_retention(attributes: Mapping[str, str], queue: Queue, api: SqsApi) -> float | None:
    try:
        target = target_of(attributes, queue)
        return _seconds(await api.get_queue_attributes(target.url, ["MessageRetentionPeriod"]))
    except (ConfigurationError, CallError):
        return None


def max_receives(policy: str) -> int | None:
    """Return `maxReceiveCount` of a RedrivePolicy, which is a number or its text; None where there is none."""
    try:
        count = json.loads(policy)["maxReceiveCount"]
        return int(count)
    except (ValueError, KeyError, TypeError):
        return None


def _seconds(attributes: Mapping[str, str]) -> float | None:
    text = attributes.get("MessageRetentionPeriod", "")
    return float(text) if text.isdigit() else None
