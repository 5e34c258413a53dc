"""
Every error and signal of `messagequeue`; not where foreign errors are translated (each provider has a table for that).

    MessageQueueError
    ├── ErrEmptyTopicName (ValueError)
    ├── ErrConsumerAlreadyRegistered
    ├── ConfigurationError (ValueError)
    │   ├── UnknownProviderError
    │   ├── ProviderNotInstalledError
    │   └── UnsupportedOptionError
    ├── ClosedError
    ├── PublishError
    │   ├── MessageTooLargeError (ValueError)
    │   ├── EncodeError (ValueError)
    │   └── InvalidMessageError (ValueError)
    └── ConsumeError
        ├── ReceiveError
        ├── DecodeError
        │   └── UnroutedError
        ├── HandlerError
        ├── SettleError
        └── LeaseLostError

    (idempotency has its own branch, `IdempotencyError`)

    Signal                      raised by handlers to say what becomes of a message; not an error
    ├── RetryLater
    ├── Discard
    └── DeadLetter

A message of an error says what is wrong, what was given and what to do.  It never holds a body or a credential.
"""

from __future__ import annotations

from enum import StrEnum
from sys import float_info
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ._message import Message


class ErrorCode(StrEnum):
    """What kind of fault an error is, the same words for every provider; stable, so that code may branch on it."""

    EMPTY_TOPIC = "empty_topic"
    ALREADY_REGISTERED = "already_registered"
    CONFIGURATION = "configuration"
    UNSUPPORTED = "unsupported"
    CLOSED = "closed"
    TOO_LARGE = "too_large"
    INVALID = "invalid"
    """The broker, or a check made in its place, refuses the message or the request as it is."""
    ENCODE = "encode"
    DECODE = "decode"
    NOT_FOUND = "not_found"
    """The topic does not exist."""
    ACCESS_DENIED = "access_denied"
    CREDENTIALS = "credentials"
    """No credentials, expired ones, or ones the broker does not know."""
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    """The broker failed on its own side."""
    CONNECTION = "connection"
    """No answer: refused, reset, timed out, name not resolved."""
    BAD_RESPONSE = "bad_response"
    """An answer that did not come from such a broker (HTML, nothing, not JSON)."""
    CHECKSUM = "checksum"
    """The broker stored something else than what was sent."""
    NOT_CONFIRMED = "not_confirmed"
    """The broker answered, but said nothing of this message: it may or may not be stored."""
    FULL = "full"
    """More messages are waiting than the publisher may hold."""
    HANDLER = "handler"
    LEASE_LOST = "lease_lost"
    IN_PROGRESS = "in_progress"
    """Somebody else is doing the same work."""
    OTHER = "other"


class MessageQueueError(Exception):
    """
    Base of every error of this library.

    Attributes:
        code: What kind of fault it is.
        retryable: True where the same call may succeed later without a change by the caller.
    """

    default_code: ClassVar[ErrorCode] = ErrorCode.OTHER
    default_retryable: ClassVar[bool] = False

    def __init__(self, message: str = "", /, *, code: ErrorCode | None = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else code
        self.retryable = self.default_retryable if retryable is None else retryable


class ErrEmptyTopicName(MessageQueueError, ValueError):
    """The topic is empty: give the name of a topic (for SQS, the queue's URL)."""

    default_code = ErrorCode.EMPTY_TOPIC

    def __init__(self, message: str = "the topic is empty: give its name (for SQS, the queue's URL)", /) -> None:
        super().__init__(message)


class ErrConsumerAlreadyRegistered(MessageQueueError):
    """This provider has a consumer of that topic already; the first one keeps its handler."""

    default_code = ErrorCode.ALREADY_REGISTERED

    def __init__(self, topic: str, /) -> None:
        super().__init__(
            f"topic {topic!r} has a consumer in this provider already: close() that one first, "
            "or raise its concurrency instead of adding a second"
        )
        self.topic = topic

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.topic,), vars(self)


class ConfigurationError(MessageQueueError, ValueError):
    """A setting is wrong; nothing was sent."""

    default_code = ErrorCode.CONFIGURATION


class UnknownProviderError(ConfigurationError):
    """No installed distribution offers a provider of that name."""


class ProviderNotInstalledError(ConfigurationError):
    """The provider is known, but something that it needs is not installed."""


class UnsupportedOptionError(ConfigurationError):
    """The provider, or this topic of it, cannot honour an option that the caller would rely on."""

    default_code = ErrorCode.UNSUPPORTED


class ClosedError(MessageQueueError):
    """The publisher, consumer or provider was stopped or closed before this call."""

    default_code = ErrorCode.CLOSED


