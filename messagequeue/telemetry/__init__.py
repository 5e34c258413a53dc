"""
Traces and metrics of publishing and consuming, for the telemetry system of your choice; off unless asked for.

    async with open_publishers(telemetry=OpenTelemetry()) as publishers:
        ...

`OpenTelemetry` needs the extra: pip install 'messagequeue[otel]'.  For another system implement `Telemetry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._errors import ConfigurationError
from ._names import INSTRUMENTS, OUTCOMES, Instrument
from ._protocol import (
    ConsumerTelemetry,
    Destination,
    Ending,
    Processing,
    PublisherTelemetry,
    Readings,
    Received,
    Receiving,
    Sending,
    Settling,
    Telemetry,
    TraceContext,
)

if TYPE_CHECKING:
    from ._otel import OpenTelemetry

__all__ = [
    "INSTRUMENTS",
    "OUTCOMES",
    "ConsumerTelemetry",
    "Destination",
    "Ending",
    "Instrument",
    "OpenTelemetry",
    "Processing",
    "PublisherTelemetry",
    "Readings",
    "Received",
    "Receiving",
    "Sending",
    "Settling",
    "Telemetry",
    "TraceContext",
]


def __getattr__(name: str) -> object:
    """OpenTelemetry's API is imported when it is asked for."""
    if name != "OpenTelemetry":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ._otel import OpenTelemetry
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ConfigurationError("telemetry needs opentelemetry-api: pip install 'messagequeue[otel]'") from error
    globals()[name] = OpenTelemetry
    return OpenTelemetry
