"""`open_publishers()` and `open_consumers()`: from a configuration to an open provider and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pytest

from messagequeue import (
    Config,
    ConfigurationError,
    ProviderConfig,
    UnknownProviderError,
    open_consumers,
    open_publishers,
    register_provider,
)
from messagequeue._registry import unregister_provider
from messagequeue.driver import ProviderSpec
from messagequeue.testing import run_virtual


@dataclass(frozen=True)
class TapeConfig:
    """One option, to tell configurations apart."""

    label: str = ""


class Tape:
    """Makes halves that write down what becomes of them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def half(self, kind: str) -> Callable[[TapeConfig], Any]:
        return lambda config: Half(self, f"{kind} {config.label}".strip())


class Half:
    """A provider that can only be opened and closed."""

    def __init__(self, tape: Tape, name: str) -> None:
        self._tape = tape
        self._name = name

    async def __aenter__(self) -> Self:
        self._tape.lines.append(f"open {self._name}")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        self._tape.lines.append(f"close {self._name}")


@pytest.fixture
def tape() -> Iterator[Tape]:
    """What a provider called `tape` was told, in order."""
    made = Tape()
    register_provider(
        ProviderSpec(name="tape", config=TapeConfig, publisher=made.half("publisher"), consumer=made.half("consumer"))
    )
    yield made
    unregister_provider("tape")


@pytest.mark.parametrize("kind", ["config", "mapping", "url"])
def test_a_config_a_mapping_and_a_url_open_the_same(tape: Tape, kind: str) -> None:
    """Each half is opened by its own function and closed when its block is left."""
    half = ProviderConfig("tape", {"label": "x"})
    forms: dict[str, Config | dict[str, object] | str] = {
        "config": Config(half, half),
        "mapping": {"provider": "tape", "tape": {"label": "x"}},
        "url": "tape://?label=x",
    }
    config = forms[kind]

    async def program() -> None:
        async with open_publishers(config):
            tape.lines.append("publishing")
        async with open_consumers(config):
            tape.lines.append("consuming")

    run_virtual(program())

    assert tape.lines == [
        "open publisher x",
        "publishing",
        "close publisher x",
        "open consumer x",
        "consuming",
        "close consumer x",
    ]


def test_without_an_argument_the_environment_is_read(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the provider can be swapped without touching the program."""
    monkeypatch.setenv("MESSAGEQUEUE_PROVIDER", "tape")
    monkeypatch.setenv("MESSAGEQUEUE_CONSUMER_TAPE_LABEL", "y")

    async def program() -> None:
        async with open_publishers(), open_consumers():
            pass

    run_virtual(program())

    assert tape.lines == ["open publisher", "open consumer y", "close consumer y", "close publisher"]


def test_a_provider_is_closed_after_an_error_too(tape: Tape) -> None:
    """And the error reaches the caller as it is."""

    async def program() -> None:
        async with open_publishers("tape://"):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(program())

    assert tape.lines == ["open publisher", "close publisher"]


@pytest.mark.parametrize("opens", [open_publishers, open_consumers])
def test_a_wrong_configuration_opens_nothing(tape: Tape, opens: Callable[[Any], Any]) -> None:
    """Whatever form it has."""

    async def program(config: object) -> None:
        async with opens(config):
            tape.lines.append("reached")

    with pytest.raises(UnknownProviderError):
        run_virtual(program("tappe://"))
    with pytest.raises(ConfigurationError, match="there is no option 'lable'"):
        run_virtual(program({"provider": "tape", "tape": {"lable": "x"}}))
    with pytest.raises(ConfigurationError, match="config is int: give a Config, a mapping, a URL or None"):
        run_virtual(program(5))
    assert tape.lines == []
