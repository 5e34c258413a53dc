"""Amazon SQS for `messagequeue`."""

from ._config import SQSConfig
from ._provider import PROVIDER, SQSConsumerProvider, SQSPublisherProvider

__all__ = ["PROVIDER", "SQSConfig", "SQSConsumerProvider", "SQSPublisherProvider"]
