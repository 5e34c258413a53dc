"""For tests of code that publishes and consumes; nothing here is for production, and nothing needs pytest."""

from ._autojump import AutojumpLoop, DeadlockError, VirtualRunError, run_virtual

__all__ = [
    "AutojumpLoop",
    "DeadlockError",
    "VirtualRunError",
    "run_virtual",
]
