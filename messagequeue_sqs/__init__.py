"""Amazon SQS for `messagequeue`, and a server that answers as Amazon SQS does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._config import SQSConfig
from ._provider import PROVIDER, SQSConsumerProvider, SQSPublisherProvider
from ._s3_api import PayloadStats
from ._s3_config import S3Payloads

if TYPE_CHECKING:
    from .server import SQSServer

__all__ = [
    "PROVIDER",
    "PayloadStats",
    "S3Payloads",
    "SQSConfig",
    "SQSConsumerProvider",
    "SQSPublisherProvider",
    "SQSServer",
]


def __getattr__(name: str) -> object:
    """The server is imported when it is asked for: whoever only publishes or consumes does without."""
    if name != "SQSServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .server import SQSServer

    globals()[name] = SQSServer
    return SQSServer
