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
from types import FunctionType, ModuleType
from typing import Any


def run(snippets: list[tuple[str, int, str]]) -> None:
    """Run the *snippets*, as the program's main module; a traceback names the file and line of the document."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    namespace: dict[str, Any] = module.__dict__
    with asyncio.Runner() as runner:
        for file, line, code in snippets:
            source, flags = "\n" * (line - 1) + code, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compiled = compile(source, file, "exec", flags, dont_inherit=True)
            if compiled.co_flags & inspect.CO_COROUTINE:
                runner.run(FunctionType(compiled, namespace)())
            else:
                exec(compiled, namespace)


if __name__ == "__main__":
    run(json.load(sys.stdin))
