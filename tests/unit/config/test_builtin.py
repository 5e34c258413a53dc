"""The options of the providers that come with the library, through every source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from messagequeue import Config, ConfigurationError, ConsumeOptions, find_provider
from messagequeue._registry import unregister_provider
from messagequeue._settings import option_fields

PROVIDERS = ["memory", "noop", "sns", "sqs"]


@pytest.fixture(autouse=True)
def real_memory(fake_providers: None) -> None:
    """The provider `memory` itself instead of this folder's stand-in."""
    unregister_provider("memory")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_option_is_declared_with_a_sentence(name: str) -> None:
    """The documentation's table has no empty cell."""
    assert [field.key for field in option_fields(find_provider(name).config) if not field.rule.get("doc")] == []


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_defaults_written_out_are_the_defaults(name: str) -> None:
    """Every variable and every URL option exists, and reads back what the table shows as its default."""
    spec = find_provider(name)
    fields = option_fields(spec.config)
    environ = {f"MESSAGEQUEUE_{name.upper()}_{field.env}": str(field.default) for field in fields}
    query = "&".join(f"{field.key}={field.default}" for field in fields)

    by_environment = Config.from_env(environ={"MESSAGEQUEUE_PROVIDER": name, **environ})
    by_url = Config.from_url(f"{name}://?{query}")

    assert len(environ) == len(fields) > 17
    assert by_environment.publisher.settings == by_url.consumer.settings == spec.config()


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_duration_and_size_has_its_unit_in_the_variable(name: str) -> None:
    """Nobody has to guess whether a number means seconds."""
    for field in option_fields(find_provider(name).config):
        unit = field.rule["unit"]
        assert not unit or field.env.endswith(f"_{unit.upper()}")
        assert "_SECONDS_SECONDS" not in field.env
        assert "_BYTES_BYTES" not in field.env


def test_sqs_is_configured_as_the_documentation_says() -> None:
    """The same settings from a mapping, the environment and a URL."""
    mapping = Config.from_mapping(
        {"provider": "sqs", "sqs": {"queue_address": "http://localhost:4566", "consume": {"concurrency": 5}}}
    )
    environ = Config.from_env(
        environ={
            "MESSAGEQUEUE_PROVIDER": "sqs",
            "MESSAGEQUEUE_SQS_QUEUE_ADDRESS": "http://localhost:4566",
            "MESSAGEQUEUE_SQS_CONSUME_CONCURRENCY": "5",
        }
    )
    url = Config.from_url("sqs://?queue_address=http://localhost:4566&consume.concurrency=5")

    assert mapping == environ == url
    spec = find_provider("sqs")
    expected = replace(spec.config(), queue_address="http://localhost:4566", consume=ConsumeOptions(concurrency=5))
    assert mapping.consumer.settings == expected


def test_an_empty_queue_address_is_none() -> None:
    """From every source, so that no empty endpoint reaches the SDK; one without a scheme is refused (CFG-05)."""
    empty = [
        Config.from_env(environ={"MESSAGEQUEUE_PROVIDER": "sqs", "MESSAGEQUEUE_SQS_QUEUE_ADDRESS": ""}),
        Config.from_url("sqs://?queue_address="),
        Config.from_mapping({"provider": "sqs", "sqs": {"queue_address": ""}}),
        Config.from_mapping({"provider": "sqs", "sqs": {"queue_address": None}}),
    ]

    assert {config.publisher.settings.queue_address for config in empty} == {None}
    with pytest.raises(ConfigurationError, match=r"^MESSAGEQUEUE_SQS_QUEUE_ADDRESS: .*with its scheme"):
        Config.from_env(environ={"MESSAGEQUEUE_PROVIDER": "sqs", "MESSAGEQUEUE_SQS_QUEUE_ADDRESS": "localhost:4566"})


def test_an_address_with_a_password_is_refused_by_the_variables_name() -> None:
    """The message says where the value came from, and does not repeat it."""
    with pytest.raises(ConfigurationError, match=r"^MESSAGEQUEUE_SQS_QUEUE_ADDRESS: ") as caught:
        Config.from_env(
            environ={"MESSAGEQUEUE_PROVIDER": "sqs", "MESSAGEQUEUE_SQS_QUEUE_ADDRESS": "http://me:hunter2@localhost"}
        )

    assert "hunter2" not in str(caught.value)


def test_credentials_in_a_queue_address_are_refused_and_not_shown() -> None:
    """They come from the ambient AWS chain."""
    with pytest.raises(ConfigurationError) as caught:
        Config.from_url("sqs://?queue_address=http://user:hunter2@localhost")

    assert "hunter2" not in str(caught.value)
