"""
Run Python code blocks given as JSON on standard input, one after another in one namespace and one event loop.

A script for a process of its own (`python -m tests.support.snippet`) that reads `[[file, line, code], ...]`.  `await`
works at top level.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from types import FunctionType
from typing import Any


def run(snippets: list[tuple[str, int, str]]) -> None:
    """Run the *snippets*; a traceback names the file and line of the document."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for file, line, code in snippets:
            compiled = compile("\n" * (line - 1) + code, file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if compiled.co_flags & inspect.CO_COROUTINE:
                runner.run(FunctionType(compiled, namespace)())
            else:
                exec(compiled, namespace)


if __name__ == "__main__":
    run(json.load(sys.stdin))
