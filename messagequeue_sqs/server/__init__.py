"""An SQS-compatible server: actions (`engine`), protocols (`wire`), and the process around them (`app`)."""

from __future__ import annotations

from ._clock import Clock, ManualClock
from ._declared import queues_from_toml
from ._thread import ServerThread
from ._troubles import Faults
from .app import SQSServer

__all__ = ["Clock", "Faults", "ManualClock", "SQSServer", "ServerThread", "queues_from_toml"]
