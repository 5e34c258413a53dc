"""What users install: the wheel built from the sdist, in an environment with nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.markdown import blocks

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300.0
"""Seconds that one step may take."""

# One worker builds once, where tests are spread over several.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

IMPORTS = """
import importlib, importlib.metadata, pkgutil, sys
import messagequeue
foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
foreign = {name for name in foreign if not name.startswith(("_", "messagequeue", "sitecustomize"))}
assert not foreign, f"import messagequeue loads {foreign}"
assert "site-packages" in messagequeue.__file__, messagequeue.__file__
assert importlib.metadata.version("messagequeue") == messagequeue.__version__
for package in ("messagequeue", "messagequeue_sqs"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        # What needs an extra: telemetry that was asked for, and pytest classes.
        needs_more = ".telemetry._otel" in module.name or ".conformance" in module.name
        if not module.name.endswith("__main__") and not needs_more:
            importlib.import_module(module.name)
for point in importlib.metadata.entry_points(group="messagequeue.providers"):
    assert point.load().name == point.name
"""


def run(command: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist, as `python -m build` does."""
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", out, ROOT], cwd=out)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the wheel and what it depends on, and nothing else."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    run([sys.executable, "-m", "venv", venv], cwd=venv.parent)
    installed = venv / "bin" / "python"
    run([installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], cwd=venv.parent)
    return installed


def test_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    """Both packages with their `py.typed`, no tests, tools, examples or caches."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}

    assert tops == {"messagequeue", "messagequeue_sqs"}
    assert {"messagequeue/py.typed", "messagequeue_sqs/py.typed"} <= set(names)
    assert [name for name in names if "__pycache__" in name or "/tests/" in name] == []


def test_wheel_imports_in_a_clean_environment(python: Path, tmp_path: Path) -> None:
    """Every module imports with the declared dependencies; `import messagequeue` alone loads nothing foreign."""
    run([python, "-W", "error", "-c", IMPORTS], cwd=tmp_path)


def test_wheel_runs_the_first_example_of_the_readme(python: Path, tmp_path: Path) -> None:
    """What a reader tries first works right after `pip install`."""
    first = next((block for block in blocks(ROOT / "README.md") if block.language == "python"), None)
    if first is not None:
        run([python, "-W", "error", "-c", first.code], cwd=tmp_path)
