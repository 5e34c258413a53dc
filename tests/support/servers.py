"""Servers that tests start on a free port of 127.0.0.1, and stop; they end with a test run that is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

READY_TIMEOUT = 60.0
"""Seconds from start to the first right answer; about 0.1 for Redis and 2 for moto on an idle machine."""

TRIES = 3
"""Starts at most: between the look for a free port and its use, somebody else may take it."""

# A second shell waits for the end of the input, whose other end only the test run holds, and takes the server down with
# it; the first ends with the server.
_WATCHED = """
"$@" <&- & server=$!
exec 3<&0
(cat <&3 >/dev/null; kill $server) 2>/dev/null & watcher=$!
wait $server
kill $watcher
"""


@contextlib.contextmanager
def serving(
    command: Callable[[int], Sequence[str]], is_ready: Callable[[int], bool], *, env: Mapping[str, str] | None = None
) -> Iterator[int]:
    """
    Yield the port of a server that was started here.

    Args:
        command: Returns the command for a port.
        is_ready: Whether this very server, and not another program, answers there.

    Raises:
        AssertionError: it ended, each time it was tried, or did not get ready in time; with what it printed.
    """
    for left in reversed(range(TRIES)):
        port = free_port()
        folder = Path(tempfile.mkdtemp(prefix="server-"))
        try:
            with _process(command(port), folder, env) as process:
                if _ready(port, process, is_ready):
                    yield port
                    return
                may_try_again = left and process.poll() is not None
                printed = (folder / "log").read_text(errors="replace")
                assert may_try_again, f"no answer at port {port}; it printed:\n{printed}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _process(command: Sequence[str], folder: Path, env: Mapping[str, str] | None) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", _WATCHED, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=None if env is None else os.environ | env,
            start_new_session=True,  # Ctrl-C ends the tests first, and they end the server
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def _ready(port: int, process: subprocess.Popen[bytes], is_ready: Callable[[int], bool]) -> bool:
    """Wait until the server answers, or has ended, or the time is up."""
    deadline = time.monotonic() + READY_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if is_ready(port):
                return True
        time.sleep(0.05)
    return False


def free_port() -> int:
    """Return a port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
