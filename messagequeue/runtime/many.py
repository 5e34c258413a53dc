"""The two ends of one `publish_many()`: what it reads, and what it waits for; not how messages are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from .._errors import InvalidMessageError, PublishError, UnsupportedOptionError
from .._message import Outgoing
from ..driver import EncodedMessage
from .answers import Outcome, own_copy
from .prepare import NO_TERMS, Preparer
from .waiting import Entry


class Source:
    """
    Prepares the items of one `publish_many()`.

    Attributes:
        begun: Set once items may have left: from then on, an item that the topic cannot honour fails alone.
    """

    __slots__ = ("_fault", "_options", "_prepare", "_terms", "begun")

    def __init__(self, prepare: Preparer, options: Mapping[str, object]) -> None:
        self._prepare = prepare
        self._options = options
        self._terms = NO_TERMS
        self._fault: InvalidMessageError | None = None
        self.begun = False
        try:
            self._terms = prepare.terms(options)
        except InvalidMessageError as error:  # an item may have a better value of its own
            self._fault = error

    def check(self, items: Sequence[object]) -> None:
        """Raise `UnsupportedOptionError` where an item asks for what the topic cannot honour."""
        for item in items:
            if isinstance(item, Outgoing):
                self._prepare.refuse_unsupported(item, self._options)

    def prepare(self, item: object) -> tuple[EncodedMessage, int] | PublishError:
        """Return the message and its size, or why this item fails."""
        try:
            if type(item) is not str and isinstance(item, Outgoing):
                return self._prepare.message(item.data, self._prepare.terms_of(item, self._options))
            if self._fault is not None:
                return own_copy(self._fault)
            return self._prepare.message(item, self._terms)
        except PublishError as error:
            return error.with_traceback(None)  # its frames would keep the data
        except UnsupportedOptionError as error:
            if not self.begun:
                raise
            made = InvalidMessageError(str(error), code=error.code)
            made.__cause__ = error
            return made


class ManyReceipts:
    """
    The results of one `publish_many()`, which waits once for all of them.

    Attributes:
        results: One for each item, in order; an entry stands for a result that is not there yet.
    """

    __slots__ = ("_left", "_woken", "results")

    def __init__(self) -> None:
        self.results: list[Outcome | Entry] = []
        self._left = 0
        self._woken: asyncio.Future[None] | None = None

    @property
    def open(self) -> list[Entry]:
        """The entries that have no result."""
        return [result for result in self.results if isinstance(result, Entry)]

    def expect(self, message: EncodedMessage, size: int) -> Entry:
        """Return the entry of the next result."""
        results = self.results
        entry = Entry(message, size, self, len(results))
        results.append(entry)
        self._left += 1
        return entry

    def admitted(self) -> None:
        self._wake()

    def deliver(self, entry: Entry, result: Outcome) -> None:
        self.results[entry.index] = result
        self._left -= 1
        if not self._left:
            self._wake()

    async def wait_admitted(self, entry: Entry) -> None:
        """Wait until there is room for *entry*."""
        while self.results[entry.index] is entry and not entry.place:
            await self._wait()

    async def wait_all(self) -> list[Outcome]:
        """Wait until every entry has its result, and return them all."""
        while self._left:
            await self._wait()
        return self.results  # type: ignore[return-value] # no entry is among them any more

    async def _wait(self) -> None:
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


def refuse_single(items: object) -> None:
    if isinstance(items, str | bytes | bytearray | memoryview | Mapping | Outgoing):
        raise TypeError(
            f"publish_many() takes an iterable of messages, not one {type(items).__qualname__}: "
            "use publish(), or put it into a list"
        )
