"""Claims in the memory of one process: for tests, and for consumers that share nothing with others."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from .. import _log_events as events
from .._errors import ConfigurationError, ErrorCode
from . import _records
from ._errors import IdempotencyStoreError
from ._records import MAX_RESULT, Record
from ._store import ClaimOutcome


class MemoryStore:
    """
    Keeps records until the process ends, for the tasks of one event loop.

    Args:
        max_records: Records at most.  Above it those of done work are forgotten, the oldest first, which is logged
            once: a copy of that work would be done again.  Claims that have not ended are never forgotten.
        clock: Seconds; None: the running event loop's.

    Raises:
        ConfigurationError: *max_records* is no whole number of 1 or more.
    """

    def __init__(self, *, max_records: int = 100_000, clock: Callable[[], float] | None = None) -> None:
        if isinstance(max_records, bool) or not isinstance(max_records, int) or max_records < 1:
            raise ConfigurationError(f"max_records={max_records!r}: give a whole number of 1 or more")
        self._max_records = max_records
        self._clock = clock
        # In the order of their last change, which is nearly that of their ends.
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._told = False

    @property
    def max_result(self) -> int:
        """1 MiB."""
        return MAX_RESULT

    def __len__(self) -> int:
        """Records held, those included that have ended and were not removed yet."""
        return len(self._records)

    async def claim(self, key: str, /, *, owner: str, fingerprint: str, lease: float) -> ClaimOutcome:
        now = self._now()
        found, record = _records.claim(self._records.get(key), now, owner=owner, fingerprint=fingerprint, lease=lease)
        if record is not None:
            if key not in self._records:
                self._make_room(now)
            self._put(key, record)
        return found

    async def renew(self, key: str, /, *, owner: str, lease: float) -> bool:
        record = _records.renewed(self._records.get(key), self._now(), owner=owner, lease=lease)
        return record is not None and self._put(key, record)

    async def complete(self, key: str, /, *, owner: str, ttl: float, result: bytes | None) -> bool:
        record = _records.completed(self._records.get(key), self._now(), owner=owner, ttl=ttl, result=result)
        return record is not None and self._put(key, record)

    async def release(self, key: str, /, *, owner: str) -> bool:
        if not _records.may_release(self._records.get(key), owner=owner):
            return False
        del self._records[key]
        return True

    async def purge(self) -> int:
        """Remove every record that has ended, and return their number.  Nobody need call it."""
        now = self._now()
        ended = [key for key, record in self._records.items() if record.forget_at <= now]
        for key in ended:
            del self._records[key]
        return len(ended)

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def _put(self, key: str, record: Record) -> bool:
        self._records[key] = record
        self._records.move_to_end(key)
        return True

    def _make_room(self, now: float) -> None:
        while self._records and next(iter(self._records.values())).forget_at <= now:
            self._records.popitem(last=False)
        if len(self._records) < self._max_records:
            return
        victim = next((key for key, record in self._records.items() if record.done or record.ends_at <= now), None)
        if victim is None:
            raise IdempotencyStoreError(
                f"all {self._max_records} records are claims in flight: raise max_records above the number of handlers "
                "that run at once",
                code=ErrorCode.FULL,
            )
        if not self._told:
            self._told = True
            count = len(self._records)
            events.STORE_FULL.log(
                "MemoryStore holds %d records and forgets the oldest from now on: raise max_records, or lower ttl",
                count,
                count=count,
            )
        del self._records[victim]
