"""Handlers that handle each message once; for calls that return something there is `Idempotency`."""

from __future__ import annotations

from typing import Unpack

from .._errors import RetryLater
from .._message import Message
from .._options import refuse_unknown
from .._protocols import Handler, Middleware
from ._errors import InProgressError
from ._guard import Guard
from ._idempotency import check_namespace
from ._keys import FingerprintFunction, KeyFunction, body_fingerprint, fingerprint_of, message_key, record_key
from ._options import IdempotencyKwargs, IdempotencyOptions
from ._store import IdempotencyStore

#: Seconds: the shortest time after which a message is asked for again whose work somebody else is doing.
RETRY_FLOOR = 1.0


def idempotent(
    store: IdempotencyStore,
    /,
    *,
    key: KeyFunction = message_key,
    namespace: str | None = None,
    fingerprint: FingerprintFunction | None = body_fingerprint,
    **options: Unpack[IdempotencyKwargs],
) -> Middleware:
    """
    Return middleware that claims a message's key, runs the handler, and records that it is done.

    * The key is done: the handler is not run, and the message is taken off the queue.
    * Somebody else has claimed it: `RetryLater` with the time until that claim ends, at least 1 s, at most `lease`.
    * The handler raised, a signal included, or was cancelled: the claim is released, so the next delivery runs it.
    * The claim is lost while the handler runs: the handler is cancelled, and `ClaimLostError` is raised.
    * The store is unreachable: `IdempotencyStoreError` is raised before the handler runs, unless `fail_open` is set.

    Args:
        store: Where claims are kept; the caller closes it after the consumer.
        key: Names what a message asks for.  See `message_key()` for what its two kinds of key protect against.
        namespace: What the keys are of; None: the message's topic.  Give one where one queue has several names.
        fingerprint: What must be equal in messages of one key: another is `FingerprintMismatchError`.  None compares
            nothing.
        options: See `IdempotencyOptions`.

    Raises:
        ConfigurationError: an option is out of its bounds.
        TypeError: there is no such option, or *store* is no store.
    """
    refuse_unknown(options, IdempotencyKwargs, "idempotent()")
    terms = IdempotencyOptions(**options)
    guard = Guard(store, terms)
    prefix = None if namespace is None else check_namespace(namespace)
    _check_callable("key", key)
    if fingerprint is not None:
        _check_callable("fingerprint", fingerprint)

    def wrap(handler: Handler) -> Handler:
        async def handle(message: Message) -> None:
            name = record_key(message.topic if prefix is None else prefix, key(message))
            mark = fingerprint_of(None if fingerprint is None else fingerprint(message))
            try:
                await guard.run(name, mark, lambda: handler(message), _nothing)
            except InProgressError as busy:
                after = max(RETRY_FLOOR, min(busy.retry_after, terms.lease))
                raise RetryLater(after, "somebody else is working on it") from busy

        return handle

    return wrap


def _nothing(_: None) -> None:
    """A handler has no result to keep."""


def _check_callable(name: str, given: object) -> None:
    if not callable(given):
        raise TypeError(f"{name} is a {type(given).__name__}: give a function of a Message")
