"""
What goes wrong with claims; not what a handler raises.

    MessageQueueError
    └── IdempotencyError
        ├── InvalidKeyError (ValueError)
        ├── FingerprintMismatchError
        ├── InProgressError
        ├── ClaimLostError
        ├── ResultNotStoredError
        └── IdempotencyStoreError
"""

from __future__ import annotations

from .._errors import ErrorCode, MessageQueueError


class IdempotencyError(MessageQueueError):
    """
    Base of what goes wrong with claims.

    Attributes:
        key: The key as its store has it; "" where none is concerned.
    """

    def __init__(
        self, message: str = "", /, *, key: str = "", code: ErrorCode | None = None, retryable: bool | None = None
    ) -> None:
        super().__init__(message, code=code, retryable=retryable)
        self.key = key


class InvalidKeyError(IdempotencyError, ValueError):
    """There is no usable key.  Nothing was claimed and nothing was run: without a key, all would share one record."""

    default_code = ErrorCode.INVALID


class FingerprintMismatchError(IdempotencyError):
    """
    The key was claimed, or done, with other data.  Nothing was run, and the record is as it was.

    No retry mends it: two different messages were given one key, or the fingerprint covers what may differ between two
    copies of one message.
    """

    default_code = ErrorCode.INVALID


class InProgressError(IdempotencyError):
    """
    Somebody else is working on the key.  Nothing was run.

    Attributes:
        retry_after: Seconds until that claim ends, unless it is renewed.
    """

    default_code = ErrorCode.IN_PROGRESS
    default_retryable = True

    def __init__(self, message: str = "", /, *, retry_after: float = 0.0, key: str = "") -> None:
        super().__init__(message, key=key)
        self.retry_after = retry_after


class ClaimLostError(IdempotencyError):
    """
    The claim ended before the work did, or somebody else has it: the work was cancelled, or is done and not recorded.

    The store's record is the other's and was not touched.
    """

    default_code = ErrorCode.LEASE_LOST
    default_retryable = True


class ResultNotStoredError(IdempotencyError):
    """
    The work is done and will not be done again, but there is no result of it to give.

    Attributes:
        value: What the work returned, for the caller whose call did it; None for every later one.
    """

    default_code = ErrorCode.ENCODE

    def __init__(
        self, message: str = "", /, *, value: object = None, key: str = "", code: ErrorCode | None = None
    ) -> None:
        super().__init__(message, key=key, code=code)
        self.value = value


class IdempotencyStoreError(IdempotencyError):
    """
    The store did not do what it was asked, or did not answer.  `__cause__` is its client's own exception.

    What a `retryable` one asked for may have been done all the same.
    """

    default_code = ErrorCode.UNAVAILABLE
    default_retryable = True
