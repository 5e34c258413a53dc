"""The tables of options in the documentation are those of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from messagequeue import UnknownProviderError
from tools.config_tables import ROOT, rendered, table


def test_a_table_has_a_row_for_each_option() -> None:
    """Name, default, bounds with unit, environment variable, sentence; shared tables are left to their own."""
    rows = table("fake").splitlines()

    assert "| `poll` | `1.0` | 0 to 60 seconds | `MESSAGEQUEUE_FAKE_POLL_SECONDS` | A duration. |" in rows
    assert "| `verify` | `True` | True or False | `MESSAGEQUEUE_FAKE_VERIFY` | A switch. |" in rows
    assert "| `address` | `None` | text (or None) | `MESSAGEQUEUE_FAKE_ADDRESS` | Where the broker is. |" in rows
    assert "consume" not in table("fake")


def test_the_options_that_all_providers_share_have_a_table_each() -> None:
    """With the provider's place in the variable left open."""
    row = "| `consume.concurrency` | `10` | 1 to 100000 | `MESSAGEQUEUE_<PROVIDER>_CONSUME_CONCURRENCY` |"
    assert any(line.startswith(row) for line in table("consume").splitlines())
    assert "`MESSAGEQUEUE_<PROVIDER>_PUBLISH_BATCH_BYTES`" in table("publish")


def test_only_what_is_between_markers_is_written() -> None:
    """The words around a table are the author's."""
    old = "before\n<!-- config:fake -->\nstale\n<!-- /config:fake -->\nafter <!-- config:consume -->\n"
    old += "<!-- /config:consume -->"
    new = rendered(old)

    assert new == (
        f"before\n<!-- config:fake -->\n{table('fake')}<!-- /config:fake -->\n"
        f"after <!-- config:consume -->\n{table('consume')}<!-- /config:consume -->"
    )
    assert rendered(new) == new


def test_a_bad_marker_is_an_error() -> None:
    """One that never ends, and one of a provider that does not exist."""
    with pytest.raises(ValueError, match="has no <!-- /config:fake -->"):
        rendered("<!-- config:fake -->\n")
    with pytest.raises(UnknownProviderError):
        rendered("<!-- config:fakke -->\n<!-- /config:fakke -->")


def test_the_documents_hold_what_the_code_says() -> None:
    """In a process of its own, for the providers are the real ones; where it fails, `make docs` writes them anew."""
    script = Path(ROOT) / "tools" / "config_tables.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], cwd="/", capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
