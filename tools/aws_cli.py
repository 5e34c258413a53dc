"""
Install the AWS command line from PyPI into environments of its own, and run it.  Standard library only.

    python tools/aws_cli.py install
    python tools/aws_cli.py json sqs list-queues ...        AWS JSON, as every release since November 2023
    python tools/aws_cli.py query sqs list-queues ...       the last release of the query protocol

It is not for this package's own environment: it pins botocore, and so does aioboto3.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"

#: What is installed, by the protocol that it speaks with SQS.
REQUIREMENTS = {
    "json": ("awscli==1.46.3",),
    "query": ("awscli==1.29.80", "boto3==1.28.80"),
}

INSTALL_TIMEOUT = 600.0
"""Seconds for pip; about 15 with a warm cache."""


class AwsCliError(Exception):
    """The AWS command line could not be installed; the text says why."""


def environment(protocol: str) -> Path:
    """
    Return the environment that has the command line for *protocol*, installing it on first use, once for all callers.

    Raises:
        AwsCliError: pip failed; with its output.
    """
    venv = CACHE / f"aws-cli-{protocol}-venv"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "aws-cli.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = venv / ".installed", f"{sys.version} {REQUIREMENTS[protocol]}"
        if not stamp.is_file() or stamp.read_text() != wanted:
            _install(venv, REQUIREMENTS[protocol])
            stamp.write_text(wanted)
    return venv


def python(protocol: str) -> str:
    """Return the interpreter of `environment()`."""
    return str(environment(protocol) / "bin" / "python")


def command(protocol: str) -> list[str]:
    """Return what to run, before the arguments of `aws`."""
    return [python(protocol), "-m", "awscli"]


def _install(venv: Path, requirements: tuple[str, ...]) -> None:
    print(f"installing {' and '.join(requirements)} into {venv.relative_to(ROOT)}", file=sys.stderr, flush=True)
    shutil.rmtree(venv, ignore_errors=True)
    _checked([sys.executable, "-m", "venv", str(venv)])
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _checked([*pip, *requirements])


def _checked(words: list[str]) -> None:
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=INSTALL_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise AwsCliError(f"{' '.join(words)} did not end within {INSTALL_TIMEOUT:.0f} s") from None
    if done.returncode:
        raise AwsCliError(f"{' '.join(words)} exited {done.returncode}\n{done.stdout}")


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in ("install", *REQUIREMENTS):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if arguments[0] == "install":
            for protocol in REQUIREMENTS:
                print(environment(protocol))
            return 0
        words = [*command(arguments[0]), *arguments[1:]]
    except AwsCliError as error:
        print(f"aws_cli: {error}", file=sys.stderr)
        return 1
    return os.execv(words[0], words)  # its exit code is ours


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
