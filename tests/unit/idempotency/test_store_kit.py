"""The conformance kit of stores notices each kind of broken one; that right ones pass is in tests/conformance."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from messagequeue.idempotency import Claimed, Done, InFlight, MemoryStore
from messagequeue.testing.conformance import IdempotencyStoreConformance, run_in_virtual_time


class LooksFirst(MemoryStore):
    """Reads, and writes a moment later: many do so with GET and SET, and let two owners run."""

    async def claim(self, key, /, *, owner, fingerprint, lease):
        record = self._records.get(key)
        await asyncio.sleep(0)
        if record is None or self._now() >= record.ends_at:
            self._records.pop(key, None)
        return await super().claim(key, owner=owner, fingerprint=fingerprint, lease=lease)


class TakesZeroForNever(MemoryStore):
    """A lease of 0 is read as "not given" (CON-26)."""

    async def claim(self, key, /, *, owner, fingerprint, lease):
        return await super().claim(key, owner=owner, fingerprint=fingerprint, lease=lease or 1e9)


class NeverEnds(MemoryStore):
    """A claim lasts until somebody releases it (CON-26)."""

    async def claim(self, key, /, *, owner, fingerprint, lease):
        return await super().claim(key, owner=owner, fingerprint=fingerprint, lease=1e9)


class MixesUpUnits(MemoryStore):
    """Milliseconds where seconds are meant."""

    async def claim(self, key, /, *, owner, fingerprint, lease):
        return await super().claim(key, owner=owner, fingerprint=fingerprint, lease=lease / 1000)


class DoesNotKnowItsOwner(MemoryStore):
    """A client that repeats a call is told that somebody else has the key."""

    async def claim(self, key, /, *, owner, fingerprint, lease):
        record = self._records.get(key)
        if record is not None and record.owner == owner and not record.done:
            return InFlight(record.ends_at - self._now(), record.fingerprint)
        return await super().claim(key, owner=owner, fingerprint=fingerprint, lease=lease)


class ForgetsFingerprints(MemoryStore):
    async def claim(self, key, /, *, owner, fingerprint, lease):
        return await super().claim(key, owner=owner, fingerprint="", lease=lease)


class HidesCrashes(MemoryStore):
    async def claim(self, key, /, *, owner, fingerprint, lease):
        found = await super().claim(key, owner=owner, fingerprint=fingerprint, lease=lease)
        return Claimed() if isinstance(found, Claimed) else found


class IgnoresCase(MemoryStore):
    """As some databases compare text by default."""

    async def claim(self, key, /, **options):
        return await super().claim(key.lower(), **options)

    async def complete(self, key, /, **options):
        return await super().complete(key.lower(), **options)


class CutsKeys(MemoryStore):
    """As a column of 255 characters does."""

    async def claim(self, key, /, **options):
        return await super().claim(key[:255], **options)

    async def complete(self, key, /, **options):
        return await super().complete(key[:255], **options)


class RenewsForAnybody(MemoryStore):
    async def renew(self, key, /, *, owner, lease):
        record = self._records.get(key)
        return await super().renew(key, owner=record.owner if record else owner, lease=lease)


class RenewsNothing(MemoryStore):
    async def renew(self, key, /, *, owner, lease):
        record = self._records.get(key)
        return record is not None and record.owner == owner and not record.done


class CompletesForAnybody(MemoryStore):
    """What a slow owner did replaces what the new one does."""

    async def complete(self, key, /, *, owner, ttl, result):
        record = self._records.get(key)
        return await super().complete(key, owner=record.owner if record else owner, ttl=ttl, result=result)


class CompletesWithoutClaim(MemoryStore):
    async def complete(self, key, /, *, owner, ttl, result):
        await super().claim(key, owner=owner, fingerprint="", lease=1)
        return await super().complete(key, owner=owner, ttl=ttl, result=result)


class CompletesOnce(MemoryStore):
    """A client that repeats a call is told that its claim was lost."""

    async def complete(self, key, /, *, owner, ttl, result):
        record = self._records.get(key)
        return not (record and record.done) and await super().complete(key, owner=owner, ttl=ttl, result=result)


class TakesNoneForEmpty(MemoryStore):
    async def complete(self, key, /, *, owner, ttl, result):
        return await super().complete(key, owner=owner, ttl=ttl, result=result or b"")


class KeepsResultsForEver(MemoryStore):
    async def complete(self, key, /, *, owner, ttl, result):
        return await super().complete(key, owner=owner, ttl=1e9, result=result)


class ReleasesForAnybody(MemoryStore):
    """Whoever is refused a key frees it: the record is deleted by its name."""

    async def release(self, key, /, *, owner):
        return self._records.pop(key, None) is not None


class ReleasesWhatIsDone(MemoryStore):
    async def release(self, key, /, *, owner):
        record = self._records.get(key)
        if record is not None and record.owner == owner:
            del self._records[key]
            return True
        return False


class DropsEndedClaims(MemoryStore):
    """An owner that is a little late has lost its claim to nobody."""

    async def renew(self, key, /, *, owner, lease):
        self._drop(key)
        return await super().renew(key, owner=owner, lease=lease)

    async def complete(self, key, /, *, owner, ttl, result):
        self._drop(key)
        return await super().complete(key, owner=owner, ttl=ttl, result=result)

    def _drop(self, key):
        if key in self._records and self._records[key].ends_at <= self._now():
            del self._records[key]


class LosesWhatIsCancelled(MemoryStore):
    """A cancelled call goes on in the background, and is done after later ones."""

    async def claim(self, key, /, **options):
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(0.001, self._late, key, options["owner"])
            raise
        return await super().claim(key, **options)

    def _late(self, key, owner):
        record = self._records.get(key)
        if record is not None:
            self._records[key] = replace(record, owner=owner)

    async def release(self, key, /, *, owner):
        await asyncio.sleep(0.01)
        return await super().release(key, owner=owner)

    async def complete(self, key, /, *, owner, ttl, result):
        return True


class HidesResults(MemoryStore):
    """Skips, but gives nothing back."""

    async def claim(self, key, /, **options):
        found = await super().claim(key, **options)
        return Done(found.fingerprint) if isinstance(found, Done) else found


BROKEN = [
    (LooksFirst, "test_of_claims_at_once_one_wins"),
    (LooksFirst, "test_an_ended_claim_is_taken_over_once"),
    (LooksFirst, "test_calls_at_once_do_work_once"),
    (TakesZeroForNever, "test_a_claim_of_no_time_ends_at_once"),
    (NeverEnds, "test_an_ended_claim_is_taken_over"),
    (MixesUpUnits, "test_a_claimed_key_is_in_flight_for_others"),
    (DoesNotKnowItsOwner, "test_the_same_owner_may_ask_again"),
    (ForgetsFingerprints, "test_a_claimed_key_is_in_flight_for_others"),
    (HidesCrashes, "test_an_ended_claim_is_taken_over"),
    (IgnoresCase, "test_different_keys_do_not_hinder_each_other"),
    (CutsKeys, "test_different_keys_do_not_hinder_each_other"),
    (RenewsForAnybody, "test_others_cannot_touch_a_claim"),
    (RenewsNothing, "test_a_renewed_claim_lasts"),
    (CompletesForAnybody, "test_an_overtaken_owner_changes_nothing"),
    (CompletesForAnybody, "test_a_late_owner_and_a_new_one_are_never_both_right"),
    (CompletesWithoutClaim, "test_without_a_claim_nothing_can_be_done"),
    (CompletesOnce, "test_completing_again_changes_nothing"),
    (TakesNoneForEmpty, "test_results_are_kept_as_they_are"),
    (HidesResults, "test_a_completed_key_is_done_for_everybody"),
    (KeepsResultsForEver, "test_a_result_is_forgotten_after_its_time"),
    (ReleasesForAnybody, "test_others_cannot_touch_a_claim"),
    (ReleasesForAnybody, "test_a_late_release_does_not_free_what_was_taken_over"),
    (ReleasesWhatIsDone, "test_what_is_done_is_not_undone"),
    (DropsEndedClaims, "test_an_ended_claim_stays_its_owners_until_taken_over"),
    (LosesWhatIsCancelled, "test_cancelled_calls_leave_the_store_usable"),
]


class Harness:
    unit = 6.0

    def __init__(self, store):
        self.store = store

    def run(self, main, /):
        run_in_virtual_time(main)

    async def open(self):
        return self.store

    async def advance(self, seconds, /):
        await asyncio.sleep(seconds)

    async def aclose(self):
        pass


@pytest.mark.parametrize(("store", "fact"), BROKEN, ids=lambda item: getattr(item, "__name__", item))
def test_a_broken_store_fails_its_fact(store, fact):
    """Each of these mistakes was made by somebody; and the right store passes the same fact."""
    getattr(IdempotencyStoreConformance(), fact)(Harness(MemoryStore()))

    with pytest.raises(AssertionError):
        getattr(IdempotencyStoreConformance(), fact)(Harness(store()))


def test_every_fact_can_fail():
    """But for the two that only a store of nothing at all would fail."""
    facts = {name for name in vars(IdempotencyStoreConformance) if name.startswith("test_")}

    assert facts - {fact for _, fact in BROKEN} == {"test_a_free_key_is_claimed", "test_a_released_key_is_free"}
