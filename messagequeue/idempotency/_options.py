"""How claims are made and kept; checked when they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from .._errors import ConfigurationError
from .._options import check_options, option
from ._store import IdempotencyStore

#: Seconds: the longest that SQS keeps a message, and so the longest after which it can deliver one again.
TWO_WEEKS = 1_209_600.0


class IdempotencyKwargs(TypedDict, total=False):
    """The options of `idempotent()` and `Idempotency`; each means what the field of `IdempotencyOptions` says."""

    ttl: float
    lease: float
    max_result: int
    store_timeout: float
    fail_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyOptions:
    """
    How claims are made and kept.

    Raises:
        ConfigurationError: an option is out of its bounds, or `ttl` is below `lease`.
    """

    ttl: float = option(
        TWO_WEEKS,
        "How long done work is remembered; longer than the broker may deliver a message again, or it is done twice.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=315_360_000,
    )
    lease: float = option(
        60.0,
        "How long a claim lasts that is not renewed: what work waits for whose first owner crashed.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=43_200,
    )
    max_result: int = option(65_536, "Size of a stored result at most.", unit="bytes", low=1)
    store_timeout: float = option(
        5.0,
        "Longest wait for one answer of the store; after it the store counts as unreachable.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=900,
    )
    fail_open: bool = option(
        False, "Where the store is unreachable, work without a claim, and so perhaps twice, instead of not at all."
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.ttl < self.lease:
            raise ConfigurationError(
                f"ttl={self.ttl:g} is below lease={self.lease:g}: done work would be forgotten before a claim ends"
            )


_METHODS = ("claim", "renew", "complete", "release")


def check_store(store: IdempotencyStore, options: IdempotencyOptions) -> None:
    """
    Raises:
        TypeError: *store* is no store.
        ConfigurationError: it cannot keep a result as large as the options allow.
    """
    if isinstance(store, type) or not all(callable(getattr(store, name, None)) for name in _METHODS):
        given = f"the class {store.__name__}" if isinstance(store, type) else f"a {type(store).__name__}"
        raise TypeError(f"the store is {given}: give an IdempotencyStore, such as MemoryStore()")
    if options.max_result > store.max_result:
        raise ConfigurationError(
            f"max_result={options.max_result} is above what {type(store).__name__} keeps ({store.max_result} bytes)"
        )
