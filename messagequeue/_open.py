"""
The composition root: from a `Config` to open providers, and from consumers to a running program.

Not where anything is decided about messages: that is the runtime's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ._config import Config
from ._errors import ConfigurationError
from ._protocols import ConsumerProvider, PublisherProvider

#: What `open_publishers()` and `open_consumers()` take for a configuration.
ConfigLike = Config | Mapping[str, object] | str | None


@asynccontextmanager
async def open_publishers(config: ConfigLike = None, /) -> AsyncIterator[PublisherProvider]:
    """
    Open the publishing half of *config*; leaving the block flushes and closes it, also after an error.

    Args:
        config: A `Config`, a mapping or a URL as `Config` reads them; None for the environment.

    Raises:
        ConfigurationError: the configuration is wrong; nothing was opened.
    """
    half = _as_config(config).publisher
    async with half.spec.publisher(half.settings) as provider:
        yield provider


@asynccontextmanager
async def open_consumers(config: ConfigLike = None, /) -> AsyncIterator[ConsumerProvider]:
    """
    Open the consuming half of *config*; leaving the block stops and closes every consumer, also after an error.

    Args:
        config: A `Config`, a mapping or a URL as `Config` reads them; None for the environment.

    Raises:
        ConfigurationError: the configuration is wrong; nothing was opened.
    """
    half = _as_config(config).consumer
    async with half.spec.consumer(half.settings) as provider:
        yield provider


def _as_config(config: ConfigLike) -> Config:
    if config is None:
        return Config.from_env()
    if isinstance(config, Config):
        return config
    if isinstance(config, str):
        return Config.from_url(config)
    if isinstance(config, Mapping):
        return Config.from_mapping(config)
    raise ConfigurationError(f"config is {type(config).__name__}: give a Config, a mapping, a URL or None")
