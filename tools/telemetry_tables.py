"""
Write the tables of metrics and of log events into docs/, from the code; not a place for words of its own.

A table stands between `<!-- table:NAME -->` and `<!-- /table:NAME -->`; NAME is `metrics` or `log-events`.

    python tools/telemetry_tables.py            writes
    python tools/telemetry_tables.py --check    changes nothing; exits with 1 where a table is not what the code says
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from messagequeue._log_events import EVENTS, OWNERS  # noqa: E402
from messagequeue.telemetry import INSTRUMENTS  # noqa: E402

_MARKED = re.compile(r"(<!-- table:(\S+) -->\n).*?(<!-- /table:\2 -->)", re.DOTALL)

#: Attributes that every metric of a topic has; the page says so once.
_EVERYWHERE = ("messaging.system", "messaging.destination.name", "server.address", "server.port")


def metrics() -> Iterator[str]:
    """Return the rows of the table of metrics."""
    yield "| metric | kind | unit | attributes beside the topic's | |"
    yield "|---|---|---|---|---|"
    for item in INSTRUMENTS:
        own = ", ".join(f"`{name}`" for name in item.attributes if name not in _EVERYWHERE)
        only = "" if _EVERYWHERE[1] in item.attributes else "of the provider, not of a topic"
        yield f"| `{item.name}` | {item.kind} | `{item.unit}` | {own or only} | {item.doc} |"


def log_events() -> Iterator[str]:
    """Return the rows of the table of log events."""
    yield "| `event` | logger | level | keys | |"
    yield "|---|---|---|---|---|"
    for item in EVENTS:
        logger = "its owner's" if item.logger == OWNERS else f"`{item.logger}`"
        keys = ", ".join(f"`{key}`" for key in item.keys)
        yield f"| `{item.name}` | {logger} | {logging.getLevelName(item.level)} | {keys} | {item.doc} |"


TABLES = {"metrics": metrics, "log-events": log_events}


def rendered(text: str) -> str:
    """Return *text* with every marked table as the code has it.  Raises KeyError where there is no such table."""
    return _MARKED.sub(lambda match: match[1] + "".join(f"{row}\n" for row in TABLES[match[2]]()) + match[3], text)


def main(argv: list[str]) -> int:
    """Write or, with `--check`, compare; return the exit code."""
    stale = []
    for path in sorted((ROOT / "docs").glob("**/*.md")):
        old = path.read_text(encoding="utf-8")
        new = rendered(old)
        if new != old:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in argv:
                path.write_text(new, encoding="utf-8")
    if "--check" in argv and stale:
        sys.stderr.write(f"not what the code says: {', '.join(stale)}; run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
