"""SendMessage and SendMessageBatch: what a message must be, and what is said of one that is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import TypeAlias, cast

from messagequeue.broker import Draft, Envelope, PutResult

from ..._limits import BATCH_BYTES, DELAY_MAX
from ..._md5 import attributes_md5
from ._batch import Entry, checked_entries, failure, outcome
from ._call import Call, Result
from ._check import TRACE, Attribute, check_attributes, check_key, check_system, encoded_text
from ._directory import Directory
from ._errors import BATCH_TOO_LONG, MALFORMED, SqsError, bad_value, invalid, missing
from ._queue import SqsQueue

Attributes: TypeAlias = "Mapping[str, Attribute]"

#: Why a parameter is refused that belongs to the other kind of queue.
OTHER_KIND = "The request include parameter that is not valid for this queue type."
_NO_IDENTITY = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
#: What a message without attributes, delay and keys is made of, with what names the queue or the entry.
_OF_PLAIN = frozenset({"Id", "MessageBody", "QueueUrl"})
#: Bytes of a character at most.
_UTF8_BYTES = 4


def send_message(directory: Directory, now: float, call: Call) -> Result:
    queue = directory.find(now, call)
    draft = _draft(queue, call.params, call.trace, relaxed=directory.options.relaxed)
    [put] = queue.queue.put_many(now, (draft,))
    return _told(queue, call.params, draft, put, {})


def send_message_batch(directory: Directory, now: float, call: Call) -> Result:
    queue, relaxed = directory.find(now, call), directory.options.relaxed
    entries = checked_entries(call)
    if not relaxed:
        _check_total(entries)
    if queue.fifo:
        for entry in entries:
            _check_identity(queue, entry)
    good: list[Entry] = []
    drafts: list[Draft] = []
    failed: list[Result] = []
    for entry in entries:
        try:
            drafts.append(_draft(queue, entry, call.trace, relaxed=relaxed))
            good.append(entry)
        except SqsError as error:
            failed.append(failure(entry, error))
    stored = zip(good, drafts, queue.queue.put_many(now, drafts), strict=True)
    return outcome([_told(queue, entry, draft, put, {"Id": entry["Id"]}) for entry, draft, put in stored], failed)


def _check_total(entries: Sequence[Entry]) -> None:
    characters = 0
    for entry in entries:
        if "MessageAttributes" in entry:
            characters = BATCH_BYTES
        if "MessageBody" in entry:
            characters += len(entry["MessageBody"])
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
    for name, value in entry.get("MessageAttributes", {}).items():
        size += _length(name) + sum(_length(value.get(part)) for part in ("DataType", "StringValue", "BinaryValue"))
    return size


def _length(value: object) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
    return len(value) if isinstance(value, bytes) else 0


def _draft(queue: SqsQueue, params: Entry, trace: str | None, *, relaxed: bool) -> Draft:
    """Return the message that *params* describe.  Raises `SqsError` where they break a rule."""
    text: str | None = params.get("MessageBody")
    if not text:
        raise missing("MessageBody")
    if trace is None and not queue.fifo and not relaxed and params.keys() <= _OF_PLAIN:
        body = encoded_text(text)
        if len(body) > queue.max_bytes:
            raise _too_long(queue)
        return Draft(body)
    group: str | None = params.get("MessageGroupId")
    if group is not None:
        check_key("MessageGroupId", group)
    dedup: str | None = params.get("MessageDeduplicationId")
    if queue.fifo or dedup is not None:
        _check_identity(queue, params)
    delay: float | None = params.get("DelaySeconds")
    if delay is not None:
        delay = _delay(queue, delay)
    attributes: Attributes | None = params.get("MessageAttributes")
    system: Attributes | None = params.get("MessageSystemAttributes")
    size = check_attributes(attributes) if attributes else 0
    if system:
        trace = check_system(system) or trace
    body = _relaxed(text) if relaxed else encoded_text(text)
    if len(body) + size > queue.max_bytes and not relaxed:
        raise _too_long(queue)
    if dedup is None and queue.content_based:
        dedup = hashlib.sha256(body).hexdigest()
    envelope = _envelope(attributes or {}, trace) if attributes or trace else None
    return Draft(body, group, dedup, delay, envelope)


def _too_long(queue: SqsQueue) -> SqsError:
    return invalid(f"One or more parameters are invalid. Reason: Message must be shorter than {queue.max_bytes} bytes.")


def _check_identity(queue: SqsQueue, params: Entry) -> None:
    """Refuse keys that are missing, malformed, or for the other kind of queue.  A FIFO batch fails as a whole by it."""
    dedup: str | None = params.get("MessageDeduplicationId")
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


def _delay(queue: SqsQueue, delay: float) -> float | None:
    if queue.fifo:
        if delay:
            raise bad_value(delay, "DelaySeconds", OTHER_KIND)
        return None  # the queue's own applies
    if not 0 <= delay <= DELAY_MAX:
        raise bad_value(delay, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {DELAY_MAX}.")
    return float(delay)


def _relaxed(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SqsError(MALFORMED, "The body holds half of a surrogate pair.") from None


def _envelope(attributes: Attributes, trace: str | None) -> Envelope:
    values: dict[str, str | bytes] = {}
    types: dict[str, str] = {}
    for name, attribute in attributes.items():
        kind = cast(str, attribute["DataType"])
        binary = kind.startswith("Binary")
        values[name] = cast("str | bytes", attribute["BinaryValue" if binary else "StringValue"])
        if kind not in ("String", "Binary"):
            types[name] = kind
    return Envelope(attributes=values or None, types=types or None, trace=trace)


def _told(queue: SqsQueue, params: Entry, draft: Draft, put: PutResult, result: Result) -> Result:
    """Add to *result* what is said of a message that was stored."""
    assert isinstance(draft.body, bytes)
    result["MD5OfMessageBody"] = md5(draft.body, usedforsecurity=False).hexdigest()
    result["MessageId"] = put.id
    if not queue.fifo and params.keys() <= _OF_PLAIN:
        return result
    attributes: Attributes | None = params.get("MessageAttributes")
    if attributes:
        result["MD5OfMessageAttributes"] = attributes_md5(attributes)
    system: Attributes | None = params.get("MessageSystemAttributes")
    if system and TRACE in system:
        result["MD5OfMessageSystemAttributes"] = attributes_md5(system)
    if queue.fifo:
        result["SequenceNumber"] = sequence_text(put.sequence)
    return result


def sequence_text(sequence: int) -> str:
    """Twenty digits, so that numbers compare as text, too."""
    return f"{sequence:020d}"
