"""ReceiveMessage: what is taken, what of it is shown, and what waits; not how a waiting request is kept."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from messagequeue.broker import Envelope, Lease, UnknownQueueError

from ..._limits import RECEIVE_MESSAGES, VISIBILITY_MAX, WAIT_MAX
from ..._md5 import attributes_md5
from ._attributes import unknown
from ._call import Answer, Call, Poll, Result
from ._check import TRACE, check_key
from ._directory import Directory
from ._errors import OVER_LIMIT, SqsError, bad_value, no_queue
from ._handles import Handles
from ._queue import SqsQueue
from ._send import OTHER_KIND, sequence_text

_EVERYTHING = frozenset({"All", ".*", "*"})
_SYSTEM: Final = frozenset(
    {
        "All",
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "SequenceNumber",
        "MessageDeduplicationId",
        "MessageGroupId",
        TRACE,
        "DeadLetterQueueSourceArn",
    }
)
#: Says that a body is base64 of bytes that are no text; the provider of this package reads it.
_ENCODING = "messagequeue.encoding"


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one receive asks for."""

    most: int
    visibility: int | None
    system: frozenset[str]
    user: Sequence[str]
    attempt: str | None


def receive_message(directory: Directory, handles: Handles, now: float, call: Call) -> Answer:
    """
    Take messages.

    Returns:
        What was found; where nothing was and the call may wait, a `Poll`.
    """
    queue = directory.find(now, call)
    wish = _wish(queue, call)
    wait = call.number("WaitTimeSeconds")
    if wait is not None and not 0 <= wait <= WAIT_MAX:
        raise bad_value(wait, "WaitTimeSeconds", f"Must be >= 0 and <= {WAIT_MAX}, if provided.")
    wait = queue.wait if wait is None else wait
    show = _shower(directory, handles, queue, wish)
    leases = () if wish.attempt is None else queue.attempts.repeat(now, wish.attempt)
    leases = leases or _take(directory, now, queue, wish)
    if leases:
        return show(leases)
    if not wait:
        if not queue.fifo and queue.queue.counts(now).in_flight >= queue.queue.settings.max_in_flight:
            raise SqsError(OVER_LIMIT, "The maximum number of in flight messages is reached.")
        return {}
    return Poll(queue.topic, now + wait, _attempter(directory, queue, wish, show))


def _wish(queue: SqsQueue, call: Call) -> _Wish:
    most, visibility = call.number("MaxNumberOfMessages"), call.number("VisibilityTimeout")
    attempt = call.text("ReceiveRequestAttemptId")
    if most is not None and not 1 <= most <= RECEIVE_MESSAGES:
        raise bad_value(most, "MaxNumberOfMessages", f"Must be between 1 and {RECEIVE_MESSAGES}, if provided.")
    if visibility is not None and not 0 <= visibility <= VISIBILITY_MAX:
        raise bad_value(visibility, "VisibilityTimeout", f"Must be >= 0 and <= {VISIBILITY_MAX}, if provided.")
    if attempt is not None:
        if not queue.fifo:
            raise bad_value(attempt, "ReceiveRequestAttemptId", OTHER_KIND)
        check_key("ReceiveRequestAttemptId", attempt)
    system = frozenset((*call.texts("AttributeNames"), *call.texts("MessageSystemAttributeNames")))
    if not system <= _SYSTEM:
        raise unknown(min(system - _SYSTEM))
    return _Wish(most or 1, visibility, system, call.texts("MessageAttributeNames"), attempt)


def _take(directory: Directory, now: float, queue: SqsQueue, wish: _Wish) -> Sequence[Lease]:
    shuffle = None if queue.fifo else directory.shuffle
    leases = queue.queue.take(now, wish.most, visibility=wish.visibility, shuffle=shuffle)
    if leases and wish.attempt is not None:
        queue.attempts.add(now, wish.attempt, leases)
    return leases


