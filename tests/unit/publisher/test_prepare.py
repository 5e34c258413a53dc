"""What options a message may have, and what becomes of them before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum, IntEnum
from types import MappingProxyType

import pytest

from messagequeue import (
    EncodeError,
    ErrorCode,
    InvalidMessageError,
    MessageTooLargeError,
    Outgoing,
    UnsupportedOptionError,
)
from messagequeue._codec import Codec, JSONCodec
from messagequeue.driver import Capabilities, EncodedMessage
from messagequeue.runtime.prepare import Preparer
from messagequeue.testing import ScriptedSender

STANDARD = Capabilities(ordering_key="accepted", deduplication=True, max_delay=900.0, delay_resolution=1.0)
FIFO = Capabilities(ordering=True, ordering_key="required", deduplication=True)
PLAIN = Capabilities()

SECRET = "hunter2"


def prepared(
    data: object, able: Capabilities = STANDARD, /, *, codec: Codec | None = None, **options: object
) -> EncodedMessage:
    preparer = Preparer("orders", ScriptedSender(capabilities=able, max_size=1000), codec or JSONCodec())
    return preparer.message(data, preparer.terms(options))[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attributes": {}},
        {"attributes": None},
        {"attributes": {"a": None}},
        {"ordering_key": None, "deduplication_key": None, "delay": None},
    ],
)
def test_unset_options_are_absent(options: Mapping[str, object]) -> None:
    """None, {} and attributes that are None are left out, never passed on empty (PUB-01)."""
    assert prepared(b"x", **options) == EncodedMessage(b"x")


@pytest.mark.parametrize("option", ["ordering_key", "deduplication_key"])
@pytest.mark.parametrize("value", ["", 7, b"a", "\ud800"])
def test_key_that_is_empty_or_no_text_is_refused_by_name(option: str, value: object) -> None:
    """An empty key is neither sent nor silently dropped (PUB-01)."""
    with pytest.raises(InvalidMessageError, match=option):
        prepared(b"x", **{option: value})


@pytest.mark.parametrize(("delay", "seconds"), [(0, 0.0), (1, 1.0), (900, 900.0), (timedelta(seconds=2), 2.0)])
def test_delay_is_seconds(delay: object, seconds: float) -> None:
    """Numbers and timedeltas within the topic's range become seconds; 0 is a delay, not its absence (PUB-04)."""
    assert prepared(b"x", delay=delay).delay == seconds


@pytest.mark.parametrize("delay", [901, -1, 1.5, "2", True, float("nan"), float("inf"), timedelta(milliseconds=10)])
def test_delay_out_of_range_is_refused_with_the_range(delay: object) -> None:
    """No fraction is cut, nothing is converted from text, and the error names the range (PUB-04)."""
    with pytest.raises(ValueError, match=r"0 to 900"):
        prepared(b"x", delay=delay)


def test_delay_resolution_forgives_rounding() -> None:
    """A delay computed in floats is as good as the exact one."""
    able = Capabilities(max_delay=10.0, delay_resolution=0.1)

    assert prepared(b"x", able, delay=0.1 + 0.2).delay == pytest.approx(0.3)
    with pytest.raises(InvalidMessageError, match=r"multiples of 0\.1"):
        prepared(b"x", able, delay=0.25)


def test_delay_that_the_topic_cannot_honour_is_refused() -> None:
    """A topic without delays refuses one, and takes 0, which asks for nothing and is left out."""
    assert prepared(b"x", PLAIN, delay=0) == EncodedMessage(b"x")
    with pytest.raises(UnsupportedOptionError, match=r"'orders' cannot delay .* delay=2 out; set .* raise RetryLater"):
        prepared(b"x", PLAIN, delay=2)


def test_delay_that_is_too_long_says_what_to_do_instead() -> None:
    """The range, and the two ways to a longer wait (PUB-04)."""
    with pytest.raises(InvalidMessageError, match=r"delay=901 .* takes 0 to 900 seconds; .* scheduler .* RetryLater"):
        prepared(b"x", delay=timedelta(seconds=901))


@pytest.mark.parametrize("option", ["ordering_key", "deduplication_key"])
def test_key_that_the_topic_cannot_honour_is_refused(option: str) -> None:
    """What the caller would rely on is never dropped silently; the topic and the option are named."""
    with pytest.raises(UnsupportedOptionError, match=rf"'orders' takes no {option}"):
        prepared(b"x", PLAIN, **{option: "a"})


def test_fifo_topic_needs_an_ordering_key() -> None:
    """The error says what to pass; with a key the message goes."""
    with pytest.raises(InvalidMessageError, match=r"'orders' is FIFO: pass ordering_key=… on every publish"):
        prepared(b"x", FIFO)
    assert prepared(b"x", FIFO, ordering_key="a").ordering_key == "a"


