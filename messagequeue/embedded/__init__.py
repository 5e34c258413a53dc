"""
The providers `memory` and `embedded`: the broker of this library inside the process, for tests, development and single
machines.

Both halves of the same `name`, or of the same folder, meet in one broker.  `embedded` keeps what it has in that folder.
*What they cannot promise:* anything across processes; `memory`, anything after the process ends.
"""

from __future__ import annotations

from ..driver import ProviderSpec
from ._config import EmbeddedConfig, MemoryConfig
from ._folders import close_hub, embedded_broker, embedded_now, open_hub
from ._hub import forget, memory_broker, memory_now
from ._provider import (
    EmbeddedConsumerProvider,
    EmbeddedPublisherProvider,
    MemoryConsumerProvider,
    MemoryPublisherProvider,
)

#: What the entry point `memory` names.
MEMORY = ProviderSpec(
    name="memory",
    config=MemoryConfig,
    publisher=MemoryPublisherProvider,
    consumer=MemoryConsumerProvider,
)
#: What the entry point `embedded` names.
EMBEDDED = ProviderSpec(
    name="embedded",
    config=EmbeddedConfig,
    publisher=EmbeddedPublisherProvider,
    consumer=EmbeddedConsumerProvider,
    url_path="path",
)

__all__ = [
    "EMBEDDED",
    "MEMORY",
    "EmbeddedConfig",
    "EmbeddedConsumerProvider",
    "EmbeddedPublisherProvider",
    "MemoryConfig",
    "MemoryConsumerProvider",
    "MemoryPublisherProvider",
    "close_hub",
    "embedded_broker",
    "embedded_now",
    "forget",
    "memory_broker",
    "memory_now",
    "open_hub",
]
