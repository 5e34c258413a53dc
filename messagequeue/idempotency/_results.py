"""How what a call returned is kept and given back; not where."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .._codec import JSONCodec
from .._errors import EncodeError, ErrorCode
from ._errors import ResultNotStoredError

T = TypeVar("T")


class ResultCodec(Protocol[T]):
    """Turns results into bytes and back.  `decode(encode(value))` is what every caller gets, the first one too."""

    def encode(self, value: T, /) -> bytes:
        """Return *value* as bytes.  Raise anything where it has no such form: the result is then not kept."""
        ...

    def decode(self, data: bytes, /) -> T:
        """
        Return what was encoded, perhaps by an earlier version of the program.

        Raise anything where it cannot be read: every caller gets `ResultNotStoredError` then.
        """
        ...


class JSONResults:
    """The codec where no other is given: what has a clear JSON form goes in, plain JSON values come out."""

    def encode(self, value: object, /) -> bytes:
        """
        Return JSON.

        Raises:
            EncodeError: *value* has no clear form.
        """
        # In a list, so that bytes and text are what they are in JSON, and not the whole body as in a message.
        return str(JSONCodec().encode([value])).encode()

    def decode(self, data: bytes, /) -> Any:
        """Return the value."""
        return json.loads(data)[0]


def bounded_encode(codec: ResultCodec[T], limit: int, key: str) -> Callable[[T], bytes]:
    """Return a function that encodes a result of at most *limit* bytes, or raises `ResultNotStoredError`."""

    def encode(value: T) -> bytes:
        try:
            data = codec.encode(value)
        except Exception as error:
            why = f"{error}" if isinstance(error, EncodeError) else f"its codec raised {type(error).__name__}"
            raise _not_stored(key, why, value, ErrorCode.ENCODE) from error
        if not isinstance(data, bytes | bytearray | memoryview):
            raise _not_stored(key, f"its codec made {type(data).__name__}, not bytes", value, ErrorCode.ENCODE)
        data = bytes(data)
        if len(data) > limit:
            why = f"it has {len(data)} bytes, the limit is {limit} (max_result): return a reference to it instead"
            raise _not_stored(key, why, value, ErrorCode.TOO_LARGE)
        return data

    return encode


def _not_stored(key: str, why: str, value: object, code: ErrorCode) -> ResultNotStoredError:
    text = f"the work of {key} is done and will not be done again, but its result cannot be kept: {why}"
    return ResultNotStoredError(text, value=value, key=key, code=code)


def unreadable(key: str, value: object, error: Exception) -> ResultNotStoredError:
    """Return what a caller is told whose codec raised *error* of what is kept."""
    return ResultNotStoredError(
        f"the work of {key} is done and will not be done again, but its codec raised {type(error).__name__} when it "
        "read the result that is kept",
        value=value,
        key=key,
        code=ErrorCode.DECODE,
    )


def without_result(key: str) -> ResultNotStoredError:
    """Return what a later caller is told of work whose result was not kept."""
    return ResultNotStoredError(
        f"the work of {key} was done earlier and will not be done again, but its result was not kept: "
        "look in the log of whoever did it",
        key=key,
    )
