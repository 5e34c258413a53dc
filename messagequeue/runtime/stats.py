"""Plain counters of one consumer; cheap enough to be always on.  Not a metrics interface."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ConsumerStats:
    """
    What one consumer did since it was made.  Read it at any time; only the consumer writes it.

    Attributes:
        receives: Receives that were answered.
        empty_receives: Those of them that brought nothing.
        receive_errors: Receives that failed.
        received: Messages that arrived.
        running: Handlers that run now.
        handled: Handlers that returned.
        failed: Handlers that raised (signals such as `RetryLater` not counted).
        undecodable: Messages that could not be read.
        discarded: Messages that handlers discarded.
        dead_lettered: Messages put into the dead-letter queue by this consumer.
        settled: Messages that the broker took off the queue.
        settle_errors: Messages handled and not taken off the queue.
        released: Messages handed back, unhandled or for a later retry.
        leases_extended: Prolongations that landed.
        leases_lost: Leases that ended before the work did.
        timed_out: Handlers cancelled by `handler_timeout`.
        breaker_open: The circuit breaker keeps the consumer from receiving.
        breaker_opened: How often it did.
    """

    receives: int = 0
    empty_receives: int = 0
    receive_errors: int = 0
    received: int = 0
    running: int = 0
    handled: int = 0
    failed: int = 0
    undecodable: int = 0
    discarded: int = 0
    dead_lettered: int = 0
    settled: int = 0
    settle_errors: int = 0
    released: int = 0
    leases_extended: int = 0
    leases_lost: int = 0
    timed_out: int = 0
    breaker_open: bool = False
    breaker_opened: int = 0
