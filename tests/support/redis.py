"""
A Redis server for tests: the one on PATH, else Debian's packages, unpacked into `.cache` and not installed.

A server that cannot be had is an error of the test that asks for it, never a skip.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers import serving

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "redis"

#: What Debian's redis-server consists of and needs beyond what every Debian has.
PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1", "libssl3", "libsystemd0")


@contextlib.contextmanager
def redis_running(**options: str) -> Iterator[str]:
    """Yield the URL, with its password, of a server of its own; *options* as of redis.conf, with _ for -."""
    program, libraries = redis_program()
    password = secrets.token_hex(8)  # which no other server at the port has

    def command(port: int) -> list[str]:
        fixed = {"port": str(port), "bind": "127.0.0.1", "requirepass": password, "save": "", "appendonly": "no"}
        given = {name.replace("_", "-"): value for name, value in options.items()}
        return [program, *(word for name, value in (fixed | given).items() for word in (f"--{name}", value))]

    def is_ready(port: int) -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            return connection.recv(100).startswith(b"+OK")

    with serving(command, is_ready, env={"LD_LIBRARY_PATH": libraries} if libraries else None) as port:
        yield f"redis://:{password}@127.0.0.1:{port}/0"


def redis_program() -> tuple[str, str]:
    """
    Return the path of `redis-server`, and that of its libraries ("": the system's own).

    Raises:
        AssertionError: there is none and it cannot be had; with what to do.
    """
    found = shutil.which("redis-server")
    if found:
        return found, ""
    CACHE.parent.mkdir(exist_ok=True)
    with (CACHE.parent / "redis.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found_here = _unpacked()
        if found_here is None:
            _unpack()
            found_here = _unpacked()
    assert found_here is not None, f"Debian's packages hold no redis-server: look into {CACHE}"
    return found_here


def _unpacked() -> tuple[str, str] | None:
    program = CACHE / "usr" / "bin" / "redis-server"
    libraries = ":".join(str(path) for path in (CACHE / "usr" / "lib").glob("*-linux-*"))
    if not (CACHE / ".done").is_file() or not program.exists():
        return None
    return str(program), libraries


def _unpack() -> None:
    assert shutil.which("apt-get"), "no redis-server on PATH, and no apt-get to get it with: install Redis 6 or newer"
    shutil.rmtree(CACHE, ignore_errors=True)
    packages = CACHE / "packages"
    packages.mkdir(parents=True)
    command = ["apt-get", "download", *PACKAGES]
    done = subprocess.run(command, cwd=packages, capture_output=True, text=True, timeout=300)
    if done.returncode and os.geteuid() == 0:  # a fresh machine has no list of packages
        subprocess.run(["apt-get", "update"], capture_output=True, timeout=300)
        done = subprocess.run(command, cwd=packages, capture_output=True, text=True, timeout=300)
    assert not done.returncode, f"no redis-server on PATH, and it could not be downloaded: install it\n{done.stderr}"
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(CACHE)], check=True, timeout=120)
    shutil.rmtree(packages)
    (CACHE / ".done").touch()
