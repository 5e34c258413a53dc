"""How messages and calls get their keys and fingerprints: pure; not what is kept under them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import TypeAlias

from .._message import Message
from ._errors import InvalidKeyError
from ._store import MAX_KEY

#: Names the work that a message asks for: equal for messages that ask for the same, different for all others.
KeyFunction: TypeAlias = Callable[[Message], str]
#: Returns what must be equal in two messages of one key; None compares nothing.
FingerprintFunction: TypeAlias = Callable[[Message], bytes | str | None]


def message_key(message: Message) -> str:
    """
    Return the message's deduplication key, or its id where it has none.

    * The **id** is the broker's.  It is the same on every delivery of a message, so it protects against a message that
      is delivered twice, which every broker does now and then.  A producer that publishes twice makes two ids.
    * The **deduplication key** is the producer's.  It protects against a producer that publishes twice, too, for as
      long as the record lasts, where the broker's own window is minutes.

    Against producers that repeat themselves on a topic without deduplication keys, give a function of your own that
    reads what the producer repeats: an order's number, an event's id.
    """
    if message.deduplication_key is not None:
        return f"deduplication:{message.deduplication_key}"
    return f"id:{message.id}"


def body_fingerprint(message: Message) -> bytes:
    """Return the body: attributes, such as a trace's, may differ between two copies of a message."""
    return message.body


def json_fingerprint(message: Message) -> bytes:
    """
    Return the body as JSON with sorted keys, for producers that do not always write their keys in the same order.

    A body that is not JSON is returned as it is.
    """
    try:
        return json.dumps(message.json(), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return message.body


def record_key(namespace: str, key: object) -> str:
    """
    Return the key of a record: readable, and never the same for two pairs of *namespace* and *key*.

    What is too long for a store is hashed.

    Raises:
        InvalidKeyError: *key* is empty, or not text.
    """
    if not isinstance(key, str):
        raise InvalidKeyError(
            f"the key in {namespace!r} is a {type(key).__name__}: it must be text that names what is to happen once"
        )
    if not key:
        raise InvalidKeyError(f"the key in {namespace!r} is empty: all that have no key would count as the same work")
    text = _listed(namespace, key)
    if len(text) <= MAX_KEY:
        return text
    digest = sha256(text.encode()).hexdigest()
    # Longer or shorter than a pair, so that no key given by anybody can look like it.
    text = _listed(namespace, "sha256", digest)
    return text if len(text) <= MAX_KEY else _listed(digest)


def _listed(*parts: str) -> str:
    return json.dumps(parts, separators=(",", ":"))


def fingerprint_of(data: object) -> str:
    """
    Return the SHA-256 of *data* in hex; "" for None.

    Raises:
        InvalidKeyError: it is neither bytes nor text.
    """
    match data:
        case None:
            return ""
        case bytes() | bytearray() | memoryview():
            return sha256(bytes(data)).hexdigest()  # a part of a buffer may not lie in one piece
        case str():
            return sha256(data.encode("utf-8", "surrogatepass")).hexdigest()
        case _:
            raise InvalidKeyError(f"the fingerprint is a {type(data).__name__}: give bytes, text, or None")
