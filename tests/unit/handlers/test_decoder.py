"""`decoder()`: a body as a value of a type, or a `DecodeError` that says where it does not fit."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, Literal, Optional, TypeVar, Union
from uuid import UUID

import msgspec
import pydantic
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st

from messagequeue import DecodeError, Discard, JSONCodec
from messagequeue.handlers import decoder
from messagequeue.testing import message
from tests.unit.handlers import shop

ID = UUID("12345678-1234-5678-1234-567812345678")


def read(model: Any, body: object) -> Any:
    return decoder(model)(message(body))


def fault(model: Any, body: object) -> str:
    """Return what the error says behind "the body of message ... is no ...: "."""
    with pytest.raises(DecodeError) as caught:
        read(model, body)
    return str(caught.value).partition(": ")[2]


def test_a_dataclass_comes_back_as_it_was_published() -> None:
    """Nested, with every kind of field that the codec writes."""
    order = shop.Order(
        id=ID,
        customer=shop.CustomerId("ada"),
        items=[shop.Item("a-1", 2, Decimal("12.500000000000000000001")), shop.Item("b-2")],
        color=shop.Color.BLUE,
        placed=datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        due=date(2026, 2, 1),
        at=time(23, 59),
        notes={"lines": [1, 2]},
        total=25.5,
        paid=True,
        kind="old",
        weight=2,
        anything={"deep": [1.5, None]},
    )

    assert read(shop.Order, order) == order


def test_fields_with_a_default_may_be_missing_and_unknown_ones_are_passed_over() -> None:
    """So publishers may add fields before consumers know them."""
    body = {"id": str(ID), "customer": "ada", "items": [], "placed": "2026-01-02T03:04:05Z", "new field": 1}

    order = read(shop.Order, body)

    assert (order.color, order.at, order.notes) == (None, time(12), {})
    assert order.placed == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("model", "body", "value"),
    [
        (str, '"x"', "x"),
        (int, "5", 5),
        (float, "5", 5.0),
        (float, "5.5", 5.5),
        (bool, "true", True),
        (type(None), "null", None),
        (Any, '{"a": [1, null]}', {"a": [1, None]}),
        (object, "1.5", 1.5),
        (Decimal, "12.3400000000000000000000001", Decimal("12.3400000000000000000000001")),
        (Decimal, '"0.10"', Decimal("0.10")),
        (Decimal, "7", Decimal(7)),
        (list, "[1]", [1]),
        (list[int], "[1, 2]", [1, 2]),
        (Sequence[int], "[1]", [1]),
        (Iterable[str], '["a"]', ["a"]),
        (tuple, "[1]", (1,)),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (set[int], "[1, 1]", {1}),
        (frozenset[str], '["a"]', frozenset("a")),
        (dict, '{"a": 1}', {"a": 1}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Mapping[int, str], '{"-7": "x"}', {-7: "x"}),
        (dict[shop.Color, int], '{"red": 1}', {shop.Color.RED: 1}),
        (int | str, '"a"', "a"),
        (Union[int, str, None], "null", None),  # noqa: UP007 (the older spelling)
        (Optional[int], "5", 5),  # noqa: UP045 (the older spelling)
        (Literal["a", 1], "1", 1),
        (shop.Level, "2", shop.Level.HIGH),
        (shop.Rights, "3", shop.Rights.READ | shop.Rights.WRITE),
        (shop.Factor, "0.5", shop.Factor.HALF),
        (shop.Factor, "null", shop.Factor.NONE),
        (shop.CustomerId, '"c"', "c"),
        (typing.Annotated[int, "positive"], "5", 5),
        (shop.Options, '{"name": "a", "more": 1}', {"name": "a"}),
        (shop.Options, '{"name": "a", "size": 3}', {"name": "a", "size": 3}),
        (shop.Loose, "{}", {}),
        (shop.Parcel, '{"weight": 2, "_secret": "s"}', shop.Parcel(2.0, "s")),
        (list[shop.Item], '[{"sku": "a"}]', [shop.Item("a")]),
        (str, '\ufeff"x"', "x"),
    ],
)
def test_each_type_is_read_from_its_json(model: Any, body: str, value: object) -> None:
    """As text in any spelling that JSON has for it."""
    found = read(model, body)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("model", "body", "says"),
    [
        (str, "5", "it is a number, not text"),
        (str, "null", "it is null, not text"),
        (int, '"5"', "it is text, not a whole number"),
        (int, "5.0", "it is a number, not a whole number"),
        (int, "true", "it is true or false, not a whole number"),
        (float, "false", "it is true or false, not a number"),
        (float, "1" + "0" * 400, "it is a number beyond all floats"),
        (bool, "1", "it is a number, not true or false"),
        (type(None), "0", "it is a number, not null"),
        (Decimal, '"twelve"', "it is text, but no decimal number"),
        (Decimal, '"NaN"', "it is no finite number"),
        (Decimal, "true", "it is true or false, not a decimal number"),
        (datetime, '"yesterday"', "it is text, but no date and time of ISO 8601"),
        (date, "5", "it is a number, not a date of ISO 8601"),
        (UUID, '"x"', "it is text, but no UUID"),
        (list[int], "{}", "it is an object, not a list"),
        (list[int], '[1, "a"]', "[1] is text, not a whole number"),
        (tuple[int, str], "[1]", "it is a list, not a list of 2"),
        (set[Any], "[[]]", "it has items that cannot be in a set"),
        (dict[str, int], '{"secret": "x"}', "[…] is text, not a whole number"),
        (dict[int, int], '{"01": 1}', "[…] has a key that is no whole number"),
        (dict[shop.Color, int], '{"secret": 1}', "[…] is no Color"),
        (shop.Color, '"green"', "it is no Color"),
        (shop.Level, "true", "it is no Level"),
        (shop.Level, "1.0", "it is no Level"),
        (Literal["a", 1], "true", "it is none of the 2 values that it may have"),
        (int | str, "[]", "it is none of int or str"),
        (int | None, '"x"', "it is text, not a whole number"),
        (shop.Item, "[]", "it is a list, not an object"),
        (shop.Item, "{}", "sku is missing"),
        (shop.Tree, '{"name": "a", "children": [{"name": 5}]}', "children[0].name is a number, not text"),
        (shop.Options, "{}", "name is missing"),
        (shop.Positive, '{"number": -5}', "it is refused by Positive with ValueError"),
        (list[shop.Positive], '[{"number": -5}]', "[0] is refused by Positive with ValueError"),
        (int, "{", "it is not JSON, from line 1, column 2 on"),
        (int, "", "it is not JSON, from line 1, column 1 on"),
        (float, "NaN", "it is not JSON"),
        (int, b"\xff", "it is not JSON"),
        (Any, "[" * 100_000, "it is not JSON"),
        (int, "1" * 5000, "it is not JSON"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(model: Any, body: str | bytes, says: str) -> None:
    """In the words of JSON, with field names of the model and places in lists, and nothing of the body."""
    assert fault(model, body) == says


def test_the_error_names_message_and_type_and_holds_no_body() -> None:
    """It is about the message, and is neither retryable nor chained to a text that quotes the body."""
    given_message = message({"sku": "secret", "count": "secret"}, id="m-7", topic="orders")

    with pytest.raises(DecodeError, match=r"the body of message m-7 is no Item: count is text") as caught:
        decoder(shop.Item)(given_message)

    assert caught.value.message is given_message
    assert caught.value.topic == "orders"
    assert not caught.value.retryable
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_a_class_refuses_is_the_cause() -> None:
    """Its own exception says more, to whoever looks."""
    with pytest.raises(DecodeError) as caught:
        read(shop.Positive, {"number": -1})

    assert isinstance(caught.value.__cause__, ValueError)


def test_types_that_refer_to_themselves_are_read() -> None:
    """However deep the value is."""
    tree = shop.Tree("a", [shop.Tree("b", [shop.Tree("c")])])

    assert read(shop.Tree, tree) == tree


@dataclass
class _Bytes:
    raw: bytes


@dataclass
class _Init:
    number: int
    extra: InitVar[int]


class _Plain:
    pass


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (bytes, "bytes have no form in JSON"),
        (_Bytes, "field 'raw' of _Bytes: bytes have no form"),
        (_Init, "_Init cannot be made without extra, which no field of it is"),
        (_Plain, "_Plain cannot be read from JSON: use dataclasses"),
        (complex, "complex cannot be read from JSON"),
        (list[_Plain], "_Plain cannot be read"),
        (dict[float, int], "a mapping with keys of float: JSON keys are text"),
        (typing.Callable[[], int], "cannot be read from JSON"),
        (Literal[b"a"], "a Literal of something else"),
        (5, "5 cannot be read from JSON"),
    ],
)
def test_a_type_without_a_form_in_json_is_refused_at_once(model: Any, says: str) -> None:
    """When the decoder is made, not when the first message comes; what to use is said."""
    with pytest.raises(TypeError, match=says):
        decoder(model)


def test_annotations_that_cannot_be_resolved_are_refused_at_once() -> None:
    """As those of a class in a function that names another one there."""

    @dataclass
    class Inner:
        number: int

    @dataclass
    class Outer:
        inner: Inner

    with pytest.raises(
        TypeError, match=r"annotations of Outer cannot be read: .*'Inner'.*define the class in a module"
    ):
        decoder(Outer)


@dataclass
class _NoAttribute:
    when: typing.Nothing  # type: ignore[name-defined]


@dataclass
class _NoSyntax:
    when: "not a type ("  # type: ignore[valid-type]  # noqa: F722


@dataclass
class _NoUnion:
    when: int | 5  # type: ignore[valid-type]


@pytest.mark.parametrize("model", [_NoAttribute, _NoSyntax, _NoUnion])
def test_wrong_annotations_are_refused_at_once(model: type) -> None:
    """By the error that says so, whatever reading them raises."""
    with pytest.raises(TypeError, match=f"(annotations|field 'when') of {model.__name__}"):
        decoder(model)


@dataclass
class _Raises:
    with_: str

    def __post_init__(self) -> None:
        if self.with_ == "Discard":
            raise Discard("of no use")
        raise {"AssertionError": AssertionError, "KeyError": KeyError, "InvalidOperation": InvalidOperation}[self.with_]


class _RaisesStruct(msgspec.Struct):
    with_: str

    def __post_init__(self) -> None:
        _Raises(self.with_)


class _RaisesModel(pydantic.BaseModel):
    with_: str

    @pydantic.field_validator("with_")
    @classmethod
    def check(cls, value: str) -> str:
        _Raises(value)
        return value


@pytest.mark.parametrize("model", [_Raises, list[_Raises], _RaisesStruct, _RaisesModel])
@pytest.mark.parametrize("kind", ["AssertionError", "KeyError", "InvalidOperation"])
def test_whatever_a_class_raises_is_a_body_that_does_not_fit(model: Any, kind: str) -> None:
    """No retry mends it, as it does not mend one that is no JSON; else it came back as a failure of the handler."""
    value = {"with_": kind}
    with pytest.raises(DecodeError):
        read(model, [value] if model == list[_Raises] else value)


@pytest.mark.parametrize("model", [_Raises, _RaisesStruct, _RaisesModel])
def test_a_class_may_decide_by_a_signal(model: Any) -> None:
    """As a handler and a `decode=` may."""
    with pytest.raises(Discard):
        read(model, {"with_": "Discard"})


@pytest.mark.parametrize("depth", [200, 400, 800, 5_000, 50_000])
@pytest.mark.parametrize("model", [shop.Tree, shop.Tree | dict[str, list[shop.Tree]]])
def test_a_body_that_is_nested_too_deeply_does_not_fit(model: Any, depth: int) -> None:
    """It is read or it is a `DecodeError`: a sender must not be able to make a handler fail for ever, or for long."""
    body = '{"name": "a", "children": [' * depth + "]}" * depth
    fault: DecodeError | None = None
    try:
        read(model, body)
    except DecodeError as error:
        fault = error

    assert fault is None or fault.__cause__ is None
    assert fault is None or str(fault).endswith(("is nested too deeply", "is not JSON"))


_T = TypeVar("_T")


class _Generic(msgspec.Struct, Generic[_T]):
    value: _T


def test_a_generic_struct_is_read_with_its_argument() -> None:
    """By msgspec, alone and inside of plain types."""
    assert read(_Generic[int], {"value": 1}) == _Generic(1)
    assert read(list[_Generic[int]], [{"value": 1}]) == [_Generic(1)]
    with pytest.raises(DecodeError):
        read(_Generic[int], {"value": "text"})


def test_keys_that_are_not_required_are_known_under_pep_563() -> None:
    """`from __future__ import annotations` hides them from the class itself; also of `typing_extensions`."""

    class Odd(typing_extensions.TypedDict):
        name: typing_extensions.ReadOnly[str]
        size: typing_extensions.NotRequired[int]

    assert read(Odd, {"name": "a"}) == {"name": "a"}
    assert fault(Odd, {"size": 1}) == "name is missing"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the statement `type X = ...`")
def test_type_statements_are_looked_through() -> None:
    """From Python 3.12 on."""
    names: dict[str, Any] = {}
    exec("type Number = int | None", names)

    assert read(names["Number"], "5") == 5


# ---- pydantic and msgspec


def test_a_model_of_pydantic_is_read_by_its_rules() -> None:
    """Aliases, and text that is a number where pydantic takes it."""
    body = {"name": "ada", "addresses": [{"street": "s", "zip": "123"}]}

    assert read(shop.Person, body) == shop.Person.model_validate(body)
    assert read(list[shop.Address], body["addresses"]) == [shop.Address(street="s", zip=123)]
    assert read(shop.Shipment, {"number": 1, "to": {"street": "s", "zip": 1}}).to.zip_code == 1


@pytest.mark.parametrize(
    ("model", "body", "says"),
    [
        (shop.Person, "{", "it does not fit at the top (json_invalid)"),
        (shop.Person, "[]", "it does not fit at the top (model_type)"),
        (
            shop.Person,
            '{"name": 5, "addresses": [{"street": "s"}]}',
            "it does not fit at name (string_type), addresses[0].zip (missing)",
        ),
        (
            shop.Person,
            '{"name": "a", "addresses": [], "by_name": {"secret": "secret"}}',
            "it does not fit at by_name[…] (int_parsing)",
        ),
        (
            list[shop.Address],
            "[1, 2, 3, 4, 5]",
            "it does not fit at [0] (model_type), [1] (model_type), [2] (model_type) and at 2 more",
        ),
    ],
)
def test_what_pydantic_refuses_is_said_without_its_text(model: Any, body: str, says: str) -> None:
    """Which quotes the body; keys that are the body's own are not named."""
    with pytest.raises(DecodeError) as caught:
        read(model, body)

    assert str(caught.value).partition(": ")[2] == says
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_struct_of_msgspec_is_read_by_its_rules() -> None:
    """Alone and inside of plain types."""
    assert read(shop.Point, {"x": 1}) == shop.Point(1)
    assert read(shop.Track, {"points": [{"x": 1, "y": 2}]}).points == [shop.Point(1, 2)]


