"""
The counters and up-down counters: what is read when metrics are collected.

Most are counters that the library has anyway, so that they cost nothing in between; the others are counted here, in a
fraction of the time that an instrument of the SDK's takes.

A meter keeps the first callback of an instrument and forgets any other.  Hence there is one `Observed` per meter
provider, whoever asks for it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from .._names import DESTINATION, INSTRUMENTS, SERVER_ADDRESS, SERVER_PORT, SYSTEM, Instrument
from .._protocol import Destination, Readings

#: The attributes of a series, in an order of their own.
Labels = tuple[tuple[str, str | int], ...]


def labels_of(destination: Destination) -> Labels:
    """Return the attributes that tell *destination* from others, on every metric."""
    given = (
        (SYSTEM, destination.system),
        (DESTINATION, destination.name or None),
        (SERVER_ADDRESS, destination.address),
        (SERVER_PORT, destination.port if destination.address is not None else None),
    )
    return tuple((name, value) for name, value in given if value is not None)


class Observed:
    """
    Everything that is watched.

    Collecting runs in a thread of the SDK's: what is watched must be readable from there.
    """

    def __init__(self, meter: Meter) -> None:
        self._lock = threading.Lock()
        self._watched: dict[object, tuple[Labels, Readings]] = {}
        self._kept: defaultdict[tuple[str, Labels], float] = defaultdict(int)  # counted, or of what is watched no more
        for instrument in INSTRUMENTS:
            given = instrument.name, [self._callback(instrument)], instrument.unit, instrument.doc
            if instrument.kind == "counter":
                meter.create_observable_counter(*given)
            elif instrument.kind == "up-down counter":
                meter.create_observable_up_down_counter(*given)

    def count(self, instrument: Instrument, number: int, labels: Labels) -> None:
        """Add *number* to a counter."""
        with self._lock:
            self._kept[instrument.name, labels] += number

    def watch(self, destination: Destination, read: Readings) -> Callable[[], None]:
        """See `Telemetry.watch()`."""
        key, labels = object(), labels_of(destination)
        with self._lock:
            self._watched[key] = labels, read

        def stop() -> None:
            with self._lock:
                if self._watched.pop(key, None) is not None:
                    self._keep(labels, read())

        return stop

    def _keep(self, labels: Labels, last: Mapping[str, float]) -> None:
        for name, value in last.items():
            if name in _COUNTERS:
                self._kept[name, labels] += value

    def _callback(self, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
        name = instrument.name

        def observe(options: CallbackOptions) -> list[Observation]:
            with self._lock:
                sums = {labels: value for (kept, labels), value in self._kept.items() if kept == name}
                for labels, read in self._watched.values():
                    if (value := read().get(name)) is not None:
                        sums[labels] = sums.get(labels, 0) + value
            return [Observation(value, dict(labels)) for labels, value in sums.items()]

        return observe


_COUNTERS = frozenset(instrument.name for instrument in INSTRUMENTS if instrument.kind == "counter")

_lock = threading.Lock()
_made: WeakKeyDictionary[MeterProvider, Observed] = WeakKeyDictionary()


def observed_of(provider: MeterProvider, scope: str, version: str, schema: str) -> Observed:
    """Return what is watched for *provider*."""
    with _lock:
        found = _made.get(provider)
        if found is None:
            found = _made[provider] = Observed(provider.get_meter(scope, version, schema))
        return found
