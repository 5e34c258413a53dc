"""
Who waits for the results of entries: a future per message, or `many`; not how results come about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Hashable
from typing import Any, Protocol

from .. import _log_events as events
from .._errors import ErrorCode, MessageQueueError
from .._message import Receipt
from ..driver import EncodedMessage
from .answers import Outcome
from .lines import _OUTSIDE, Item

#: Stands in for a message that will not be sent.
WITHDRAWN = EncodedMessage(b"")


class Entry(Item):
    """One message on its way, and who waits for it."""

    __slots__ = ("attempts", "index", "message", "waiter", "wanted")

    key: Hashable | None  # declared as `Item` has it: a str is all that is ever put there
    waiter: Waiter

    def __init__(self, message: EncodedMessage, size: int, waiter: Waiter | None = None, index: int = 0) -> None:
        self.size = size  # as `Item` does; asked for every message
        self.key = message.ordering_key
        self.at = 0.0
        self.place = _OUTSIDE
        self.message = message
        if waiter is not None:
            self.waiter = waiter
        self.index = index
        self.attempts = 0
        self.wanted = True


class Waiter(Protocol):
    """Waits for entries."""

    def admitted(self) -> None:
        """There is room for the entry that found none."""
        ...

    def deliver(self, entry: Entry, result: Outcome) -> None:
        """*entry* has its result.  Called once per entry."""
        ...


class Confirmation(asyncio.Future[Receipt]):
    """
    The future that one `publish()` awaits, at once and alone.  Cancelling it withdraws a message that has not left.

    It leaves out what a future needs that is given away: nobody can fail to read its outcome.
    """

    __slots__ = ("entry", "withdraw")

    entry: Entry | None
    withdraw: Callable[[Entry], None]

    def admitted(self) -> None:
        """Nothing to do: who awaits a receipt waits for room and for the result alike."""

    def deliver(self, entry: Entry, result: Outcome) -> None:
        self.entry = None
        if self.done():
            return
        if isinstance(result, Receipt):
            self.set_result(result)
        else:
            self.set_exception(result)

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and (entry := self.entry) is not None:
            self.entry = None
            self.withdraw(entry)
        return cancelled


class ReportedReceipt(asyncio.Future[Receipt]):
    """
    The future of one receipt, of which a failure that nobody reads is logged as an error when the future is freed; in
    place of asyncio's own report, which would go to the loop's exception handler and not name the topic.
    """

    _unread: BaseException | None = None

    def __init__(self, topic: str) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._topic = topic

    def fail(self, error: BaseException) -> None:
        """End with *error*, which somebody has to read."""
        self.set_exception(error)
        self._unread = error

    def result(self) -> Receipt:
        self._unread = None
        return super().result()

    def exception(self) -> BaseException | None:
        self._unread = None
        return super().exception()

    def __await__(self) -> Generator[Any, None, Receipt]:
        if not self.done():
            yield from super().__await__()
        return self.result()

    __iter__ = __await__

    def __del__(self) -> None:
        error = self._unread
        if error is not None:
            ours = isinstance(error, MessageQueueError)  # only such a text is known to hold no body
            events.PUBLISH_UNREAD.log(
                "a message published to %r failed and nobody read its result: %s",
                self._topic,
                error if ours else type(error).__name__,
                topic=self._topic,
                error_code=str(getattr(error, "code", ErrorCode.OTHER)),
            )


class PendingReceipt(ReportedReceipt):
    """The receipt of a message that waits or is in flight.  Cancelling it withdraws one that has not left yet."""

    def __init__(self, topic: str, withdraw: Callable[[Entry], None]) -> None:
        super().__init__(topic)
        self.entry: Entry | None = None
        self._withdraw = withdraw

    def admitted(self) -> None:
        """Nothing to do: who awaits a receipt waits for room and for the result alike."""

    def deliver(self, entry: Entry, result: Outcome) -> None:
        self.entry = None
        if self.done():
            return
        if isinstance(result, Receipt):
            self.set_result(result)
        else:
            self.fail(result)

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and (entry := self.entry) is not None:
            self.entry = None
            self._withdraw(entry)
        return cancelled
