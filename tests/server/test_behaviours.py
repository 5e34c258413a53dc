"""That every behaviour of SQS which the server has to show has a table test, in each protocol that it is about."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).resolve().parent

#: As docstrings number them: "(behaviour 46)", "(behaviours 82 and 125, SRV-05)".
BEHAVIOURS = range(1, 127)

#: What only one protocol can show, or neither, and why; all others are tested through both.
ONE_PROTOCOL = {
    **dict.fromkeys(range(1, 7), "what JSON answers look like"),
    **dict.fromkeys(range(8, 12), "what is no request in JSON, and where JSON may be sent"),
    14: "how requests travel, before their protocol is known",
    16: "signatures are of HTTP requests, before their protocol is known",
    **dict.fromkeys((*range(17, 23), *range(24, 27)), "what requests and answers of the query protocol look like"),
}


class Proof(NamedTuple):
    """A test that names a behaviour."""

    name: str
    both: bool


#: Arguments that a test has once for each protocol.
FIXTURES = {"sqs", "protocol"}


def proofs() -> Iterator[tuple[int, Proof]]:
    """Yield every test with every behaviour that its docstring names."""
    for path in FOLDER.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                arguments = {argument.arg for argument in node.args.args}
                both = bool(arguments & FIXTURES) and "against_a_server" not in map(ast.unparse, node.decorator_list)
                for number in named(ast.get_docstring(node) or ""):
                    yield number, Proof(node.name, both)


def named(docstring: str) -> Iterator[int]:
    """Yield the behaviours that *docstring* names."""
    for group in re.findall(r"behaviours? ((?:\d+|, | and )+)", docstring):
        yield from map(int, re.findall(r"\d+", group))


@pytest.fixture(scope="module")
def by_number() -> dict[int, list[Proof]]:
    found = defaultdict(list)
    for number, test in proofs():
        found[number].append(test)
    return found


@pytest.mark.parametrize("number", BEHAVIOURS)
def test_every_behaviour_is_tested(number: int, by_number: dict[int, list[Proof]]) -> None:
    """Through both protocols, or it is said why not; never both."""
    assert by_number[number], "no test names it"
    assert any(test.both for test in by_number[number]) is not (number in ONE_PROTOCOL)


def test_only_behaviours_that_there_are_are_named(by_number: dict[int, list[Proof]]) -> None:
    """A number that is none is a slip."""
    assert set(by_number) <= set(BEHAVIOURS)


def test_names_are_read_from_docstrings() -> None:
    """The check above can fail."""
    assert list(named("A fact (behaviours 64, 65 and 98, SRV-27), and 3 (behaviour 7).")) == [64, 65, 98, 7]
