"""Handlers that telemetry is told of: when they begin, what is current in them, how each of their messages ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from .._errors import DeadLetter, DecodeError, Discard, LeaseLostError, RetryLater
from ..telemetry import ConsumerTelemetry, Ending, Received
from .dispatch import Cancelled, Held
from .observed_source import ObservedLease

Failures = Mapping[str, BaseException]


async def observed(telemetry: ConsumerTelemetry, held: Held, work: Callable[[Held], Awaitable[None]]) -> None:
    """Do *work* with one message, and tell of it."""
    processing = telemetry.processing([_received(held)])
    raised: BaseException | None = None
    try:
        with processing.current():
            await work(held)
    except BaseException as error:
        raised = error
        raise
    finally:
        processing.end([ending(raised, held.cancelled)])
        del raised  # else it, its frames and this one were a cycle


async def observed_list(
    telemetry: ConsumerTelemetry,
    members: Sequence[Held],
    work: Callable[[Sequence[Held]], Awaitable[Failures]],
) -> Failures:
    """Do *work* with a list of messages, and tell of it."""
    processing = telemetry.processing([_received(held) for held in members])
    raised: BaseException | None = None
    failures: Failures = {}
    try:
        with processing.current():
            failures = await work(members)
        return failures
    except BaseException as error:
        raised = error
        raise
    finally:
        processing.end([ending(raised or failures.get(held.id), held.cancelled) for held in members])
        del raised


def _received(held: Held) -> Received:
    return cast(ObservedLease, held.handle).received


def ending(raised: BaseException | None, cancelled: Cancelled | None) -> Ending:
    """
    Return how the handling of a message ended.

    Args:
        raised: What was raised.
        cancelled: Why this consumer cancelled it, if so.
    """
    if cancelled is Cancelled.LOST:
        return Ending("lease_lost", raised or LeaseLostError("the lease ended before its handler did"))
    match raised:
        case None:
            return Ending("handled")
        case Discard():
            return Ending("discarded")
        case DeadLetter():
            return Ending("dead_lettered")
        case RetryLater():
            return Ending("retry_later")
        case DecodeError():
            return Ending("undecodable", raised)
        case asyncio.CancelledError():
            return Ending("timed_out" if cancelled is Cancelled.TIMEOUT else "cancelled", raised)
        case _:
            return Ending("failed", raised)
