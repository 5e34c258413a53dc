"""What the tests of publishers share: a publisher in virtual time over a sender that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from messagequeue import (
    ErrorCode,
    PublishError,
    PublishOptions,
    Receipt,
)
from messagequeue.driver import Capabilities, EncodedMessage
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import ScriptedSender, run_virtual

FIFO = Capabilities(ordering=True, ordering_key="accepted", deduplication=True)


def busy(*, retryable: bool = True) -> PublishError:
    return PublishError("busy", code=ErrorCode.UNAVAILABLE, retryable=retryable)


def bodies(sender: ScriptedSender) -> list[list[str | bytes]]:
    """The bodies of each call, in the order the calls began."""
    return [
        [item.body for item in call.items if isinstance(item, EncodedMessage)]
        for call in sender.calls
        if call.action == "send"
    ]


def times(sender: ScriptedSender) -> list[float]:
    return [call.at for call in sender.calls if call.action == "send"]


def run(
    sender: ScriptedSender, test: Callable[[RuntimePublisher], Awaitable[None]], **options: float
) -> RuntimePublisher:
    """Run *test* on a publisher in virtual time, and stop the publisher."""

    async def main() -> RuntimePublisher:
        publisher = RuntimePublisher("orders", sender, PublishOptions(**options))  # type: ignore[arg-type]
        try:
            await test(publisher)
        finally:
            await publisher.stop()
        return publisher

    return run_virtual(main())


async def outcomes(*calls: Awaitable[Receipt]) -> list[object]:
    return list(await asyncio.gather(*calls, return_exceptions=True))
