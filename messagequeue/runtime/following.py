"""What follows the end of a handler: settle, give back, dead-letter, report; `outcome` says which."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from .. import _log_events as events
from .._errors import ConsumeError, DeadLetter, DecodeError, Discard, HandlerError, RetryLater, SettleError, Signal
from .._options import ConsumeOptions
from ..driver import Capabilities
from .dispatch import Cancelled, Held, Lanes
from .leases import return_delay
from .outcome import Bury, GiveBack, Settle, describe, is_failure, outcome, type_name
from .retrying import Skips, retry_after
from .settling import Settling
from .sink import Faults, tell_discarded
from .stats import ConsumerStats

#: Why a message is dead-lettered that was not handled.
_SKIPPED = "an earlier message of its key failed"


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
        self._skips = Skips(options.skip_time)
        self.skipping = options.on_failure == "skip_group"

    def follow(self, held: Held, raised: BaseException | None) -> None:
        """Do what a handler that did not simply return asks for."""
        if held.cancelled is Cancelled.LOST:
            self.fall_back(held, back_at=None)
            return
        if held.cancelled is Cancelled.DRAIN and isinstance(raised, asyncio.CancelledError):
            events.HANDLER_CANCELLED.log(
                "topic %s: the handler of message %s was cancelled by the shutdown; the message is handed back",
                self._topic,
                held.id,
                topic=self._topic,
                message_id=held.id,
            )
            self._retry(held, 0.0)
            return
        what = outcome(raised, self._options, held.message.delivery_attempt, random.random())
        if is_failure(raised) and raised is not None:
            self._report(held, raised)
            if isinstance(what, GiveBack) and held.key is not None:
                what = self._aside(raised) or what
        match what:
            case Settle():
                self._count_settled(held, what)
                self._settling.settle(held)
            case Bury() if self._capabilities.dead_letters:
                self._settling.bury(held, what)
            case Bury():
                self._keep(held, what, raised)
            case GiveBack():
                self._retry(held, what.after)

    def _aside(self, raised: BaseException) -> Bury | None:
        """What `on_failure` makes of a failure that would come back; None where it may."""
        match self._options.on_failure:
            case "park":
                return Bury("it failed, and its key goes on", type_name(raised))
            case "skip_group":
                return Bury("it failed, and its key is skipped", type_name(raised), skips=True)
        return None

    def put_aside(self, held: Held) -> None:
        """
        The first of its key failed and is in the dead-letter queue.

        Not before: one that cannot be put there stays, blocks and is handled again.
        """
        if held.key is not None:
            self._skips.note(held.key, self._loop.time())

    def skipped(self, held: Held) -> DeadLetter | None:
        """What a message raises in place of its handler, because its key is skipped; None where it is handled."""
        if self._skips.skipped(held.key, self._loop.time()):
            return DeadLetter(_SKIPPED)
        return None

    def behind(self, held: Held, raised: BaseException, *, called: bool) -> Signal | None:
        """
        What later messages of its key meet that are in one list with *held*; None where it holds up nobody.

        Args:
            raised: Its failure.
            called: The list's function raised it.  That may have stopped there for this key, whatever becomes of the
                failed one; only `Discard` and `DeadLetter` say themselves that it goes on.
        """
        if isinstance(raised, Discard | DeadLetter):
            return None
        what = outcome(raised, self._options, held.message.delivery_attempt)
        if isinstance(what, Settle) and not called:
            return None
        if self.skipping and isinstance(what, GiveBack) and what.failed:
            return DeadLetter(_SKIPPED)
        return RetryLater(0)

    def _keep(self, held: Held, what: Bury, raised: BaseException | None) -> None:
        """There is nowhere to put a message that is to be dead-lettered."""
        if self._options.no_dead_letter_queue == "discard":
            self._count_settled(held, Settle(discarded=what.reason))
            if what.skips:
                self.put_aside(held)
            self._settling.settle(held)
            return
        text = (
            f"message {held.id} is to be dead-lettered ({what.reason}), but the provider has no dead-letter queue for "
            "this topic: the message stays and comes back"
        )
        self.tell(SettleError, text, held, raised)
        self._retry(held, retry_after(self._options, held.message.delivery_attempt, random.random()))

    def _count_settled(self, held: Held, what: Settle) -> None:
        if what.discarded is None:
            self._stats.handled += 1
        else:
            self._stats.discarded += 1
            tell_discarded(self._topic, held.id, what.discarded)

    def _report(self, held: Held, raised: BaseException) -> None:
        if isinstance(raised, DecodeError):
            self._stats.undecodable += 1
            raised.topic, raised.message = self._topic, held.message
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
        self._faults.tell_of(kind, text, held.message, cause, self._loop.time())
