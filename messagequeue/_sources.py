"""
Where configuration is written: mappings, the environment, TOML files and URLs; not what the values mean (`_settings`).

Every source becomes a tree of the same shape, that of the mapping:

    provider                 the name, for both halves
    telemetry                `otel` or `none`, for both halves
    <provider>.<option>      options of a provider, for both halves
    publisher, consumer      the same for one half; they win
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ._errors import ConfigurationError, ProviderNotInstalledError
from ._registry import did_you_mean, find_provider, provider_names
from ._settings import Field, Given, Tree, option_fields

HALVES = ("publisher", "consumer")
#: What is said of a half beside the options of providers.
WORDS = ("provider", "telemetry")


def mapping_tree(mapping: Mapping[str, object], prefix: str = "") -> Tree:
    """
    Return the tree of a mapping whose values are typed.

    Args:
        mapping: As in the module's docstring; tables are mappings.
        prefix: What stands before each key in messages.

    Raises:
        ConfigurationError: it is no mapping, or a key is no text.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigurationError(f"{prefix or 'the configuration'} is {type(mapping).__name__}: give a mapping")
    tree: Tree = {}
    for key, value in mapping.items():
        if not isinstance(key, str):
            raise ConfigurationError(f"{prefix}{key!r}: keys must be text")
        label = f"{prefix}{key}"
        tree[key] = mapping_tree(value, f"{label}.") if isinstance(value, Mapping) else Given(value, label)
    return tree


def toml_tree(path: str | os.PathLike[str]) -> Tree:
    """
    Return the tree of the table `[messagequeue]` or `[tool.messagequeue]` of a file, or of the whole file.

    Raises:
        ConfigurationError: the file cannot be read, is not TOML, or says nothing about this library.
    """
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as exc:
        raise ConfigurationError(f"{shown}: cannot be read: {exc.strerror or exc}") from exc
    except ValueError as exc:  # TOMLDecodeError, and UnicodeDecodeError
        raise ConfigurationError(f"{shown}: is not TOML: {exc}") from exc
    tool = document.get("tool")
    table = document.get("messagequeue", tool.get("messagequeue") if isinstance(tool, dict) else None)
    if table is None:
        table = document
        if not table.keys() & {*WORDS, *HALVES, *provider_names()}:
            raise ConfigurationError(f"{shown}: has no table [messagequeue] or [tool.messagequeue]")
    return mapping_tree(table, f"{shown}: ")


def env_tree(environ: Mapping[str, str], prefix: str) -> Tree:
    """
    Return the tree of the variables that begin with *prefix*.  An empty variable counts as one that is not set.

    Raises:
        ConfigurationError: a variable with that prefix means nothing; the message says which would.
    """
    if not prefix:
        raise ConfigurationError("prefix='': give one that no other program's variables begin with")
    tree: Tree = {}
    variables = _Variables(prefix)
    for name in sorted(environ):
        path = variables.path(name) if name.startswith(prefix) else None
        if path is not None and environ[name].strip():
            _put(tree, path, Given(environ[name], name, text=True))
    return tree


class _Variables:
    """What variables with a prefix mean.  Asks once for the providers and for each one's options: that reads files."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known = provider_names()
        self._tables: dict[str, dict[str, Field] | None] = {}

    def path(self, name: str) -> tuple[str, ...] | None:
        """Return where a variable's value goes; None where its provider lacks a module, so that nobody can tell."""
        rest = name.removeprefix(self._prefix)
        words = [word for word in HALVES if rest.startswith(f"{word.upper()}_")]
        half = tuple(words)
        rest = rest.removeprefix(f"{words[0].upper()}_") if words else rest
        if rest.lower() in WORDS and rest.isupper():
            return (*half, rest.lower())
        provider, _, option = rest.partition("_")
        if provider.lower() not in self._known or provider != provider.upper() or not option:
            raise ConfigurationError(_unknown_variable(name, self._prefix, self._known))
        table = self._table(provider.lower())
        if table is None:
            return None
        if option not in table:
            raise ConfigurationError(_unknown_option(name, name.removesuffix(option), table))
        return (*half, provider.lower(), *table[option].path)

    def _table(self, provider: str) -> dict[str, Field] | None:
        if provider not in self._tables:
            try:
                fields = option_fields(find_provider(provider).config)
                self._tables[provider] = {field.env: field for field in fields}
            except ProviderNotInstalledError:
                # Whoever selects this provider gets the error; others are not harmed by its variables.
                self._tables[provider] = None
        return self._tables[provider]


def _unknown_variable(name: str, prefix: str, known: tuple[str, ...]) -> str:
    whole = [
        f"{prefix}{half}{word.upper()}" for word in WORDS for half in ("", *(f"{half.upper()}_" for half in HALVES))
    ]
    option = name.removeprefix(prefix).partition("_")[2]
    near = [f"{prefix}{word.upper()}_{option}" for word in known] if option else []
    return (
        f"{name} is not understood; variables: {', '.join(whole)} and {prefix}<PROVIDER>_<OPTION> "
        f"with the provider one of {', '.join(known)}{did_you_mean(name, [*whole, *near])}"
    )


def _unknown_option(name: str, start: str, table: Mapping[str, Field]) -> str:
    hint = did_you_mean(name.removeprefix(start), table, start)
    return f"{name} is not understood; after {start} can stand: {', '.join(table) or 'nothing'}{hint}"


def url_tree(url: str) -> Tree:
    """
    Return the tree of a URL: the scheme is the provider, the query its options, the path the one option it names.

    Raises:
        ConfigurationError: it is no such URL.  The message never shows the URL: it could hold a credential.
    """
    parts = _split(url)
    spec = find_provider(parts.scheme)
    label = f"{parts.scheme}:// URL"
    options: Tree = {}
    if spec.url_path is not None and parts.path:
        options[spec.url_path] = Given(unquote(parts.path), f"path of the {label}", text=True)
    elif parts.path not in ("", "/"):
        raise ConfigurationError(f"{label}: has a path, and this provider has no use for one: remove it")
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as exc:
        raise ConfigurationError(f"{label}: the query is not of the form option=value&option=value") from exc
    for key, value in pairs:
        if not _put(options, tuple(key.split(".")), Given(value, f"{key} in the {label}", text=True)):
            raise ConfigurationError(f"{label}: {key} is given twice, or as an option and as a table")
    return {"provider": Given(parts.scheme, label), parts.scheme: options}


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # whose own words may quote the URL
        raise ConfigurationError("the URL cannot be read: give <provider>://?option=value") from None
    if not parts.scheme:
        raise ConfigurationError("the URL has no provider: give <provider>://?option=value, such as memory://")
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"{parts.scheme}:// URL: has a user or password in it; credentials do not belong into configuration: "
            "leave them to the broker's own means"
        )
    if parts.netloc:
        raise ConfigurationError(
            f"{parts.scheme}:// URL: has a host in it: give {parts.scheme}://?option=value; a path has three slashes"
        )
    if parts.fragment:
        raise ConfigurationError(f"{parts.scheme}:// URL: has a fragment (#): write it as %23")
    return parts


def _put(tree: Tree, path: tuple[str, ...], given: Given) -> bool:
    """Put *given* at *path*; False where something is there already."""
    for name in path[:-1]:
        below = tree.setdefault(name, {})
        if isinstance(below, Given):
            return False
        tree = below
    return tree.setdefault(path[-1], given) is given
