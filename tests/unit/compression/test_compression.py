"""Compressing a message and opening a compressed body, without any provider."""

from __future__ import annotations

import gzip
import os
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue import ConfigurationError, InvalidMessageError, PublishOptions
from messagequeue._compression import (
    COMPRESSION_ATTRIBUTE,
    PIECE_BYTES,
    CompressionError,
    Compressor,
    plain_pieces,
    require_compression,
)
from messagequeue.driver import EncodedMessage

ALGORITHMS = ["gzip", "zstd"]
TEXT = '{"name": "value", "häuser": [1, 2, 3]}' * 100

both = pytest.mark.parametrize("algorithm", ALGORITHMS)


def compressed(body: str | bytes, algorithm: str = "gzip", *, threshold: int = 0, **options: int) -> EncodedMessage:
    return Compressor(algorithm, threshold=threshold, **options)(EncodedMessage(body))


def raw(body: bytes, algorithm: str) -> bytes:
    """Return *body* as the algorithm's own tools compress it, whether it is worth it or not."""
    if algorithm == "gzip":
        return gzip.compress(body)
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(body)  # type: ignore[no-any-return]


def opened(body: bytes, algorithm: str | bytes, limit: int = 10_000_000) -> bytes:
    return b"".join(plain_pieces(body, algorithm, limit=limit))


@both
@pytest.mark.parametrize("body", [TEXT, TEXT.encode(), bytes(range(256)) * 40], ids=["text", "utf8", "binary"])
def test_compressed_body_is_smaller_marked_and_comes_back(algorithm: str, body: str | bytes) -> None:
    """It is bytes, the attribute names the algorithm, and opening it gives the body's bytes."""
    made = compressed(body, algorithm)

    plain = body.encode() if isinstance(body, str) else body
    assert isinstance(made.body, bytes)
    assert len(made.body) < len(plain) * 0.7
    assert made.attributes == {COMPRESSION_ATTRIBUTE: algorithm}
    assert opened(made.body, algorithm) == plain


@both
def test_what_it_saves_nothing_on_is_left_alone(algorithm: str) -> None:
    """Random bytes, short text and a body below the threshold are the same object as before, without a mark."""
    squeeze = Compressor(algorithm, threshold=1_000)
    for body in (os.urandom(5_000), "a" * 999, "ä" * 499):
        message = EncodedMessage(body)

        assert squeeze(message) is message
    assert compressed("short", algorithm).body == "short"


@both
def test_threshold_counts_bytes_not_characters(algorithm: str) -> None:
    """500 characters of two bytes reach a threshold of 1000."""
    assert compressed("ä" * 500, algorithm, threshold=1_000).attributes


@both
def test_equal_bodies_are_equal_when_compressed(algorithm: str) -> None:
    """No time and no chance is in it: content-based deduplication still finds repetitions."""
    assert compressed(TEXT, algorithm).body == compressed(TEXT, algorithm).body


def test_callers_attributes_are_not_changed() -> None:
    """The mark goes into a mapping of its own, so that the caller's next message does not carry it (EXT-08)."""
    attributes = {"kind": "order"}
    squeeze = Compressor("gzip", threshold=0)
    large = squeeze(EncodedMessage(TEXT, attributes=attributes))
    small = squeeze(EncodedMessage("x", attributes=attributes))

    assert attributes == {"kind": "order"}
    assert large.attributes == {"kind": "order", COMPRESSION_ATTRIBUTE: "gzip"}
    assert small.attributes == {"kind": "order"}


def test_mark_of_the_callers_own_is_refused() -> None:
    """It would say something of a body that this library did not compress."""
    with pytest.raises(InvalidMessageError, match=r"messagequeue\.compression"):
        Compressor("gzip", threshold=0)(EncodedMessage("x", attributes={COMPRESSION_ATTRIBUTE: "gzip"}))


@both
def test_level_is_used(algorithm: str) -> None:
    """A higher level makes a smaller body of one that rewards it."""
    body = "".join(f'{{"id": {n}, "next": {n * 7919 % 1000}}}' for n in range(5_000))

    low, high = (compressed(body, algorithm, level=level).body for level in (1, {"gzip": 9, "zstd": 19}[algorithm]))
    assert len(high) < len(low)


# -- what is not to be trusted -------------------------------------------------------------------------------------


@both
def test_a_bomb_is_never_made_whole(algorithm: str) -> None:
    """64 MiB of nothing stop at the limit and one byte, in pieces of bounded size."""
    bomb = raw(bytes(64 * PIECE_BYTES), algorithm)
    assert len(bomb) < 100_000
    made = []

    with pytest.raises(CompressionError, match="more than 3000000 bytes"):
        made.extend(len(piece) for piece in plain_pieces(bomb, algorithm, limit=3_000_000))
    assert sum(made) <= 3_000_001
    assert max(made) <= PIECE_BYTES