@pytest.mark.parametrize(
    ("model", "body", "says"),
    [
        (shop.Point, "{", "it is not JSON"),
        (shop.Point, b"\xff", "it is not JSON"),
        (shop.Point, "[]", "it does not fit at the top (ValidationError)"),
        (shop.Track, '{"points": [{"x": "secret"}]}', "it does not fit at points[0].x (ValidationError)"),
        (shop.Point, '{"x": 1, "tags": {"secret": "s"}}', "it does not fit at tags[…] (ValidationError)"),
    ],
)
def test_what_msgspec_refuses_is_said_without_its_text(model: Any, body: str | bytes, says: str) -> None:
    """Where, and no more."""
    assert fault(model, body) == says


def test_neither_library_is_imported_for_plain_types() -> None:
    """And neither is needed for them."""
    code = (
        "import sys, dataclasses, messagequeue.handlers as h\n"
        "@dataclasses.dataclass\n"
        "class A:\n    x: int\n"
        "h.decoder(A); sys.exit(bool({'pydantic', 'msgspec', 'attrs', 'tenacity'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


# ---- whatever comes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
MODELS: list[Any] = [
    shop.Order,
    shop.Item,
    shop.Tree,
    shop.Options,
    shop.Parcel,
    shop.Person,
    shop.Track,
    shop.Color,
    Decimal,
    dict[int, list[float]],
    int | str | list[bool],
]
DECODERS = [decoder(model) for model in MODELS]


@settings(max_examples=300, deadline=None)
@given(body=JSON.map(json.dumps).map(str.encode) | st.binary(), index=st.integers(0, len(MODELS) - 1))
def test_any_body_is_a_value_or_a_decode_error(body: bytes, index: int) -> None:
    """Nothing else is ever raised."""
    try:
        DECODERS[index](message(body))
    except DecodeError:
        pass


ITEMS = st.builds(
    shop.Item,
    sku=st.text(),
    count=st.integers(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
)
TREES = st.recursive(
    st.builds(shop.Tree, name=st.text()),
    lambda inner: st.builds(shop.Tree, name=st.text(), children=st.lists(inner, max_size=3)),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(value=st.lists(ITEMS, max_size=5) | st.lists(TREES, max_size=3))
def test_what_the_codec_writes_is_read_as_it_was(value: list[Any]) -> None:
    """Text, whole numbers, decimals and nesting of any kind."""
    model = list[type(value[0])] if value else list[int]  # type: ignore[misc]
    body = JSONCodec().encode([asdict(item) for item in value])

    assert read(model, body) == value


@settings(max_examples=100, deadline=None)
@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_read_exactly(number: float) -> None:
    """Bit by bit, also beside a Decimal, where numbers are read as they were written."""
    body = {"id": str(ID), "customer": "a", "items": [], "placed": "2026-01-02", "total": number}

    for found in (read(float, json.dumps(number)), read(shop.Order, body).total):
        assert math.copysign(1, found) == math.copysign(1, number)
        assert found == number
        assert type(found) is float
