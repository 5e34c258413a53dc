"""Items that wait, and the lines they wait in; which of them leave together is `batching`'s to say."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from enum import IntEnum
from typing import Generic, TypeVar


class Place(IntEnum):
    """Where an item is; see `Item.place`."""

    OUTSIDE = 0
    WAITING = 1
    TAKEN = 2
    HELD = 3
    GONE = 4


# Plain globals: they are compared for every item, and going through the enum each time costs twice as much.
_OUTSIDE, _WAITING, _TAKEN, _HELD, _GONE = Place


class Item:
    """
    Base of what is batched; add slots of your own.

    Attributes:
        size: Bytes it takes in a batch.
        key: Its sequence; None where it has none.
        at: When it was added.  The batcher's to set.
        place: Where it is.  The batcher's to set.
    """

    __slots__ = ("at", "key", "place", "size")

    def __init__(self, size: int = 0, key: Hashable | None = None) -> None:
        self.size = size
        self.key = key
        self.at = 0.0
        self.place = _OUTSIDE


T = TypeVar("T", bound=Item)


class Line(Generic[T]):
    """The waiting items of one key, or those of no key; *items* may still hold some that are gone."""

    __slots__ = ("bytes", "count", "items", "key", "locked", "queued")

    def __init__(self, key: Hashable | None) -> None:
        self.key = key
        self.items: deque[T] = deque()
        self.count = 0
        self.bytes = 0
        self.locked = False
        self.queued = False

    def head(self) -> T | None:
        items = self.items
        while items and items[0].place is _GONE:
            items.popleft()
        return items[0] if items else None

    def pop(self) -> T:
        item = self.items.popleft()
        self.count -= 1
        self.bytes -= item.size
        item.place = _TAKEN
        return item
