"""What a type checker refuses is refused when the program runs, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from messagequeue import ConsumeOptions, Message, Outgoing, PublishOptions, open_consumers, open_publishers
from messagequeue.noop import NoopConfig
from messagequeue.testing import run_virtual
from messagequeue_sqs import SQSConfig

ROOT = Path(__file__).resolve().parents[2]
#: Each has a valid name and one with two letters swapped.
MISSPELT: dict[str, Any] = {"concurency": 5}


@pytest.mark.parametrize("options", [ConsumeOptions, PublishOptions, NoopConfig, SQSConfig])
def test_a_misspelt_option_of_a_config_is_a_type_error(options: type[Any]) -> None:
    """A dataclass takes its own fields only."""
    with pytest.raises(TypeError, match="concurency"):
        options(**MISSPELT)


def test_a_misspelt_option_of_a_message_is_a_type_error() -> None:
    """Every way to publish says so before anything is sent."""

    async def program() -> None:
        async with open_publishers("noop://") as publishers:
            publisher = await publishers.new_publisher("orders")
            wrong: dict[str, Any] = {"dealy": 1}
            with pytest.raises(TypeError, match=r"'dealy'.*did you mean 'delay'"):
                await publisher.publish("x", **wrong)
            with pytest.raises(TypeError, match=r"'dealy'.*did you mean 'delay'"):
                await publisher.publish_many(["x"], **wrong)
            with pytest.raises(TypeError, match=r"'dealy'.*did you mean 'delay'"):
                publisher.publish_nowait("x", **wrong)
            with pytest.raises(TypeError, match="dealy"):
                Outgoing("x", **wrong)

    run_virtual(program())


def test_a_misspelt_option_of_a_consumer_is_a_type_error() -> None:
    """The error names the likely one."""

    async def handle(message: Message) -> None: ...

    async def program() -> None:
        async with open_consumers("noop://") as consumers:
            with pytest.raises(TypeError, match=r"'concurency'.*did you mean 'concurrency'"):
                await consumers.new_consumer("orders", handle, **MISSPELT)

    run_virtual(program())


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_checkers_accept_the_typing_tests(checker: str) -> None:
    """And with them every line in there that must be an error: an ignore that is not needed is an error itself."""
    command = [sys.executable, "-m", checker]
    command += ["--pythonpath", sys.executable] if checker == "pyright" else []
    done = subprocess.run(
        [*command, *(f"tests/typing/{name}.py" for name in ("public_api", "providers", "handlers", "middleware"))],
        cwd=ROOT,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
