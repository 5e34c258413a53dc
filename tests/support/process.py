"""Programs that a test starts: run to their end, or until they say something; never left behind."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIMIT = 60.0
"""Seconds that a program may take."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit status (negative: the signal), and all that it printed on either stream."""

    status: int
    output: str


def run_until(
    command: Sequence[str],
    text: str | None = None,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    limit: float = LIMIT,
) -> Ended:
    """
    Run *command* to its end, or until it printed *text*; then send SIGTERM and wait.

    Raises:
        AssertionError: it took longer than *limit* seconds; it was killed.  The message has its output.
    """
    with tempfile.TemporaryFile("w+") as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limit, give_up)
    timer.start()
    lines = []
    try:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.append(line)
                if text is not None and text in line:
                    process.send_signal(signal.SIGTERM)
                    text = None
        status = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
    output = "".join(lines)
    assert not late.is_set(), f"{' '.join(command)} did not end within {limit:.0f} s; it printed:\n{output}"
    assert text is None, f"{' '.join(command)} ended with {status} before it printed {text!r}; it printed:\n{output}"
    return Ended(status, output)
