"""
The composition root: from a `Config` to open providers, and from consumers to a running program.

Not where anything is decided about messages: that is the runtime's.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from ._config import Config, ProviderConfig
from ._errors import ConfigurationError, UnsupportedOptionError
from ._protocols import ConsumerProvider, PublisherProvider
from .telemetry import Telemetry

P = TypeVar("P")

#: What `open_publishers()` and `open_consumers()` take for a configuration.
ConfigLike = Config | Mapping[str, object] | str | None


@asynccontextmanager
async def open_publishers(
    config: ConfigLike = None, /, *, telemetry: Telemetry | None = None
) -> AsyncIterator[PublisherProvider]:
    """
    Open the publishing half of *config*; leaving the block flushes and closes it, also after an error.

    Args:
        config: A `Config`, a mapping or a URL as `Config` reads them; None for the environment.
        telemetry: Is told of every message, such as `messagequeue.telemetry.OpenTelemetry()`; None: what *config* says.

    Raises:
        ConfigurationError: the configuration is wrong; nothing was opened.
        UnsupportedOptionError: the provider takes no telemetry.
    """
    half = _as_config(config).publisher
    async with _made(half.spec.publisher, half, telemetry) as provider:
        yield provider


@asynccontextmanager
async def open_consumers(
    config: ConfigLike = None, /, *, telemetry: Telemetry | None = None
) -> AsyncIterator[ConsumerProvider]:
    """
    Open the consuming half of *config*; leaving the block stops and closes every consumer, also after an error.

    Args:
        config: A `Config`, a mapping or a URL as `Config` reads them; None for the environment.
        telemetry: Is told of every message, such as `messagequeue.telemetry.OpenTelemetry()`; None: what *config* says.

    Raises:
        ConfigurationError: the configuration is wrong; nothing was opened.
        UnsupportedOptionError: the provider takes no telemetry.
    """
    half = _as_config(config).consumer
    async with _made(half.spec.consumer, half, telemetry) as provider:
        yield provider


def _made(make: Callable[..., P], half: ProviderConfig, telemetry: Telemetry | None) -> P:
    if telemetry is None and half.telemetry is not None:
        from .telemetry import OpenTelemetry

        telemetry = OpenTelemetry()
    if telemetry is None:
        return make(half.settings)
    try:
        inspect.signature(make).bind(half.settings, telemetry=telemetry)
    except TypeError:
        raise UnsupportedOptionError(f"provider {half.provider!r} takes no telemetry: open it without") from None
    return make(half.settings, telemetry=telemetry)


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
