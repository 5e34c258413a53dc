"""What a provider's author builds on: the two provider bases over `messagequeue.driver`; nothing for applications."""

from .consumer import RuntimeConsumer
from .consumer_provider import RuntimeConsumerProvider

__all__ = ["RuntimeConsumer", "RuntimeConsumerProvider"]
