"""
Install LocalStack from PyPI into an environment of its own, start it, stop it.  Standard library only; no Docker.

    python tools/localstack.py install
    python tools/localstack.py run [--export NAME]... -- COMMAND [ARGUMENT]...

`run` starts LocalStack, runs the command with its address in `LOCALSTACK_ENDPOINT` (and in every NAME) and with dummy
AWS credentials, stops LocalStack and exits as the command did.  Where `LOCALSTACK_ENDPOINT` is set already, that one is
used and nothing is started.  `LOCALSTACK_PYTHON` names an interpreter that has LocalStack installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".cache" / "localstack-venv"

#: Releases from 4.14 on need a newer syntax than Python 3.11 has; the caps are what 4.12 was seen to run with.
REQUIREMENTS = (
    "localstack-core[base-runtime]==4.12.0",
    "moto-ext",
    "cbor2<5.9",
    "pyopenssl<26",
    "cryptography<47",
    "service-identity<26",
    "psutil<7.1",
)
#: Python versions these pins were tried on.
PYTHONS = ((3, 11), (3, 12), (3, 13))

INSTALL_TIMEOUT = 900.0
"""Seconds for pip; about 60 with a warm cache."""
READY_TIMEOUT = 90.0
"""Seconds from start to `/_localstack/health`; about 3 on an idle machine."""
STOP_TIMEOUT = 10.0
"""Seconds from SIGTERM to SIGKILL."""

SETTINGS = {
    "SERVICES": "sqs,sns,s3",
    "STRICT_SERVICE_LOADING": "1",
    "EAGER_SERVICE_LOADING": "1",
    "DNS_ADDRESS": "0",
    "DISABLE_EVENTS": "1",
    "SKIP_SSL_CERT_DOWNLOAD": "1",
}

#: What every client of LocalStack needs, and nothing that the machine's own AWS set-up could add to.
AWS_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull + ".no-aws-config",
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull + ".no-aws-credentials",
}

# The child watches its standard input, whose other end only the parent holds: it ends with the parent even where that
# is killed and can stop nothing.
_BOOTSTRAP = """
import os, runpy, signal, sys, threading, time
def watch():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("localstack.runtime.main", run_name="__main__", alter_sys=True)
"""


class LocalStackError(Exception):
    """LocalStack could not be installed or started; the text says why and what to do."""


# ---------------------------------------------------------------------------------------------------- installing


def interpreter() -> Path:
    """
    Return a Python that has LocalStack, installing it on first use (file-locked, so that two callers install once).

    Raises:
        LocalStackError: no fitting Python, or pip failed; with pip's output.
    """
    given = os.environ.get("LOCALSTACK_PYTHON")
    if given:
        return Path(given)
    VENV.parent.mkdir(exist_ok=True)
    with (VENV.parent / "localstack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _stamp().is_file() and _stamp().read_text() == _fingerprint() and _version(_venv_python()) is not None:
            return _venv_python()
        _install()
    return _venv_python()


def _venv_python() -> Path:
    return VENV / "bin" / "python"


def _stamp() -> Path:
    return VENV / ".installed"


def _fingerprint() -> str:
    return hashlib.sha256("\n".join(REQUIREMENTS).encode()).hexdigest()


def _install() -> None:
    base = base_python()
    print(f"installing LocalStack into {VENV.relative_to(ROOT)} (once; about 250 MB)", file=sys.stderr, flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    _checked([base, "-m", "venv", str(VENV)], "make an environment for LocalStack")
    pip = [str(_venv_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _checked([*pip, *REQUIREMENTS], "install LocalStack")
    _stamp().write_text(_fingerprint())


def _checked(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=INSTALL_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        raise LocalStackError(f"could not {what}: no end within {INSTALL_TIMEOUT:.0f} s\n{output}") from None
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace")
        raise LocalStackError(f"could not {what}: {' '.join(command)} exited {done.returncode}\n{output}")


def base_python() -> str:
    """
    Return the running interpreter, or another on this machine, of a version LocalStack's pins run on.

    Raises:
        LocalStackError: there is none; the text says what to install.
    """
    for candidate in _candidates():
        if _version(candidate) in PYTHONS:
            return str(candidate)
    wanted = ", ".join(f"{major}.{minor}" for major, minor in PYTHONS)
    raise LocalStackError(
        f"LocalStack needs one of Python {wanted}; this is {sys.version.split()[0]} and no other was found on PATH: "
        "install one, or set LOCALSTACK_ENDPOINT to a running one (docker run -p 4566:4566 localstack/localstack)"
    )


def _candidates() -> Iterator[str | Path]:
    yield sys.executable
    for major, minor in PYTHONS:
        name = f"python{major}.{minor}"
        found = shutil.which(name)
        if found:
            yield found
        yield from sorted(Path.home().glob(f".pyenv/versions/{major}.{minor}.*/bin/{name}"))
        yield from sorted(Path.home().glob(f".local/share/uv/python/cpython-{major}.{minor}.*/bin/{name}"))


def _version(python: str | Path) -> tuple[int, int] | None:
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=30)
        major, minor = done.stdout.split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None  # not there, or a shim that runs nothing
    return int(major), int(minor)


# ---------------------------------------------------------------------------------------------------- running


@dataclass(slots=True)
class LocalStack:
    """A LocalStack that this process started.  `folder` holds its files and its log; `stop()` removes it."""

    process: subprocess.Popen[bytes]
    endpoint: str
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "localstack.log"

    def stop(self) -> None:
        """SIGTERM, `STOP_TIMEOUT` seconds, SIGKILL.  Idempotent."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start() -> LocalStack:
    """
    Start a LocalStack on a free port of 127.0.0.1 and return when it answers.  The caller stops it.

    Raises:
        LocalStackError: it could not be installed, ended early or did not answer in time; its log is kept and named.
    """
    python = interpreter()
    try:
        return _start(python)
    except _PortTaken:
        return _start(python)