@both
def test_body_of_just_the_limit_is_opened(algorithm: str) -> None:
    """The limit itself is allowed, one byte more is not."""
    body = raw(bytes(1_000), algorithm)

    assert len(opened(body, algorithm, limit=1_000)) == 1_000
    with pytest.raises(CompressionError, match="more than 999 bytes"):
        opened(body, algorithm, limit=999)


@both
def test_damaged_cut_and_continued_bodies_are_refused(algorithm: str) -> None:
    """Each with a text of its own, which has nothing of the body in it."""
    body = raw(TEXT.encode(), algorithm)
    cases = {b"plain text": "its body is not", body[:-3]: "ends too early", body + b"x": "follows", b"": "too early"}
    for wrong, words in cases.items():
        with pytest.raises(CompressionError, match=words) as raised:
            opened(wrong, algorithm)
        assert "plain text" not in str(raised.value)


def test_gzip_whose_checksum_is_wrong_is_refused() -> None:
    """A body that was changed on its way is not taken for the one that was sent."""
    body = bytearray(raw(TEXT.encode(), "gzip"))
    body[-5] ^= 1

    with pytest.raises(CompressionError, match="says gzip, and its body is not"):
        opened(bytes(body), "gzip")


@pytest.mark.parametrize("algorithm", ["lzma", b"gzip", "", "GZIP"])
def test_unknown_algorithm_is_refused(algorithm: str | bytes) -> None:
    """What a later version may write is not guessed at."""
    with pytest.raises(CompressionError, match="names a compression"):
        opened(b"x", algorithm)


def test_zstd_frame_that_asks_for_a_large_window_is_refused() -> None:
    """The memory for a window is asked for by the sender: it is bounded as the body is."""
    window_of_64_mib = bytes([0x28, 0xB5, 0x2F, 0xFD, 0x00, (26 - 10) << 3, 0x01, 0x00, 0x00])

    assert opened(window_of_64_mib, "zstd", limit=1 << 26) == b""
    with pytest.raises(CompressionError, match="says zstd"):
        opened(window_of_64_mib, "zstd", limit=1_000_000)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="zstd is in the standard library")
def test_zstd_that_is_not_installed_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher with it cannot be made; a message that has it cannot be opened; both say what to install."""
    monkeypatch.setitem(sys.modules, "backports.zstd", None)

    with pytest.raises(ConfigurationError, match=r"messagequeue\[zstd\]"):
        require_compression("zstd")
    with pytest.raises(ConfigurationError, match=r"messagequeue\[zstd\]"):
        Compressor("zstd", threshold=0)
    with pytest.raises(CompressionError, match=r"messagequeue\[zstd\]"):
        opened(b"x", "zstd")


@both
@given(body=st.binary(max_size=3_000), limit=st.integers(1, 4_000))
def test_any_body_comes_back_or_is_above_the_limit(algorithm: str, body: bytes, limit: int) -> None:
    """Whatever it holds and however long it is."""
    made = raw(body, algorithm)
    if len(body) <= limit:
        assert opened(made, algorithm, limit) == body
    else:
        with pytest.raises(CompressionError):
            opened(made, algorithm, limit)


@both
@given(noise=st.binary(max_size=200), at=st.integers(0, 300))
def test_noise_is_refused_or_opened_and_never_anything_else(algorithm: str, noise: bytes, at: int) -> None:
    """A sender can put anything there; no other exception comes out."""
    body = raw(b"abc" * 100, algorithm)
    try:
        assert len(opened(body[:at] + noise + body[at + len(noise) :], algorithm, 1_000)) <= 1_000
    except CompressionError:
        pass


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "lzma"},
        {"compression": "gzip", "compression_level": 10},
        {"compression": "zstd", "compression_level": 23},
        {"compression": "gzip", "compression_level": 0},
        {"compression": "gzip", "compression_level": 2.5},
        {"compression_threshold": -1},
    ],
)
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    """With the option's name and what it may be."""
    with pytest.raises(ConfigurationError, match="compression"):
        PublishOptions(**options)  # type: ignore[arg-type]


def test_zlib_and_gzip_tools_read_what_is_published() -> None:
    """A reader in another language needs nothing but gzip."""
    made = compressed(TEXT)

    assert isinstance(made.body, bytes)
    assert gzip.decompress(made.body) == zlib.decompress(made.body, wbits=31) == TEXT.encode()
