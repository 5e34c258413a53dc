"""The types that the tests of handlers use."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic

CustomerId = NewType("CustomerId", str)


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Rights(IntFlag):
    READ = 1
    WRITE = 2


class Factor(Enum):
    HALF = 0.5
    NONE = None


@dataclass
class Item:
    sku: str
    count: int = 1
    price: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    id: UUID
    customer: CustomerId
    items: list[Item]
    color: Color | None = None
    placed: datetime
    due: date | None = None
    at: time = time(12)
    notes: dict[str, list[int]] = field(default_factory=dict)
    total: float = 0.0
    paid: bool = False
    kind: Literal["new", "old"] = "new"
    weight: Annotated[float, "kg"] = 1.0
    anything: Any = None


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Options(TypedDict):
    name: str
    size: NotRequired[int]


class Loose(TypedDict, total=False):
    name: str


@attrs.define
class Parcel:
    weight: float
    _secret: str = "none"
    label: str = attrs.field(init=False, default="made here")


@dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError(f"not positive: {self.number}")


class Address(pydantic.BaseModel):
    street: str
    zip_code: int = pydantic.Field(alias="zip")


class Person(pydantic.BaseModel):
    name: str
    addresses: list[Address]
    by_name: dict[str, int] = {}


@dataclass
class Shipment:
    """A plain dataclass with a model of pydantic inside."""

    number: int
    to: Address


class Point(msgspec.Struct):
    x: int
    y: int = 0
    tags: dict[str, int] = {}


@dataclass
class Track:
    """A plain dataclass with a Struct of msgspec inside."""

    points: list[Point]
