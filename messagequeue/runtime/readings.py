"""Counters that the runtime has anyway, by the names of metrics; when they are read is telemetry's to say."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

from ..telemetry import Destination, Readings, Telemetry
from ..telemetry import _names as names
from .guarded_telemetry import GuardedTelemetry
from .publisher import PublisherStats
from .stats import ConsumerStats


class Watched(Protocol):
    """What is read of a consumer."""

    @property
    def stats(self) -> ConsumerStats: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def blocked_keys(self) -> int: ...


def publisher_readings(stats: PublisherStats) -> Mapping[str, float]:
    """Return what a publisher counted so far, and how much it holds now."""
    return {names.PENDING.name: stats.pending, names.RESENT.name: stats.entries_retried}


def consumer_readings(consumer: Watched) -> Mapping[str, float]:
    """Return what a consumer counted so far, and how much it holds now."""
    stats = consumer.stats
    return {
        names.IN_FLIGHT.name: consumer.in_flight,
        names.RUNNING.name: stats.running,
        names.BLOCKED_KEYS.name: consumer.blocked_keys,
        names.EMPTY_RECEIVES.name: stats.empty_receives,
        names.RECEIVE_ERRORS.name: stats.receive_errors,
        names.LEASES_LOST.name: stats.leases_lost,
        names.LEASES_EXTENDED.name: stats.leases_extended,
        names.SETTLE_ERRORS.name: stats.settle_errors,
        names.RELEASED.name: stats.released,
        names.BREAKER_OPEN.name: int(stats.breaker_open),
        names.BREAKER_OPENED.name: stats.breaker_opened,
    }


class Watches:
    """
    What a provider has read by its telemetry; nothing where it has none.

    Attributes:
        telemetry: The provider's, guarded: what it raises does no harm.

    Raises:
        TypeError: *telemetry* is none.
    """

    def __init__(self, telemetry: Telemetry | None) -> None:
        if telemetry is not None and (isinstance(telemetry, type) or not isinstance(telemetry, Telemetry)):
            shown = telemetry.__name__ if isinstance(telemetry, type) else type(telemetry).__name__
            raise TypeError(f"telemetry is {shown}: give an instance, such as messagequeue.telemetry.OpenTelemetry()")
        self.telemetry: Telemetry | None = None if telemetry is None else GuardedTelemetry(telemetry)
        self._stops: dict[Hashable, Callable[[], None]] = {}

    def add(self, key: Hashable, where: Destination, read: Readings) -> None:
        """Have *read* read, in place of what was added as *key* before."""
        if self.telemetry is not None:
            self.end(key)
            self._stops[key] = self.telemetry.watch(where, read)

    def end(self, key: Hashable) -> None:
        """Have what was added as *key* read no more; what it counted stays counted."""
        stop = self._stops.pop(key, None)
        if stop is not None:
            stop()

    def end_all(self) -> None:
        """Have nothing read any more."""
        for key in list(self._stops):
            self.end(key)