def test_unknown_option_is_a_type_error_with_the_likely_name() -> None:
    """A misspelt option fails as a misspelt keyword does."""
    with pytest.raises(TypeError, match=r"'dealy'.*did you mean 'delay'"):
        prepared(b"x", dealy=1)


def test_attributes_keep_their_values() -> None:
    """Text, bytes and numbers pass as they are; None is left out; the caller's mapping is only read (EXT-08)."""
    given = {"a": "é", "b": b"\x00", "c": 1, "d": 1.5, "e": None}
    before = dict(given)

    message = prepared(b"x", attributes=MappingProxyType(given))

    assert message.attributes == {"a": "é", "b": b"\x00", "c": 1, "d": 1.5}
    assert given == before


class Number(float):
    """As numpy's and others' numbers: its repr is not that of a float."""

    def __repr__(self) -> str:
        return f"Number({float.__repr__(self)})"


class Level(IntEnum):
    HIGH = 1


class Colour(str, Enum):  # noqa: UP042 - a StrEnum is no more than this
    RED = "red"


@pytest.mark.parametrize(
    ("given", "plain"),
    [(Number(1.5), 1.5), (Level.HIGH, 1), (Colour.RED, "red"), (type("B", (bytes,), {})(b"x"), b"x")],
)
def test_attribute_of_a_subclass_becomes_the_plain_value(given: object, plain: object) -> None:
    """What a provider makes of a value cannot depend on what the value's class says of it."""
    message = prepared(b"x", attributes={"a": given})

    assert message.attributes == {"a": plain}
    assert type(message.attributes["a"]) is type(plain)


def test_attributes_are_the_messages_own() -> None:
    """Changing the mapping after the call changes no message that still waits (EXT-08)."""
    given = {"a": "1"}
    message = prepared(b"x", attributes=given)
    given["a"] = "2"

    assert message.attributes == {"a": "1"}
    with pytest.raises(TypeError):
        message.attributes["a"] = "3"  # type: ignore[index]


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"a": ""}, "attribute 'a' is empty"),
        ({"a": b""}, "attribute 'a' is empty"),
        ({"a": True}, "attribute 'a' is of type bool"),
        ({"a": [SECRET]}, "attribute 'a' is of type list"),
        ({"a": bytearray(b"x")}, "attribute 'a' is of type bytearray"),
        ({"a": float("nan")}, "attribute 'a' is nan"),
        ({"a": float("-inf")}, "attribute 'a' is -inf"),
        ({"a": 10**400}, "attribute 'a' is inf"),
        ({"a": "\ud800"}, "attribute 'a' has half of a surrogate pair"),
        ({"\ud800": "a"}, "name has half of a surrogate pair"),
        ({7: "x"}, "name is of type int"),
        ({"": SECRET}, "name is empty"),
        ([("a", SECRET)], "attributes is of type list"),
    ],
)
def test_attribute_without_a_clear_meaning_is_refused_by_name(attributes: object, says: str) -> None:
    """The error names the attribute and never its value (PUB-01)."""
    with pytest.raises(InvalidMessageError, match=says) as caught:
        prepared(b"x", attributes=attributes)

    assert SECRET not in str(caught.value)
    assert caught.value.topic == "orders"


def test_options_of_an_item_win_over_those_of_its_call() -> None:
    """Each option for itself: what the item leaves open comes from the call."""
    preparer = Preparer("orders", ScriptedSender(capabilities=STANDARD), JSONCodec())
    item = Outgoing(b"x", ordering_key="own", attributes={"a": 1})

    terms = preparer.terms_of(item, {"ordering_key": "call", "delay": 5, "attributes": {"b": 2}})

    assert (terms.ordering_key, terms.delay, terms.attributes) == ("own", 5.0, {"a": 1})


def test_size_is_what_the_sender_measures() -> None:
    """The bytes in a batch, and the limit of one message, are the broker's to know (BAT-01)."""
    preparer = Preparer("orders", ScriptedSender(max_size=10), JSONCodec())

    assert preparer.message("é", preparer.terms({"attributes": {"ab": 12}}))[1] == 6
    with pytest.raises(MessageTooLargeError) as caught:
        preparer.message("é" * 6, preparer.terms({}))
    assert (caught.value.size, caught.value.limit) == (12, 10)


def test_codec_is_the_callers_choice() -> None:
    """Another codec makes the body; what it cannot encode, and its own faults, are EncodeErrors that name the topic."""

    class Upper:
        def encode(self, data: object, /) -> str | bytes:
            if data is None:
                return data  # type: ignore[return-value]
            if data == 1:
                raise EncodeError("no ones")
            return str(data + "").upper()  # type: ignore[operator]

    assert prepared("a", codec=Upper()).body == "A"
    for data, says in [(None, "returned NoneType"), (1, "no ones"), (2, "raised TypeError on int")]:
        with pytest.raises(EncodeError, match=says) as caught:
            prepared(data, codec=Upper())
        assert (caught.value.topic, caught.value.code) == ("orders", ErrorCode.ENCODE)
