"""
From data and options to an `EncodedMessage` that its topic can honour; nothing here sends, waits or changes its input.

What every broker shares is checked here, against `Capabilities`.  What only one has (sizes, alphabets, attribute names)
its `Sender.measure()` checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, cast

from .._codec import Codec, JSONCodec
from .._compression import Compressor
from .._errors import EncodeError, InvalidMessageError, PublishError, UnsupportedOptionError
from .._message import AttributeValue, Outgoing
from .._options import PublishKwargs, PublishOptions, as_float, delay_seconds, refuse_unknown
from ..driver import Capabilities, EncodedMessage, PreparingSender, Sender

#: A delay computed in floats may miss a multiple of its resolution by this much, in seconds.
_ROUNDING = 1e-9

#: The values of the four options as they were given, in this order; None where absent.
Asked = tuple[object, ...]
_NAMES = "ordering_key", "deduplication_key", "delay", "attributes"


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of a message, normalised: None where absent, never empty."""

    ordering_key: str | None = None
    deduplication_key: str | None = None
    delay: float | None = None
    attributes: Mapping[str, AttributeValue] | None = None


NO_TERMS = Terms()


class Stage(Protocol):
    """Makes one message of another; called once for each, after the codec."""

    def __call__(self, message: EncodedMessage, /) -> EncodedMessage: ...


def stages_of(sender: Sender, options: PublishOptions) -> tuple[Stage, ...]:
    """
    Return what is done to every message after the codec: compression, then what the sender asks for.

    Raises:
        ConfigurationError: the compression is not installed.
    """
    stages: list[Stage] = []
    if options.compression != "none":
        threshold, level = options.compression_threshold, options.compression_level
        stages.append(Compressor(options.compression, threshold=threshold, level=level))
    if isinstance(sender, PreparingSender):
        stages.append(sender.prepare)
    return tuple(stages)


class Preparer:
    """Prepares the messages of one topic."""

    __slots__ = ("_codec", "_keyed", "_measure", "_plain", "_sender", "_stages", "_topic")

    def __init__(self, topic: str, sender: Sender, codec: Codec, stages: Sequence[Stage] = ()) -> None:
        self._topic = topic
        self._sender = sender
        self._codec = codec
        self._keyed = sender.capabilities.ordering_key == "required"
        self._measure = sender.measure
        self._plain = type(codec) is JSONCodec
        self._stages = stages

    def terms(self, options: Mapping[str, object]) -> Terms:
        """
        Normalise *options* and hold them against what the topic can do.

        Raises:
            TypeError: there is no such option.
            InvalidMessageError: a value is wrong.
            UnsupportedOptionError: the topic cannot honour an option.
        """
        if not options:
            return NO_TERMS
        refuse_unknown(options, PublishKwargs, "publish()")
        return self._terms(tuple(map(options.get, _NAMES)))

    def terms_of(self, item: Outgoing, options: Mapping[str, object]) -> Terms:
        """As `terms()`, for an item whose own options win over those of its call, which were checked by `terms()`."""
        return self._terms(_asked(item, options))

    def refuse_unsupported(self, item: Outgoing, options: Mapping[str, object]) -> None:
        """Raise `UnsupportedOptionError` where `terms_of()` would, and nothing else."""
        try:
            refuse_unsupported(_asked(item, options), self._sender.capabilities, self._topic)
        except InvalidMessageError:
            pass

    def _terms(self, asked: Asked) -> Terms:
        able = self._sender.capabilities
        try:
            refuse_unsupported(asked, able, self._topic)
            return normalise(asked, able, self._topic)
        except InvalidMessageError as error:
            error.topic = self._topic
            raise

    def message(self, data: object, terms: Terms) -> tuple[EncodedMessage, int]:
        """
        Return *data* encoded, and the bytes that it takes in a batch.

        Raises:
            EncodeError, InvalidMessageError, MessageTooLargeError, UnsupportedOptionError: see `Publisher.publish()`.
        """
        if self._keyed and terms.ordering_key is None:
            raise InvalidMessageError(
                f"topic {self._topic!r} is FIFO: pass ordering_key=… on every publish", topic=self._topic
            )
        try:
            # ASCII text is its own body; so says the codec too, after some questions.
            as_it_is = self._plain and type(data) is str and data.isascii()
            body = data if as_it_is else self._encode(data)
            if terms is NO_TERMS:
                message = EncodedMessage(body)  # type: ignore[arg-type]
            else:
                message = EncodedMessage(
                    body,  # type: ignore[arg-type]
                    terms.ordering_key,
                    terms.deduplication_key,
                    terms.delay,
                    terms.attributes,
                )
            for stage in self._stages:
                message = stage(message)
            return message, self._measure(message)
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