def _attempter(
    directory: Directory, queue: SqsQueue, wish: _Wish, show: Callable[[Sequence[Lease]], Result]
) -> Callable[[float], Result | None]:
    def attempt(now: float) -> Result | None:
        try:
            leases = _take(directory, now, queue, wish)
        except UnknownQueueError:
            raise no_queue() from None
        return show(leases) if leases else None

    return attempt


# --- what is shown


def _shower(
    directory: Directory, handles: Handles, queue: SqsQueue, wish: _Wish
) -> Callable[[Sequence[Lease]], Result]:
    def show(leases: Sequence[Lease]) -> Result:
        return {"Messages": [_shown(directory, handles, queue, wish, lease) for lease in leases]}

    return show


def _shown(directory: Directory, handles: Handles, queue: SqsQueue, wish: _Wish, lease: Lease) -> Result:
    stored = lease.message
    envelope = stored.attributes if isinstance(stored.attributes, Envelope) else None
    body, encoded = body_text(stored.body)
    message: Result = {
        "MessageId": stored.id,
        "ReceiptHandle": handles.seal(lease.handle),
        "MD5OfBody": hashlib.md5(_bytes(stored.body, body, encoded), usedforsecurity=False).hexdigest(),
        "Body": body,
    }
    if wish.system:
        message["Attributes"] = _system_attributes(directory, queue, wish.system, lease, envelope)
    if wish.user and (envelope is not None or encoded):
        user = _chosen(wish.user, user_attributes(envelope, encoded=encoded))
        if user:
            message["MD5OfMessageAttributes"] = attributes_md5(user)
            message["MessageAttributes"] = user
    return message


def body_text(body: bytes | str) -> tuple[str, bool]:
    """Return a body as text, and whether that is base64 because another face of the broker put bytes."""
    if isinstance(body, str):
        return body, False
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True


def _bytes(stored: bytes | str, shown: str, encoded: bool) -> bytes:
    return stored if isinstance(stored, bytes) and not encoded else shown.encode()


def user_attributes(envelope: Envelope | None, *, encoded: bool) -> dict[str, Result]:
    """Return every user attribute in the shape of the wire."""
    found: dict[str, Result] = {}
    types: Mapping[str, str] = (envelope.types if envelope is not None else None) or {}
    for name, value in ((envelope.attributes if envelope is not None else None) or {}).items():
        if isinstance(value, bytes):
            found[name] = {"BinaryValue": value, "DataType": types.get(name, "Binary")}
        else:
            found[name] = {"StringValue": value, "DataType": types.get(name, "String")}
    if encoded:
        found[_ENCODING] = {"StringValue": "base64", "DataType": "String"}
    return found


def _chosen(wanted: Sequence[str], attributes: dict[str, Result]) -> dict[str, Result]:
    """Names as they are, `prefix.*`, and three ways to say all; what is no name chooses nothing."""
    if not _EVERYTHING.isdisjoint(wanted):
        return attributes
    prefixes = tuple(name[:-2] for name in wanted if name.endswith(".*"))
    return {name: value for name, value in attributes.items() if name in wanted or name.startswith(prefixes)}


def _system_attributes(
    directory: Directory, queue: SqsQueue, wanted: frozenset[str], lease: Lease, envelope: Envelope | None
) -> dict[str, str]:
    stored = lease.message
    found: dict[str, str | None] = {
        "SenderId": directory.options.account,
        "SentTimestamp": str(int(stored.sent_at * 1000)),
        "ApproximateReceiveCount": str(lease.receives),
        "ApproximateFirstReceiveTimestamp": str(int(lease.first_received * 1000)),
        "MessageGroupId": stored.key,
        "MessageDeduplicationId": stored.dedup_id if queue.fifo else None,
        "SequenceNumber": sequence_text(stored.sequence) if queue.fifo else None,
        TRACE: None if envelope is None else envelope.trace,
        "DeadLetterQueueSourceArn": None if stored.source is None else directory.names.arn_of_topic(stored.source),
    }
    everything = "All" in wanted
    return {name: text for name, text in found.items() if text is not None and (everything or name in wanted)}
