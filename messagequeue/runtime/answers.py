"""
What a `Sender` answered, made into one outcome per entry; nothing here sends or waits.

A sender is somebody else's code: an answer that is too short, shared between entries or of a foreign type is made good
here, so that every caller gets exactly one result and an exception of its own.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from .. import _log_events as events
from .._errors import ErrorCode, MessageQueueError, PublishError
from .._message import Receipt

logger = logging.getLogger("messagequeue.publisher")

Outcome = Receipt | PublishError


class Sent(Protocol):
    """What has to be known of an entry to judge it."""

    key: Hashable | None
    attempts: int
    wanted: bool


E = TypeVar("E", bound=Sent)


def reconcile(results: Sequence[object], count: int, topic: str) -> list[Outcome]:
    """Return *count* outcomes, by position: what *results* lacks is not confirmed, what it has beyond is dropped."""
    if len(results) != count:
        text = "the sender of %r gave %d results for %d messages"
        events.PUBLISH_BAD_ANSWER.log(text, topic, len(results), count, topic=topic)
    elif set(map(type, results)) == {Receipt}:
        return list(results)  # type: ignore[arg-type]
    seen: set[int] = set()
    outcomes: list[Outcome] = []
    for result in results[:count]:
        if not isinstance(result, Receipt):
            result = as_publish_error(result, topic)
            if id(result) in seen:
                result = own_copy(result)
            seen.add(id(result))
        outcomes.append(result)
    outcomes.extend(_unconfirmed(topic) for _ in range(count - len(outcomes)))
    return outcomes


def failed_as_a_whole(error: BaseException, count: int, topic: str) -> list[Outcome]:
    """Return *count* outcomes of a call that raised *error*, as caught by the caller."""
    if error.__traceback__ is not None:
        # The catching frame holds the entries, and so who waits for this error: a cycle that would keep them all.
        error.__traceback__ = error.__traceback__.tb_next
    first = as_publish_error(error, topic)
    return [first, *(own_copy(first) for _ in range(count - 1))]


def to_resend(entries: Sequence[E], outcomes: Sequence[Outcome], *, retries: int, ordered: bool) -> set[int]:
    """
    Return the positions of the entries to send once more.

    An entry is, where the broker reported it as failed on its own side, it has resends left and its caller did not
    give up; but not where a later one of its ordering key is stored already: sending it now would turn the two around.
    """
    stored: set[Hashable] = set()
    again: set[int] = set()
    for at in range(len(entries) - 1, -1, -1):
        entry, result = entries[at], outcomes[at]
        key = entry.key if ordered else None
        if isinstance(result, Receipt):
            if key is not None:
                stored.add(key)
        elif result.retryable and entry.attempts <= retries and entry.wanted and key not in stored:
            again.add(at)
    return again


def as_publish_error(error: object, topic: str) -> PublishError:
    """Return *error* as a `PublishError`: itself, or a new one which it caused."""
    if isinstance(error, PublishError):
        error.topic = error.topic or topic
        return error
    if isinstance(error, MessageQueueError):
        made = PublishError(str(error), topic=topic, code=error.code, retryable=error.retryable)
    elif isinstance(error, Exception):
        made = PublishError(
            f"publishing to {topic!r} failed unexpectedly: the sender raised {type(error).__name__}", topic=topic
        )
    else:
        made = _unconfirmed(topic)
    if isinstance(error, BaseException):
        made.__cause__ = error
    return made


def own_copy(error: PublishError) -> PublishError:
    """Return an equal error: each caller raises its own, as one raised in ten tasks would mix ten tracebacks."""
    try:
        made = copy.copy(error)
    except Exception:  # a subclass whose constructor does not take its own `args`
        made = PublishError(str(error))
    vars(made).update(vars(error))
    made.__cause__ = error.__cause__
    made.__traceback__ = None
    return made


def _unconfirmed(topic: str) -> PublishError:
    return PublishError(
        f"the broker did not say whether it has this message of {topic!r}: it may or may not be stored",
        topic=topic,
        code=ErrorCode.NOT_CONFIRMED,
    )
