"""What is true of the repository as a whole: its files say nothing of one machine, and keep the house rules."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MODULE_LINES = 450
FUNCTION_LINES = 60

#: With a class of one letter in each, so that this file does not hold what it looks for.
FOREIGN = re.compile(r"/r[o]ot/|/h[o]me/\w+/|/U[s]ers/\w+/|/w[o]rk/|/t[m]p/w/|/o[p]t/pypi")
INDEX = re.compile(r"i[n]dex-url|f[i]nd-links|t[r]usted-host|://[^\s/]+/s[i]mple\b")


def tracked() -> list[Path]:
    """Return the files that git has; all but the ignored where there is no git (an sdist)."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
        found = [ROOT / name for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not any(part.startswith(".") for part in path.parts)]
    return [path for path in found if path.is_file()]


FILES = tracked()
MODULES = [path for path in FILES if path.suffix == ".py"]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_with(pattern: re.Pattern[str]) -> Iterator[str]:
    for path in FILES:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{shown(path)}:{number}: {line.strip()[:100]}"


@pytest.mark.parametrize("pattern", [FOREIGN, INDEX], ids=["paths", "registries"])
def test_files_name_no_machine(pattern: re.Pattern[str]) -> None:
    """No tracked file holds a path of one machine or the address of a package index."""
    assert list(lines_with(pattern)) == []


def test_modules_have_a_docstring() -> None:
    """Every module says what it is for."""
    assert [shown(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_modules_and_functions_are_short() -> None:
    """No module of the packages has more than 450 lines, no function more than 60."""
    long = []
    for path in MODULES:
        if path.relative_to(ROOT).parts[0] in ("messagequeue", "messagequeue_sqs"):
            text = path.read_text()
            if len(text.splitlines()) > MODULE_LINES:
                long.append(shown(path))
            long += [f"{shown(path)}: {name}" for name in long_functions(text)]

    assert long == []


def long_functions(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            if (node.end_lineno or 0) - first.lineno >= FUNCTION_LINES:
                yield node.name


def test_tests_patch_nothing_of_ours() -> None:
    """Doubles stand at seams; no test replaces a part of the library behind its back."""
    patched = re.compile(r"m[o]ck\.patch|unittest\.m[o]ck")

    assert [line for line in lines_with(patched) if line.startswith("tests/")] == []


def test_changelog_begins_with_what_is_unreleased() -> None:
    """Who documents the library tells its users what changes: the first heading of a version is Unreleased."""
    readme = (ROOT / "README.md").read_text().splitlines()
    changelog = ROOT / "CHANGELOG.md"
    if len(readme) <= 50 and not changelog.exists():
        return
    versions = re.findall(r"^## \[?([^\]\n]+)", changelog.read_text(), re.MULTILINE)

    assert versions
    assert versions[0].strip().lower() == "unreleased"


def test_ci_runs_what_the_readme_says() -> None:
    """`.ci/run` is a program, is valid shell and calls `make test`."""
    script = ROOT / ".ci" / "run"

    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    assert re.search(r"^\s*make test\b", script.read_text(), re.MULTILINE)
