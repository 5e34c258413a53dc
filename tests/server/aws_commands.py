"""
The AWS command line as one process for many commands: each takes half a second to start otherwise.

A script for an environment that has `awscli`.  Reads a JSON list of words a line, the arguments of one `aws`; answers
with a line of `[exit code, standard output, standard error]`.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any


def run(words: list[str], main: Any) -> tuple[int, str, str]:
    """Run one command by awscli's own *main*, and return how it ended and what it wrote."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code: int = main(words)
    return code, out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]


if __name__ == "__main__":
    from awscli.clidriver import create_clidriver  # type: ignore[import-not-found, import-untyped, unused-ignore]

    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line), create_clidriver().main)) + "\n")
        sys.stdout.flush()
