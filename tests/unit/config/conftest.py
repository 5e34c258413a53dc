"""A provider with one option of every kind, and fakes of what is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from messagequeue import ConfigurationError, ConsumeOptions, PublishOptions, register_provider
from messagequeue._options import check_options, option
from messagequeue._registry import unregister_provider
from messagequeue.driver import ProviderSpec

if TYPE_CHECKING:
    from sqlite3 import Connection as Client  # stands for the class of an SDK that is not imported


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeConfig:
    """Every kind of option."""

    address: str | None = option(None, "Where the broker is.", optional=True)
    name: str = option("default", "A text that is never None.")
    folder: Path | None = option(None, "A path.", optional=True)
    mode: Literal["fast", "safe"] = option("safe", "One of two words.")
    verify: bool = option(True, "A switch.")
    poll: float = option(1.0, "A duration.", unit="seconds", low=0, high=60)
    cache_bytes: int = option(1024, "A size.", unit="bytes", low=1)
    password: str | None = option(None, "A secret.", optional=True)
    extra: dict[str, str] = field(default_factory=dict)
    client: Client | None = None
    consume: ConsumeOptions = ConsumeOptions()
    publish: PublishOptions = PublishOptions()

    def __post_init__(self) -> None:
        check_options(self)
        if self.address is not None and "://" not in self.address:
            raise ConfigurationError(f"address={self.address!r}: give it with a scheme")


def unusable(_config: object) -> Any:
    """Nothing here opens a provider."""
    raise AssertionError("opened")


def spec(name: str, config: type[Any] = FakeConfig, url_path: str | None = None) -> ProviderSpec:
    """Return a provider that can be configured but not opened."""
    return ProviderSpec(name=name, config=config, publisher=unusable, consumer=unusable, url_path=url_path)


@pytest.fixture
def make_spec() -> Callable[..., ProviderSpec]:
    """Makes providers that can be configured but not opened."""
    return spec


@pytest.fixture(autouse=True)
def fake_providers() -> Iterator[None]:
    """
    `fake`, `filed` (whose URL path is its folder) and `memory`, registered for one test.

    `memory` is registered here too, so that these tests judge the configuration and not what `memory` does.
    """
    for made in (spec("fake"), spec("filed", url_path="folder"), spec("memory")):
        register_provider(made)
    yield
    for name in ("fake", "filed", "memory"):
        unregister_provider(name)
