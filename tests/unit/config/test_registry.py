"""How providers are found: by registration, by entry point, and in a checkout that nobody installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from messagequeue import (
    Config,
    ConfigurationError,
    ProviderNotInstalledError,
    UnknownProviderError,
    find_provider,
    provider_names,
    register_provider,
)
from messagequeue._registry import Registry, unregister_provider
from messagequeue.driver import ProviderSpec

MakeSpec = Callable[..., ProviderSpec]

GOOD = """
from dataclasses import dataclass
from messagequeue.driver import ProviderSpec
@dataclass(frozen=True)
class Options:
    size: int = 1
PROVIDER = ProviderSpec(name="{name}", config=Options, publisher=print, consumer=print)
"""


class Site:
    """A folder of installed distributions, and a registry that sees nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = Registry(installed=self.entry_points)

    def install(self, distribution: str, name: str, code: str, *, target: str = "", requires: str = "") -> None:
        """Put a distribution there that offers provider *name* from a module with *code*."""
        module = distribution.replace("-", "_")
        (self.folder / f"{module}.py").write_text(code)
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n{requires}\n")
        (info / "entry_points.txt").write_text(f"[messagequeue.providers]\n{name} = {target or f'{module}:PROVIDER'}\n")
        importlib.invalidate_caches()

    def entry_points(self) -> list[metadata.EntryPoint]:
        found = metadata.distributions(path=[str(self.folder)])
        return [point for distribution in found for point in distribution.entry_points]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder of distributions, importable; modules imported from it are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Site(tmp_path)
    for name in [name for name in sys.modules if name.startswith("mq_")]:
        del sys.modules[name]


def test_a_third_party_provider_is_found_by_its_entry_point(site: Site) -> None:
    """Installing a distribution is all it takes."""
    site.install("mq-kafka", "kafka", GOOD.format(name="kafka"))

    assert "kafka" in site.registry.names()
    assert site.registry.find("kafka").config().size == 1


def test_an_installed_provider_is_configured_like_the_built_in_ones(site: Site) -> None:
    """The process's own registry reads the metadata on `sys.path`; its options have variables at once."""
    site.install("mq-pulsar", "pulsar", GOOD.format(name="pulsar"))

    config = Config.from_env(environ={"MESSAGEQUEUE_PROVIDER": "pulsar", "MESSAGEQUEUE_PULSAR_SIZE": "5"})

    assert config.publisher.settings.size == 5


def test_the_built_in_providers_are_found_without_metadata(site: Site) -> None:
    """A source checkout works without being installed."""
    assert site.registry.names() == ("embedded", "memory", "noop", "sns", "sqs")
    assert site.registry.find("noop").name == "noop"


def test_the_metadata_of_this_distribution_names_the_built_in_providers() -> None:
    """What the fallback says and what packaging says are the same."""
    points = {point.name for point in metadata.entry_points(group="messagequeue.providers")}

    assert {"embedded", "memory", "noop", "sqs"} <= points
    assert {"embedded", "fake", "memory", "noop", "sns", "sqs"} <= set(provider_names())
    assert list(provider_names()) == sorted(provider_names())


