"""
Which provider publishes and which one consumes, with which options; not how they are opened (`_open`).

Everything is checked when a value is made: a wrong name, type or bound is an error before any request.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from ._errors import ConfigurationError, ProviderNotInstalledError
from ._registry import did_you_mean, find_provider, provider_names
from ._settings import Given, Tree, build, read_table
from ._sources import HALVES, WORDS, env_tree, mapping_tree, toml_tree, url_tree
from .driver import ProviderSpec

#: The telemetry systems that can be named.
TELEMETRY = ("otel",)
#: The provider where nothing names one: it needs no broker and no credentials.
DEFAULT_PROVIDER = "memory"


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """
    One half of a configuration.

    Attributes:
        provider: Its name; see `provider_names()`.
        options: Its options by name, tables as mappings: `{"region": "eu-west-1", "consume": {"concurrency": 20}}`.
        telemetry: `otel`: OpenTelemetry is told of every message, with its global providers.  None: nobody is.
        settings: The provider's own config object, made of them.

    Raises:
        UnknownProviderError, ProviderNotInstalledError: see `find_provider()`.
        ConfigurationError: an option does not exist, has the wrong type or is out of bounds.
    """

    provider: str = DEFAULT_PROVIDER
    # Not shown: a third party's options may hold a secret.
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    telemetry: str | None = None
    settings: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_telemetry(self.telemetry, "telemetry")
        config, tree = self.spec.config, mapping_tree(self.options, f"{self.provider}.")
        object.__setattr__(self, "settings", build(config, tree, self.provider))
        object.__setattr__(self, "options", read_table(config, tree, self.provider))

    @property
    def spec(self) -> ProviderSpec:
        """The provider itself."""
        return find_provider(self.provider)


@dataclass(frozen=True, slots=True)
class Config:
    """
    Two halves: an application may read from one broker and write to another.

    Attributes:
        publisher: The half that `open_publishers()` opens.
        consumer: The half that `open_consumers()` opens.
    """

    publisher: ProviderConfig = field(default_factory=ProviderConfig)
    consumer: ProviderConfig = field(default_factory=ProviderConfig)

    def __post_init__(self) -> None:
        for name in HALVES:
            half = getattr(self, name)
            if not isinstance(half, ProviderConfig):
                raise ConfigurationError(f"{name} is {type(half).__name__}: give a ProviderConfig")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], /) -> Self:
        """
        Read `{"provider": "sqs", "sqs": {"region": "eu-west-1"}, "telemetry": "otel"}`, for both halves.

        The same keys under `"publisher"` or `"consumer"` hold for that half and win.  Where no provider is named it
        is `memory`.  A table of a provider that is not selected is checked and then ignored.

        Raises:
            ConfigurationError: a key means nothing, or a value is wrong; the message names it.
        """
        return cls(*_halves(mapping_tree(mapping)))

    @classmethod
    def from_env(cls, prefix: str = "MESSAGEQUEUE_", environ: Mapping[str, str] | None = None) -> Self:
        """
        Read `MESSAGEQUEUE_PROVIDER`, `MESSAGEQUEUE_<PROVIDER>_<OPTION>` and `MESSAGEQUEUE_TELEMETRY`, for both halves.

        `MESSAGEQUEUE_CONSUMER_PROVIDER` and `MESSAGEQUEUE_CONSUMER_<PROVIDER>_<OPTION>` hold for that half and win;
        likewise `PUBLISHER`.  A variable that is empty counts as not set.

        Args:
            prefix: What all variables begin with; it must be this library's alone.
            environ: Instead of `os.environ`.

        Raises:
            ConfigurationError: a variable with the prefix means nothing, or its value is wrong; the message names it.
        """
        return cls(*_halves(env_tree(os.environ if environ is None else environ, prefix)))

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], /) -> Self:
        """
        Read the table `[messagequeue]` or `[tool.messagequeue]` of a file, or the whole file; as `from_mapping()`.

        Raises:
            ConfigurationError: the file cannot be read, has no such table, or as `from_mapping()`.
        """
        return cls(*_halves(toml_tree(path), f"{os.fspath(path)}: "))

    @classmethod
    def from_url(cls, url: str, /, *, consumer: str | None = None) -> Self:
        """
        Read `memory://`, `sqs://?region=eu-west-1&consume.concurrency=20`, for both halves.

        Args:
            url: The scheme is the provider, the query its options.
            consumer: Another URL for the consuming half.

        Raises:
            ConfigurationError: it is no such URL, or an option is wrong.
        """
        publisher, both = _halves(url_tree(url))
        return cls(publisher, both if consumer is None else _halves(url_tree(consumer))[1])


def _halves(tree: Tree, prefix: str = "") -> tuple[ProviderConfig, ProviderConfig]:
    both: Tree = {name: item for name, item in tree.items() if name not in HALVES}
    publisher, consumer = (_half(_merged(both, _table(tree, name)), prefix) for name in HALVES)
    return publisher, consumer


def _half(tree: Tree, prefix: str) -> ProviderConfig:
    selected = _selected(tree)
    for name in tree.keys() - set(WORDS):
        _check(tree, name, prefix, selected)
    spec, table, where = find_provider(selected), _table(tree, selected), f"{prefix}{selected}"
    build(spec.config, table, where)  # raises with the names of variables and keys, which ProviderConfig does not know
    return ProviderConfig(selected, read_table(spec.config, table, where), _telemetry(tree))


def _selected(tree: Tree) -> str:
    given = tree.get("provider", Given(DEFAULT_PROVIDER, "provider"))
    if not isinstance(given, Given) or not isinstance(given.value, str):
        raise ConfigurationError(f"provider: give a provider's name, one of {', '.join(provider_names())}")
    return given.value.strip()


def _telemetry(tree: Tree) -> str | None:
    given = tree.get("telemetry", Given(None, "telemetry"))
    if not isinstance(given, Given):
        raise ConfigurationError(f"telemetry is a table: give one of {', '.join(TELEMETRY)} or none")
    value = given.value
    if isinstance(value, str):
        value = value.strip().lower()
        value = None if value == "none" else value
    _check_telemetry(value, given.label)
    return value if isinstance(value, str) else None


def _check_telemetry(value: object, label: str) -> None:
    if value is not None and value not in TELEMETRY:
        hint = did_you_mean(value, TELEMETRY) if isinstance(value, str) else ""
        raise ConfigurationError(f"{label}={value!r}: give one of {', '.join(TELEMETRY)} or none{hint}")


def _check(tree: Tree, name: str, prefix: str, selected: str) -> None:
    """Refuse a table that is none, and one of another provider than *selected* that is malformed."""
    known = provider_names()
    if name not in known:
        raise ConfigurationError(
            f"{prefix}{name} is not understood: give {', '.join((*WORDS, *HALVES))} or a table of options for one of "
            f"{', '.join(known)}{did_you_mean(name, [*WORDS, *HALVES, *known])}"
        )
    if name != selected:
        with suppress(ProviderNotInstalledError):  # whoever selects it gets the error
            read_table(find_provider(name).config, _table(tree, name), f"{prefix}{name}")


def _table(tree: Tree, name: str) -> Tree:
    table = tree.get(name, {})
    if isinstance(table, Given):
        raise ConfigurationError(f"{table.label}: give a table")
    return table


def _merged(below: Tree, above: Tree) -> Tree:
    """Return both, tables opened; where they disagree, *above* wins."""
    merged = {**below, **above}
    for name in below.keys() & above.keys():
        old, new = below[name], above[name]
        if not isinstance(old, Given) and not isinstance(new, Given):
            merged[name] = _merged(old, new)
    return merged
