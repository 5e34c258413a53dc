"""What the author of a provider gives the kit: a broker to judge, and what it can do.  Nothing here judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from ..._message import Message
from ..._protocols import ConsumerProvider, PublisherProvider
from .._autojump import leftover_tasks, run_virtual, unseen_faults

#: Makes the coroutine that a harness is to run; called once, inside of `Harness.run()`.
Main = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """
    What a broker can do, so that the facts which do not concern it are skipped, by name.

    Attributes:
        unit: The shortest lease (visibility timeout) that can be relied on, in seconds; it sets the pace of the kit.
        patience: Seconds after which something that has to happen is taken not to happen.
        slack: Seconds that the broker and the machine may add to any time that is measured.
        wait: A `wait_time` of receives, in seconds: short, and not 0.
        standard_topics: There are topics without order.
        ordered_topics: There are topics with order per key.
        keys_always_order: There is one kind of topic: a key keeps its order on those made without order, too.
        delays: Standard topics honour `delay`.
        deduplication: Ordered topics honour `deduplication_key`.
        dead_letters: `new_topic(max_receives=...)` and the signal `DeadLetter` work, and `dead_letters()` can tell.
        counts_deliveries: `Message.delivery_attempt` is a number.
        held_keys_wait: While a message of a key is held by a consumer, or waits to come back, the broker gives out no
            later one of that key.  The runtime keeps the order also where False, at the price of more receives.
    """

    unit: float
    patience: float = 10.0
    slack: float = 1.0
    wait: float = 1.0
    standard_topics: bool = True
    ordered_topics: bool = False
    keys_always_order: bool = False
    delays: bool = False
    deduplication: bool = False
    dead_letters: bool = False
    counts_deliveries: bool = True
    held_keys_wait: bool = True


class Harness(Protocol):
    """
    A broker under judgement; see `messagequeue.testing.conformance` for an example.

    Every coroutine is called inside of `run()`.  One harness serves one fact.
    """

    @property
    def features(self) -> Features: ...

    def run(self, main: Main, /) -> None:
        """Run `main()` in a new event loop: `run_in_virtual_time()`, or `run_in_real_time()` where sockets are used."""
        ...

    async def publisher_provider(self) -> PublisherProvider:
        """Make a publishing half.  Every call makes one of its own, on the same broker; the kit closes it."""
        ...

    async def consumer_provider(self) -> ConsumerProvider:
        """Make a consuming half.  Every call makes one of its own, on the same broker; the kit closes it."""
        ...

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        """
        Make an empty topic and return it as the providers take it.

        Args:
            ordered: With order per key, and no need of a deduplication key (equal bodies may be deduplicated).
            visibility_timeout: The lease of its messages in seconds.
            max_receives: Receives after which a message is a dead letter; None: never.
        """
        ...

    async def dead_letters(self, topic: str) -> list[bytes]:
        """Return the bodies in the dead-letter queue of *topic*; whether they stay there does not matter."""
        ...

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        """Return how many messages are visible, in flight and delayed, exactly; None where the broker cannot tell."""
        ...

    async def steal(self, topic: str, message: Message) -> bool:
        """Make the broker refuse the lease that *message* was delivered with.  Return False where it cannot."""
        ...

    async def aclose(self) -> None:
        """Remove what was made.  Called once, at the end, after every provider is closed."""
        ...


class BaseHarness:
    """A harness's usual answers for what a broker need not have."""

    async def dead_letters(self, topic: str) -> list[bytes]:
        """None."""
        return []

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        """Unknown."""
        return None

    async def steal(self, topic: str, message: Message) -> bool:
        """Not possible."""
        return False

    async def aclose(self) -> None:
        """Nothing to remove."""


def run_in_virtual_time(main: Main, /) -> None:
    """`Harness.run()` for a broker without sockets: waiting costs no time."""
    run_virtual(main(), timeout=1_000_000)


def run_in_real_time(main: Main, /) -> None:
    """
    `Harness.run()` for a broker with sockets.

    Raises:
        VirtualRunError: tasks were left running, or an error that nobody looked at.
    """
    faults: list[dict[str, Any]] = []
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        runner.run(main())
        leftover_tasks(loop)
    unseen_faults(faults, [])
