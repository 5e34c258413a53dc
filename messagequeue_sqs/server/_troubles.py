"""Faults that a test asks for: what goes wrong, how often, at which action; nothing goes wrong by itself."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from .engine import Engine, Result, SqsError
from .engine._errors import INTERNAL, THROTTLED, UNAVAILABLE

Kind = Literal["throttle", "error", "unavailable", "cut", "duplicate"]
_REFUSALS = {"throttle": THROTTLED, "error": INTERNAL, "unavailable": UNAVAILABLE}


@dataclass(slots=True)
class _Fault:
    kind: Kind
    action: str | None
    left: int


class Faults:
    """
    What goes wrong from now on.

    Args:
        engine: Whose messages `disorder()` puts out of order.

    Attributes:
        dead_polls_capture: A receive whose client has gone while it waited still takes messages, as AWS may do.
    """

    def __init__(self, engine: Engine) -> None:
        self.dead_polls_capture = False
        self._engine = engine
        self._faults: list[_Fault] = []

    @property
    def active(self) -> bool:
        return bool(self._faults)

    def throttle(self, times: int = 1, *, action: str | None = None) -> None:
        """Refuse the next *times* requests (of *action*) with RequestThrottled; nothing is done."""
        self._faults.append(_Fault("throttle", action, times))

    def fail(self, times: int = 1, *, action: str | None = None, unavailable: bool = False) -> None:
        """Answer the next *times* requests with status 500 (or 503 where *unavailable*); nothing is done."""
        self._faults.append(_Fault("unavailable" if unavailable else "error", action, times))

    def cut(self, times: int = 1, *, action: str | None = None) -> None:
        """Do the next *times* requests, and close the connection instead of answering."""
        self._faults.append(_Fault("cut", action, times))

    def duplicate(self, times: int = 1) -> None:
        """Give every message of the next *times* receives twice in the same answer, as standard queues may do."""
        self._faults.append(_Fault("duplicate", "ReceiveMessage", times))

    def disorder(self, seed: int | None) -> None:
        """Put messages of standard queues out of order at every receive, the same way for one *seed*; None: end it."""
        self._engine.disorder(None if seed is None else random.Random(seed).shuffle)

    def clear(self) -> None:
        """End everything that was asked for."""
        self._faults.clear()
        self.disorder(None)
        self.dead_polls_capture = False

    # --- for the server

    def refuse(self, action: str) -> None:
        """Raise the `SqsError` that was asked for, if any."""
        for kind, refusal in _REFUSALS.items():
            if self._draw(kind, action):
                raise SqsError(refusal, "A fault that the test asked for.")

    def cuts(self, action: str) -> bool:
        return self._draw("cut", action)

    def changed(self, action: str, result: Result | None) -> Result | None:
        """Return *result* as a duplicating queue would give it."""
        messages = (result or {}).get("Messages")
        if isinstance(messages, list) and self._draw("duplicate", action):
            return {"Messages": [twin for message in messages for twin in (message, message)]}
        return result

    def _draw(self, kind: str, action: str) -> bool:
        for fault in self._faults:
            if fault.kind == kind and fault.action in (None, action):
                fault.left -= 1
                if fault.left <= 0:
                    self._faults.remove(fault)
                return True
        return False
