"""SendMessage and SendMessageBatch: what a message must be, and what is said of one that is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from messagequeue.broker import Envelope

from ..._limits import BATCH_BYTES, DELAY_MAX
from ..._md5 import attributes_md5
from ._batch import Entry, checked_entries, each
from ._call import Call, Result
from ._check import TRACE, Attribute, check_attributes, check_key, check_system, check_text
from ._directory import Directory
from ._errors import BATCH_TOO_LONG, MALFORMED, SqsError, bad_value, invalid, missing
from ._queue import SqsQueue

#: Why a parameter is refused that belongs to the other kind of queue.
OTHER_KIND = "The request include parameter that is not valid for this queue type."
_NO_IDENTITY = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
_NONE: Mapping[str, Attribute] = {}
#: Bytes of a character at most.
_UTF8_BYTES = 4


@dataclass(slots=True)
class _Draft:
    """A message that was checked.  Not frozen, which would cost more than all the checks."""

    body: bytes
    attributes: Mapping[str, Attribute]
    system: Mapping[str, Attribute]
    envelope: Envelope | None
    group: str | None
    dedup: str | None
    delay: float | None


def send_message(directory: Directory, now: float, call: Call) -> Result:
    queue = directory.find(now, call)
    return _put(now, queue, _draft(directory, queue, call.params, call.trace))


def send_message_batch(directory: Directory, now: float, call: Call) -> Result:
    queue = directory.find(now, call)
    entries = checked_entries(call)
    if not directory.options.relaxed:
        _check_total(entries)
    if queue.fifo:
        for entry in entries:
            _check_identity(queue, entry)
    return each(entries, lambda entry: _put(now, queue, _draft(directory, queue, entry, call.trace)))


def _check_total(entries: Sequence[Entry]) -> None:
    if not any("MessageAttributes" in entry for entry in entries):
        characters = sum(len(cast(str, entry.get("MessageBody", ""))) for entry in entries)
        if characters * _UTF8_BYTES <= BATCH_BYTES:
            return
    total = sum(map(_size, entries))
    if total > BATCH_BYTES:
        raise SqsError(
            BATCH_TOO_LONG, f"Batch requests cannot be longer than {BATCH_BYTES} bytes. You have sent {total} bytes."
        )


def _size(entry: Entry) -> int:
    """Bytes of body and attributes of an entry that was not checked; each entry's own check says what is wrong."""
    size = _length(entry.get("MessageBody"))
    for name, value in _attributes(entry, "MessageAttributes").items():
        size += _length(name) + sum(_length(value.get(part)) for part in ("DataType", "StringValue", "BinaryValue"))
    return size


def _length(value: object) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
    return len(value) if isinstance(value, bytes) else 0


def _attributes(params: Entry, name: str) -> Mapping[str, Attribute]:
    return cast("Mapping[str, Attribute]", params.get(name, _NONE))


def _draft(directory: Directory, queue: SqsQueue, params: Entry, trace: str | None) -> _Draft:
    text = cast("str | None", params.get("MessageBody"))
    if not text:
        raise missing("MessageBody")
    group = cast("str | None", params.get("MessageGroupId"))
    if group is not None:
        check_key("MessageGroupId", group)
    _check_identity(queue, params)
    delay = _delay(queue, cast("int | None", params.get("DelaySeconds")))
    attributes, system = _attributes(params, "MessageAttributes"), _attributes(params, "MessageSystemAttributes")
    size = check_attributes(attributes) if attributes else 0
    if system:
        trace = check_system(system) or trace
    body = _body(text, relaxed=directory.options.relaxed)
    if len(body) + size > queue.max_bytes and not directory.options.relaxed:
        raise invalid(
            f"One or more parameters are invalid. Reason: Message must be shorter than {queue.max_bytes} bytes."
        )
    dedup = cast("str | None", params.get("MessageDeduplicationId"))
    if dedup is None and queue.content_based:
        dedup = hashlib.sha256(body).hexdigest()
    envelope = _envelope(attributes, trace) if attributes or trace else None
    return _Draft(body, attributes, system, envelope, group, dedup, delay)


def _check_identity(queue: SqsQueue, params: Entry) -> None:
    """Refuse keys that are missing, malformed, or for the other kind of queue.  A FIFO batch fails as a whole by it."""
    dedup = cast("str | None", params.get("MessageDeduplicationId"))
    if not queue.fifo:
        if dedup is not None:
            raise bad_value(dedup, "MessageDeduplicationId", OTHER_KIND)
        return
    if params.get("MessageGroupId") is None:
        raise missing("MessageGroupId")
    if dedup is not None:
        check_key("MessageDeduplicationId", dedup)
    elif not queue.content_based:
        raise invalid(_NO_IDENTITY)


def _delay(queue: SqsQueue, delay: int | None) -> float | None:
    if delay is None:
        return None
    if queue.fifo:
        if delay:
            raise bad_value(delay, "DelaySeconds", OTHER_KIND)
        return None  # the queue's own applies
    if not 0 <= delay <= DELAY_MAX:
        raise bad_value(delay, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {DELAY_MAX}.")
    return float(delay)


def _body(text: str, *, relaxed: bool) -> bytes:
    if not relaxed:
        check_text(text)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SqsError(MALFORMED, "The body holds half of a surrogate pair.") from None


def _envelope(attributes: Mapping[str, Attribute], trace: str | None) -> Envelope:
    values: dict[str, str | bytes] = {}
    types: dict[str, str] = {}
    for name, attribute in attributes.items():
        kind = cast(str, attribute["DataType"])
        binary = kind.startswith("Binary")
        values[name] = cast("str | bytes", attribute["BinaryValue" if binary else "StringValue"])
        if kind not in ("String", "Binary"):
            types[name] = kind
    return Envelope(attributes=values or None, types=types or None, trace=trace)


def _put(now: float, queue: SqsQueue, draft: _Draft) -> Result:
    stored = queue.queue.put(
        now, draft.body, key=draft.group, dedup_id=draft.dedup, delay=draft.delay, attributes=draft.envelope
    )
    result: Result = {
        "MD5OfMessageBody": hashlib.md5(draft.body, usedforsecurity=False).hexdigest(),
        "MessageId": stored.id,
    }
    if draft.attributes:
        result["MD5OfMessageAttributes"] = attributes_md5(draft.attributes)
    if TRACE in draft.system:
        result["MD5OfMessageSystemAttributes"] = attributes_md5(draft.system)
    if queue.fifo:
        result["SequenceNumber"] = sequence_text(stored.sequence)
    return result


def sequence_text(sequence: int) -> str:
    """Twenty digits, so that numbers compare as text, too."""
    return f"{sequence:020d}"
