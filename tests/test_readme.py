"""The README and the documentation are true: every Python block runs, every command that they show exists."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.markdown import Block, blocks
from tests.support.process import run_until

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
TESTS = [block for block in PYTHON if "pytest" in block.notes]
SHELL = [block for block in BLOCKS if block.language in ("console", "sh", "bash", "shell")]

#: Programs that a reader has, or knows how to get, and that the tests cannot judge.
KNOWN_PROGRAMS = {"aws", "cat", "cd", "curl", "docker", "echo", "export", "git", "kill", "systemctl", "uv"}

#: A README of more lines than this describes the library, and has to show it.
STUB_LINES = 50


def sections() -> list[list[Block]]:
    """Return the Python blocks by file and section: those of one section are one program."""
    programs = [block for block in PYTHON if block not in TESTS]
    return [list(group) for _, group in groupby(programs, key=lambda block: (block.path, block.section))]


def name(group: Sequence[Block]) -> str:
    return f"{group[0].path.name}:{group[0].line}"


def output_of(block: Block) -> str | None:
    """Return what the document says that *block* prints: the block after it, where that is marked so."""
    after = BLOCKS.index(block) + 1
    return BLOCKS[after].code if after < len(BLOCKS) and "output" in BLOCKS[after].notes else None


def test_readme_shows_code() -> None:
    """A README that describes the library has Python that runs."""
    long = len((ROOT / "README.md").read_text().splitlines()) > STUB_LINES

    assert not long or [block for block in PYTHON if block.path.name == "README.md"]


@pytest.mark.slow
@pytest.mark.parametrize("group", [pytest.param(group, id=name(group)) for group in sections()])
def test_document_python_runs(group: list[Block], tmp_path: Path) -> None:
    """The blocks of a section run, one after another, without AWS, and print what the document says."""
    runnable = [block for block in group if "no-run" not in block.notes]
    program = json.dumps([(str(block.path), block.line, block.code) for block in runnable])
    until = next((block.notes["run-until"] for block in runnable if "run-until" in block.notes), None)
    command = [sys.executable, "-W", "error", "-m", "tests.support.snippet"]

    done = run_until(command, until, stdin=program, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})

    assert done.status == 0, done.output
    for expected in filter(None, map(output_of, runnable)):
        assert expected in done.output


@pytest.mark.slow
@pytest.mark.parametrize("block", [pytest.param(block, id=name([block])) for block in TESTS])
def test_document_tests_pass(block: Block, tmp_path: Path) -> None:
    """Fixtures and tests that a document shows are run by pytest, as a reader would."""
    (tmp_path / "test_shown.py").write_text(block.code)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "test_shown.py"]

    done = run_until(command, None, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})

    assert done.status == 0, done.output
    assert " passed" in done.output


@pytest.mark.parametrize("block", [pytest.param(block, id=name([block])) for block in PYTHON])
def test_document_python_compiles(block: Block) -> None:
    """Every block is Python, and one that is not run says that it would need AWS."""
    compile(block.code, str(block.path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    assert block.notes.get("no-run", "needs AWS").startswith("needs AWS")


@pytest.mark.parametrize("block", [pytest.param(block, id=name([block])) for block in SHELL])
def test_document_commands_exist(block: Block) -> None:
    """What a shell block calls is there: make targets, files, modules, extras."""
    lines = block.code.replace("\\\n", " ").splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")] if block.language == "console" else lines

    assert [problem for command in commands if (problem := wrong_with(command))] == []


def wrong_with(command: str) -> str | None:
    """Return what is wrong with a shell *command*, or None."""
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", words[0]):
        words = words[1:]
    if not words or words[0] in KNOWN_PROGRAMS:
        return None
    if words[0] == "make":
        return wrong_target(words[1:])
    if words[0] in ("pip", "python", "python3") and "install" in words:
        return wrong_requirement([word for word in words[words.index("install") + 1 :] if word[0] != "-"])
    if words[0] in ("python", "python3", ".venv/bin/python"):
        return wrong_script(words[1:])
    if words[0] in ("pytest",) or (ROOT / words[0]).is_file():
        return None
    return f"{command!r}: {words[0]} is not known"


def wrong_target(words: Sequence[str]) -> str | None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = [word for word in words if "=" not in word and word not in targets]
    return f"make {wrong[0]}: no such target" if wrong else None


def wrong_script(words: Sequence[str]) -> str | None:
    if words[:1] == ["-m"]:
        found = importlib.util.find_spec(words[1])
        return None if found else f"python -m {words[1]}: no such module"
    script = next((word for word in words if word.endswith(".py")), None)
    return f"python {script}: no such file" if script and not (ROOT / script).is_file() else None


def wrong_requirement(words: Sequence[str]) -> str | None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words:
        wanted = re.fullmatch(r"(?:messagequeue|\.)\[([\w,]+)\]", word)
        if wanted and (missing := set(wanted[1].split(",")) - extras.keys()):
            return f"pip install {word}: no extra {', '.join(missing)}"
    return None


@pytest.mark.parametrize(
    "command",
    ["make nonsense", "python examples/none.py", "python -m no_such_module", "pip install 'messagequeue[no]'", "nope"],
)
def test_command_check_finds_what_is_not_there(command: str) -> None:
    """The check above can fail."""
    assert wrong_with(command)


def test_command_check_accepts_what_is_there() -> None:
    """The check above can pass."""
    for command in ("A=b make demo PROVIDER=sqs", "pip install 'messagequeue[fast,cli]'", "python -m asyncio"):
        assert wrong_with(command) is None


def test_run_stops_what_runs_until_stopped(tmp_path: Path) -> None:
    """A program marked to run until a text is stopped by SIGTERM once it printed it."""
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('ready', flush=True); signal.pause()"

    done = run_until([sys.executable, "-c", code], "ready", cwd=tmp_path)

    assert done.status == 0
    assert subprocess.run([sys.executable, "-c", "raise SystemExit(3)"]).returncode == 3
