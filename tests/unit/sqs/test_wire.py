"""Messages to and from SQS' shapes, and the rules held against them before any request."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue import InvalidMessageError, MessageTooLargeError
from messagequeue._message import AttributeValue
from messagequeue.driver import EncodedMessage
from messagequeue_sqs._wire import ENCODING_ATTRIBUTE, build_entry, decode_message, measure

LIMIT = 1_048_576


def received(entry: Any, **system: str) -> Any:
    """Return an entry as the service gives it back."""
    raw = {"MessageId": "m1", "ReceiptHandle": "h1", "Body": entry["MessageBody"], "Attributes": system}
    return raw | ({"MessageAttributes": entry["MessageAttributes"]} if "MessageAttributes" in entry else {})


def entry_of(message: EncodedMessage, *, fifo: bool = False) -> Any:
    measure(message, fifo=fifo)
    return build_entry(message, "0", fifo=fifo)


@pytest.mark.parametrize("attributes", [None, {}, {"trace": None}])
def test_entry_of_a_message_without_options_has_id_and_body_only(attributes: Any) -> None:
    """What was not asked for is absent, never empty (PUB-01)."""
    assert entry_of(EncodedMessage(b"x", attributes=attributes)) == {"Id": "0", "MessageBody": "x"}


@pytest.mark.parametrize("option", ["ordering_key", "deduplication_key"])
@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "ü", "tab\t", "\x7f"])
def test_key_that_sqs_refuses_is_refused_by_its_options_name(option: str, key: str) -> None:
    """1 to 128 printable ASCII characters without blanks, on both kinds of queue (PUB-01, PUB-03)."""
    with pytest.raises(InvalidMessageError, match=option):
        measure(EncodedMessage("x", **{option: key}), fifo=False)  # type: ignore[arg-type]


def test_ordering_key_on_a_standard_queue_is_sent() -> None:
    """It is the tenant of fair queues (PUB-03)."""
    assert entry_of(EncodedMessage("x", ordering_key="tenant-1"))["MessageGroupId"] == "tenant-1"


def test_message_without_ordering_key_is_refused_for_fifo() -> None:
    """With the option that is missing; no group is made up."""
    with pytest.raises(InvalidMessageError, match=r"FIFO: pass ordering_key=\.\.\."):
        measure(EncodedMessage("x"), fifo=True)


@pytest.mark.parametrize("delay", [0.0, 1.0, 900.0])
def test_delay_of_whole_seconds_is_sent_as_an_int(delay: float) -> None:
    """0 too: it wins over the queue's own delay (PUB-04)."""
    entry = entry_of(EncodedMessage("x", delay=delay))

    assert entry["DelaySeconds"] == delay
    assert type(entry["DelaySeconds"]) is int


@pytest.mark.parametrize("delay", [-1.0, 0.5, 1.5, 900.5, 901.0, math.nan])
def test_delay_that_sqs_cannot_honour_is_refused(delay: float) -> None:
    """Out of range or a fraction: with the range, and never cut to a whole number (PUB-04)."""
    with pytest.raises(InvalidMessageError, match="0 to 900"):
        measure(EncodedMessage("x", delay=delay), fifo=False)


def test_delay_on_fifo_is_refused_unless_it_is_none() -> None:
    """A FIFO queue takes no DelaySeconds for one message: 0 is left out, another is refused."""
    assert "DelaySeconds" not in entry_of(EncodedMessage("x", ordering_key="g", delay=0.0), fifo=True)
    with pytest.raises(InvalidMessageError, match="FIFO"):
        measure(EncodedMessage("x", ordering_key="g", delay=1.0), fifo=True)


@pytest.mark.parametrize(
    ("body", "position", "code_point"),
    [("ok\x07", 2, "U+0007"), ("\x00", 0, "U+0000"), ("a\ufffe", 1, "U+FFFE"), ("\ud800", 0, "U+D800")],
)
def test_text_outside_the_alphabet_is_refused_with_its_position(body: str, position: int, code_point: str) -> None:
    """In the body and in an attribute; the text says where and which, not what the body was (PUB-06)."""
    with pytest.raises(InvalidMessageError) as in_body:
        measure(EncodedMessage("secret " + body), fifo=False)
    with pytest.raises(InvalidMessageError) as in_attribute:
        measure(EncodedMessage("x", attributes={"note": body}), fifo=False)

    assert f"{code_point} at position {position + 7}" in str(in_body.value)
    assert "secret" not in str(in_body.value)
    assert f"'note' has the character {code_point} at position {position}" in str(in_attribute.value)


def test_text_of_every_allowed_kind_is_sent_as_it_is() -> None:
    """Tab, line feed, carriage return, the bounds of each range."""
    body = "\t\n\r \ud7ff\ue000\ufffd\U00010000\U0010ffff"

    assert entry_of(EncodedMessage(body)) == {"Id": "0", "MessageBody": body}


