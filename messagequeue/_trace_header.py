"""
W3C's traceparent and AWS X-Ray's trace header, one made of the other; nothing here decides what is traced.

Sources: W3C Trace Context, "traceparent header"; AWS X-Ray Developer Guide, "Tracing header".
"""

from __future__ import annotations

import re

#: Version 00.  Later versions may have more behind a further dash, and are read as far as they are known.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_ROOT = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
_PARENT = re.compile(r"[0-9a-f]{16}")
_LONGEST = 512


def xray_of(traceparent: str) -> str | None:
    """
    Return the X-Ray header of a *traceparent*, or None where that is none.

    X-Ray calls the first eight digits of a trace a time.  They are passed on as they are, whatever they are: whoever
    reads them back gets the same trace.
    """
    found = _TRACEPARENT.fullmatch(traceparent) if len(traceparent) <= _LONGEST else None
    if found is None:
        return None
    trace, parent, flags = found[1], found[2], int(found[3], 16)
    return f"Root=1-{trace[:8]}-{trace[8:]};Parent={parent};Sampled={flags & 1}"


def traceparent_of(header: str) -> str | None:
    """
    Return the traceparent of an X-Ray *header*, or None where it names no trace and parent.

    Only `Sampled=1` says that the trace is recorded; `?`, which leaves that open, and no word of it do not.  Other
    parts, such as `Self` and `Lineage`, are left out.
    """
    if len(header) > _LONGEST:
        return None
    parts: dict[str, str] = {}
    for part in header.lower().split(";"):
        name, _, value = part.strip().partition("=")
        parts[name] = value
    root, parent = _ROOT.fullmatch(parts.get("root", "")), parts.get("parent", "")
    if root is None or not _PARENT.fullmatch(parent):
        return None
    traceparent = f"00-{root[1]}{root[2]}-{parent}-{'01' if parts.get('sampled') == '1' else '00'}"
    return traceparent if _TRACEPARENT.fullmatch(traceparent) else None
