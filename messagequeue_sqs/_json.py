"""
JSON of requests and answers as bytes, with orjson where it is installed; not the codec of message bodies.

Bytes are written as base64, which is what the service's model says of blobs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any


def _plain(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} has no place in a request")


def plain_dumps(value: object) -> bytes:
    """
    Return *value* as UTF-8 JSON with the standard library.

    Raises:
        TypeError, ValueError: it cannot be written; lone surrogates included.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


def _orjson() -> tuple[Callable[[object], bytes], Callable[[bytes], Any]]:
    try:
        import orjson
    except ImportError:
        return plain_dumps, json.loads

    def dumps(value: object) -> bytes:
        return orjson.dumps(value, default=_plain)

    def loads(data: bytes) -> Any:
        try:
            return orjson.loads(data)
        except ValueError:  # it refuses lone surrogates, which a message may have and the SDK lets pass
            return json.loads(data)

    return dumps, loads


dumps, loads = _orjson()
