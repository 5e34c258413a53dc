"""
Amazon SNS for `messagequeue`: publish to topics, subscribe queues to them.

Topics are not consumed: each consumer has a queue of its own, subscribed to the topic, which provider `sqs` consumes.
"""

from ._config import SNSConfig
from ._provider import PROVIDER, SNSPublisherProvider
from ._subscribing import Subscription, subscribe, unsubscribe

__all__ = ["PROVIDER", "SNSConfig", "SNSPublisherProvider", "Subscription", "subscribe", "unsubscribe"]
