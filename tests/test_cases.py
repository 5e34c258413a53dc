"""That every reported fault of other libraries has a test here, or a reason why it cannot happen."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent

#: Ids as the docstrings name them: area and number.
CASES = tuple(
    f"{area}-{number:02}"
    for area, numbers in {
        "PUB": (1, 3, 4, 6, 7, 8, 11, 12),
        "CON": (1, 2, 3, 5, 6, 7, 9, 10, 13, 14, 15, 17, 18, 19, 20, 22, 25, 26),
        "FIFO": (1, 3, 4, 6, 7, 9, 10, 12),
        "BAT": (1, 3, 5, 6, 7, 9),
        "HB": (1, 2, 4, 6, 8, 9),
        "SHUT": (1, 2, 3, 5, 6, 8, 9),
        "CFG": (1, 2, 5, 6, 7, 9),
        "SER": (1, 3, 4, 6),
        "TEL": (1, 3, 4, 5, 7),
        "EXT": (1, 2, 3, 5, 6, 8, 10, 12),
        "SNS": (1, 3, 5, 6, 7),
        "SRV": (1, 3, 4, 5, 7, 9, 11, 12, 13, 16, 17, 18, 21, 22, 23, 24, 25, 27),
    }.items()
    for number in numbers
)

NOT_APPLICABLE: dict[str, str] = {}


def docstrings() -> Iterator[str]:
    """Yield the docstring of every test."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield ast.get_docstring(node) or ""


@pytest.fixture(scope="module")
def named() -> set[str]:
    """Every id that a test's docstring names in parentheses."""
    return {
        found
        for text in docstrings()
        for group in re.findall(r"\(([^()]*)\)", text)
        for found in re.findall(r"\b[A-Z]+-\d+\b", group)
    }


@pytest.mark.parametrize("case", CASES)
def test_every_reported_fault_has_a_test_or_a_reason(case: str, named: set[str]) -> None:
    """A docstring names it, or it is said why it does not apply; never both."""
    assert (case in named) is not (case in NOT_APPLICABLE)


def test_reasons_are_of_reported_faults() -> None:
    """No reason outlives its fault."""
    assert NOT_APPLICABLE.keys() <= set(CASES)
