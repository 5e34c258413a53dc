"""The instruments that are recorded as things happen; those that are read are `_observing`'s."""

from __future__ import annotations

from opentelemetry.metrics import Counter, Histogram, Meter

from .. import _names
from .._names import Instrument


class Meters:
    """Counters and histograms."""

    __slots__ = ("age", "batch", "consumed", "duration", "processing", "sent", "skipped")

    def __init__(self, meter: Meter) -> None:
        self.duration = _histogram(meter, _names.OPERATION_DURATION)
        self.processing = _histogram(meter, _names.PROCESS_DURATION)
        self.age = _histogram(meter, _names.MESSAGE_AGE)
        self.batch = _histogram(meter, _names.BATCH_SIZE)
        self.sent = _counter(meter, _names.SENT)
        self.consumed = _counter(meter, _names.CONSUMED)
        self.skipped = _counter(meter, _names.CONTEXT_SKIPPED)


def _histogram(meter: Meter, instrument: Instrument) -> Histogram:
    return meter.create_histogram(
        instrument.name, instrument.unit, instrument.doc, explicit_bucket_boundaries_advisory=instrument.buckets
    )


def _counter(meter: Meter, instrument: Instrument) -> Counter:
    return meter.create_counter(instrument.name, instrument.unit, instrument.doc)
