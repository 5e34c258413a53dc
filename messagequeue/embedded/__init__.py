"""
The provider `memory`: the broker of this library inside the process, for tests, development and single processes.

Both halves of the same `name` meet in one broker.  *What it cannot promise:* anything after the process ends.
"""

from __future__ import annotations

from ..driver import ProviderSpec
from ._config import MemoryConfig
from ._hub import forget, memory_broker, memory_now
from ._provider import MemoryConsumerProvider, MemoryPublisherProvider

#: What the entry point `memory` names.
MEMORY = ProviderSpec(
    name="memory",
    config=MemoryConfig,
    publisher=MemoryPublisherProvider,
    consumer=MemoryConsumerProvider,
)

__all__ = [
    "MEMORY",
    "MemoryConfig",
    "MemoryConsumerProvider",
    "MemoryPublisherProvider",
    "forget",
    "memory_broker",
    "memory_now",
]
