"""Amazon SQS for `messagequeue`."""

from ._config import SQSConfig
from ._provider import PROVIDER, SQSConsumerProvider, SQSPublisherProvider
from ._s3_api import PayloadStats
from ._s3_config import S3Payloads

__all__ = ["PROVIDER", "PayloadStats", "S3Payloads", "SQSConfig", "SQSConsumerProvider", "SQSPublisherProvider"]