class PublishError(MessageQueueError):
    """
    A message was not published, or its publication was not confirmed (`ErrorCode.NOT_CONFIRMED`, `CONNECTION`).

    Attributes:
        topic: The topic it was meant for; "" where the message was refused before that was known.
    """

    def __init__(
        self, message: str = "", /, *, topic: str = "", code: ErrorCode | None = None, retryable: bool | None = None
    ) -> None:
        super().__init__(message, code=code, retryable=retryable)
        self.topic = topic


class MessageTooLargeError(PublishError, ValueError):
    """
    The message is larger than the broker takes.

    Attributes:
        size: Bytes of this message as the broker counts them (for SQS: body and attributes).
        limit: Bytes allowed.
    """

    default_code = ErrorCode.TOO_LARGE

    def __init__(self, message: str = "", /, *, size: int, limit: int, topic: str = "") -> None:
        super().__init__(message or f"the message has {size} bytes; the limit is {limit}", topic=topic)
        self.size = size
        self.limit = limit

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_too_large, (type(self), str(self), self.size, self.limit, self.topic), vars(self)


def _rebuild_too_large(
    cls: type[MessageTooLargeError], message: str, size: int, limit: int, topic: str
) -> MessageTooLargeError:
    return cls(message, size=size, limit=limit, topic=topic)


class EncodeError(PublishError, ValueError):
    """The data has no clear form on the wire: pass bytes, str, or something with a JSON form."""

    default_code = ErrorCode.ENCODE


class InvalidMessageError(PublishError, ValueError):
    """An option, an attribute or the body breaks a rule of the broker; nothing was sent."""

    default_code = ErrorCode.INVALID


class ConsumeError(MessageQueueError):
    """
    Something went wrong while consuming; what an `ErrorSink` receives.

    Attributes:
        topic: The topic consumed from.
        message: The message concerned; None where the fault concerns no single one.
    """

    def __init__(
        self,
        message: str = "",
        /,
        *,
        topic: str = "",
        about: Message | None = None,
        code: ErrorCode | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, code=code, retryable=retryable)
        self.topic = topic
        self.message = about


class ReceiveError(ConsumeError):
    """
    The broker could not be asked for messages.

    Attributes:
        fatal: True where asking again cannot help (the queue is gone, access is denied): it ends `consume()` after
            a grace period.
    """

    default_retryable = True

    def __init__(
        self,
        message: str = "",
        /,
        *,
        topic: str = "",
        code: ErrorCode | None = None,
        retryable: bool | None = None,
        fatal: bool = False,
    ) -> None:
        super().__init__(message, topic=topic, code=code, retryable=retryable)
        self.fatal = fatal


class DecodeError(ConsumeError, ValueError):
    """
    A message's body or attributes cannot be read; it was not given to the handler and not deleted.

    With `retryable` set it may be readable next time: its body is elsewhere and could not be had now.  What is decided
    about messages that cannot be read (`ConsumeOptions.undecodable`) is not about those.
    """

    default_code = ErrorCode.DECODE


class UnroutedError(DecodeError):
    """A message is of a type that a `Router` has no handler for; it was not handled and not deleted."""


class HandlerError(ConsumeError):
    """A handler raised; `__cause__` is what it raised.  The message was not deleted and comes back."""

    default_code = ErrorCode.HANDLER
    default_retryable = True


class SettleError(ConsumeError):
    """A handler succeeded, but the broker did not take the message off the queue: it will be delivered again."""


class LeaseLostError(ConsumeError):
    """The right to work on a message ended before the work did; another consumer may have it."""

    default_code = ErrorCode.LEASE_LOST


#: The largest finite float: an int may be larger, and has no float then.
_LARGEST = float_info.max


class Signal(Exception):
    """Base of what a handler raises to decide what becomes of its message."""


class RetryLater(Signal):
    """
    Not done; deliver the message again in *after* seconds.

    Args:
        after: Seconds, 0 to 43 200 (SQS counts them against the 12 h a message may be held since its receive).
            0 = at once.

    Raises:
        ValueError: *after* is negative or not a finite number.
    """

    def __init__(self, after: float, reason: str = "") -> None:
        if isinstance(after, bool) or not isinstance(after, int | float):
            raise ValueError(f"after={after!r}: give seconds, 0 or more")
        if not 0 <= after <= _LARGEST:
            raise ValueError("after is below 0 or not finite: give seconds, 0 or more")
        super().__init__(after, reason)
        self.after = float(after)
        self.reason = reason


class Discard(Signal):
    """The message is of no use: take it off the queue without having handled it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DeadLetter(Signal):
    """No retry can help: put the message into the topic's dead-letter queue now."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
