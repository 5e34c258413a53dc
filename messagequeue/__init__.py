"""
Publish and consume messages from asyncio without marrying a broker.

    async with open_publishers("memory://") as publishers:
        publisher = await publishers.new_publisher("orders")
        await publisher.publish({"id": 1})

Everything an application needs is here.  Authors of providers need `messagequeue.driver`, tests `messagequeue.testing`.
"""

from ._batch import BatchHandler, PartialFailure
from ._codec import Codec, JSONCodec
from ._config import Config, ProviderConfig
from ._errors import (
    ClosedError,
    ConfigurationError,
    ConsumeError,
    DeadLetter,
    DecodeError,
    Discard,
    EncodeError,
    ErrConsumerAlreadyRegistered,
    ErrEmptyTopicName,
    ErrorCode,
    HandlerError,
    InvalidMessageError,
    LeaseLostError,
    MessageQueueError,
    MessageTooLargeError,
    ProviderNotInstalledError,
    PublishError,
    ReceiveError,
    RetryLater,
    SettleError,
    Signal,
    UnknownProviderError,
    UnroutedError,
    UnsupportedOptionError,
)
from ._message import AttributeValue, Message, Outgoing, Receipt
from ._open import open_consumers, open_publishers
from ._options import ConsumeKwargs, ConsumeOptions, PublishKwargs, PublishOptions
from ._protocols import (
    Consumer,
    ConsumerProvider,
    ErrorSink,
    Handler,
    Middleware,
    Publish,
    Publisher,
    PublisherProvider,
    PublishMiddleware,
)
from ._registry import find_provider, provider_names, register_provider
from ._run import run
from ._version import __version__
from .middleware import compose

__all__ = [
    "AttributeValue",
    "BatchHandler",
    "ClosedError",
    "Codec",
    "Config",
    "ConfigurationError",
    "ConsumeError",
    "ConsumeKwargs",
    "ConsumeOptions",
    "Consumer",
    "ConsumerProvider",
    "DeadLetter",
    "DecodeError",
    "Discard",
    "EncodeError",
    "ErrConsumerAlreadyRegistered",
    "ErrEmptyTopicName",
    "ErrorCode",
    "ErrorSink",
    "Handler",
    "HandlerError",
    "InvalidMessageError",
    "JSONCodec",
    "LeaseLostError",
    "Message",
    "MessageQueueError",
    "MessageTooLargeError",
    "Middleware",
    "Outgoing",
    "PartialFailure",
    "ProviderConfig",
    "ProviderNotInstalledError",
    "Publish",
    "PublishError",
    "PublishKwargs",
    "PublishMiddleware",
    "PublishOptions",
    "Publisher",
    "PublisherProvider",
    "Receipt",
    "ReceiveError",
    "RetryLater",
    "SettleError",
    "Signal",
    "UnknownProviderError",
    "UnroutedError",
    "UnsupportedOptionError",
    "__version__",
    "compose",
    "find_provider",
    "open_consumers",
    "open_publishers",
    "provider_names",
    "register_provider",
    "run",
]
