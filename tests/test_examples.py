"""
Every example runs as it stands and prints what its docstring says.

What a docstring says, each on lines of its own:

    Prints:                  lines, indented below; each appears in the output, in this order (`...` is any text)
    Stops after: TEXT        it runs until stopped: SIGTERM once it printed TEXT, then exit status 0
    Runs on: memory, sqs     where `sqs` is named, it also runs on SQS wire
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import run_until

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("_"))


def said(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def lines_printed(docstring: str) -> list[str]:
    """Return the indented lines below `Prints:`."""
    found = re.search(r"^Prints:\n+((?:(?: +.*)?\n?)+)", docstring, re.MULTILINE)
    return [line.strip() for line in found[1].splitlines() if line.strip()] if found else []


def field(docstring: str, title: str) -> str | None:
    found = re.search(rf"^{title}: *(.+)$", docstring, re.MULTILINE)
    return found[1].strip() if found else None


def missing(expected: list[str], output: str) -> str | None:
    """Return the first of the *expected* lines that *output* does not have after the ones before it."""
    at = 0
    for line in expected:
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        found = re.compile(pattern).search(output, at)
        if found is None:
            return line
        at = found.end()
    return None


def check(path: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    docstring = said(path)
    expected = lines_printed(docstring)
    assert expected, f"{path.name}: its docstring has no 'Prints:'"
    env = os.environ | {"PYTHONPATH": str(ROOT)} | environment

    done = run_until([sys.executable, "-W", "error", str(path)], field(docstring, "Stops after"), cwd=tmp_path, env=env)

    assert done.status == 0, done.output
    assert missing(expected, done.output) is None, done.output


@pytest.mark.slow
@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in EXAMPLES])
def test_example_runs_on_memory(path: Path, tmp_path: Path) -> None:
    """It needs no broker, exits with 0 and prints what it says."""
    check(path, tmp_path, {"MESSAGEQUEUE_PROVIDER": "memory"})


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.name) for path in EXAMPLES if "sqs" in (field(said(path), "Runs on") or "")]
)
def test_example_runs_on_sqs(path: Path, tmp_path: Path, localstack_endpoint: str) -> None:
    """The same code prints the same on SQS wire."""
    settings = {"MESSAGEQUEUE_PROVIDER": "sqs", "MESSAGEQUEUE_SQS_QUEUE_ADDRESS": localstack_endpoint}
    check(path, tmp_path, settings)


@pytest.mark.slow
@pytest.mark.acceptance
def test_demo_on_sqs_needs_nothing_but_the_package() -> None:
    """`make demo PROVIDER=sqs` brings its own server, and prints the same again."""
    command = ["make", "--old-file=env-demo", "demo", "PROVIDER=sqs", f"PY={sys.executable}"]
    hidden = ("AWS_", "LOCALSTACK_", "MESSAGEQUEUE_", "MAKE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}

    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert missing(lines_printed(said(ROOT / "examples" / "order_pipeline.py")), done.stdout) is None


def test_printed_lines_are_read_and_compared() -> None:
    """The check above can fail."""
    docstring = "An example.\n\nPrints:\n\n    a 1\n    b ... 2\n\nRuns on: memory, sqs\n"

    assert lines_printed(docstring) == ["a 1", "b ... 2"]
    assert field(docstring, "Runs on") == "memory, sqs"
    assert missing(["a 1", "b ... 2"], "x\na 1\nb is 2\n") is None
    assert missing(["a 1", "b ... 2"], "b is 2\na 1\n") == "b ... 2"
