"""
The rules of claims, pure: for stores that read a record, decide, and write it under a lock of their own.

Stores that decide inside of a server (a script, a condition) say the same in its language; the conformance kit holds
all of them to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._store import Claimed, ClaimOutcome, Done, InFlight

#: Bytes of a result in stores that have no narrower limit of their own.
MAX_RESULT = 1_048_576


@dataclass(frozen=True, slots=True)
class Record:
    """
    A claim, or the result of one.

    Attributes:
        ends_at: Until when it counts.
        forget_at: From when it may be removed; a claim that ended is its owner's until then.
    """

    owner: str
    fingerprint: str
    done: bool
    ends_at: float
    forget_at: float
    result: bytes | None = None


def claim(
    record: Record | None, now: float, *, owner: str, fingerprint: str, lease: float
) -> tuple[ClaimOutcome, Record | None]:
    """Return the answer to a claim, and the record to write; None: leave what is there."""
    if record is not None and now < record.ends_at:
        if record.done:
            return Done(record.fingerprint, record.result), None
        if record.owner != owner:
            return InFlight(record.ends_at - now, record.fingerprint), None
    took_over = record is not None and not record.done and record.owner != owner
    return Claimed(took_over), Record(owner, fingerprint, False, now + lease, now + 2 * lease)


def renewed(record: Record | None, now: float, *, owner: str, lease: float) -> Record | None:
    """Return the record to write; None: it is not this owner's claim."""
    if record is None or record.done or record.owner != owner:
        return None
    return Record(owner, record.fingerprint, False, now + lease, now + 2 * lease)


def completed(record: Record | None, now: float, *, owner: str, ttl: float, result: bytes | None) -> Record | None:
    """Return the record to write; None: it is not this owner's."""
    if record is None or record.owner != owner:
        return None
    return record if record.done else Record(owner, record.fingerprint, True, now + ttl, now + ttl, result)


def may_release(record: Record | None, *, owner: str) -> bool:
    """Whether it is this owner's claim."""
    return record is not None and not record.done and record.owner == owner
