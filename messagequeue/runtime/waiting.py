"""
Who waits for the results of entries: one future per message, or one caller for many; not how results come about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any, Protocol

from .._errors import ErrorCode, PublishError
from .._message import Receipt
from ..driver import EncodedMessage
from .answers import Outcome
from .batching import Item

logger = logging.getLogger("messagequeue.publisher")


class Entry(Item):
    """One message on its way, and who waits for it."""

    __slots__ = ("attempts", "index", "message", "waiter")

    def __init__(self, message: EncodedMessage, size: int, waiter: Waiter, index: int = 0) -> None:
        super().__init__(size, message.ordering_key)
        self.message = message
        self.waiter = waiter
        self.index = index
        self.attempts = 0


class Waiter(Protocol):
    """Waits for entries."""

    def admitted(self) -> None:
        """There is room for the entry that found none."""
        ...

    def deliver(self, entry: Entry, result: Outcome) -> None:
        """*entry* has its result.  Called once per entry."""
        ...


class PendingReceipt(asyncio.Future[Receipt]):
    """
    The future of one receipt.  Cancelling it withdraws the message where that has not left yet.

    A failure that nobody reads is logged as an error when the future is freed.  (asyncio would report it too, but as a
    fault of the loop, and without the topic.)
    """

    def __init__(self, topic: str, withdraw: Callable[[Entry], None]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.entry: Entry | None = None
        self._topic = topic
        self._withdraw = withdraw
        self._unread: PublishError | None = None

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
            super().exception()  # counts as read for asyncio: the report is ours
            self._unread = result

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and (entry := self.entry) is not None:
            self.entry = None
            self._withdraw(entry)
        return cancelled

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
            logger.error(
                "a message published to %r failed and nobody read its result: %s",
                self._topic,
                error,
                extra={"topic": self._topic, "code": str(error.code)},
            )


class ManyReceipts:
    """The results of one `publish_many()`, which waits once for all of them."""

    __slots__ = ("_woken", "open", "results")

    def __init__(self) -> None:
        self.results: list[Outcome] = []
        self.open: set[Entry] = set()
        self._woken: asyncio.Future[None] | None = None

    def expect(self, message: EncodedMessage, size: int) -> Entry:
        """Return the entry of the next result."""
        entry = Entry(message, size, self, len(self.results))
        self.results.append(_NO_RESULT)
        self.open.add(entry)
        return entry

    def admitted(self) -> None:
        self._wake()

    def deliver(self, entry: Entry, result: Outcome) -> None:
        self.results[entry.index] = result
        self.open.discard(entry)
        if not self.open:
            self._wake()

    async def wait_admitted(self, entry: Entry) -> None:
        """Wait until there is room for *entry*."""
        while entry in self.open and not entry.place:
            await self._wait()

    async def wait_all(self) -> list[Outcome]:
        """Wait until every entry has its result, and return them all."""
        while self.open:
            await self._wait()
        return self.results

    async def _wait(self) -> None:
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


#: Stands in a result list until the result is there.
_NO_RESULT = PublishError("no result yet", code=ErrorCode.NOT_CONFIRMED)
