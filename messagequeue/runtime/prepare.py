"""
From data and options to an `EncodedMessage` that its topic can honour; nothing here sends, waits or changes its input.

What every broker shares is checked here, against `Capabilities`.  What only one has (sizes, alphabets, attribute names)
its `Sender.measure()` checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from .._codec import Codec
from .._errors import EncodeError, InvalidMessageError, PublishError, UnsupportedOptionError
from .._message import AttributeValue, Outgoing
from .._options import PublishKwargs, delay_seconds, refuse_unknown
from ..driver import Capabilities, EncodedMessage, Sender

#: A delay computed in floats may miss a multiple of its resolution by this much, in seconds.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of a message, normalised: None where absent, never empty."""

    ordering_key: str | None = None
    deduplication_key: str | None = None
    delay: float | None = None
    attributes: Mapping[str, AttributeValue] | None = None


class Preparer:
    """Prepares the messages of one topic."""

    __slots__ = ("_codec", "_sender", "_topic")

    def __init__(self, topic: str, sender: Sender, codec: Codec) -> None:
        self._topic = topic
        self._sender = sender
        self._codec = codec

    def terms(self, options: Mapping[str, object]) -> Terms:
        """
        Normalise *options* and hold them against what the topic can do.

        Raises:
            TypeError: there is no such option.
            InvalidMessageError: a value is wrong.
            UnsupportedOptionError: the topic cannot honour an option.
        """
        try:
            terms = normalise(options)
            return check_supported(terms, self._sender.capabilities, self._topic) if options else terms
        except InvalidMessageError as error:
            error.topic = self._topic
            raise

    def terms_of(self, item: Outgoing, options: Mapping[str, object]) -> Terms:
        """As `terms()`, for an item whose own options win over those of its call."""
        own = {name: value for name in _OPTION_NAMES if (value := getattr(item, name)) is not None}
        return self.terms({**options, **own})

    def message(self, data: object, terms: Terms) -> tuple[EncodedMessage, int]:
        """
        Return *data* encoded, and the bytes that it takes in a batch.

        Raises:
            EncodeError, InvalidMessageError, MessageTooLargeError, UnsupportedOptionError: see `Publisher.publish()`.
        """
        if terms.ordering_key is None and self._sender.capabilities.ordering_key == "required":
            raise InvalidMessageError(
                f"topic {self._topic!r} is FIFO: pass ordering_key=… on every publish", topic=self._topic
            )
        try:
            message = EncodedMessage(
                self._encode(data), terms.ordering_key, terms.deduplication_key, terms.delay, terms.attributes
            )
            return message, self._sender.measure(message)
        except PublishError as error:
            error.topic = self._topic
            raise

    def _encode(self, data: object) -> str | bytes:
        try:
            body = self._codec.encode(data)
        except EncodeError:
            raise
        except Exception as error:
            raise EncodeError(
                f"codec {type(self._codec).__qualname__} raised {type(error).__name__} on {type(data).__qualname__}: "
                "a codec raises EncodeError for what it cannot encode"
            ) from error
        if not isinstance(body, str | bytes):
            raise EncodeError(
                f"codec {type(self._codec).__qualname__} returned {type(body).__qualname__}: return str or bytes"
            )
        return body


_OPTION_NAMES = tuple(PublishKwargs.__annotations__)
_NO_TERMS = Terms()


def normalise(options: Mapping[str, object]) -> Terms:
    """
    Return *options* in one form.  An option that is None is absent.

    Raises:
        TypeError: there is no such option.
        InvalidMessageError: a value is wrong; the option is named.
    """
    if not options:
        return _NO_TERMS
    refuse_unknown(options, PublishKwargs, "publish()")
    delay = options.get("delay")
    return Terms(
        ordering_key=_key("ordering_key", options),
        deduplication_key=_key("deduplication_key", options),
        delay=None if delay is None else delay_seconds(cast("float", delay)),
        attributes=_attributes(options.get("attributes")),
    )


def check_supported(terms: Terms, able: Capabilities, topic: str) -> Terms:
    """
    Return *terms* as the topic shall get them.

    Raises:
        UnsupportedOptionError: the topic cannot honour an option.
        InvalidMessageError: the delay is out of the topic's range.
    """
    if terms.ordering_key is not None and able.ordering_key == "refused":
        raise UnsupportedOptionError(
            f"topic {topic!r} takes no ordering_key: leave it out, or use a topic that keeps order"
        )
    if terms.deduplication_key is not None and not able.deduplication:
        raise UnsupportedOptionError(
            f"topic {topic!r} takes no deduplication_key: leave it out, or deduplicate in the consumer"
        )
    if terms.delay is None:
        return terms
    if not able.max_delay:
        return _without_delay(terms, topic)
    _check_delay(terms.delay, able, topic)
    return terms


def _without_delay(terms: Terms, topic: str) -> Terms:
    """A delay of 0 asks for nothing: it is left out where no delay is known, as its mere presence may be refused."""
    if terms.delay:
        raise UnsupportedOptionError(f"topic {topic!r} cannot delay single messages: leave delay={terms.delay:g} out")
    return Terms(terms.ordering_key, terms.deduplication_key, None, terms.attributes)


def _check_delay(delay: float, able: Capabilities, topic: str) -> None:
    if delay > able.max_delay:
        raise InvalidMessageError(
            f"delay={delay:g} is out of range: topic {topic!r} takes 0 to {able.max_delay:g} seconds"
        )
    step = able.delay_resolution
    if step and abs(delay - round(delay / step) * step) > _ROUNDING:
        unit = "whole seconds" if step == 1 else f"multiples of {step:g} seconds"
        raise InvalidMessageError(
            f"delay={delay:g}: topic {topic!r} takes {unit} from 0 to {able.max_delay:g}; round it up or down yourself"
        )


def _key(name: str, options: Mapping[str, object]) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidMessageError(f"{name} is of type {type(value).__qualname__}: give text")
    if not value:
        raise InvalidMessageError(f"{name}='' is empty: give text, or leave the option out")
    return value


def _attributes(given: object) -> Mapping[str, AttributeValue] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidMessageError(
            f"attributes is of type {type(given).__qualname__}: give a mapping of names to values"
        )
    kept = {_attribute_name(name): _attribute(name, value) for name, value in given.items() if value is not None}
    return MappingProxyType(kept) if kept else None


def _attribute_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidMessageError(f"attribute name {name!r}: give text that is not empty")
    return name


def _attribute(name: str, value: object) -> AttributeValue:
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | float):
        raise InvalidMessageError(
            f"attribute {name!r} is of type {type(value).__qualname__}: give str, bytes, int or float"
        )
    if isinstance(value, str | bytes):
        if not value:
            raise InvalidMessageError(f"attribute {name!r} is empty: give it a value, or None to leave it out")
    elif not math.isfinite(value):
        raise InvalidMessageError(f"attribute {name!r} is {value!r}: give a finite number, or text")
    return value
