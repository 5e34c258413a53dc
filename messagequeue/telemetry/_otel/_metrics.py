"""The histograms; counters are `_observing`'s."""

from __future__ import annotations

from opentelemetry.metrics import Histogram, Meter

from .. import _names
from .._names import Instrument


class Histograms:
    """What is recorded as it happens."""

    __slots__ = ("age", "batch", "duration", "processing")

    def __init__(self, meter: Meter) -> None:
        self.duration = _histogram(meter, _names.OPERATION_DURATION)
        self.processing = _histogram(meter, _names.PROCESS_DURATION)
        self.age = _histogram(meter, _names.MESSAGE_AGE)
        self.batch = _histogram(meter, _names.BATCH_SIZE)


def _histogram(meter: Meter, instrument: Instrument) -> Histogram:
    return meter.create_histogram(
        instrument.name, instrument.unit, instrument.doc, explicit_bucket_boundaries_advisory=instrument.buckets
    )
