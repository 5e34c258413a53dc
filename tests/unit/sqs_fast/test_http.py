"""Answers from bytes: where they end, what may follow, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue_sqs._fast._http import HEAD_BYTES, LINE_BYTES, Answer, AnswerReader, BadAnswer

SIZED = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\ncontent-LENGTH:  5 \r\n\r\nhello"
CHUNKS = b"3;ext=1\r\nhel\r\n02\r\nlo\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n" + CHUNKS
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SIZED
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: Close\r\n\r\nhello"
EMPTY = b"HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n"
NO_BODY = b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n"
ALL = {"sized": SIZED, "chunked": CHUNKED, "interim": INTERIM, "closing": CLOSING, "empty": EMPTY, "no-body": NO_BODY}


def feed(reader: AnswerReader, *pieces: bytes) -> list[Answer]:
    return [answer for piece in pieces if (answer := reader.feed(piece)) is not None]


@pytest.mark.parametrize("data", ALL.values(), ids=ALL.keys())
def test_answer_is_the_same_wherever_it_is_cut(data: bytes) -> None:
    """In one piece, cut in two at every byte, and byte by byte: one answer, complete with its last byte only."""
    [whole] = feed(AnswerReader(), data)
    cuts = [(data[:at], data[at:]) for at in range(1, len(data))]
    for pieces in [*cuts, tuple(bytes([byte]) for byte in data)]:
        reader = AnswerReader()

        assert feed(reader, *pieces[:-1]) == []
        answer = reader.feed(pieces[-1])
        assert answer is not None
        assert (answer.status, answer.body, answer.reusable) == (whole.status, whole.body, whole.reusable)
        assert answer.headers == whole.headers


def test_answer_has_status_body_and_headers() -> None:
    """Names in lower case, values without outer blanks, repeated ones joined."""
    [answer] = feed(AnswerReader(), SIZED)
    [other] = feed(AnswerReader(), b"HTTP/1.1 400 Bad\r\nA: 1\r\na:2\r\nContent-Length: 0\r\n\r\n")

    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers == {"content-type": "application/x-amz-json-1.0", "content-length": "5"}
    assert other.headers == {"a": "1, 2", "content-length": "0"}


@pytest.mark.parametrize("data", [SIZED, CHUNKED, EMPTY], ids=["sized", "chunked", "empty"])
def test_answers_follow_each_other(data: bytes) -> None:
    """A connection carries any number of them, whatever their framing."""
    answers = feed(AnswerReader(), data, SIZED, data)

    assert [answer.reusable for answer in answers] == [True] * 3
    assert answers[1].body == b"hello"


@pytest.mark.parametrize(
    ("data", "reusable"),
    [
        (CLOSING, False),
        (SIZED.replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (SIZED.replace(b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK\r\nConnection: keep-alive"), True),
        (SIZED + b"HTTP/1.1 200 OK", False),
        (CHUNKED + b"x", False),
    ],
    ids=["close", "1.0", "1.0-keep-alive", "more-than-asked", "more-after-chunks"],
)
def test_answer_says_whether_its_connection_may_be_used_again(data: bytes, reusable: bool) -> None:
    """Not after `Connection: close`, not on HTTP/1.0 without a word, not where more came than was asked for."""
    [answer] = feed(AnswerReader(), data)

    assert answer.body == b"hello"
    assert answer.reusable is reusable


def test_answer_without_length_ends_with_the_connection() -> None:
    """As HTTP/1.0 servers do; the connection is over then."""
    reader = AnswerReader()

    assert feed(reader, b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo") == []
    answer = reader.eof()
    assert answer is not None
    assert (answer.body, answer.reusable) == (b"hello", False)


@pytest.mark.parametrize("data", [SIZED, CHUNKED, INTERIM], ids=["sized", "chunked", "interim"])
def test_end_of_the_connection_within_an_answer_is_a_fault(data: bytes) -> None:
    """A cut answer is never taken for a short one, wherever it is cut."""
    for at in range(1, len(data)):
        reader = AnswerReader()
        if reader.feed(data[:at]) is None and reader.begun:
            with pytest.raises(BadAnswer):
                reader.eof()


def test_end_of_the_connection_between_answers_is_none() -> None:
    """Servers close what is idle."""
    reader = AnswerReader()
    feed(reader, SIZED)

    assert reader.eof() is None


BAD = {
    "not-http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "tls-alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "http2": b"HTTP/2 200\r\n\r\n",
    "status-word": b"HTTP/1.1 abc OK\r\n\r\n",
    "status-600": b"HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "length-word": b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
    "length-sign": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
    "length-twice": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "length-huge": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\n",
    "length-and-chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "gzip": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "folded": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "chunk-word": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "chunk-sign": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "chunk-too-long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    "chunk-line": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (LINE_BYTES + 2),
    "head-endless": b"HTTP/1.1 200 OK\r\nA: " + b"a" * HEAD_BYTES,
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_garbage_is_refused_and_never_an_answer(data: bytes) -> None:
    """What has no certain end is no answer, in one piece or byte by byte."""
    with pytest.raises(BadAnswer):
        AnswerReader().feed(data)
    with pytest.raises(BadAnswer):
        feed(AnswerReader(), *[bytes([byte]) for byte in data])


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_input_makes_the_reader_fail_otherwise(first: bytes, second: bytes) -> None:
    """Random bytes give an answer, nothing yet, or `BadAnswer`."""
    reader = AnswerReader()
    try:
        reader.feed(b"HTTP/1.1 200 OK\r\n" + first)
        reader.feed(second)
    except BadAnswer:
        pass


@given(st.binary(max_size=2_000), st.lists(st.integers(1, 700), max_size=20), st.integers(1, 64))
def test_chunked_body_is_put_together_however_it_is_cut(body: bytes, chunks: list[int], step: int) -> None:
    """Any chunk sizes, any sizes of what arrives at once."""
    data, at = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0
    for size in [*chunks, len(body)]:
        piece = body[at : at + size]
        at += len(piece)
        data += b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
    data += b"0\r\n\r\n"
    [answer] = feed(AnswerReader(), *[data[start : start + step] for start in range(0, len(data), step)])

    assert answer.body == body
    assert answer.reusable
