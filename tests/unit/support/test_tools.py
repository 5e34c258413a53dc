"""The tools behind the Makefile fail loudly and say what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import environment, localstack


def test_an_installation_that_fails_shows_what_pip_said() -> None:
    """The output of the failing step is in the error: it is never swallowed, and nothing is skipped for it."""
    command = [sys.executable, "-c", "print('no matching distribution'); raise SystemExit(1)"]
    with pytest.raises(localstack.LocalStackError, match="no matching distribution"):
        localstack._checked(command, "install LocalStack")


def test_a_given_endpoint_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOCALSTACK_ENDPOINT is believed only where a LocalStack with SQS answers."""
    monkeypatch.setenv("LOCALSTACK_ENDPOINT", "http://127.0.0.1:9")
    with (
        pytest.raises(localstack.LocalStackError, match="LOCALSTACK_ENDPOINT=http://127"),
        localstack.running(),
    ):
        pass


def test_without_a_fitting_python_it_is_said_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the versions, and the way round."""
    monkeypatch.setattr(localstack, "PYTHONS", ((2, 7),))
    monkeypatch.setenv("HOME", os.devnull)
    with pytest.raises(localstack.LocalStackError, match=r"2\.7.*LOCALSTACK_ENDPOINT"):
        localstack.base_python()


def test_a_localstack_that_dies_at_once_is_an_error_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it printed is in the error, and the log is kept."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho broken on purpose\nexit 7\n")
    script.chmod(0o755)
    monkeypatch.setenv("LOCALSTACK_PYTHON", str(script))
    monkeypatch.setattr(localstack, "VENV", tmp_path / "venv")
    with pytest.raises(localstack.LocalStackError, match=r"(?s)exited 7.*broken on purpose"):
        localstack.start()

    assert "broken on purpose" in (tmp_path / "localstack-failed.log").read_text()


def test_run_passes_the_exit_status_and_the_address_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command beside an existing LocalStack gets its address under every asked name."""
    monkeypatch.setenv("LOCALSTACK_ENDPOINT", "http://127.0.0.1:9/")
    monkeypatch.setattr(localstack, "is_ready", lambda _endpoint: True)
    code = "import os, sys; sys.exit(5 if os.environ['WHERE'] == os.environ['LOCALSTACK_ENDPOINT'] else 1)"

    assert localstack.run([sys.executable, "-c", code], ["WHERE"]) == 5


def test_an_environment_out_of_date_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was built from is compared: metadata, place, interpreter."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "STAMP", tmp_path / "stamp")

    assert environment.installed() is None
    environment.STAMP.write_text(json.dumps({"fingerprint": "older", "extras": ["test"]}))
    assert environment.installed() is None
    environment.STAMP.write_text(json.dumps({"fingerprint": environment.fingerprint(), "extras": ["test"]}))
    assert environment.installed() == {"test"}


def test_make_without_a_python_says_what_is_needed(tmp_path: Path) -> None:
    """A machine without Python 3.11 or newer gets one line, not a stack of errors."""
    done = subprocess.run(
        ["make", "env-demo", "PYTHON="], cwd=environment.ROOT, capture_output=True, text=True, timeout=30
    )

    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
