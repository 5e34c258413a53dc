"""What goes into the engine and what comes out: one call, its result, or a receive that has to wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

#: The members of an answer, as the service model names them; bytes only where the model has a blob.
Result: TypeAlias = "dict[str, object]"


class Call(NamedTuple):
    """
    One request, its members of the types that the service model gives them; none is None.

    Attributes:
        action: One of the 23.
        params: Members by name, of the types that their readers say; `Any`, since a cast costs with every message.
        region: The name space it is about.
        base_url: What queue URLs in the answer begin with.
        trace: The request's trace header, or None.
    """

    action: str
    params: Mapping[str, Any]
    region: str
    base_url: str
    trace: str | None = None

    def text(self, name: str) -> str | None:
        found: str | None = self.params.get(name)
        return found

    def number(self, name: str) -> int | None:
        found: int | None = self.params.get(name)
        return found

    def texts(self, name: str) -> Sequence[str]:
        found: Sequence[str] = self.params.get(name, ())
        return found

    def pairs(self, name: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self.params.get(name, {})
        return found

    def entries(self, name: str) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.params.get(name, ())
        return found


@dataclass(frozen=True, slots=True)
class Poll:
    """
    A receive that found nothing and may wait.

    Attributes:
        topic: The broker's queue that it waits at.
        until: When it is to be answered in any case, with `nothing`.
        attempt: Takes again; None: still nothing.  Raises `SqsError` where the queue has gone.
    """

    topic: str
    until: float
    attempt: Callable[[float], Result | None]

    @property
    def nothing(self) -> Result:
        return {}


Answer: TypeAlias = "Result | Poll | None"
