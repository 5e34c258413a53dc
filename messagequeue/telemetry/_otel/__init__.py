"""The only part that knows OpenTelemetry; its API, not its SDK: where telemetry goes is the application's to set up."""

from __future__ import annotations

from ._telemetry import OpenTelemetry

__all__ = ["OpenTelemetry"]
