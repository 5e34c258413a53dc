"""What all three batch actions have in common: checks of the whole call, and entries that fail alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._limits import BATCH_ENTRIES, ENTRY_ID_CHARS
from ._call import Call, Result
from ._errors import EMPTY_BATCH, IDS_NOT_DISTINCT, INVALID_ENTRY_ID, TOO_MANY_ENTRIES, SqsError

Entry = Mapping[str, Any]
_is_id = re.compile(rf"[A-Za-z0-9_-]{{1,{ENTRY_ID_CHARS}}}").fullmatch


def checked_entries(call: Call) -> Sequence[Entry]:
    """
    Return the entries of a batch.

    Raises:
        SqsError: there are none or too many, or an id is not allowed or there twice.
    """
    entries = call.entries("Entries")
    if not entries:
        raise SqsError(EMPTY_BATCH, f"There should be at least one {call.action}RequestEntry in the request.")
    if len(entries) > BATCH_ENTRIES:
        raise SqsError(
            TOO_MANY_ENTRIES,
            f"Maximum number of entries per request are {BATCH_ENTRIES}. You have sent {len(entries)}.",
        )
    seen = set()
    for entry in entries:
        entry_id = entry.get("Id")
        if entry_id is None or not _is_id(entry_id):
            raise SqsError(
                INVALID_ENTRY_ID,
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                f"It can be at most {ENTRY_ID_CHARS} letters long.",
            )
        seen.add(entry_id)
    if len(seen) < len(entries):
        raise SqsError(IDS_NOT_DISTINCT, f"Id {_first_repeated(entries)} repeated.")
    return entries


def _first_repeated(entries: Sequence[Entry]) -> str:
    ids: list[str] = [entry["Id"] for entry in entries]
    return next(entry_id for at, entry_id in enumerate(ids) if entry_id in ids[:at])


def each(entries: Sequence[Entry], work: Callable[[Entry], object]) -> Result:
    """Do *work* for every entry, in order; one that raises `SqsError` fails alone.  Empty lists are left out."""
    done: list[Result] = []
    failed: list[Result] = []
    for entry in entries:
        try:
            work(entry)
        except SqsError as error:
            failed.append(failure(entry, error))
        else:
            done.append({"Id": entry["Id"]})
    return outcome(done, failed)


def failure(entry: Entry, error: SqsError) -> Result:
    """Return what a batch answers of an entry that failed."""
    kind = error.kind
    return {"Id": entry["Id"], "SenderFault": kind.sender, "Code": kind.code, "Message": error.message}


def outcome(done: list[Result], failed: list[Result]) -> Result:
    """Return the answer of a batch; empty lists are left out."""
    result: Result = {}
    if done:
        result["Successful"] = done
    if failed:
        result["Failed"] = failed
    return result
