"""Servers of tests: ready when they are yielded, gone afterwards, and not waited for when they have died."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.servers import serving

ROOT = Path(__file__).resolve().parents[3]

_SERVER = """
import os, socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"%d" % os.getpid())
"""


def command(port: int) -> list[str]:
    return [sys.executable, "-c", _SERVER, str(port)]


def pid_at(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        return int(connection.recv(20))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_server_answers_while_it_is_needed_and_ends_with_it() -> None:
    """The process itself, not only the shell that watches it."""
    with serving(command, lambda port: pid_at(port) > 0) as port:
        pid = pid_at(port)
        assert alive(pid)

    assert not alive(pid)


@pytest.mark.slow
def test_a_server_ends_with_a_test_run_that_is_killed() -> None:
    """Nobody is left to stop it."""
    code = (
        "import time\n"
        "from tests.unit.support.test_servers import command, pid_at\n"
        "from tests.support.servers import serving\n"
        "with serving(command, lambda port: pid_at(port) > 0) as port:\n"
        "    print(pid_at(port), flush=True)\n"
        "    time.sleep(60)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    run.kill()
    run.communicate()

    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why() -> None:
    """At once, with what it printed."""
    began = time.monotonic()

    with (
        pytest.raises(AssertionError, match="no such option"),
        serving(lambda port: ["sh", "-c", "echo no such option; exit 1"], lambda port: False),
    ):
        pass

    assert time.monotonic() - began < 10