class _PortTaken(LocalStackError):
    pass


def _start(python: Path) -> LocalStack:
    folder = Path(tempfile.mkdtemp(prefix="localstack-"))
    port = _free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    env |= SETTINGS | {"GATEWAY_LISTEN": f"127.0.0.1:{port}", "FILESYSTEM_ROOT": str(folder / "files")}
    with (folder / "localstack.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-c", _BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=env,
            start_new_session=True,  # Ctrl-C ends the tests first, and they end LocalStack
        )
    running = LocalStack(process, f"http://127.0.0.1:{port}", folder)
    try:
        _wait_until_ready(running)
    except BaseException as error:
        kept = _keep_log(running.log)
        running.stop()
        if isinstance(error, LocalStackError):
            raise type(error)(f"{error}; its log: {kept}\n{_tail(kept)}") from None
        raise
    return running


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(running: LocalStack) -> None:
    deadline = time.monotonic() + READY_TIMEOUT
    while time.monotonic() < deadline:
        if running.process.poll() is not None:
            taken = b"address already in use" in running.log.read_bytes().lower()
            raise (_PortTaken if taken else LocalStackError)(f"LocalStack exited {running.process.returncode}")
        if is_ready(running.endpoint):
            return
        time.sleep(0.1)
    raise LocalStackError(f"LocalStack did not answer within {READY_TIMEOUT:.0f} s")


def is_ready(endpoint: str) -> bool:
    """Tell whether a LocalStack at *endpoint* says that its SQS can be used."""
    try:
        with urllib.request.urlopen(f"{endpoint.rstrip('/')}/_localstack/health", timeout=5) as answer:
            services = json.load(answer)["services"]
    except (OSError, ValueError, KeyError):
        return False
    return services.get("sqs") in ("running", "available")


def _keep_log(log: Path) -> Path:
    kept = VENV.parent / "localstack-failed.log"
    kept.parent.mkdir(exist_ok=True)
    if log.is_file():
        shutil.copyfile(log, kept)
    return kept


def _tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.is_file() else "(no log)"


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Yield the address of a LocalStack: `LOCALSTACK_ENDPOINT` where set, else one that lives as long as the block."""
    given = os.environ.get("LOCALSTACK_ENDPOINT")
    if given:
        if not is_ready(given):
            raise LocalStackError(
                f"LOCALSTACK_ENDPOINT={given}: no LocalStack with SQS answers there; start it or unset"
            )
        yield given.rstrip("/")
        return
    server = start()
    try:
        yield server.endpoint
    finally:
        server.stop()


# ---------------------------------------------------------------------------------------------------- command line


def run(command: Sequence[str], export: Sequence[str]) -> int:
    """Run *command* beside a LocalStack and return its exit status (128 + N where signal N ended it)."""
    with running() as endpoint:
        env = dict(os.environ)
        env.pop("AWS_PROFILE", None)
        env |= AWS_ENVIRONMENT | {"LOCALSTACK_ENDPOINT": endpoint} | dict.fromkeys(export, endpoint)
        child = subprocess.Popen(command, env=env)
        with _passing_on(child):
            status = child.wait()
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _passing_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Give SIGTERM to the child; leave SIGINT to the terminal, which gives it to the whole foreground group."""
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number)),
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/localstack.py", description="LocalStack from PyPI, without Docker")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("install", help="install it into .cache/localstack-venv, where it is not yet")
    runner = actions.add_parser("run", help="run a command beside it")
    runner.add_argument("--export", action="append", default=[], metavar="NAME", help="also put its address into NAME")
    runner.add_argument("command", nargs="+", metavar="-- COMMAND")
    given = parser.parse_args(arguments)
    try:
        if given.action == "install":
            print(interpreter())
            return 0
        return run(given.command, given.export)
    except LocalStackError as error:
        print(f"localstack: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
