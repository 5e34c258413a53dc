"""W3C's traceparent and X-Ray's trace header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue._trace_header import traceparent_of, xray_of

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HEADER = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"


def test_traceparent_and_header_say_the_same():
    """The trace's 32 digits are the root's 8 and 24, the span is the parent, the flag `sampled` is `Sampled`."""
    assert xray_of(TRACEPARENT) == HEADER
    assert traceparent_of(HEADER) == TRACEPARENT
    assert xray_of(TRACEPARENT.replace("-01", "-00")) == HEADER.replace("Sampled=1", "Sampled=0")


@given(
    trace=st.integers(1, 2**128 - 1),
    span=st.integers(1, 2**64 - 1),
    flags=st.integers(0, 255),
)
def test_a_traceparent_comes_back_from_its_header(trace: int, span: int, flags: int):
    """Trace, span and the decision to record survive; other flags have no place in the header."""
    header = xray_of(f"00-{trace:032x}-{span:016x}-{flags:02x}")

    assert header is not None
    assert traceparent_of(header) == f"00-{trace:032x}-{span:016x}-{flags & 1:02x}"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "00-zz",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        TRACEPARENT.upper(),
        TRACEPARENT + "x",
        TRACEPARENT + "-" + "x" * 600,
    ],
)
def test_what_is_no_traceparent_has_no_header(wrong: str):
    """A later version with more behind it is one; all zeros, capitals and garbage are none."""
    assert xray_of(wrong) is None
    assert xray_of(f"01{TRACEPARENT[2:]}-more") == HEADER


@pytest.mark.parametrize(
    ("header", "flags"),
    [
        ("Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7", "00"),
        ("Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=?", "00"),
        ("Self=1-0-0; Root=1-4bf92f35-77b34da6a3ce929d0e0e4736; Parent=00f067aa0ba902b7; Sampled=1;Lineage=a:0", "01"),
        ("root=1-4BF92F35-77B34DA6A3CE929D0E0E4736;PARENT=00f067aa0ba902b7;sampled=1", "01"),
    ],
)
def test_headers_as_others_write_them_are_read(header: str, flags: str):
    """Undecided is not recorded; other parts, blanks and capitals do no harm."""
    assert traceparent_of(header) == TRACEPARENT[:-2] + flags


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736",
        "Root=2-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7",
        "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=xyz",
        f"Root=1-{'0' * 8}-{'0' * 24};Parent=00f067aa0ba902b7;Sampled=1",
        HEADER + ";" + "x" * 600,
        "\x00;==;Root",
    ],
)
def test_what_names_no_trace_and_parent_is_no_traceparent(header: str):
    """A root alone, another version, zeros or garbage: no parent, and no exception."""
    assert traceparent_of(header) is None
