"""
Write the tables of options into README.md and docs/, from the config classes; not a place for words of its own.

A table stands between `<!-- config:NAME -->` and `<!-- /config:NAME -->`.  NAME is a provider, for the options that are
its own, or `consume` or `publish`, for those that all providers share.

    python tools/config_tables.py            writes
    python tools/config_tables.py --check    changes nothing; exits with 1 where a table is not what the code says
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from messagequeue import ConfigurationError, ConsumeOptions, PublishOptions, find_provider  # noqa: E402
from messagequeue._options import _bounds  # noqa: E402
from messagequeue._settings import Field, option_fields  # noqa: E402

SHARED = {"consume": ConsumeOptions, "publish": PublishOptions}

_MARKED = re.compile(r"(<!-- config:(\S+) -->\n).*?(<!-- /config:\2 -->)", re.DOTALL)
_OPENING = re.compile(r"<!-- config:(\S+) -->")


def table(name: str) -> str:
    """
    Return the Markdown table called *name*, or a sentence where there is no option.

    Raises:
        ConfigurationError: there is no such provider.
    """
    rows = list(_rows(name))
    if not rows:
        return f"`{name}` has no options of its own.\n"
    head = ["| option | default | allowed | environment variable | |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def rendered(text: str) -> str:
    """Return *text* with every marked table as the code has it; raises ValueError where a marker has no end."""
    ended = {match[2] for match in _MARKED.finditer(text)}
    for name in _OPENING.findall(text):
        if name not in ended:
            raise ValueError(f"<!-- config:{name} --> has no <!-- /config:{name} -->")
    return _MARKED.sub(lambda match: f"{match[1]}{table(match[2])}{match[3]}", text)


def documents() -> list[Path]:
    """Return the files that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def _rows(name: str) -> Iterator[str]:
    shared = SHARED.get(name)
    config = shared or find_provider(name).config
    start = f"MESSAGEQUEUE_<PROVIDER>_{name.upper()}_" if shared else f"MESSAGEQUEUE_{name.upper()}_"
    prefix = f"{name}." if shared else ""
    for option in option_fields(config):
        if shared or option.path[0] not in SHARED:
            yield _row(option, f"{prefix}{option.key}", f"{start}{option.env}")


def _row(option: Field, key: str, variable: str) -> str:
    default = "required" if option.default is MISSING else f"`{option.default!r}`"
    cells = [f"`{key}`", default, _allowed(option), f"`{variable}`", str(option.rule.get("doc", ""))]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _allowed(option: Field) -> str:
    if option.rule.get("low") is not None:
        return _bounds(option.rule)
    if isinstance(option.default, bool):
        return "True or False"
    if option.rule.get("choices"):
        return ", ".join(f"`{choice}`" for choice in option.rule["choices"])
    return "text (or None)" if option.optional else "text"


def main(argv: list[str]) -> int:
    """Write or, with `--check`, compare; return the exit code."""
    stale = []
    for path in documents():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        try:
            new = rendered(old)
        except (ConfigurationError, ValueError) as exc:
            sys.stderr.write(f"{path.relative_to(ROOT)}: {exc}\n")
            return 1
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
