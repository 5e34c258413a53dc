"""
Who may be overtaken in a queue without order: tenants whose messages fill it step back behind the others.

A tenant is a key of such a queue.  It is noisy once it has many messages in flight, and a large share of all; from then
on its messages wait until no quiet tenant has any.  Source: SQS Developer Guide, "Amazon SQS fair queues".

*Left out:* the share of processing time, which the guide names as another sign of noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from ._groups import Record
from ._values import State

#: Messages in flight that make a tenant noisy where they are more than one in `_SHARE` of all.  Guide, as above.
_IN_FLIGHT: Final = 30
_SHARE: Final = 10
#: Seconds without a put after which a tenant is quiet again.
_FORGIVEN_AFTER: Final = 300.0


class Tenant:
    """
    The messages of one key.

    Attributes:
        messages: How many there are.
        in_flight: How many of them are.
        put_at: When the last one was put.
        noisy: Its messages step back; those that did are in `back`, oldest first.
    """

    __slots__ = ("back", "in_flight", "key", "messages", "noisy", "put_at")

    def __init__(self, key: str) -> None:
        self.key = key
        self.messages = 0
        self.in_flight = 0
        self.put_at = 0.0
        self.noisy = False
        self.back: list[int] = []


class Tenants:
    """The tenants of one queue."""

    __slots__ = ("_noisy", "_tenants")

    def __init__(self) -> None:
        self._tenants: dict[str, Tenant] = {}
        self._noisy: dict[str, Tenant] = {}

    def __len__(self) -> int:
        """How many messages have stepped back, those that are gone by now included."""
        return sum(len(tenant.back) for tenant in self._noisy.values())

    def add(self, record: Record, key: str) -> None:
        tenant = self._tenants.get(key)
        if tenant is None:
            tenant = self._tenants[key] = Tenant(key)
        tenant.messages += 1
        tenant.put_at = max(tenant.put_at, record.message.sent_at)
        record.tenant = tenant

    def remove(self, tenant: Tenant) -> None:
        tenant.messages -= 1
        if not tenant.messages:
            del self._tenants[tenant.key]
            self._noisy.pop(tenant.key, None)

    def steps_back(self, record: Record, in_flight: int) -> bool:
        """
        Say whether a message that has its turn has to let others go first; then it is kept here.

        Args:
            in_flight: Of the whole queue.
        """
        tenant = record.tenant
        if tenant is None:
            return False
        if not tenant.noisy:
            if tenant.in_flight < _IN_FLIGHT or tenant.in_flight * _SHARE <= in_flight:
                return False
            tenant.noisy = True
            self._noisy[tenant.key] = tenant
        heappush(tenant.back, record.message.sequence)
        return True

    def first(self, records: dict[int, Record]) -> Record | None:
        """Return the message that is next where there are noisy tenants only: of the one with the fewest in flight."""
        while self._noisy:
            tenant = min(self._noisy.values(), key=lambda one: (one.in_flight, one.key))
            record = _first(tenant, records)
            if record is not None:
                return record
            self._quieten(tenant)
        return None

    def take(self, record: Record) -> None:
        """Take the message that `first()` returned out of its line."""
        if record.tenant is not None:
            heappop(record.tenant.back)

    def forgive(self, now: float) -> Sequence[int]:
        """Return, and let go, the messages of tenants that have put nothing for a while."""
        if not self._noisy:
            return ()
        back = []
        for tenant in [one for one in self._noisy.values() if one.put_at + _FORGIVEN_AFTER <= now]:
            back += tenant.back
            self._quieten(tenant)
        return back

    def _quieten(self, tenant: Tenant) -> None:
        tenant.noisy = False
        tenant.back = []
        del self._noisy[tenant.key]


def _first(tenant: Tenant, records: dict[int, Record]) -> Record | None:
    back = tenant.back
    while back:
        record = records.get(back[0])
        if record is not None:
            if record.state is State.VISIBLE:
                return record
            record.queued = False
        heappop(back)
    return None
