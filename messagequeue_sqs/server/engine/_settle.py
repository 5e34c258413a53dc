"""DeleteMessage, ChangeMessageVisibility and their batches: what each outcome of the broker is called here."""

from __future__ import annotations

from typing import cast

from messagequeue.broker import Lease, Outcome

from ..._limits import VISIBILITY_MAX
from ._batch import Entry, checked_entries, each
from ._call import Call, Result
from ._directory import Directory
from ._errors import SqsError, bad_handle, bad_value, missing
from ._handles import Handles
from ._queue import SqsQueue

#: Seconds.  Durations are whole seconds in SQS: a change within the first one has the full 12 hours before it.
_RESOLUTION = 1.0


def delete_message(directory: Directory, handles: Handles, now: float, call: Call) -> None:
    _delete(handles, now, directory.find(now, call), call.params)


def delete_message_batch(directory: Directory, handles: Handles, now: float, call: Call) -> Result:
    queue = directory.find(now, call)
    return each(checked_entries(call), lambda entry: _delete(handles, now, queue, entry))


def change_visibility(directory: Directory, handles: Handles, now: float, call: Call) -> None:
    _change(handles, now, directory.find(now, call), call.params)


def change_visibility_batch(directory: Directory, handles: Handles, now: float, call: Call) -> Result:
    queue = directory.find(now, call)
    return each(checked_entries(call), lambda entry: _change(handles, now, queue, entry))


def _delete(handles: Handles, now: float, queue: SqsQueue, params: Entry) -> Result:
    given, handle = _handle(handles, params)
    outcome = queue.queue.settle(now, handle)
    # A message that is gone is as good as deleted; on a standard queue an old handle deletes nothing, and says nothing.
    if outcome is Outcome.UNKNOWN:
        raise bad_handle(given)
    if outcome is Outcome.EXPIRED or (outcome is Outcome.STALE and queue.fifo):
        raise _expired(given)
    return {}


def _change(handles: Handles, now: float, queue: SqsQueue, params: Entry) -> Result:
    given, handle = _handle(handles, params)
    by = cast("int | None", params.get("VisibilityTimeout"))
    if by is None:
        raise missing("VisibilityTimeout")
    if not 0 <= by <= VISIBILITY_MAX:
        raise bad_value(
            by, "VisibilityTimeout", f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_MAX}."
        )
    outcome = queue.queue.extend(now, handle, by)
    if outcome is Outcome.BEYOND_LIMIT:
        outcome = _extend_to_the_end(now, queue, handle)
    if outcome is Outcome.BEYOND_LIMIT:
        raise bad_value(
            by,
            "VisibilityTimeout",
            f"Total VisibilityTimeout for the message is beyond the limit [{VISIBILITY_MAX} seconds]",
        )
    if outcome is Outcome.UNKNOWN:
        raise bad_handle(given)
    if outcome is Outcome.EXPIRED or (outcome is Outcome.STALE and queue.fifo):
        raise _expired(given)
    if outcome is not Outcome.DONE:
        raise bad_value(
            given, "ReceiptHandle", "Message does not exist or is not available for visibility timeout change."
        )
    return {}


def _extend_to_the_end(now: float, queue: SqsQueue, handle: str) -> Outcome:
    lease = queue.queue.held(now, handle)
    if not isinstance(lease, Lease) or now >= lease.received_at + _RESOLUTION:
        return Outcome.BEYOND_LIMIT
    # A thousandth short of it, so that rounding never makes it more.
    return queue.queue.extend(now, handle, VISIBILITY_MAX - (now - lease.received_at) - 0.001)


def _handle(handles: Handles, params: Entry) -> tuple[str, str]:
    given = cast("str | None", params.get("ReceiptHandle"))
    if not given:
        raise missing("ReceiptHandle")
    handle = handles.open(given)
    if handle is None:
        raise bad_handle(given)
    return given, handle


def _expired(given: str) -> SqsError:
    return bad_value(given, "ReceiptHandle", "The receipt handle has expired.")
