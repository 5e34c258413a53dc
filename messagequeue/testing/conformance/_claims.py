"""Facts about stores of claims: what `messagequeue.idempotency` relies on, and where others went wrong."""

from __future__ import annotations

import asyncio

from ...idempotency import Claimed, Done, Idempotency, InFlight, InProgressError
from ._stores import StoreBench, at_once, either_first, store_fact, winners

#: Keys as they may come: printable ASCII, with everything that some store might take for its own syntax.
ODD_KEYS = (
    '["topic","id:1"]',
    '["topic","id:1 "]',
    "a",
    "A",
    " ",
    "*",
    "a:b{c}d[e]f",
    "'; DROP TABLE records; --",
    "%s %00 \\ / ? # & = ~ ` $ |",
    "k" * 511 + "1",
    "k" * 511 + "2",
)


class IdempotencyStoreConformance:
    """
    Every fact about an `IdempotencyStore`.  Subclass it as `TestSomething` and give it a fixture `harness`.

        class TestMyStore(IdempotencyStoreConformance):
            @pytest.fixture
            def harness(self):
                return MyStoreHarness()     # see StoreHarness
    """

    # -- claiming

    @store_fact
    async def test_a_free_key_is_claimed(self, bench: StoreBench) -> None:
        """Nobody had it before, so nothing was taken over."""
        assert await bench.owner().claim("k") == Claimed(took_over=False)

    @store_fact
    async def test_a_claimed_key_is_in_flight_for_others(self, bench: StoreBench) -> None:
        """They are told for how long, and what it was claimed with."""
        await bench.owner().claim("k", fingerprint="f1")

        found = await bench.owner().claim("k", fingerprint="f2")

        assert isinstance(found, InFlight)
        assert found.fingerprint == "f1"
        assert 6 * bench.unit < found.remaining <= 10 * bench.unit

    @store_fact
    async def test_of_claims_at_once_one_wins(self, bench: StoreBench) -> None:
        """The others are told that it is in flight."""
        for number in range(5):
            owners = bench.owners(10)

            found = await at_once([owner.claim(f"k{number}") for owner in owners])

            assert len(winners(owners, found)) == 1
            assert sum(isinstance(outcome, InFlight) for outcome in found) == 9

    @store_fact
    async def test_different_keys_do_not_hinder_each_other(self, bench: StoreBench) -> None:
        """However alike they are, and whatever they are made of."""
        owners = bench.owners(len(ODD_KEYS))

        claimed = await at_once([owner.claim(key) for owner, key in zip(owners, ODD_KEYS, strict=True)])
        completed = await at_once(
            [owner.complete(key, key.encode()) for owner, key in zip(owners, ODD_KEYS, strict=True)]
        )
        found = await at_once([bench.owner().claim(key) for key in ODD_KEYS])

        assert claimed == [Claimed()] * len(ODD_KEYS)
        assert completed == [True] * len(ODD_KEYS)
        assert found == [Done("f1", key.encode()) for key in ODD_KEYS]

    @store_fact
    async def test_the_same_owner_may_ask_again(self, bench: StoreBench) -> None:
        """A client that repeats a call whose answer was lost is not told that somebody else has the key."""
        owner = bench.owner()
        await owner.claim("k", units=2)

        assert await owner.claim("k") == Claimed(took_over=False)
        await bench.pass_(4)
        assert isinstance(await bench.owner().claim("k"), InFlight)

    # -- ends

    @store_fact
    async def test_an_ended_claim_is_taken_over(self, bench: StoreBench) -> None:
        """Its owner crashed: the next one is told that there was one (CON-26)."""
        await bench.owner().claim("k")
        await bench.pass_(11)

        second, third = bench.owner(), bench.owner()

        assert await second.claim("k", fingerprint="f2") == Claimed(took_over=True)
        found = await third.claim("k")
        assert isinstance(found, InFlight)
        assert found.fingerprint == "f2"

    @store_fact
    async def test_a_claim_of_no_time_ends_at_once(self, bench: StoreBench) -> None:
        """0 is a time, not the absence of one (CON-26)."""
        await bench.owner().claim("k", units=0)

        assert isinstance(await bench.owner().claim("k"), Claimed)

    @store_fact
    async def test_an_ended_claim_is_taken_over_once(self, bench: StoreBench) -> None:
        """Of those who see at the same time that it ended, one gets it."""
        for number in range(3):
            await bench.owner().claim(f"k{number}", units=1)
        await bench.pass_(1.5)
        for number in range(3):
            owners = bench.owners(10)

            found = await at_once([owner.claim(f"k{number}") for owner in owners])

            assert len(winners(owners, found)) == 1

    @store_fact
    async def test_a_renewed_claim_lasts(self, bench: StoreBench) -> None:
        """Past its first end, and until its last one."""
        owner = bench.owner()
        await owner.claim("k")
        await bench.pass_(6)

        assert await owner.renew("k")
        await bench.pass_(6)
        assert isinstance(await bench.owner().claim("k"), InFlight)
        await bench.pass_(5)
        assert await bench.owner().claim("k") == Claimed(took_over=True)

    @store_fact
    async def test_an_ended_claim_stays_its_owners_until_taken_over(self, bench: StoreBench) -> None:
        """An owner that was late, and that nobody overtook, may go on or hand in its result."""
        first, second = bench.owner(), bench.owner()
        await first.claim("a")
        await second.claim("b")
        await bench.pass_(12)

        assert await first.renew("a")
        assert await second.complete("b")
        assert isinstance(await bench.owner().claim("a"), InFlight)
        assert isinstance(await bench.owner().claim("b"), Done)

    # -- results

    @store_fact
    async def test_a_completed_key_is_done_for_everybody(self, bench: StoreBench) -> None:
        """With what it was claimed with, and its result; for its owner, too."""
        owner = bench.owner()
        await owner.claim("k", fingerprint="f1")

        assert await owner.complete("k", b"42")
        for other in (bench.owner(), bench.owner(), owner):
            assert await other.claim("k", fingerprint="f2") == Done("f1", b"42")

    @store_fact
    async def test_results_are_kept_as_they_are(self, bench: StoreBench) -> None:
        """Nothing, no bytes, all bytes, and as many as the store says that it keeps."""
        largest = bytes(range(256)) * (bench.stores[0].max_result // 256)
        for number, result in enumerate((None, b"", b"null", bytes(range(256)), largest)):
            owner = bench.owner()
            await owner.claim(f"k{number}", fingerprint="")
            await owner.complete(f"k{number}", result)

            found = await bench.owner().claim(f"k{number}")

            assert isinstance(found, Done)
            assert found.fingerprint == ""
            assert found.result == result

    @store_fact
    async def test_completing_again_changes_nothing(self, bench: StoreBench) -> None:
        """A client that repeats a call whose answer was lost is told that it is done."""
        owner = bench.owner()
        await owner.claim("k")

        assert await owner.complete("k", b"42")
        assert await owner.complete("k", b"42")
        assert await bench.owner().claim("k") == Done("f1", b"42")

    @store_fact
    async def test_what_is_done_is_not_undone(self, bench: StoreBench) -> None:
        """A renewal or a release that comes late, of its owner or of another, is refused."""
        owner, other = bench.owner(), bench.owner()
        await owner.claim("k")
        await owner.complete("k", b"42")

        for one in (owner, other):
            assert not await one.renew("k")
            assert not await one.release("k")
        assert not await other.complete("k", b"43")
        assert await bench.owner().claim("k") == Done("f1", b"42")

    @store_fact
    async def test_a_result_is_forgotten_after_its_time(self, bench: StoreBench) -> None:
        """And not before; whether the store removed it by then or not."""
        owner = bench.owner()
        await owner.claim("k")
        await owner.complete("k", units=20)
        await bench.pass_(12)
        assert isinstance(await bench.owner().claim("k"), Done)
        await bench.pass_(10)

        other = bench.owner()

        assert await other.claim("k", fingerprint="f2") == Claimed(took_over=False)
        assert not await owner.complete("k")
        assert await other.complete("k", b"43")

    # -- releases

    @store_fact
    async def test_a_released_key_is_free(self, bench: StoreBench) -> None:
        """For anybody, with other data too, and nothing is taken over."""
        owner = bench.owner()
        await owner.claim("k", fingerprint="f1")

        assert await owner.release("k")
        assert not await owner.release("k")
        assert await bench.owner().claim("k", fingerprint="f2") == Claimed(took_over=False)

    @store_fact
    async def test_without_a_claim_nothing_can_be_done(self, bench: StoreBench) -> None:
        """No record comes into being by a late call."""
        owner = bench.owner()

        assert not await owner.renew("k")
        assert not await owner.complete("k")
        assert not await owner.release("k")
        assert await bench.owner().claim("k") == Claimed(took_over=False)

    # -- fencing

    @store_fact
    async def test_others_cannot_touch_a_claim(self, bench: StoreBench) -> None:
        """Those who were refused the key, above all, do not free it."""
        owner, other = bench.owner(), bench.owner()
        await owner.claim("k")
        await other.claim("k")

        assert not await other.renew("k")
        assert not await other.complete("k")
        assert not await other.release("k")
        assert await owner.complete("k", b"42")
        assert await other.claim("k") == Done("f1", b"42")

    @store_fact
    async def test_an_overtaken_owner_changes_nothing(self, bench: StoreBench) -> None:
        """It paused until its claim had ended and somebody else had taken the key over."""
        slow, quick = bench.owner(), bench.owner()
        await slow.claim("k")
        await bench.pass_(11)
        await quick.claim("k")

        assert not await slow.renew("k")
        assert not await slow.complete("k", b"slow")
        assert not await slow.release("k")
        assert isinstance(await bench.owner().claim("k"), InFlight)
        assert await quick.complete("k", b"quick")
        assert not await slow.complete("k", b"slow")
        assert await slow.claim("k") == Done("f1", b"quick")

    @store_fact
    async def test_a_late_owner_and_a_new_one_are_never_both_right(self, bench: StoreBench) -> None:
        """Which of two calls at the same time comes first is chance; that both were granted would be two owners."""
        for late in ("complete", "renew"):
            pairs = [(f"{late} {number}", bench.owner(), bench.owner()) for number in range(10)]
            await at_once([owner.claim(key, units=2) for key, owner, _ in pairs])
            await bench.pass_(2.5)
            for number, (key, owner, other) in enumerate(pairs):
                kept, found = await either_first(getattr(owner, late)(key), other.claim(key), first=number % 2)

                assert kept is not isinstance(found, Claimed)

    @store_fact
    async def test_a_late_release_does_not_free_what_was_taken_over(self, bench: StoreBench) -> None:
        """Before the take-over it frees the key, after it it does nothing; either way the new owner has it."""
        pairs = [(f"k{number}", bench.owner(), bench.owner()) for number in range(10)]
        await at_once([owner.claim(key, units=2) for key, owner, _ in pairs])
        await bench.pass_(2.5)
        for number, (key, owner, other) in enumerate(pairs):
            freed, found = await either_first(owner.release(key), other.claim(key), first=number % 2)

            assert found == Claimed(took_over=not freed)
            assert isinstance(await bench.owner().claim(key), InFlight)

    # -- use

    @store_fact
    async def test_cancelled_calls_leave_the_store_usable(self, bench: StoreBench) -> None:
        """What was asked is done or not done, and later calls get their own answers, not those of earlier ones."""
        for number in range(10):
            owner, key = bench.owner(), f"k{number}"
            task = asyncio.create_task(owner.claim(key), name="claim to be cancelled")
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

            await owner.release(key)

            assert isinstance(await bench.owner().claim(key), Claimed)
            assert not await bench.owner().complete(key)

    @store_fact
    async def test_calls_at_once_do_work_once(self, bench: StoreBench) -> None:
        """As it is used: named in any language, of many calls one works, and all that come later get its result."""
        ran = []

        async def work() -> dict[str, int]:
            ran.append(1)
            await asyncio.sleep(0)
            return {"größe": len(ran)}

        runs = [
            Idempotency(store, namespace="Größe/尺寸", ttl=1_000 * bench.unit, lease=10 * bench.unit)
            for store in bench.stores
        ]
        first = await asyncio.gather(*(one.run("schlüssel 🔑", work) for one in runs * 5), return_exceptions=True)
        later = [await one.run("schlüssel 🔑", work) for one in runs]

        assert ran == [1]
        assert later == [{"größe": 1}] * 2
        assert all(found == {"größe": 1} or isinstance(found, InProgressError) for found in first)
