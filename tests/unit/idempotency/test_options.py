"""The options as their page shows them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from messagequeue._options import number
from messagequeue.idempotency import IdempotencyKwargs, IdempotencyOptions

PAGE = Path(__file__).resolve().parents[3] / "docs" / "idempotency.md"


def test_the_page_shows_every_option_with_its_default():
    """And no other; the keywords of the functions are the fields."""
    section = PAGE.read_text().partition("## Options\n")[2].partition("\n## ")[0]
    shown = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", section, re.MULTILINE))

    options = IdempotencyOptions()
    defaults = {item.name: getattr(options, item.name) for item in fields(options)}

    assert shown == {name: str(value) if isinstance(value, bool) else number(value) for name, value in defaults.items()}
    assert IdempotencyKwargs.__annotations__.keys() == defaults.keys()
