"""Configuration from environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from messagequeue import Config, ConfigurationError, UnknownProviderError


def read(**variables: str) -> Config:
    """Read variables given without their prefix."""
    return Config.from_env(environ={f"MESSAGEQUEUE_{name}": value for name, value in variables.items()})


def test_an_environment_without_variables_means_memory() -> None:
    """Other programs' variables are not looked at."""
    assert Config.from_env(environ={"PATH": "/bin", "MESSAGE_QUEUE": "x"}) == Config()


def test_one_variable_selects_both_halves() -> None:
    """`MESSAGEQUEUE_PROVIDER` is enough to swap providers."""
    assert read(PROVIDER="fake") == Config.from_mapping({"provider": "fake"})


def test_a_half_has_variables_of_its_own() -> None:
    """`PUBLISHER_` and `CONSUMER_` variables hold for one half and win over the shared ones."""
    config = read(PROVIDER="fake", CONSUMER_PROVIDER="filed", FAKE_NAME="a", FILED_NAME="b", CONSUMER_FILED_NAME="c")

    assert (config.publisher.provider, config.publisher.settings.name) == ("fake", "a")
    assert (config.consumer.provider, config.consumer.settings.name) == ("filed", "c")


def test_text_is_read_by_the_type_of_the_option() -> None:
    """Numbers, switches, words, paths, and tables by their path; units stand in the variable's name."""
    config = read(
        PROVIDER="fake",
        FAKE_ADDRESS="http://localhost:4566",
        FAKE_FOLDER="/var/lib/x",
        FAKE_MODE="fast",
        FAKE_VERIFY="Off",
        FAKE_POLL_SECONDS=" 2.5 ",
        FAKE_CACHE_BYTES="4096",
        FAKE_CONSUME_CONCURRENCY="5",
        FAKE_CONSUME_DRAIN_TIMEOUT_SECONDS="3",
        FAKE_CONSUME_RETRY_DELAY_SECONDS="none",
        FAKE_PUBLISH_BATCH_BYTES="1000",
    )

    settings = config.consumer.settings
    assert settings.address == "http://localhost:4566"
    assert settings.folder == Path("/var/lib/x")
    assert (settings.mode, settings.verify, settings.poll, settings.cache_bytes) == ("fast", False, 2.5, 4096)
    assert (settings.consume.concurrency, settings.consume.drain_timeout) == (5, 3.0)
    assert settings.consume.retry_delay is None
    assert settings.publish.batch_bytes == 1000


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "yes", "On"])
def test_switches_have_several_words_for_on(word: str) -> None:
    """true, 1, yes and on, in any case."""
    assert read(PROVIDER="fake", FAKE_VERIFY=word).publisher.settings.verify is True


@pytest.mark.parametrize("word", ["false", "False", "0", "no", "OFF"])
def test_switches_have_several_words_for_off(word: str) -> None:
    """false, 0, no and off, in any case."""
    assert read(PROVIDER="fake", FAKE_VERIFY=word).publisher.settings.verify is False


