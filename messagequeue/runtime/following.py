"""What follows the end of a handler: settle, give back, dead-letter, report; `outcome` says which."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .._errors import ConsumeError, DecodeError, HandlerError, SettleError
from .._options import ConsumeOptions
from ..driver import Capabilities
from .dispatch import Cancelled, Held, Lanes
from .leases import return_delay
from .outcome import Bury, GiveBack, Settle, describe, outcome
from .settling import Settling
from .sink import Faults, logger
from .stats import ConsumerStats


class Following:
    """
    Does with a message what the end of its handler asks for.

    Args:
        handled: Called with each message that will not be handled (again) under this lease.
    """

    def __init__(
        self,
        topic: str,
        capabilities: Capabilities,
        options: ConsumeOptions,
        faults: Faults,
        stats: ConsumerStats,
        *,
        lanes: Lanes,
        settling: Settling,
        handled: Callable[[Held], None],
    ) -> None:
        self._topic = topic
        self._capabilities = capabilities
        self._options = options
        self._faults = faults
        self._stats = stats
        self._lanes = lanes
        self._settling = settling
        self._handled = handled
        self._loop = asyncio.get_running_loop()

    def follow(self, held: Held, raised: BaseException | None) -> None:
        """Do what a handler that did not simply return asks for."""
        if held.cancelled is Cancelled.LOST:
            self.fall_back(held, back_at=None)
            return
        if held.cancelled is Cancelled.DRAIN and isinstance(raised, asyncio.CancelledError):
            logger.warning(
                "topic %s: the handler of message %s was cancelled by the shutdown; the message is handed back",
                self._topic,
                held.id,
                extra={"topic": self._topic, "message_id": held.id},
            )
            self._retry(held, 0.0)
            return
        what = outcome(raised, self._options.retry_delay)
        match what:
            case Settle():
                self._count_settled(held, what)
                self._settling.settle(held)
            case Bury() if self._capabilities.dead_letters:
                self._settling.bury(held, what.reason)
            case Bury():
                text = (
                    f"the handler dead-lettered message {held.id}, but the provider has no dead-letter queue for this "
                    "topic: the message stays and comes back"
                )
                self.tell(SettleError, text, held, raised)
                self._retry(held, self._options.retry_delay)
            case GiveBack():
                if what.failed and raised is not None:
                    self._report(held, raised)
                self._retry(held, what.after)

    def _count_settled(self, held: Held, what: Settle) -> None:
        if what.discarded is None:
            self._stats.handled += 1
        else:
            self._stats.discarded += 1
            logger.info("topic %s: message %s discarded: %s", self._topic, held.id, what.discarded)

    def _report(self, held: Held, raised: BaseException) -> None:
        if isinstance(raised, DecodeError):
            self._stats.undecodable += 1
            raised.topic, raised.message = self._topic, held.delivery.message
            self._faults.tell(raised, self._loop.time())
            return
        self._stats.failed += 1
        text = f"message {held.id} is not done: {describe(raised, self._options.handler_timeout)}"
        self.tell(HandlerError, text, held, raised)

    def _retry(self, held: Held, after: float | None) -> None:
        """Let the message come back, and hand back what is held of its key."""
        now = self._loop.time()
        if after is None:
            self.fall_back(held, back_at=held.deadline)
            return
        after = self.allowed(held, after)
        rest = self._lanes.retreat(held, now, back_at=now + after)
        if after == 0 and rest:
            self.hand_back([held, *rest])
        else:
            self._settling.give_back([held], after)
            self.hand_back(rest)

    def fall_back(self, held: Held, *, back_at: float | None) -> None:
        """The message is left to come back by itself: hand back what is held of its key."""
        self.hand_back(self._lanes.retreat(held, self._loop.time(), back_at=back_at))

    def hand_back(self, batch: list[Held]) -> None:
        """Let messages that were not handled be delivered again, at once."""
        for held in batch:
            self._handled(held)
        if batch:
            self._settling.give_back(batch, 0.0)

    def allowed(self, held: Held, after: float) -> float:
        """*after*, or what of it the longest time that a message can be held leaves."""
        return return_delay(after, self._loop.time() - held.received_at, self._capabilities.max_lease)

    def tell(self, kind: type[ConsumeError], text: str, held: Held, cause: BaseException | None = None) -> None:
        """Report an error about *held*."""
        self._faults.tell_of(kind, text, held.delivery.message, cause, self._loop.time())
