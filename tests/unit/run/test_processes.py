"""Signals sent to a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[3]
#: Seconds in which a healthy worker has long ended.
PATIENCE = 30


@contextmanager
def worker(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a worker and wait until it consumes; it is killed should the test fail."""
    command = [sys.executable, "-m", "tests.unit.run.worker", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_a_process_with_zero(number: signal.Signals) -> None:
    """It drains, the application cleans up, nothing is written to standard error (SHUT-09)."""
    with worker("0.1") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)

        assert (process.returncode, out.split("\n"), err) == (0, ["stopping", "drained", "cleaned up", ""], "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_two_signals_end_a_process_at_once(number: signal.Signals, code: int) -> None:
    """The drain is cut short, the application still cleans up, the exit code is the signal's (SHUT-09)."""
    with worker("3600") as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)

        assert (process.returncode, out) == (code, "cancelled\ncleaned up\n")
