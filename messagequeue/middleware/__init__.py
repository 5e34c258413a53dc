"""Behaviour around handlers, one to a file; not what the runtime guarantees without it."""

from ._compose import compose

__all__ = ["compose"]
