"""
The code blocks of a Markdown file, with what is said about them; not a Markdown parser.

What a comment directly above a fence says:

    <!-- no-run: needs AWS credentials -->    compiled, not run; no other reason is accepted
    <!-- run-until: ready -->                 run until it prints "ready", then SIGTERM; it must exit with 0
    <!-- pytest -->                           fixtures and tests: pytest runs them
    <!-- output -->                           this block is what the Python block before it prints, exactly
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w+-]*)\s*$")
_COMMENT = re.compile(r"^\s*<!--\s*(?P<word>no-run|run-until|pytest|output)(?::\s*(?P<value>.*?))?\s*-->\s*$")
_HEADING = re.compile(r"^#{1,3} +(?P<title>.+)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.  `line` is that of its first line of code, from 1; `notes` what comments said above it."""

    path: Path
    section: str
    language: str
    line: int
    code: str
    notes: dict[str, str]


def blocks(path: Path) -> Iterator[Block]:
    """Yield every fenced block of *path*, in order."""
    section, notes = "", {}
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in lines:
        fence, comment, heading = _FENCE.match(line), _COMMENT.match(line), _HEADING.match(line)
        if comment:
            notes[comment["word"]] = comment["value"] or ""
        elif heading:
            section = heading["title"]
        elif fence:
            indent = len(fence["indent"])
            code = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                code.append(inner[indent:])
            yield Block(path, section, fence["language"], number + 1, "\n".join(code) + "\n", notes)
        if line.strip() and not comment:
            notes = {}
