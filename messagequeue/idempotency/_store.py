"""
The seam between claims and where they are kept: what the author of a store implements; not when it is called.

A record is a claim or a result.  A claim always has an end: there is no way to ask for one without (`lease` is a
number, and 0 ends at once).  Its owner is a token that is drawn for this one claim, which makes two things safe:

* An owner that was overtaken (a long pause, a broken network) changes nothing: every method but `claim()` does its work
  only where the record is still that owner's.
* A call whose answer was lost can be sent again: the same owner gets the same answer.

*Atomicity.*  Each method reads and writes as one step, as seen by every process that uses the store: what was read
cannot change before it is written.  Looking first and writing then, however quickly, lets two owners run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

#: Characters of a key at most; every one is printable ASCII.
MAX_KEY = 512


@dataclass(frozen=True, slots=True)
class Claimed:
    """
    The key is this owner's.

    Attributes:
        took_over: An earlier claim had ended without a result and without having been released: its owner crashed.
            May be False where the store has forgotten that claim.
    """

    took_over: bool = False


@dataclass(frozen=True, slots=True)
class InFlight:
    """
    Another owner has claimed the key.

    Attributes:
        remaining: Seconds until that claim ends, unless it is renewed; above 0.
        fingerprint: As it was claimed with.
    """

    remaining: float
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Done:
    """
    The work of the key is done.

    Attributes:
        fingerprint: As it was claimed with.
        result: As it was completed with.
    """

    fingerprint: str
    result: bytes | None = None


ClaimOutcome: TypeAlias = Claimed | InFlight | Done


class IdempotencyStore(Protocol):
    """
    Keeps claims and results by key.

    Methods may be called concurrently, and may be cancelled; what a cancelled one was asked is then done or not done,
    never half.  Times are measured by the store's own clock, the same for all of its users.

    Raises, each of them: `IdempotencyStoreError`, with `retryable` set where the same call may succeed later without a
    change by anybody; `ConfigurationError` where the store is set up wrongly.
    """

    @property
    def max_result(self) -> int:
        """Bytes of a result at most."""
        ...

    async def claim(self, key: str, /, *, owner: str, fingerprint: str, lease: float) -> ClaimOutcome:
        """
        Claim *key* for *owner*, unless another claim or a result is there that has not ended.

        Args:
            key: 1 to 512 printable ASCII characters.
            owner: A token of up to 64 ASCII letters and digits, drawn for this claim.
            fingerprint: Up to 64 ASCII letters and digits; kept and given back, not compared.
            lease: Seconds until the claim ends.  One that ended hinders nobody, but stays its owner's, to be renewed or
                completed, until somebody else claims the key; the store may forget it *lease* seconds after its end.

        Of several calls at the same time one is `Claimed`.  The same owner's claim, asked for again, is `Claimed` and
        lasts *lease* seconds from now.
        """
        ...

    async def renew(self, key: str, /, *, owner: str, lease: float) -> bool:
        """Let the claim last *lease* seconds from now.  False: it is not *owner*'s, or is done; nothing changed."""
        ...

    async def complete(self, key: str, /, *, owner: str, ttl: float, result: bytes | None) -> bool:
        """
        Make the claim a result that lasts *ttl* seconds from now.

        Args:
            result: Kept as it is, `b""` and None included.

        Returns:
            False: the record is not *owner*'s; nothing changed.  True also where *owner* completed it before.
        """
        ...

    async def release(self, key: str, /, *, owner: str) -> bool:
        """Remove the claim.  False: there is none, it is not *owner*'s, or it is done; nothing changed."""
        ...
