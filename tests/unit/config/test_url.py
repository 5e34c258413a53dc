"""Configuration from URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from messagequeue import Config, ConfigurationError, UnknownProviderError


def test_a_scheme_alone_is_a_provider() -> None:
    """`memory://` is complete."""
    assert Config.from_url("memory://") == Config()
    assert Config.from_url("memory:") == Config()


def test_the_query_holds_options_and_tables() -> None:
    """Options by name, options of tables by path, each read by its type."""
    config = Config.from_url("fake://?address=http://localhost:4566&verify=no&consume.concurrency=5&poll=2.5")

    assert config.publisher == config.consumer
    settings = config.consumer.settings
    assert (settings.address, settings.verify, settings.poll) == ("http://localhost:4566", False, 2.5)
    assert settings.consume.concurrency == 5


def test_the_path_is_the_option_that_the_provider_says() -> None:
    """`embedded:///folder` style; escapes are undone."""
    assert Config.from_url("filed:///var/a%20b").publisher.settings.folder == Path("/var/a b")
    assert Config.from_url("filed://").publisher.settings.folder is None


def test_the_consuming_half_can_have_its_own_url() -> None:
    """Read from one broker, write to another."""
    config = Config.from_url("fake://?name=a", consumer="filed:///x")

    assert (config.publisher.provider, config.publisher.settings.name) == ("fake", "a")
    assert config.consumer.provider == "filed"


def test_an_empty_option_is_not_set() -> None:
    """`?address=` from a template is no address (CFG-05)."""
    assert Config.from_url("fake://?address=").publisher.settings.address is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memory", "the URL has no provider: give <provider>://"),
        ("", "the URL has no provider"),
        ("fake://host/path", "fake:// URL: has a host in it"),
        ("fake:///path", "fake:// URL: has a path, and this provider has no use for one"),
        ("fake://?verify", "fake:// URL: the query is not of the form"),
        ("fake://?name=a&name=b", "fake:// URL: name is given twice"),
        (
            "fake://?consume=1&consume.concurrency=1",
            "consume.concurrency is given twice, or as an option and as a table",
        ),
        ("fake://?name=a#b", "has a fragment"),
        ("fake://[x", "the URL cannot be read"),
        ("fake://?adress=x", "adress in the fake:// URL: there is no option 'adress'; .*mean 'address'"),
        ("fake://?consume.concurency=1", "consume.concurency in the fake:// URL: there is no option .*'concurrency'"),
        ("fake://?consume=1", "consume in the fake:// URL: give a table of options"),
        ("fake://?poll=x", "poll in the fake:// URL='x': give a number 0 to 60 seconds"),
        ("fake://?poll=99", "poll in the fake:// URL: poll=99.0 is out of range"),
        ("fake://?client=x", "client in the fake:// URL='x': give it in code: it has no form as text"),
        ("filed:///a?folder=/b", "folder is given twice"),
    ],
)
def test_a_bad_url_is_refused(url: str, words: str) -> None:
    """The error says which part is wrong and what to give."""
    with pytest.raises(ConfigurationError, match=words):
        Config.from_url(url)


def test_an_unknown_scheme_is_an_unknown_provider() -> None:
    """With the likeliest one offered."""
    with pytest.raises(UnknownProviderError, match=r"unknown provider 'fakke'.*did you mean 'fake'"):
        Config.from_url("fakke://")


@pytest.mark.parametrize(
    "url",
    ["fake://user:hunter2@host", "fake://hunter2@/x", "fakke://a:hunter2@b", "hunter2@x", "fake://a:hunter2@\u2100"],
)
def test_credentials_in_a_url_are_refused_and_not_shown(url: str) -> None:
    """Credentials belong to the broker's own means; an error message ends up in logs."""
    with pytest.raises(ConfigurationError) as caught:
        Config.from_url(url)

    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
