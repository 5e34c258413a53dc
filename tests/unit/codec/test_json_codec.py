"""What `JSONCodec` makes of data."""

from __future__ import annotations

import json
from collections import UserDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypedDict
from uuid import UUID

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue import EncodeError, ErrorCode
from messagequeue._codec import JSONCodec

encode = JSONCodec().encode

SECRET = "hunter2"


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Name(StrEnum):
    ANNA = "anna"


class Line(TypedDict):
    sku: str


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Order:
    id: UUID
    total: Decimal
    at: datetime
    lines: list[Line] = field(default_factory=list)


@attrs.define
class Car:
    _wheels: int
    owner: object


class Model(pydantic.BaseModel):
    id: int
    at: datetime
    note: str = "é"


@pytest.mark.parametrize("data", [b"", b"\xff\x00\x01", b"cGFy", bytearray(b"ab"), memoryview(b"abcd")[::2]])
def test_bytes_pass_as_they_are(data: bytes | bytearray | memoryview) -> None:
    """Anything of bytes becomes the same bytes, whatever they look like (SER-01)."""
    body = encode(data)

    assert type(body) is bytes
    assert body == bytes(data)


def test_bytes_are_not_copied() -> None:
    """A bytes body is the caller's own object."""
    data = b"x" * 1000

    assert encode(data) is data


@pytest.mark.parametrize("data", ["", "cGFy", "[[[[{{{", '{"b64_field":"cGFy"}', "é😀", "ok\x07", "a\ufffe"])
def test_text_passes_as_it_is(data: str) -> None:
    """A str becomes the same str: which characters a broker takes is its sender's to say (SER-01, PUB-06)."""
    assert encode(data) == data


def test_text_of_a_str_enum_is_its_plain_value() -> None:
    """A str that is a subclass leaves as a plain str."""
    assert encode(Name.ANNA) == "anna"
    assert type(encode(Name.ANNA)) is str


def test_text_with_a_lone_surrogate_is_refused_with_its_position() -> None:
    """Text without a UTF-8 form cannot be sent by any broker; the error says where and not what (PUB-06)."""
    with pytest.raises(EncodeError, match="position 7") as caught:
        encode(f"{SECRET}\ud800")

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (1.5, "1.5"),
        ([1, "a", None], '[1,"a",null]'),
        ((1, 2), "[1,2]"),
        (Point(1, 2), "[1,2]"),
        ({}, "{}"),
        ({"é": "😀", "n": [{"m": 1}]}, '{"é":"😀","n":[{"m":1}]}'),
        (Line(sku="a"), '{"sku":"a"}'),
        ({1: "a", Name.ANNA: 2}, '{"1":"a","anna":2}'),
        (MappingProxyType({"a": UserDict(b=1)}), '{"a":{"b":1}}'),
        (Colour.RED, '"red"'),
        ({"colour": Colour.RED, "level": Level.HIGH}, '{"colour":"red","level":3}'),
        (datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC), '"2025-01-02T03:04:05+00:00"'),
        (date(2025, 1, 2), '"2025-01-02"'),
        (time(3, 4), '"03:04:00"'),
        (Decimal("12.50"), '"12.50"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Car(4, UUID(int=0)), '{"_wheels":4,"owner":"00000000-0000-0000-0000-000000000000"}'),
        (Model(id=1, at=datetime(2025, 1, 2)), '{"id":1,"at":"2025-01-02T00:00:00","note":"é"}'),  # noqa: DTZ001
        ([Model(id=1, at=datetime(2025, 1, 2))], '[{"id":1,"at":"2025-01-02T00:00:00","note":"é"}]'),  # noqa: DTZ001
    ],
)
def test_data_with_a_clear_json_form_becomes_compact_json(data: object, text: str) -> None:
    """Plain data, dataclasses, attrs, pydantic, enums, times, decimals and UUIDs encode, non-ASCII kept."""
    assert encode(data) == text


def test_dataclass_encodes_with_all_that_it_holds() -> None:
    """A dataclass is the object of its fields, at any depth."""
    order = Order(UUID(int=2), Decimal("0.10"), datetime(2025, 1, 2, tzinfo=UTC), [Line(sku="a")])

    body = encode({"order": order})

    assert json.loads(body)["order"] == {
        "id": str(UUID(int=2)),
        "total": "0.10",
        "at": "2025-01-02T00:00:00+00:00",
        "lines": [{"sku": "a"}],
    }


