"""JSON, the shapes of answers, the breaker and the counters of the short path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue_sqs import _json
from messagequeue_sqs._fast import _breaker
from messagequeue_sqs._fast._answers import batch_answer, received_messages
from messagequeue_sqs._fast._breaker import Breaker
from messagequeue_sqs._fast._http import Answer
from messagequeue_sqs._fast._stats import TransportStats

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0"
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html"
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé", max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_json_is_read_as_it_was_written(value: object) -> None:
    """With orjson and without it."""
    for dumps in (_json.dumps, _json.plain_dumps):
        assert json.loads(dumps(value)) == value
        assert _json.loads(dumps(value)) == value


@pytest.mark.parametrize("dumps", [_json.dumps, _json.plain_dumps], ids=["best", "plain"])
def test_json_of_bytes_is_base64(dumps: Any) -> None:
    """As the service's model has blobs."""
    assert json.loads(dumps({"BinaryValue": b"\x00\xff"})) == {"BinaryValue": "AP8="}


@pytest.mark.parametrize("dumps", [_json.dumps, _json.plain_dumps], ids=["best", "plain"])
@pytest.mark.parametrize("value", [{"a": object()}, {"a": "\ud800"}], ids=["object", "surrogate"])
def test_json_refuses_what_has_no_place_in_a_request(dumps: Any, value: object) -> None:
    """The call is left to the SDK then."""
    with pytest.raises((TypeError, ValueError)):
        dumps(value)


def test_json_reads_lone_surrogates_as_the_sdk_does() -> None:
    """A message may have them; its receive must not fail for all ten."""
    assert _json.loads(b'{"Body": "\\ud800"}') == {"Body": "\ud800"}


def answer(head: bytes = JSON) -> Answer:
    return Answer(200, head, b"", reusable=True)


def test_batch_answers_are_taken_as_they_are() -> None:
    """Both lists, one of them, or an empty object of who says that it is JSON."""
    done, failed = [{"Id": "0"}], [{"Id": "1", "Code": "X"}]

    assert batch_answer({"Successful": done, "Failed": failed}, answer()) == {"Successful": done, "Failed": failed}
    assert batch_answer({"Failed": failed}, answer(HTML)) == {"Successful": (), "Failed": failed}
    assert batch_answer({"Successful": None}, answer()) == {"Successful": (), "Failed": ()}


@pytest.mark.parametrize("found", [[], "x", None, {"Successful": {}}, {"Successful": ["x"]}, {"Failed": [None]}])
def test_batch_answers_of_another_shape_are_left_to_the_sdk(found: object) -> None:
    """Nothing is guessed."""
    assert batch_answer(found, answer()) is None


def test_nothing_known_from_who_does_not_say_json_is_no_answer() -> None:
    """For a receive it would be an empty queue."""
    assert batch_answer({}, answer(HTML)) is None
    assert received_messages({}, answer(HTML)) is None
    assert received_messages({}, answer()) == ()


def test_received_blobs_are_bytes() -> None:
    """As the SDK gives them; texts stay texts."""
    attributes = {
        "b": {"DataType": "Binary", "BinaryValue": "AP8="},
        "t": {"DataType": "String", "StringValue": "AP8="},
    }
    [message] = received_messages({"Messages": [{"Body": "x", "MessageAttributes": attributes}]}, answer()) or ()

    assert message["MessageAttributes"]["b"]["BinaryValue"] == b"\x00\xff"
    assert message["MessageAttributes"]["t"]["StringValue"] == "AP8="


@pytest.mark.parametrize(
    "messages",
    [{}, ["x"], [{"MessageAttributes": []}], [{"MessageAttributes": {"a": {"BinaryValue": 7}}}], "x"],
)
def test_messages_of_another_shape_are_left_to_the_sdk(messages: object) -> None:
    """Nothing is guessed."""
    assert received_messages({"Messages": messages}, answer()) is None


def test_breaker_opens_after_some_fallbacks_in_a_row_and_tries_one_call_later() -> None:
    """The SDK has all calls for the pause; then one call tries, and decides for the others."""
    breaker = Breaker()
    opened = [breaker.fell_back(0.0) for _ in range(_breaker.FALLBACKS)]

    assert opened == [False] * (_breaker.FALLBACKS - 1) + [True]
    assert not breaker.allows(_breaker.PAUSE - 0.1)
    assert [breaker.allows(_breaker.PAUSE), breaker.allows(_breaker.PAUSE)] == [True, False]
    assert breaker.fell_back(_breaker.PAUSE + 1) is False
    assert not breaker.allows(2 * _breaker.PAUSE)
    assert breaker.allows(2 * _breaker.PAUSE + 1)
    breaker.worked()
    assert all(breaker.allows(2 * _breaker.PAUSE + 1) for _ in range(3))
    assert breaker.opened == 1


def test_breaker_forgives_fallbacks_that_are_not_in_a_row() -> None:
    """One success is enough."""
    breaker = Breaker()
    for _ in range(10):
        for _ in range(_breaker.FALLBACKS - 1):
            breaker.fell_back(0.0)
        breaker.worked()

    assert breaker.allows(0.0)


def test_stats_add_up() -> None:
    """A provider has one transport per region and purpose."""
    one, two = TransportStats(short=1, errors=2), TransportStats(short=3, fallbacks=1, sdk=2, pauses=1)
    one.reasons["x"] += 1
    two.reasons["x"] += 2

    total = one + two
    assert (total.short, total.errors, total.fallbacks, total.sdk, total.pauses) == (4, 2, 1, 2, 1)
    assert total.reasons == {"x": 3}
