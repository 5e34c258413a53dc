"""Claim, run, complete or release: the course of one piece of work; not what its key is or its result means."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from .. import _log_events as events
from ._calls import StoreCalls
from ._claim import HeldClaim
from ._errors import FingerprintMismatchError, IdempotencyStoreError, InProgressError, ResultNotStoredError
from ._options import IdempotencyOptions, check_store
from ._store import Claimed, ClaimOutcome, Done, IdempotencyStore, InFlight

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """
    The work is done.

    Attributes:
        result: Its encoded result, or None where none is kept.
        value: What the work returned, where it was done now.
    """

    result: bytes | None
    value: object = None


class Guard:
    """Lets each piece of work be done once, by the records of a store."""

    __slots__ = ("_calls", "_options")

    def __init__(self, store: IdempotencyStore, options: IdempotencyOptions) -> None:
        check_store(store, options)
        self._options = options
        self._calls = StoreCalls(store, options.store_timeout)

    async def run(
        self,
        key: str,
        fingerprint: str,
        work: Callable[[], Awaitable[T]],
        encode: Callable[[T], bytes | None],
    ) -> Ended:
        """
        Do *work*, unless it was done or is being done.

        Args:
            key, fingerprint: As a store takes them.
            encode: Makes the result to keep; raises `ResultNotStoredError` where it cannot.

        Raises:
            InProgressError, FingerprintMismatchError, IdempotencyStoreError: *work* was not begun.
            ClaimLostError: *work* was cancelled, or done and not recorded.
            ResultNotStoredError: *work* is done and recorded, without its result.
            Whatever *work* raises; the key is free again then.
        """
        found = await self._claim(key, fingerprint)
        if isinstance(found, Done):
            events.CLAIM_REPLAYED.log("%s is done already: not done again", key, key=key)
            return Ended(found.result)
        if found is None:
            value = await work()
            return Ended(encode(value), value)
        try:
            return await _run(found, work, encode)
        finally:
            await found.close()

    async def _claim(self, key: str, fingerprint: str) -> HeldClaim | Done | None:
        """Return the claim, or that the work is done; None: go on without a claim, as `fail_open` says."""
        owner = uuid4().hex
        held = HeldClaim(self._calls, key, owner, self._options, made_at=asyncio.get_running_loop().time())
        try:
            found = await self._calls.claim(key, owner=owner, fingerprint=fingerprint, lease=self._options.lease)
        except (IdempotencyStoreError, asyncio.CancelledError) as error:
            # It may have been made all the same, and would keep everybody waiting for its end.
            await held.withdraw()
            if not isinstance(error, IdempotencyStoreError) or not self._may_go_on(error):
                raise
            text = "%s is done without a claim (fail_open), and so perhaps twice"
            self._calls.notes.write(events.CLAIM_SKIPPED, text, key, error=error)
            return None
        if isinstance(found, Claimed):
            if found.took_over:
                events.CLAIM_TAKEN_OVER.log("%s was begun before and not ended: done again", key, key=key)
            return held
        _refuse(found, key, fingerprint)
        return found if isinstance(found, Done) else None

    def _may_go_on(self, error: IdempotencyStoreError) -> bool:
        """An outage may be worked through; a store that is set up wrongly would be for ever."""
        return self._options.fail_open and error.retryable


def _refuse(found: ClaimOutcome, key: str, fingerprint: str) -> None:
    """Raise what is to be raised of a key that is not free."""
    if isinstance(found, Claimed):
        return
    if fingerprint and found.fingerprint and fingerprint != found.fingerprint:
        state = "done" if isinstance(found, Done) else "being worked on"
        raise FingerprintMismatchError(
            f"{key} is {state} with other data: give different work different keys, or leave out of the fingerprint "
            "what may differ between copies; a dead-letter queue is the place for this one",
            key=key,
        )
    if isinstance(found, InFlight):
        raise InProgressError(
            f"somebody else is working on {key}: try again in {found.remaining:.1f} s",
            retry_after=found.remaining,
            key=key,
        )


async def _run(held: HeldClaim, work: Callable[[], Awaitable[T]], encode: Callable[[T], bytes | None]) -> Ended:
    try:
        value = await held.keep_during(work)
    except (Exception, asyncio.CancelledError):
        await held.release()
        raise
    try:
        result, fault = encode(value), None
    except ResultNotStoredError as error:
        result, fault = None, error
    await held.complete(result)
    if fault is not None:
        raise fault
    return Ended(result, value)
