"""The options of the SQS provider."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.config import Config as SdkConfig

from messagequeue import Config, ConfigurationError, ConsumeOptions
from messagequeue_sqs import SQSConfig
from messagequeue_sqs._config import connect_timeout, read_timeout, receive_timeout, timeout_conflict


@pytest.mark.parametrize("empty", ["", "  ", None])
@pytest.mark.parametrize("name", ["queue_address", "region", "profile"])
def test_empty_option_is_not_set(name: str, empty: str | None) -> None:
    """A template that was not filled in gives "" (CFG-05)."""
    given: dict[str, Any] = {name: empty}

    assert getattr(SQSConfig(**given), name) is None


@pytest.mark.parametrize(
    "address", ["localhost:4566", "127.0.0.1", "sqs.local/x", "ftp://x", "http://", "http://x:port"]
)
def test_queue_address_without_scheme_or_host_is_refused(address: str) -> None:
    """When it is given, with the form it has to have (CFG-05)."""
    with pytest.raises(ConfigurationError, match="queue_address"):
        SQSConfig(queue_address=address)


def test_queue_address_with_a_password_is_refused_without_repeating_it() -> None:
    """No error text holds a credential."""
    with pytest.raises(ConfigurationError) as caught:
        SQSConfig(queue_address="http://me:hunter2@localhost:4566")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "http://me:hunter2@[localhost",
        "http://me:hunter2@localhost:port",
        "http://me:hunter2/rest@localhost",
        "http://me:hunter2@local\u2100host",
        "me:hunter2@localhost",
        "http://localhost:4566/?token=hunter2",
        "http://localhost:4566/#hunter2",
        b"http://me:hunter2@localhost",
    ],
)
def test_queue_address_that_is_wrong_in_another_way_too_is_refused_without_its_credential(address: Any) -> None:
    """Neither the error nor its cause repeats a user, a password or a query."""
    with pytest.raises(ConfigurationError) as caught:
        SQSConfig(queue_address=address)

    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("address", ["http://local\nhost:4566", "http://localhost:4566/a b"])
def test_queue_address_with_a_blank_in_it_is_refused(address: str) -> None:
    """No endpoint has one; a line that was pasted in two has."""
    with pytest.raises(ConfigurationError, match="queue_address"):
        SQSConfig(queue_address=address)


@pytest.mark.parametrize(
    "wrong",
    [
        {"region": 1},
        {"connect_timeout": 0},
        {"read_timeout": -1},
        {"verify_checksums": "yes"},
        {"consume": {}},
        {"publish": None},
        {"client_config": {"read_timeout": 1}},
    ],
)
def test_option_of_a_wrong_type_or_out_of_bounds_is_refused(wrong: dict[str, Any]) -> None:
    """Before any connection, with the option's name."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        SQSConfig(**wrong)


def test_timeouts_are_short_for_calls_and_longer_than_the_poll_for_receives() -> None:
    """Where nobody says otherwise (CON-05)."""
    config = SQSConfig()

    assert (connect_timeout(config), read_timeout(config), receive_timeout(config)) == (5.0, 20.0, 30.0)
    assert timeout_conflict(config) == ""


def test_read_timeout_below_the_long_poll_is_raised_for_receives_only() -> None:
    """With both numbers in one message; sends and deletes keep the short one (CON-05)."""
    config = SQSConfig(client_config=SdkConfig(read_timeout=10, connect_timeout=2))

    assert (connect_timeout(config), read_timeout(config), receive_timeout(config)) == (2, 10, 30.0)
    assert "read_timeout=10" in timeout_conflict(config)
    assert "use 30 s" in timeout_conflict(config)


def test_read_timeout_above_the_long_poll_holds_for_receives_too() -> None:
    """It is the user's (CON-05)."""
    config = SQSConfig(client_config=SdkConfig(read_timeout=70))

    assert (read_timeout(config), receive_timeout(config), timeout_conflict(config)) == (70, 70, "")


def test_read_timeout_above_a_shorter_poll_is_no_conflict() -> None:
    """5 s of waiting end before 10 s of reading."""
    config = SQSConfig(client_config=SdkConfig(read_timeout=10), consume=ConsumeOptions(wait_time=5))

    assert timeout_conflict(config) == ""


def test_client_config_without_timeouts_leaves_ours() -> None:
    """The SDK's own defaults of 60 s are not what the user asked for; an option wins over both."""
    config = SQSConfig(client_config=SdkConfig(retries={"total_max_attempts": 1}), read_timeout=7)

    assert (connect_timeout(config), read_timeout(config), receive_timeout(config)) == (5.0, 7, 30.0)


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers with their unit; the SDK's object has no text form and is not among them."""
    for name, value in {
        "PROVIDER": "sqs",
        "SQS_QUEUE_ADDRESS": "http://localhost:4566",
        "SQS_READ_TIMEOUT_SECONDS": "7",
        "SQS_VERIFY_CHECKSUMS": "false",
        "SQS_REGION": "",
    }.items():
        monkeypatch.setenv(f"MESSAGEQUEUE_{name}", value)
    settings = Config.from_env().publisher.settings

    assert settings == SQSConfig(queue_address="http://localhost:4566", read_timeout=7, verify_checksums=False)
    monkeypatch.setenv("MESSAGEQUEUE_SQS_CLIENT_CONFIG", "x")
    with pytest.raises(ConfigurationError, match="CLIENT_CONFIG is not understood"):
        Config.from_env()