@pytest.mark.parametrize("body", ["", b""])
def test_empty_body_is_refused(body: str | bytes) -> None:
    """SQS takes one byte or more (PUB-08)."""
    with pytest.raises(InvalidMessageError, match="body is empty"):
        measure(EncodedMessage(body), fifo=False)


def test_bytes_outside_the_alphabet_travel_as_base64_under_the_attribute() -> None:
    """Both bytes that are no text and text that SQS refuses (PUB-06)."""
    for body in (b"\xff\x00\x01", b"ok\x07"):
        entry = entry_of(EncodedMessage(body))
        message, fault = decode_message("t", received(entry))

        assert entry["MessageAttributes"][ENCODING_ATTRIBUTE] == {"DataType": "String", "StringValue": "base64"}
        assert (message.body, message.attributes, fault) == (body, {}, None)


@pytest.mark.parametrize("body", ["cGFy", "[[[[{{{", '{"b64_field":"cGFy"}', "abcd"])
def test_body_that_looks_like_base64_is_delivered_as_it_was_sent(body: str) -> None:
    """Only the attribute makes a receiver decode; our own bytes of such text carry none (SER-01)."""
    assert decode_message("t", received({"MessageBody": body}))[0].body == body.encode()
    assert entry_of(EncodedMessage(body.encode())) == {"Id": "0", "MessageBody": body}


@pytest.mark.parametrize(
    ("body", "encoding", "word"),
    [("abc", "base64", "is not"), ("ab cd", "base64", "is not"), ("x", "gzip", "does not know")],
)
def test_body_that_is_not_what_its_encoding_says_is_a_fault(body: str, encoding: str, word: str) -> None:
    """Strict decoding: the message is not handled, and its body is shown as it came (SER-01)."""
    attributes = {ENCODING_ATTRIBUTE: {"DataType": "String", "StringValue": encoding}}
    message, fault = decode_message("t", received({"MessageBody": body, "MessageAttributes": attributes}))

    assert fault is not None
    assert word in str(fault)
    assert fault.message is message
    assert message.body == body.encode()


def test_size_is_bytes_of_body_names_types_and_values() -> None:
    """The boundary itself passes, one byte more does not; both numbers are told (PUB-07)."""
    attributes: dict[str, AttributeValue] = {"k": "v"}
    fits = EncodedMessage("x" * (LIMIT - 8), attributes=attributes)
    above = EncodedMessage("x" * (LIMIT - 7), attributes=attributes)

    assert measure(fits, fifo=False) == LIMIT
    with pytest.raises(MessageTooLargeError) as caught:
        measure(above, fifo=False)
    assert (caught.value.size, caught.value.limit) == (LIMIT + 1, LIMIT)
    assert "1048577" in str(caught.value)
    assert "1048576" in str(caught.value)


def test_size_counts_bytes_and_not_characters() -> None:
    """600 000 characters of two bytes are too many, and base64 counts as it travels (PUB-07)."""
    with pytest.raises(MessageTooLargeError) as text:
        measure(EncodedMessage("é" * 600_000), fifo=False)
    with pytest.raises(MessageTooLargeError):
        measure(EncodedMessage(b"\xff" * 800_000), fifo=False)
    assert text.value.size == 1_200_000


def test_empty_attribute_is_refused_by_name_and_none_is_left_out() -> None:
    """The message is not sent without it behind the caller's back (PUB-08)."""
    for empty in ("", b""):
        with pytest.raises(InvalidMessageError, match="'user' is empty"):
            measure(EncodedMessage("x", attributes={"user": empty, "ok": "1"}), fifo=False)
    kept: Any = {"trace": None, "ok": "1"}
    assert list(entry_of(EncodedMessage("x", attributes=kept))["MessageAttributes"]) == ["ok"]


@pytest.mark.parametrize(
    "name", ["", "x" * 257, "a b", ".a", "a.", "a..b", "AWS.x", "aws.x", "Amazon.x", "a/b", ENCODING_ATTRIBUTE]
)
def test_attribute_name_that_sqs_refuses_is_refused(name: str) -> None:
    """Alphabet, dots, length, reserved beginnings, and the name this library keeps for itself."""
    with pytest.raises(InvalidMessageError, match="attribute"):
        measure(EncodedMessage("x", attributes={name: "v"}), fifo=False)


def test_eleven_attributes_are_refused_and_the_encoding_counts() -> None:
    """SQS takes ten, whoever asked for them."""
    ten: dict[str, AttributeValue] = {f"a{n}": "v" for n in range(10)}
    measure(EncodedMessage("x", attributes=ten), fifo=False)

    with pytest.raises(InvalidMessageError, match="11 attributes"):
        measure(EncodedMessage("x", attributes=ten | {"b": "v"}), fifo=False)
    with pytest.raises(InvalidMessageError, match=r"11 attributes, with 'messagequeue\.encoding'"):
        measure(EncodedMessage(b"\xff", attributes=ten), fifo=False)