def test_an_empty_variable_is_not_set() -> None:
    """A template that leaves variables empty changes nothing (CFG-05)."""
    config = read(PROVIDER="", CONSUMER_PROVIDER="", FAKE_ADDRESS="", FAKE_CONSUME_CONCURRENCY="", FAKE_NAME=" ")

    assert config == Config()
    assert read(PROVIDER="fake", FAKE_NAME="", FAKE_ADDRESS="").publisher.settings.name == "default"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("PROVIDR", "^MESSAGEQUEUE_PROVIDR is not understood; .* — did you mean 'MESSAGEQUEUE_PROVIDER'"),
        ("CONSUMER_PROVIDR", "did you mean 'MESSAGEQUEUE_CONSUMER_PROVIDER'"),
        ("PUBLISHER_CONSUMER_PROVIDER", "^MESSAGEQUEUE_PUBLISHER_CONSUMER_PROVIDER is not understood"),
        ("FAKEE_ADDRESS", "did you mean 'MESSAGEQUEUE_FAKE_ADDRESS'"),
        ("FAKE", "^MESSAGEQUEUE_FAKE is not understood"),
        ("FAKE_", "^MESSAGEQUEUE_FAKE_ is not understood"),
        ("", "^MESSAGEQUEUE_ is not understood"),
        ("fake_ADDRESS", "^MESSAGEQUEUE_fake_ADDRESS is not understood"),
        ("FAKE_ADRESS", "^MESSAGEQUEUE_FAKE_ADRESS is not understood; .*mean 'MESSAGEQUEUE_FAKE_ADDRESS'"),
        ("CONSUMER_FAKE_ADRESS", "did you mean 'MESSAGEQUEUE_CONSUMER_FAKE_ADDRESS'"),
        ("FAKE_EXTRA", "^MESSAGEQUEUE_FAKE_EXTRA is not understood"),
        ("FAKE_CLIENT", "^MESSAGEQUEUE_FAKE_CLIENT is not understood"),
        ("FAKE_POLL", "did you mean 'MESSAGEQUEUE_FAKE_POLL_SECONDS'"),
        ("FAKE_CACHE_BYTES_BYTES", "did you mean 'MESSAGEQUEUE_FAKE_CACHE_BYTES'"),
        ("FAKE_CONSUME_DRAIN_TIMEOUT", "did you mean 'MESSAGEQUEUE_FAKE_CONSUME_DRAIN_TIMEOUT_SECONDS'"),
    ],
)
@pytest.mark.parametrize("value", ["x", ""])
def test_a_variable_that_means_nothing_is_refused(name: str, words: str, value: str) -> None:
    """A misspelt variable is an error with the likeliest one named, also when it is empty or its provider not used."""
    with pytest.raises(ConfigurationError, match=words):
        read(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("FAKE_CONSUME_CONCURRENCY", "ten", "^MESSAGEQUEUE_FAKE_CONSUME_CONCURRENCY='ten': give a whole number 1 to"),
        ("FAKE_CONSUME_CONCURRENCY", "0", "^MESSAGEQUEUE_FAKE_CONSUME_CONCURRENCY: concurrency=0 is out of range"),
        ("FAKE_POLL_SECONDS", "1s", "^MESSAGEQUEUE_FAKE_POLL_SECONDS='1s': give a number 0 to 60 seconds"),
        ("FAKE_POLL_SECONDS", "nan", "^MESSAGEQUEUE_FAKE_POLL_SECONDS='nan': give a number"),
        ("FAKE_VERIFY", "maybe", "^MESSAGEQUEUE_FAKE_VERIFY='maybe': give true or false"),
        ("FAKE_MODE", "quick", "^MESSAGEQUEUE_FAKE_MODE='quick': give one of fast, safe"),
        ("FAKE_ADDRESS", "localhost:1", "^MESSAGEQUEUE_FAKE_ADDRESS: address='localhost:1': give it with a scheme"),
        ("CONSUMER_FAKE_POLL_SECONDS", "61", "^MESSAGEQUEUE_CONSUMER_FAKE_POLL_SECONDS: poll=61.0 is out of range"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str, words: str) -> None:
    """The error begins with the variable to change."""
    with pytest.raises(ConfigurationError, match=words):
        read(PROVIDER="fake", **{name: value})


def test_an_unknown_provider_is_told() -> None:
    """The provider's name is checked at once."""
    with pytest.raises(UnknownProviderError, match=r"unknown provider 'fakke'; installed: .*mean 'fake'"):
        read(PROVIDER="fakke")


def test_variables_of_another_installed_provider_are_allowed() -> None:
    """Swapping the provider by one variable leaves the other's variables where they are, but they must make sense."""
    assert read(PROVIDER="filed", FAKE_NAME="x").publisher.settings.name == "default"

    with pytest.raises(ConfigurationError, match="MESSAGEQUEUE_FAKE_VERIFY='maybe'"):
        read(PROVIDER="filed", FAKE_VERIFY="maybe")


def test_the_prefix_can_be_another() -> None:
    """Two applications in one environment keep apart; an empty prefix would claim every variable."""
    environ = {"ORDERS_PROVIDER": "fake", "MESSAGEQUEUE_PROVIDER": "filed"}

    assert Config.from_env("ORDERS_", environ).publisher.provider == "fake"
    with pytest.raises(ConfigurationError, match="prefix=''"):
        Config.from_env("", environ)


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument `os.environ` is read."""
    monkeypatch.setenv("MESSAGEQUEUE_PROVIDER", "fake")

    assert Config.from_env().publisher.provider == "fake"