@pytest.mark.parametrize("code", [0xD800, 0xDFFF, 0xFFFE, 0xFFFF, 0x00, 0x07, 0x1F])
@pytest.mark.parametrize("place", ["value", "key"])
def test_json_holds_no_character_that_a_broker_refuses(code: int, place: str) -> None:
    """Characters outside XML 1.0 are escaped in JSON and read back exactly (PUB-06)."""
    char = chr(code)
    data = {"é": f"a{char}b"} if place == "value" else {f"é{char}": 1}

    body = encode(data)

    assert isinstance(body, str)
    assert char not in body
    assert "é" in body
    assert json.loads(body) == data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"a": {1, 2}}, "set as JSON: sort it into a list"),
        ({"a": SECRET.encode()}, "bytes as JSON: inside JSON, turn it into text"),
        (object(), "cannot encode object as JSON"),
        (Order, "class Order itself"),
        ([Model], "class Model itself"),
        ((n for n in range(3)), "generator"),
        ({"a": float("nan")}, "a NaN, an infinity"),
        (float("-inf"), "a NaN, an infinity"),
        ({None: 1}, "key of type NoneType"),
        ([({"a": {True: 1}},)], "key of type bool"),
        ({"o": MappingProxyType({1.5: 2})}, "key of type float"),
        ({(1, 2): SECRET}, "use text as keys"),
        ({1: SECRET, "1": SECRET}, "the same key as int and as str"),
        (Car(1, {2: SECRET, False: 3}), "key of type bool"),
    ],
)
def test_data_without_a_clear_form_is_refused(data: object, says: str) -> None:
    """What JSON cannot say, or would say differently, is an EncodeError with the type and never the data."""
    with pytest.raises(EncodeError, match=says) as caught:
        encode(data)

    assert caught.value.code is ErrorCode.ENCODE
    assert not caught.value.retryable
    assert SECRET not in str(caught.value)


def test_circular_and_too_deep_data_are_refused() -> None:
    """A reference to itself, directly or through an object, and endless depth are EncodeErrors and not crashes."""
    ring: list[object] = []
    ring.append({"ring": ring})
    car = Car(4, None)
    car.owner = [car]
    deep: list[object] = []
    for _ in range(200_000):
        deep = [deep]

    for data in (ring, car, deep):
        with pytest.raises(EncodeError, match=r"reference to itself|nested too deeply"):
            encode(data)


@pytest.mark.parametrize("data", [{"n": 10**5000}, {10**5000: "n"}, [-(10**5000)]])
def test_number_of_too_many_digits_is_refused_as_that(data: object) -> None:
    """Python writes whole numbers of up to 4 300 digits; the error names that too."""
    with pytest.raises(EncodeError, match="digits"):
        encode(data)


def test_model_whose_json_is_no_text_is_refused() -> None:
    """An object that has every method, such as a mock, is not published as what its repr happens to be."""

    class Anything:
        def model_dump_json(self) -> object:
            return self

    with pytest.raises(EncodeError, match=r"model_dump_json\(\) returned .*Anything, not text"):
        encode(Anything())


def test_bytes_of_a_subclass_become_plain_bytes() -> None:
    """As text does: a sender need not ask what its class says of itself."""
    body = encode(type("Blob", (bytes,), {"__bytes__": lambda self: b"other"})(b"ab"))

    assert type(body) is bytes
    assert body == b"ab"


def test_failing_code_of_the_data_is_an_encode_error_with_its_cause() -> None:
    """What the data's own class raises is kept as the cause."""

    class Broken:
        def model_dump_json(self) -> str:
            raise KeyError(SECRET)

    with pytest.raises(EncodeError, match="reading it raised KeyError") as caught:
        encode(Broken())

    assert isinstance(caught.value.__cause__, KeyError)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON.filter(lambda data: not isinstance(data, str)))
def test_json_reads_back_as_the_data(data: object) -> None:
    """Whatever plain data goes in, the body is UTF-8 text that reads back as the same data."""
    body = encode(data)

    assert isinstance(body, str)
    assert json.loads(body.encode("utf-8")) == data
