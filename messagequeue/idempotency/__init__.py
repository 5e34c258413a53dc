"""
Work that is done once, however often its message is delivered: claim, run, complete or release.

* handlers: `idempotent()`, a middleware
* calls that return something: `Idempotency.run()`
* where claims are kept: `MemoryStore`, `SqliteStore`; `messagequeue.idempotency.redis.RedisStore` (extra `redis`);
  `messagequeue_sqs.idempotency.DynamoDBStore`; or an `IdempotencyStore` of your own, judged by
  `messagequeue.testing.conformance.IdempotencyStoreConformance`

*What it cannot promise* has a heading in docs/idempotency.md.
"""

from ._errors import (
    ClaimLostError,
    FingerprintMismatchError,
    IdempotencyError,
    IdempotencyStoreError,
    InProgressError,
    InvalidKeyError,
    ResultNotStoredError,
)
from ._idempotency import Idempotency
from ._keys import FingerprintFunction, KeyFunction, body_fingerprint, json_fingerprint, message_key
from ._memory import MemoryStore
from ._middleware import idempotent
from ._options import IdempotencyKwargs, IdempotencyOptions
from ._results import JSONResults, ResultCodec
from ._sqlite import SqliteStore
from ._store import Claimed, ClaimOutcome, Done, IdempotencyStore, InFlight

__all__ = [
    "ClaimLostError",
    "ClaimOutcome",
    "Claimed",
    "Done",
    "FingerprintFunction",
    "FingerprintMismatchError",
    "Idempotency",
    "IdempotencyError",
    "IdempotencyKwargs",
    "IdempotencyOptions",
    "IdempotencyStore",
    "IdempotencyStoreError",
    "InFlight",
    "InProgressError",
    "InvalidKeyError",
    "JSONResults",
    "KeyFunction",
    "MemoryStore",
    "ResultCodec",
    "ResultNotStoredError",
    "SqliteStore",
    "body_fingerprint",
    "idempotent",
    "json_fingerprint",
    "message_key",
]
