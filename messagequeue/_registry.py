"""
Which providers there are, and where each comes from; not what their options are (that is `_settings`).

A provider is found in this order: registered by the program, named by an entry point of an installed distribution in
the group `messagequeue.providers`, or, in a source checkout that nobody installed, one of those that come with the
library.  Nothing is imported before it is asked for by name, so that a broken provider harms only those who use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, is_dataclass
from difflib import get_close_matches
from importlib import metadata

from ._errors import ConfigurationError, ProviderNotInstalledError, UnknownProviderError
from .driver import ProviderSpec

#: The entry-point group in which distributions name their providers.
GROUP = "messagequeue.providers"

#: What this distribution's own metadata says, for a checkout without metadata.  Strings: nothing here is imported.
_BUILT_IN = {
    "embedded": "messagequeue.embedded:EMBEDDED",
    "memory": "messagequeue.embedded:MEMORY",
    "noop": "messagequeue.noop:NOOP",
    "sns": "messagequeue_sqs.sns:PROVIDER",
    "sqs": "messagequeue_sqs:PROVIDER",
}

_NAME = re.compile(r"[a-z][a-z0-9]*")
#: Words that configuration uses itself, where a provider's name could stand too.
_RESERVED = frozenset({"consumer", "provider", "publisher", "telemetry", "url"})


def _installed() -> Iterable[metadata.EntryPoint]:
    return metadata.entry_points(group=GROUP)


@dataclass(slots=True)
class Registry:
    """
    The providers of one program.

    Attributes:
        installed: Returns the entry points; asked anew each time, so that a changed `sys.path` is seen.
        registered: What `register()` was given, by name.
    """

    installed: Callable[[], Iterable[metadata.EntryPoint]] = _installed
    registered: dict[str, ProviderSpec] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """Every name that `find()` knows, sorted; whether it can be imported was not tried."""
        return tuple(sorted({*_BUILT_IN, *self.registered, *(point.name for point in self.installed())}))

    def find(self, name: str) -> ProviderSpec:
        """See `find_provider()`."""
        if name in self.registered:
            return self.registered[name]
        points = [point for point in self.installed() if point.name == name]
        if not points and name in _BUILT_IN:
            points = [metadata.EntryPoint(name, _BUILT_IN[name], GROUP)]
        if not points:
            raise UnknownProviderError(self._unknown(name))
        if len(points) > 1:
            owners = " and ".join(sorted(_owner(point) for point in points))
            raise ConfigurationError(f"provider {name!r} is claimed by {owners}: uninstall all but one of them")
        return _checked(_load(points[0]), name, _owner(points[0]))

    def register(self, spec: ProviderSpec) -> None:
        """See `register_provider()`."""
        _checked(spec, getattr(spec, "name", ""), "register_provider()")
        if self.registered.setdefault(spec.name, spec) != spec:
            raise ConfigurationError(f"provider {spec.name!r} is registered already as something else: rename it")

    def unregister(self, name: str) -> None:
        """Forget what `register()` was given under *name*; an installed provider of that name is visible again."""
        self.registered.pop(name, None)

    def _unknown(self, name: str) -> str:
        names = self.names()
        return f"unknown provider {name!r}; installed: {', '.join(names)}{did_you_mean(str(name).lower(), names)}"


_registry = Registry()


def provider_names() -> tuple[str, ...]:
    """Return the names of all installed and registered providers, sorted."""
    return _registry.names()


def find_provider(name: str) -> ProviderSpec:
    """
    Return the provider called *name*; its module is imported now.

    Raises:
        UnknownProviderError: there is none; the message says which there are.
        ProviderNotInstalledError: it is there, but a module that it needs is not; the message says what to install.
        ConfigurationError: two distributions claim the name, or what they name is not a provider.
    """
    return _registry.find(name)


def register_provider(spec: ProviderSpec) -> None:
    """
    Make a provider known to this process, without packaging.  It wins over an installed one of the same name.

    Registering the same spec again does nothing.

    Raises:
        ConfigurationError: another spec was registered under that name, or *spec* is not a usable `ProviderSpec`.
    """
    _registry.register(spec)


def unregister_provider(name: str) -> None:
    """Undo `register_provider()`; for tests."""
    _registry.unregister(name)


def did_you_mean(word: str, known: Iterable[str], start: str = "") -> str:
    """Return the end of an error message that offers the likeliest of *known*, with *start* before it, or ""."""
    names = list(known)
    near = [name for name in names if word and name.startswith(word)] or get_close_matches(word, names, n=1)
    return f" — did you mean {start + near[0]!r}?" if near else ""


def _owner(point: metadata.EntryPoint) -> str:
    return f"distribution {point.dist.name!r}" if point.dist is not None else "this source checkout"


def _load(point: metadata.EntryPoint) -> object:
    try:
        return point.load()
    except ModuleNotFoundError as exc:
        raise ProviderNotInstalledError(_missing(point, exc.name or "a module")) from exc
    except Exception as exc:
        # Whatever a provider's module raises while it is imported must not end a listing of all providers.
        raise ConfigurationError(
            f"provider {point.name!r} of {_owner(point)} cannot be loaded from {point.value!r}: "
            f"{type(exc).__name__}: {exc}"
        ) from exc


def _missing(point: metadata.EntryPoint, module: str) -> str:
    top = module.partition(".")[0]
    if top == point.module.partition(".")[0]:
        return f"provider {point.name!r} of {_owner(point)} has lost its own module {module!r}: install it again"
    return f"provider {point.name!r} needs {top}: {_install_hint(point, top)}"


def _install_hint(point: metadata.EntryPoint, module: str) -> str:
    """Say how to get *module*: by the extra that brings it, by its own name, or by its dependent's dependencies."""
    if point.dist is None:
        return f"pip install {module}"
    for requirement in point.dist.requires or ():
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name is None or _normal(name[0]) != _normal(module):
            continue
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", requirement)
        return f"pip install '{point.dist.name}[{extra[1]}]'" if extra else f"pip install {name[0]}"
    return f"pip install --force-reinstall {point.dist.name}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _checked(spec: object, name: str, owner: str) -> ProviderSpec:
    if not isinstance(spec, ProviderSpec):
        raise ConfigurationError(
            f"provider {name!r} of {owner} is {type(spec).__name__}, not a messagequeue.driver.ProviderSpec"
        )
    if not _NAME.fullmatch(spec.name) or spec.name in _RESERVED:
        raise ConfigurationError(
            f"provider name {spec.name!r} of {owner}: give lower-case letters and digits, "
            f"a letter first, and none of {', '.join(sorted(_RESERVED))}"
        )
    if spec.name != name:
        raise ConfigurationError(f"provider {name!r} of {owner} calls itself {spec.name!r}: the names must be equal")
    if not (isinstance(spec.config, type) and is_dataclass(spec.config)):
        raise ConfigurationError(f"provider {name!r} of {owner}: its config must be a dataclass")
    return spec