@pytest.mark.parametrize(
    "value", [True, None.__class__, [1], math.inf, math.nan, 10**126, 10**400, 1e-200, int("1" * 39)]
)
def test_attribute_value_that_sqs_cannot_hold_is_refused(value: Any) -> None:
    """Numbers have up to 38 digits between 1E-128 and 1E+126; other types have no form."""
    with pytest.raises(InvalidMessageError, match="'n'"):
        measure(EncodedMessage("x", attributes={"n": value}), fifo=False)


def test_attributes_keep_their_kind_on_the_wire() -> None:
    """Text is String, numbers are Number, bytes are Binary and not encoded here (SER-03, CON-20)."""
    entry = entry_of(EncodedMessage("x", attributes={"s": "x", "i": 7, "f": 1.5, "b": bytes(range(256)), "z": b"\0"}))

    assert entry["MessageAttributes"] == {
        "s": {"DataType": "String", "StringValue": "x"},
        "i": {"DataType": "Number", "StringValue": "7"},
        "f": {"DataType": "Number", "StringValue": "1.5"},
        "b": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
        "z": {"DataType": "Binary", "BinaryValue": b"\0"},
    }


def test_received_message_shows_all_that_sqs_says() -> None:
    """Attributes of labelled types too, keys, count and time (CON-20)."""
    attributes = {
        "s": {"DataType": "String.uuid", "StringValue": "x"},
        "n": {"DataType": "Number.int", "StringValue": "7"},
        "b": {"DataType": "Binary.png", "BinaryValue": b"\x89"},
    }
    raw = received(
        {"MessageBody": "é", "MessageAttributes": attributes},
        MessageGroupId="g",
        MessageDeduplicationId="d",
        SequenceNumber="18849496460467696128",
        ApproximateReceiveCount="3",
        SentTimestamp="1700000000123",
        SomethingNew="1",
    )
    message, fault = decode_message("t", raw)

    assert fault is None
    assert (message.topic, message.id, message.body) == ("t", "m1", "é".encode())
    assert message.attributes == {"s": "x", "n": "7", "b": b"\x89"}
    assert (message.ordering_key, message.deduplication_key) == ("g", "d")
    assert (message.sequence_number, message.delivery_attempt) == ("18849496460467696128", 3)
    assert message.published_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert message.raw is raw


def test_received_message_without_optional_fields_is_whole() -> None:
    """Emulators leave fields out: they are None, and "" is no group (FIFO-06)."""
    message, fault = decode_message("t", {"MessageId": "m1", "ReceiptHandle": "h", "Body": "x"})

    assert fault is None
    assert (message.ordering_key, message.delivery_attempt, message.published_at) == (None, None, None)


text_bodies = st.text(
    st.characters(exclude_categories=["Cs"]).filter(
        lambda c: c in "\t\n\r" or (c >= "\x20" and c not in "\ufffe\uffff")
    ),
    min_size=1,
)


@given(st.one_of(st.binary(min_size=1), text_bodies))
def test_any_body_comes_back_as_the_bytes_it_was(body: bytes | str) -> None:
    """Whether it travelled as text or as base64."""
    message, fault = decode_message("t", received(entry_of(EncodedMessage(body))))

    assert fault is None
    assert message.body == (body.encode() if isinstance(body, str) else body)


@given(
    st.dictionaries(
        st.text("abcXYZ019_-", min_size=1, max_size=20),
        st.one_of(
            text_bodies,
            st.binary(min_size=1),
            st.integers(-(10**37), 10**37),
            st.floats(-1e100, 1e100).filter(lambda x: not x or abs(x) > 1e-120),
        ),
        max_size=10,
    )
)
def test_any_attributes_come_back_with_numbers_as_text(attributes: dict[str, str | bytes | int | float]) -> None:
    """Bytes and text exactly; a number as the text that reads as the same number."""
    message, _ = decode_message("t", received(entry_of(EncodedMessage("x", attributes=attributes))))

    for name, value in attributes.items():
        got = message.attributes[name]
        assert got == value if isinstance(value, str | bytes) else type(value)(got) == value
    assert message.attributes.keys() == attributes.keys()


class Number(float):
    """As numpy's and others' numbers: its repr is not that of a float."""

    def __repr__(self) -> str:
        return f"Number({float.__repr__(self)})"


class Level(IntEnum):
    HIGH = 1


def test_number_of_a_subclass_is_sent_as_its_value() -> None:
    """Whatever its class makes of itself as text."""
    sent = entry_of(EncodedMessage("x", attributes={"a": Number(1.5), "b": Level.HIGH}))["MessageAttributes"]

    assert [value["StringValue"] for value in sent.values()] == ["1.5", "1"]
