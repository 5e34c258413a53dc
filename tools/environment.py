"""
Make `.venv` what `pyproject.toml` asks for, and nothing when it is so already.  Standard library only.

    python3 tools/environment.py demo      the package and what the demo shows it with
    python3 tools/environment.py test      the package and everything `make test` runs

The environment is rebuilt when `pyproject.toml` or the interpreter changes, and where a build was cut short.  What has
`test` has `demo` too.  Two callers at once build once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".installed.json"

#: Extras of the package by purpose.
EXTRAS = {"demo": ("cli",), "test": ("cli", "fast", "otel", "redis", "test", "zstd")}

MINIMUM = (3, 11)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in EXTRAS:
        print(f"usage: environment.py {'|'.join(EXTRAS)}", file=sys.stderr)
        return 2
    if sys.version_info < MINIMUM:
        print(f"Python {MINIMUM[0]}.{MINIMUM[1]} or newer is needed; this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "environment.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            ensure(set(EXTRAS[arguments[0]]))
        except subprocess.CalledProcessError as error:
            print(f"environment: {' '.join(error.cmd)} exited {error.returncode}", file=sys.stderr)
            return 1
    return 0


def ensure(wanted: set[str]) -> None:
    """Build, complete or keep `.venv` so that it has the package with the *wanted* extras."""
    have = installed()
    if have is None:
        print(f"making {VENV.relative_to(ROOT)} with Python {sys.version.split()[0]}", file=sys.stderr, flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        have = set()
    elif wanted <= have:
        return
    extras = wanted | have
    target = f"{ROOT}[{','.join(sorted(extras))}]"
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", target], check=True)
    STAMP.write_text(json.dumps({"fingerprint": fingerprint(), "extras": sorted(extras)}))


def installed() -> set[str] | None:
    """Return the extras that `.venv` has, or None where it is missing, broken, unfinished or out of date."""
    try:
        stamp = json.loads(STAMP.read_text())
        subprocess.run([VENV / "bin" / "python", "-c", ""], check=True, timeout=60)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return set(stamp["extras"]) if stamp.get("fingerprint") == fingerprint() else None


def fingerprint() -> str:
    """Name what the environment was built from: this project's metadata, its place and the interpreter."""
    parts = ((ROOT / "pyproject.toml").read_bytes(), str(ROOT).encode(), sys.version.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
