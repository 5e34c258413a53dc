"""What a server can be told about how strict it is; not where it listens."""

from __future__ import annotations

from dataclasses import dataclass

from ..._limits import IN_FLIGHT

#: Twelve digits, as accounts have.
DEFAULT_ACCOUNT = "000000000000"
DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """
    Attributes:
        account: The one account that all queues belong to.
        region: The region of requests that name none; its queues have the shortest topics (`sqs.orders`).
        auto_create: A request about a queue that does not exist makes it.
        purge_cooldown: Seconds between two purges of a queue; AWS has 60, and test suites purge all the time.
        reuse_cooldown: Seconds after a deletion before the name can be used again; AWS has 60.
        max_in_flight: Messages of one queue in flight.
        relaxed: Sizes and characters are not checked (queues may hold what AWS refuses).
    """

    account: str = DEFAULT_ACCOUNT
    region: str = DEFAULT_REGION
    auto_create: bool = False
    purge_cooldown: float = 0.0
    reuse_cooldown: float = 0.0
    max_in_flight: int = IN_FLIGHT
    relaxed: bool = False
