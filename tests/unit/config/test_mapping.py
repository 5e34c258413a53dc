"""Configuration from mappings and TOML files, and the two values it is made of."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from messagequeue import Config, ConfigurationError, ConsumeOptions, ProviderConfig, UnknownProviderError


def test_nothing_at_all_means_memory() -> None:
    """Without any setting both halves are the provider that needs no broker."""
    assert Config.from_mapping({}) == Config() == Config(ProviderConfig("memory"), ProviderConfig("memory"))


def test_both_halves_share_one_provider_and_its_options() -> None:
    """A provider and its table at the top hold for both halves."""
    config = Config.from_mapping({"provider": "fake", "fake": {"address": "http://x", "consume": {"concurrency": 3}}})

    assert config.publisher == config.consumer
    assert config.consumer.provider == "fake"
    assert config.consumer.settings.address == "http://x"
    assert config.consumer.settings.consume.concurrency == 3


def test_each_half_can_have_its_own_provider() -> None:
    """An application can read from one broker and write to another."""
    config = Config.from_mapping({"publisher": {"provider": "fake"}, "consumer": {"provider": "filed"}})

    assert (config.publisher.provider, config.consumer.provider) == ("fake", "filed")


def test_a_half_wins_over_what_holds_for_both() -> None:
    """Options of a half are laid over those at the top, table by table, without losing the rest."""
    config = Config.from_mapping(
        {
            "provider": "fake",
            "fake": {"name": "both", "poll": 2.0, "consume": {"concurrency": 3, "wait_time": 5}},
            "consumer": {"fake": {"poll": 3.0, "consume": {"concurrency": 4}}},
        }
    )

    assert (config.publisher.settings.poll, config.publisher.settings.consume.concurrency) == (2.0, 3)
    assert (config.consumer.settings.name, config.consumer.settings.poll) == ("both", 3.0)
    assert config.consumer.settings.consume == ConsumeOptions(concurrency=4, wait_time=5)


def test_options_may_be_an_instance_of_their_table() -> None:
    """In code, a table can be given as the options object itself."""
    half = ProviderConfig("fake", {"consume": ConsumeOptions(concurrency=7)})

    assert half.settings.consume.concurrency == 7
    assert half == ProviderConfig("fake", {"consume": {"concurrency": 7}})


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"provder": "fake"}, "provder is not understood: give provider, .* — did you mean 'provider'"),
        ({"provider": "fake", "fakee": {}}, "fakee is not understood: .* fake, filed, .* — did you mean 'fake'"),
        ({"provider": "fake", "fake": {"adress": "x"}}, "fake.adress: there is no option 'adress'; .*mean 'address'"),
        (
            {"provider": "fake", "fake": {"consume": {"concurency": 1}}},
            "fake.consume.concurency: there is no .*; options of fake.consume: .*mean 'concurrency'",
        ),
        ({"provider": "fake", "fake": {"consume": {"nope": {}}}}, "fake.consume.nope: there is no option 'nope'"),
        ({"provider": "fake", "fake": {"consume": 5}}, "fake.consume: give a table of options, one of concurrency, "),
        ({"provider": "fake", "fake": "x"}, "fake: give a table"),
        ({"consumer": "fake"}, "consumer: give a table"),
        ({"provider": 5}, "provider: give a provider's name, one of embedded, fake, "),
        ({"provider": {"name": "fake"}}, "provider: give a provider's name, one of embedded, fake, "),
        ({5: "fake"}, "5: keys must be text"),
        ({"publisher": {"publisher": {}}}, "publisher is not understood"),
    ],
)
def test_a_key_that_means_nothing_is_refused(mapping: dict[str, object], words: str) -> None:
    """A misspelt or misplaced key is named, with the keys that exist and the likeliest one."""
    with pytest.raises(ConfigurationError, match=words):
        Config.from_mapping(mapping)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"consume": {"concurrency": "5"}}, r"^fake.consume.concurrency='5': give a whole number 1 to 100000$"),
        ({"consume": {"concurrency": 5.0}}, r"^fake.consume.concurrency=5.0: give a whole number 1 to 100000$"),
        ({"consume": {"concurrency": True}}, r"^fake.consume.concurrency=True: give a whole number"),
        ({"consume": {"concurrency": None}}, r"^fake.consume.concurrency=None: give a whole number"),
        ({"consume": {"concurrency": 0}}, r"^fake.consume.concurrency: concurrency=0 is out of range: give 1 to"),
        ({"consume": {"heartbeat": 1}}, r"^fake.consume.heartbeat=1: give true or false$"),
        ({"consume": {"retry_delay": "soon"}}, r"give a number 0 to 43200 seconds, or several \(or None\)$"),
        ({"poll": True}, r"^fake.poll=True: give a number 0 to 60 seconds$"),
        ({"mode": "quick"}, r"^fake.mode='quick': give one of fast, safe$"),
        ({"address": 5}, r"^fake.address=5: give text \(or none\)$"),
        ({"name": None}, r"^fake.name=None: give text$"),
        ({"address": "localhost:4566"}, r"^fake.address: address='localhost:4566': give it with a scheme$"),
        (
            {"consume": {"heartbeat_interval": 30, "visibility_timeout": 30}},
            r"^fake.consume.heartbeat_interval: heartbeat_interval=30.0 is not below visibility_timeout=30.0",
        ),
    ],
)
def test_a_wrong_value_says_where_it_is_and_what_to_give(options: dict[str, object], words: str) -> None:
    """An error names the key, shows what was given and says what is right; nothing is converted by guess."""
    with pytest.raises(ConfigurationError, match=words):
        Config.from_mapping({"provider": "fake", "fake": options})


def test_empty_and_none_are_not_set_in_an_optional_field() -> None:
    """A template's empty string must not reach a client as an address (CFG-05)."""
    for nothing in ("", "none", None):
        assert ProviderConfig("fake", {"address": nothing}).settings.address is None


