"""The command `messagequeue`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from messagequeue import ErrorCode, PublishError, register_provider
from messagequeue._registry import unregister_provider
from messagequeue.cli import main
from messagequeue.driver import ProviderSpec
from messagequeue.noop import NOOP, NoopConsumerProvider, NoopPublisherProvider


@dataclass(frozen=True)
class DownConfig:
    """No options."""


class Down(NoopPublisherProvider):
    """A publishing half whose broker does not answer."""

    async def _ping(self) -> None:
        raise PublishError("no answer from http://localhost:1: is the broker running?", code=ErrorCode.CONNECTION)


@pytest.fixture(autouse=True)
def down() -> Iterator[None]:
    """A provider `down`, whose publishing half does not answer."""

    def half(made: Callable[[], Any]) -> Callable[[object], Any]:
        return lambda _config: made()

    register_provider(
        ProviderSpec(name="down", config=DownConfig, publisher=half(Down), consumer=half(NoopConsumerProvider))
    )
    yield
    unregister_provider("down")


def test_providers_lists_names_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Each installed provider with its options, defaults, units and sentences."""
    assert main(["providers"]) == 0

    out = capsys.readouterr().out
    assert "\nnoop\n" in out
    assert "\nsqs\n" in out
    assert "  consume.drain_timeout = " in out


def test_providers_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what was asked for; a wrong name is told."""
    assert main(["providers", "noop"]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("noop\n  max_message_size = 1048576 bytes  Body and")
    assert "sqs\n" not in out

    assert main(["providers", "nop"]) == 2
    assert "did you mean 'noop'" in capsys.readouterr().err


def test_check_asks_both_halves(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is read where nothing else is named."""
    monkeypatch.setenv("MESSAGEQUEUE_PROVIDER", "noop")

    assert main(["check"]) == 0
    assert capsys.readouterr().out == "publisher: noop: OK\nconsumer: noop: OK\n"


def test_check_reads_a_url_or_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Instead of the environment."""
    file = tmp_path / "queue.toml"
    file.write_text('provider = "noop"\n')

    assert main(["check", "--url", "noop://"]) == 0
    assert main(["check", "--toml", str(file)]) == 0
    assert capsys.readouterr().out.count("OK") == 4


def test_check_fails_where_a_broker_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, the reason on standard error, and the other half is asked all the same."""
    assert main(["check", "--url", "down://"]) == 1

    out, err = capsys.readouterr()
    assert out == "consumer: down: OK\n"
    assert err == "messagequeue: publisher: down: no answer from http://localhost:1: is the broker running?\n"


def test_a_wrong_configuration_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and no traceback."""
    assert main(["check", "--url", "noop://?max_message_sise=1"]) == 2

    err = capsys.readouterr().err
    assert "did you mean 'max_message_size'" in err
    assert err.count("\n") == 1


def test_a_wrong_command_line_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    """As every command does."""
    with pytest.raises(SystemExit) as caught:
        main(["chek"])

    assert caught.value.code == 2
    assert "chek" in capsys.readouterr().err


@pytest.mark.acceptance
def test_the_module_is_the_command() -> None:
    """`python -m messagequeue` does the same."""
    done = subprocess.run(
        [sys.executable, "-m", "messagequeue", "check", "--url", "noop://"], capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (0, "publisher: noop: OK\nconsumer: noop: OK\n")


def test_a_closed_pipe_is_no_traceback() -> None:
    """`messagequeue providers | head -1` ends quietly, with what shells report of it."""
    command = f"{sys.executable} -m messagequeue providers; echo $? >&2"
    done = subprocess.run(["sh", "-c", f"({command}) | true"], capture_output=True, text=True, timeout=60, check=False)

    assert done.stderr.strip() in ("0", "141")


def test_the_spec_of_noop_is_complete() -> None:
    """What the entry point names makes both halves."""
    assert isinstance(NOOP.publisher(NOOP.config()), NoopPublisherProvider)
    assert isinstance(NOOP.consumer(NOOP.config()), NoopConsumerProvider)
