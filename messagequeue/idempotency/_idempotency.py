"""Calls that are made once and return the same result to everybody; for handlers there is `idempotent()`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, Unpack, overload

from .._errors import ConfigurationError
from .._options import refuse_unknown
from ._guard import Guard
from ._keys import fingerprint_of, record_key
from ._options import IdempotencyKwargs, IdempotencyOptions
from ._results import JSONResults, ResultCodec, bounded_encode, unreadable, without_result
from ._store import IdempotencyStore

T = TypeVar("T")


class Idempotency:
    """
    Does named pieces of work once, and gives their results back.

        charges = Idempotency(store, namespace="charges")
        receipt = await charges.run(order_id, lambda: gateway.charge(amount), fingerprint=f"{amount}")

    Args:
        store: Where claims and results are kept; the caller closes it.
        namespace: What the keys are of.  Two kinds of work whose keys may be equal need two.
        options: See `IdempotencyOptions`.

    Raises:
        ConfigurationError: an option is out of its bounds, or *namespace* is empty.
        TypeError: there is no such option, or *store* is no store.
    """

    def __init__(self, store: IdempotencyStore, *, namespace: str, **options: Unpack[IdempotencyKwargs]) -> None:
        refuse_unknown(options, IdempotencyKwargs, "Idempotency()")
        self._namespace = check_namespace(namespace)
        self._options = IdempotencyOptions(**options)
        self._guard = Guard(store, self._options)

    @overload
    async def run(
        self, key: str, work: Callable[[], Awaitable[object]], /, *, fingerprint: bytes | str | None = None
    ) -> Any: ...

    @overload
    async def run(
        self,
        key: str,
        work: Callable[[], Awaitable[T]],
        /,
        *,
        fingerprint: bytes | str | None = None,
        codec: ResultCodec[T],
    ) -> T: ...

    async def run(
        self,
        key: str,
        work: Callable[[], Awaitable[Any]],
        /,
        *,
        fingerprint: bytes | str | None = None,
        codec: ResultCodec[Any] | None = None,
    ) -> Any:
        """
        Return the result of *work*: done now, or earlier under the same key.

        Args:
            key: Names the work within the namespace; any non-empty text.
            work: Called without arguments, in this task.  It is cancelled where the claim is lost.
            fingerprint: What must be the same for the same key, such as the amount of a charge; None compares nothing.
            codec: How the result is kept.  Without one it is JSON, and every caller gets plain JSON values, the first
                one too: a tuple comes back as a list, a dataclass as a dict.

        Raises:
            InvalidKeyError: *key* is empty or not text; *work* was not begun.
            InProgressError: somebody else is doing it; try again after `retry_after` seconds.
            FingerprintMismatchError: it was done, or is being done, with another fingerprint.
            IdempotencyStoreError: the store failed; *work* was not begun.
            TypeError: *work* cannot be called; nothing was claimed.
            ClaimLostError: *work* was cancelled, or done and not recorded, because the claim ended.
            ResultNotStoredError: *work* is done, but its result is too large, has no form to be kept in, or cannot be
                read.
            Whatever *work* raises; the next call does it again.
        """
        if not callable(work):
            raise TypeError(
                f"the work is a {type(work).__name__}: give a function that returns what to await, as lambda: charge()"
            )
        codec = JSONResults() if codec is None else codec
        name = record_key(self._namespace, key)
        encode = bounded_encode(codec, self._options.max_result, name)
        ended = await self._guard.run(name, fingerprint_of(fingerprint), work, encode)
        if ended.result is None:
            raise without_result(name)
        try:
            return codec.decode(ended.result)
        except Exception as error:  # it must not look as if the work had failed
            raise unreadable(name, ended.value, error) from error


def check_namespace(namespace: str) -> str:
    """Return *namespace*.  Raises `ConfigurationError` where it is empty or not text."""
    if not isinstance(namespace, str) or not namespace:
        raise ConfigurationError(f"namespace={namespace!r}: give text that says what the keys are of")
    return namespace
