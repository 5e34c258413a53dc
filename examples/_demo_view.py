"""What the order pipeline prints: aligned lines while it runs, tables at the end; nothing is decided here."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence

try:  # colour is an extra: pip install 'messagequeue[cli]'
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.style import Style
except ImportError:
    COLOUR = False
else:
    COLOUR = True

COLOURS = {"published": "cyan", "handled": "green", "discarded": "blue", "failed": "yellow", "later": "yellow"}
ALARM = "bold red"


class View:
    """
    Writes to standard output.

    Args:
        on_closed: Called once, when nobody reads any more (`order_pipeline.py | head`).

    Attributes:
        closed: That has happened; what is written since is dropped.
    """

    def __init__(self, on_closed: Callable[[], None]) -> None:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        self.closed = False
        self._on_closed = on_closed
        self._began = time.monotonic()
        self._width = min(100, shutil.get_terminal_size((100, 24)).columns)
        self._colour = COLOUR and Console().is_terminal and "NO_COLOR" not in os.environ

    def event(self, what: str, order: str, customer: str, text: str) -> None:
        """Write one line of what happens, with the seconds since the start."""
        line = f"{time.monotonic() - self._began:6.2f} {what:<13} {order:<6} {customer:<6} {text}"
        self._write(self._cut(line), COLOURS.get(what, ALARM))

    def text(self, text: str = "", style: str = "") -> None:
        """Write lines, however long."""
        for line in text.split("\n"):
            self._write(line, style)

    def heading(self, line: str) -> None:
        self._write("", "")
        self._write(line, "bold")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[object]], foot: Sequence[object] = ()) -> None:
        """Write a table: the first column to the left, numbers to the right."""
        cells = [[str(cell) for cell in row] for row in [head, *rows, *([foot] if foot else [])]]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rule = "  ".join("-" * width for width in widths)
        lines = ["  ".join(_aligned(at, cell, widths[at]) for at, cell in enumerate(row)) for row in cells]
        lines.insert(1, rule)
        if foot:
            lines.insert(-1, rule)
        for line in lines:
            self._write(self._cut(line.rstrip()), "")

    def _cut(self, line: str) -> str:
        return line if len(line) <= self._width else f"{line[: self._width - 3]}..."

    def _write(self, line: str, style: str) -> None:
        line = "".join(char if char.isprintable() else "?" for char in line)
        try:
            print(Style.parse(style).render(line, color_system=ColorSystem.STANDARD) if self._colour else line)
            sys.stdout.flush()
        except BrokenPipeError:
            self._close()

    def _close(self) -> None:
        # Python flushes standard output once more when it ends: that must not fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not self.closed:
            self.closed = True
            self._on_closed()


def _aligned(at: int, cell: str, width: int) -> str:
    return cell.ljust(width) if at == 0 or not cell[:1].isdigit() else cell.rjust(width)
