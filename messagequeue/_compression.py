"""
Compressed bodies: which are worth it, how they are marked, how they are opened within bounds; no option is read here.

A compressed body is bytes with the attribute `messagequeue.compression`, which names the algorithm.  Only that
attribute makes a consumer decompress, never the look of a body.
"""

from __future__ import annotations

import importlib.util
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ._errors import ConfigurationError, InvalidMessageError
from .driver import EncodedMessage

#: The attribute that says how a body is compressed.  It is set by publishers and taken off by consumers.
COMPRESSION_ATTRIBUTE = "messagequeue.compression"
GZIP, ZSTD = "gzip", "zstd"
#: The level where nobody says one, which is that of the algorithms' own tools.
_LEVEL = {GZIP: 6, ZSTD: 3}

#: Bytes that are opened at one time, a millisecond or two of work.
PIECE_BYTES = 1_048_576
#: A compressed body is kept where it has at most this part of the plain one: brokers of text carry bytes as base64, a
#: third larger, so that less would save nothing.
_WORTH = 0.7
#: zlib: a gzip header and trailer around the deflate stream; without a time, so that equal bodies stay equal.
_GZIP_FRAME = 31
#: Base-2 logarithms of the window that a zstd frame may ask memory for.
_WINDOW_MIN, _WINDOW_MAX = 10, 27


class CompressionError(ValueError):
    """A compressed body cannot be opened; the text says why, without the body."""


_NEEDS = "needs Python 3.14 or backports.zstd: pip install 'messagequeue[zstd]'"


def require_compression(algorithm: str) -> None:
    """Raise `ConfigurationError` where *algorithm* needs something that is not installed."""
    if algorithm == ZSTD and not _has_zstd():
        raise ConfigurationError(f"compression='zstd' {_NEEDS}")


class Compressor:
    """
    Compresses the bodies of published messages; called once for each.

    Args:
        algorithm: `gzip` or `zstd`.
        threshold: Bytes; smaller bodies are left alone.
        level: 1 to 9 for gzip, 1 to 22 for zstd; None: 6 and 3.

    Raises:
        ConfigurationError: *algorithm* needs something that is not installed.
    """

    __slots__ = ("_algorithm", "_compress", "_threshold")

    def __init__(self, algorithm: str, *, threshold: int, level: int | None = None) -> None:
        require_compression(algorithm)
        self._algorithm = algorithm
        self._threshold = threshold
        self._compress = _COMPRESS[algorithm](_LEVEL[algorithm] if level is None else level)

    def __call__(self, message: EncodedMessage, /) -> EncodedMessage:
        """
        Return *message* with its body compressed and marked, or as it is where that does not save three tenths.

        Raises:
            InvalidMessageError: the caller set the mark.
        """
        attributes = message.attributes or {}
        if COMPRESSION_ATTRIBUTE in attributes:
            raise InvalidMessageError(
                f"attribute {COMPRESSION_ATTRIBUTE!r} is set by this library where it compresses a body: drop it"
            )
        body = message.body.encode() if isinstance(message.body, str) else message.body
        if len(body) < self._threshold:
            return message
        made = self._compress(body)
        if len(made) > len(body) * _WORTH:
            return message
        return replace(message, body=made, attributes={**attributes, COMPRESSION_ATTRIBUTE: self._algorithm})


def _gzip_at(level: int) -> Callable[[bytes], bytes]:
    def compress(body: bytes) -> bytes:
        deflater = zlib.compressobj(level, wbits=_GZIP_FRAME)
        return deflater.compress(body) + deflater.flush()

    return compress


def _zstd_at(level: int) -> Callable[[bytes], bytes]:
    zstd = _zstd()

    def compress(body: bytes) -> bytes:
        made: bytes = zstd.compress(body, level)
        return made

    return compress


_COMPRESS = {GZIP: _gzip_at, ZSTD: _zstd_at}


class _Inflater(Protocol):
    """A compressed body that is being opened."""

    @property
    def ended(self) -> bool:
        """Nothing more comes."""
        ...

    @property
    def rest(self) -> bytes:
        """What follows the end of it; a whole body has nothing there."""
        ...

    def take(self, most: int, /) -> bytes:
        """Return up to *most* bytes, 1 or more; none where input is missing.  Raises `CompressionError`."""
        ...


def plain_pieces(body: bytes, algorithm: str | bytes, *, limit: int) -> Iterator[bytes]:
    """
    Yield the plain body in pieces of up to `PIECE_BYTES`; *limit* bytes and one are the most that are made of it.

    Raises:
        CompressionError: an unknown algorithm, one that is not installed, more than *limit* bytes, a damaged, cut or
            continued body.
    """
    inflater_of = _INFLATERS.get(algorithm) if isinstance(algorithm, str) else None
    if inflater_of is None:
        raise CompressionError(f"its attribute {COMPRESSION_ATTRIBUTE!r} names a compression that this version lacks")
    inflater, made = inflater_of(body, limit), 0
    while not inflater.ended:
        piece = inflater.take(min(PIECE_BYTES, limit - made + 1))
        made += len(piece)
        if made > limit:
            raise CompressionError(f"its body has more than {limit} bytes when decompressed: raise max_decompressed")
        if piece:
            yield piece
        elif not inflater.ended:
            raise CompressionError("its compressed body ends too early")
    if inflater.rest:
        raise CompressionError("something follows its compressed body")


class _Gunzip:
    def __init__(self, body: bytes, limit: int) -> None:
        self._inflater = zlib.decompressobj(wbits=_GZIP_FRAME)
        self._input = body

    @property
    def ended(self) -> bool:
        return self._inflater.eof

    @property
    def rest(self) -> bytes:
        return self._inflater.unused_data

    def take(self, most: int, /) -> bytes:
        try:
            piece = self._inflater.decompress(self._input, most)
        except zlib.error as error:
            raise _not_what_it_says(GZIP) from error
        self._input = self._inflater.unconsumed_tail
        return piece


class _Unzstd:
    def __init__(self, body: bytes, limit: int) -> None:
        if not _has_zstd():
            raise CompressionError(f"it is compressed with zstd, which {_NEEDS}")
        self._zstd = _zstd()
        # The window is memory that the frame asks for, whatever it holds: no more of it than of the body itself.
        window = min(max(limit.bit_length(), _WINDOW_MIN), _WINDOW_MAX)
        options = {self._zstd.DecompressionParameter.window_log_max: window}
        self._inflater = self._zstd.ZstdDecompressor(options=options)
        self._input = body

    @property
    def ended(self) -> bool:
        ended: bool = self._inflater.eof
        return ended

    @property
    def rest(self) -> bytes:
        rest: bytes = self._inflater.unused_data
        return rest

    def take(self, most: int, /) -> bytes:
        try:
            piece: bytes = self._inflater.decompress(self._input, max_length=most)
        except self._zstd.ZstdError as error:
            raise _not_what_it_says(ZSTD) from error
        self._input = b""  # it keeps what it has not used
        return piece


_INFLATERS: Mapping[str, Callable[[bytes, int], _Inflater]] = {GZIP: _Gunzip, ZSTD: _Unzstd}


def _not_what_it_says(algorithm: str) -> CompressionError:
    return CompressionError(f"its attribute {COMPRESSION_ATTRIBUTE!r} says {algorithm}, and its body is not")


def _has_zstd() -> bool:
    if sys.version_info >= (3, 14):
        return True
    try:
        return importlib.util.find_spec("backports.zstd") is not None
    except ModuleNotFoundError:  # no `backports` at all
        return False


def _zstd() -> Any:
    """Return the standard library's module (Python 3.14), or its backport, which is the same code."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