def test_an_object_of_an_sdk_can_be_given_in_code() -> None:
    """Its type need not be importable; what has no form as text is passed on as it is."""
    client = object()

    assert ProviderConfig("fake", {"client": client}).settings.client is client
    assert ProviderConfig("fake", {"extra": {"a": "b"}}).settings.extra == {"a": "b"}
    assert ProviderConfig("fake", {"client": None}).settings.client is None


def test_a_whole_number_is_a_duration_too() -> None:
    """Where a float is asked for, an int is one."""
    poll = ProviderConfig("fake", {"poll": 5}).settings.poll

    assert poll == 5.0
    assert isinstance(poll, float)


def test_a_table_of_another_provider_is_checked_and_ignored() -> None:
    """One file can hold the tables of several providers; a typing error in any of them is told."""
    assert Config.from_mapping({"provider": "filed", "fake": {"name": "x"}}).publisher.settings.name == "default"

    with pytest.raises(ConfigurationError, match=r"fake\.nam: there is no option"):
        Config.from_mapping({"provider": "filed", "fake": {"nam": "x"}})


def test_an_unknown_provider_is_told_with_those_that_exist() -> None:
    """The error lists what is installed and offers the likeliest."""
    with pytest.raises(
        UnknownProviderError, match=r"^unknown provider 'fakke'; installed: .* — did you mean 'fake'\?$"
    ):
        Config.from_mapping({"provider": "fakke"})


def test_secrets_are_never_shown() -> None:
    """Neither an error nor a repr holds what could be a credential."""
    with pytest.raises(ConfigurationError) as caught:
        ProviderConfig("fake", {"password": 12345678})
    assert "12345678" not in str(caught.value)

    with pytest.raises(ConfigurationError) as caught:
        ProviderConfig("fake", {"verify": "http://user:hunter2@host"})
    assert "hunter2" not in str(caught.value)

    assert "hunter2" not in repr(ProviderConfig("fake", {"password": "hunter2"}))


def test_a_config_is_a_value() -> None:
    """Frozen, equal by content, independent of the mapping it was made of, and fit for another process."""
    given = {"name": "x"}
    half = ProviderConfig("fake", given)
    given["name"] = "y"

    assert half.settings.name == "x"
    assert half.options == {"name": "x"}
    assert pickle.loads(pickle.dumps(Config(half, half))) == Config(half, half)
    with pytest.raises(AttributeError):
        half.provider = "memory"  # type: ignore[misc]


def test_a_half_that_is_no_half_is_refused() -> None:
    """A name where a `ProviderConfig` belongs is an error at construction."""
    with pytest.raises(ConfigurationError, match="publisher is str: give a ProviderConfig"):
        Config("fake")  # type: ignore[arg-type]


@pytest.mark.parametrize("header", ["messagequeue", "tool.messagequeue"])
def test_a_toml_table_reads_like_the_mapping(tmp_path: Path, header: str) -> None:
    """`[messagequeue]` and `[tool.messagequeue]` mean what the mapping means."""
    file = tmp_path / "settings.toml"
    file.write_text(f'[{header}]\nprovider = "fake"\n[{header}.fake.consume]\nconcurrency = 3\n')

    assert Config.from_toml(file) == Config.from_mapping({"provider": "fake", "fake": {"consume": {"concurrency": 3}}})


def test_a_whole_toml_file_may_be_the_table(tmp_path: Path) -> None:
    """A file of its own needs no table around it."""
    file = tmp_path / "queue.toml"
    file.write_text('provider = "fake"\n')

    assert Config.from_toml(str(file)).publisher.provider == "fake"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("provider = ", "settings.toml: is not TOML: "),
        ("", r"settings.toml: has no table \[messagequeue\] or \[tool.messagequeue\]"),
        ('[project]\nname = "x"\n', r"settings.toml: has no table \[messagequeue\]"),
        ("messagequeue = 5", "settings.toml: .* is int: give a mapping"),
        ('[messagequeue]\nprovider = "fake"\n[messagequeue.fake]\npoll = "1"\n', "settings.toml: fake.poll='1': give"),
        ('[messagequeue]\nprovider = "fake"\nfakee = 1\n', "settings.toml: fakee is not understood"),
    ],
)
def test_a_bad_toml_file_is_told_by_name(tmp_path: Path, content: str, words: str) -> None:
    """Every error of a file begins with its path."""
    file = tmp_path / "settings.toml"
    file.write_text(content)

    with pytest.raises(ConfigurationError, match=words):
        Config.from_toml(file)


def test_a_missing_toml_file_is_a_configuration_error(tmp_path: Path) -> None:
    """A path that leads nowhere, or to a folder, says so."""
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file"):
        Config.from_toml(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Config.from_toml(tmp_path)
