"""What a provider's author builds on: the two provider bases over `messagequeue.driver`; nothing for applications."""

from .consumer import RuntimeConsumer
from .consumer_provider import RuntimeConsumerProvider
from .publisher import RuntimePublisher
from .publisher_provider import RuntimePublisherProvider

__all__ = ["RuntimeConsumer", "RuntimeConsumerProvider", "RuntimePublisher", "RuntimePublisherProvider"]