def _asked(item: Outgoing, options: Mapping[str, object]) -> Asked:
    own = item.ordering_key, item.deduplication_key, item.delay, item.attributes
    if not options:
        return own
    return tuple(options.get(name) if value is None else value for name, value in zip(_NAMES, own, strict=True))


def refuse_unsupported(asked: Asked, able: Capabilities, topic: str) -> None:
    """
    Refuse what the topic cannot honour at all.

    Raises:
        UnsupportedOptionError: with the option.
        InvalidMessageError: the delay is none.
    """
    ordering_key, deduplication_key, delay, _ = asked
    if ordering_key is not None and able.ordering_key == "refused":
        raise UnsupportedOptionError(
            f"topic {topic!r} takes no ordering_key: leave it out, or use one that keeps order"
        )
    if deduplication_key is not None and not able.deduplication:
        raise UnsupportedOptionError(
            f"topic {topic!r} takes no deduplication_key: leave it out, or deduplicate in the consumer"
        )
    if delay is not None and not able.max_delay and (seconds := delay_seconds(cast("float", delay))):
        raise UnsupportedOptionError(
            f"topic {topic!r} cannot delay single messages: leave delay={seconds:g} out; set a delay on the topic "
            "itself, which holds for all of its messages, or raise RetryLater in a handler that gets one too early"
        )


def normalise(asked: Asked, able: Capabilities, topic: str) -> Terms:
    """
    Return options that the topic can honour in one form.

    Raises:
        InvalidMessageError: a value is wrong, or out of the topic's range; the option is named.
    """
    ordering_key, deduplication_key, delay, attributes = asked
    return Terms(
        _key("ordering_key", ordering_key),
        _key("deduplication_key", deduplication_key),
        None if delay is None else _delay(delay_seconds(cast("float", delay)), able, topic),
        None if attributes is None else _attributes(attributes),
    )


def _delay(delay: float, able: Capabilities, topic: str) -> float | None:
    if not able.max_delay:
        return None  # 0 asks for nothing here, and its mere presence may be refused
    if delay > able.max_delay:
        raise InvalidMessageError(
            f"delay={delay:g} is out of range: topic {topic!r} takes 0 to {able.max_delay:g} seconds; for longer, let "
            "a scheduler publish it when it is due, or let its handler raise RetryLater until then"
        )
    step = able.delay_resolution
    if step and abs(delay - round(delay / step) * step) > _ROUNDING:
        unit = "whole seconds" if step == 1 else f"multiples of {step:g} seconds"
        raise InvalidMessageError(
            f"delay={delay:g}: topic {topic!r} takes {unit} from 0 to {able.max_delay:g}; round it up or down yourself"
        )
    return delay


def _key(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidMessageError(f"{name} is of type {type(value).__qualname__}: give text")
    if not value:
        raise InvalidMessageError(f"{name}='' is empty: give text, or leave the option out")
    return _text(name, value)


def _text(what: str, value: str) -> str:
    """Return *value* as a plain str.  Raises `InvalidMessageError` where it has no UTF-8 form."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidMessageError(f"{what} has half of a surrogate pair in it, which no broker takes") from None
    return value if type(value) is str else str.__str__(value)


def _attributes(given: object) -> Mapping[str, AttributeValue] | None:
    if not isinstance(given, Mapping):
        raise InvalidMessageError(
            f"attributes is of type {type(given).__qualname__}: give a mapping of names to values"
        )
    kept = {_attribute_name(name): _attribute(name, value) for name, value in given.items() if value is not None}
    return MappingProxyType(kept) if kept else None


def _attribute_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidMessageError(f"an attribute's name is of type {type(name).__qualname__}: give text")
    if not name:
        raise InvalidMessageError("an attribute's name is empty: give it one")
    return _text("an attribute's name", name)


def _attribute(name: str, value: object) -> AttributeValue:
    """Return the plain value: a subclass (an enum, numpy's float) may say anything of itself as text."""
    if isinstance(value, str | bytes):
        if not value:
            raise InvalidMessageError(f"attribute {name!r} is empty: give it a value, or None to leave it out")
        if isinstance(value, str):
            return _text(f"attribute {name!r}", value)
        return value if type(value) is bytes else bytes(memoryview(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidMessageError(
            f"attribute {name!r} is of type {type(value).__qualname__}: give str, bytes, int or float"
        )
    if not math.isfinite(size := as_float(value)):
        raise InvalidMessageError(f"attribute {name!r} is {size!r}: give a finite number, or text")
    return float.__float__(value) if isinstance(value, float) else int.__int__(value)