def test_an_unknown_name_is_told_with_those_that_exist(site: Site) -> None:
    """The message is the one in the style guide, word for word."""
    with pytest.raises(UnknownProviderError) as caught:
        site.registry.find("sqss")

    assert (
        str(caught.value)
        == "unknown provider 'sqss'; installed: embedded, memory, noop, sns, sqs — did you mean 'sqs'?"
    )
    with pytest.raises(UnknownProviderError, match="did you mean 'sqs'"):
        site.registry.find("SQS")
    with pytest.raises(UnknownProviderError, match=r"installed: embedded, memory, noop, sns, sqs$"):
        site.registry.find("rabbitmq")


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        ("Requires-Dist: mq-lacking-module>=2", "provider 'x' needs mq_lacking_module: pip install mq-lacking-module"),
        (
            'Provides-Extra: fast\nRequires-Dist: mq_lacking.module; extra == "fast"',
            "provider 'x' needs mq_lacking_module: pip install 'mq-x[fast]'",
        ),
        ("Requires-Dist: other", "provider 'x' needs mq_lacking_module: pip install --force-reinstall mq-x"),
        ("", "provider 'x' needs mq_lacking_module: pip install --force-reinstall mq-x"),
    ],
)
def test_a_missing_module_says_what_to_install(site: Site, requires: str, words: str) -> None:
    """By the extra that brings it, by its own name, or, where no requirement bears its name, by its dependent."""
    site.install("mq-x", "x", "import mq_lacking_module.part", requires=requires)

    with pytest.raises(ProviderNotInstalledError) as caught:
        site.registry.find("x")

    assert str(caught.value) == words
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_provider_whose_own_module_is_gone_must_be_installed_again(site: Site) -> None:
    """A half-removed distribution is not blamed on a package that does not exist."""
    site.install("mq-x", "x", "import mq_x.inner")

    with pytest.raises(ProviderNotInstalledError, match=r"'x' of distribution 'mq-x' has lost its own .*'mq_x\.inner'"):
        site.registry.find("x")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("PROVIDER = 5", "is int, not a messagequeue.driver.ProviderSpec"),
        ("", "cannot be loaded from 'mq_x:PROVIDER': AttributeError"),
        ("1 / 0", "cannot be loaded from 'mq_x:PROVIDER': ZeroDivisionError"),
        (GOOD.format(name="y"), "calls itself 'y'"),
        (GOOD.format(name="x").replace("config=Options", "config=int"), "its config must be a dataclass"),
    ],
)
def test_an_entry_point_that_is_no_provider_names_its_distribution(site: Site, code: str, words: str) -> None:
    """So that the user knows what to mend or uninstall; the other providers are not harmed."""
    site.install("mq-x", "x", code)

    with pytest.raises(ConfigurationError, match=f"provider 'x' of distribution 'mq-x' {words}|{words}") as caught:
        site.registry.find("x")

    assert "distribution 'mq-x'" in str(caught.value)
    assert site.registry.names() == ("embedded", "memory", "noop", "sns", "sqs", "x")


def test_two_distributions_with_one_name_are_both_named(site: Site) -> None:
    """Which of them came first on the path must not decide where messages go."""
    site.install("mq-one", "kafka", GOOD.format(name="kafka"))
    site.install("mq-two", "kafka", GOOD.format(name="kafka"))

    with pytest.raises(ConfigurationError, match="claimed by distribution 'mq-one' and distribution 'mq-two'"):
        site.registry.find("kafka")


def test_registration_wins_over_what_is_installed(site: Site, make_spec: MakeSpec) -> None:
    """A program can replace a provider for itself."""
    site.install("mq-one", "kafka", GOOD.format(name="kafka"))
    own = make_spec("kafka")

    site.registry.register(own)
    site.registry.register(own)

    assert site.registry.find("kafka") is own
    site.registry.unregister("kafka")
    assert site.registry.find("kafka") != own


def test_a_name_is_registered_once(make_spec: MakeSpec) -> None:
    """A second provider of the same name would silently take over the first's topics."""
    with pytest.raises(ConfigurationError, match="provider 'fake' is registered already"):
        register_provider(make_spec("fake", url_path="name"))

    assert find_provider("fake").url_path is None


@pytest.mark.parametrize(
    "name", ["", "Kafka", "my-kafka", "my_kafka", "9p", "publisher", "consumer", "provider", "url"]
)
def test_a_name_must_fit_every_source(make_spec: MakeSpec, name: str) -> None:
    """It is a URL scheme and part of a variable's name, and must not be a word of the configuration itself."""
    with pytest.raises(ConfigurationError, match="give lower-case letters and digits"):
        register_provider(make_spec(name))


def test_something_else_than_a_spec_is_refused() -> None:
    """`register_provider` takes the spec, not the provider's class."""
    with pytest.raises(ConfigurationError, match=r"not a messagequeue\.driver\.ProviderSpec"):
        register_provider(Registry)  # type: ignore[arg-type]


def test_variables_of_a_provider_that_lacks_a_module_harm_nobody_else(site: Site) -> None:
    """An environment shared with a service that uses it still configures this one; selecting it is the error."""
    site.install("mq-zmq", "zmq", "import mq_lacking_module", requires="Requires-Dist: mq-lacking-module")
    environ = {"MESSAGEQUEUE_ZMQ_SIZE": "5"}

    assert Config.from_env(environ=environ) == Config()
    assert Config.from_mapping({"zmq": {"size": 5}}) == Config()
    with pytest.raises(ProviderNotInstalledError, match="provider 'zmq' needs mq_lacking_module"):
        Config.from_env(environ={**environ, "MESSAGEQUEUE_PROVIDER": "zmq"})


def test_an_unregistered_provider_is_forgotten() -> None:
    """A test that registers one leaves nothing behind."""
    unregister_provider("fake")

    with pytest.raises(UnknownProviderError):
        find_provider("fake")
