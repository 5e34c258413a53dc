"""Publish and consume messages from asyncio without marrying a broker."""

from ._version import __version__

__all__ = ["__version__"]
