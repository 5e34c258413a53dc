"""Attributes that every published message has unless it says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .._message import AttributeValue, Outgoing, Receipt
from .._protocols import Publish, PublishMiddleware

Attributes = Mapping[str, AttributeValue]


def default_attributes(attributes: Attributes | Callable[[], Attributes], /) -> PublishMiddleware:
    """
    Add *attributes* to every message; a message's own win, and one of None takes the default away.

    They count as the message's: towards its size, and towards the ten that SQS takes.

    Args:
        attributes: A mapping, or a function that returns one, called for each message (a request id, the time).

    Raises:
        TypeError: *attributes* is neither.
    """
    if not callable(attributes) and not isinstance(attributes, Mapping):
        raise TypeError(f"default_attributes() got {type(attributes).__qualname__}: give a mapping, or a function")

    def wrap(publish: Publish) -> Publish:
        async def marked(item: Outgoing) -> Receipt:
            defaults = attributes() if callable(attributes) else attributes
            own = item.attributes
            if own is not None and not isinstance(own, Mapping):
                return await publish(item)  # which refuses it
            return await publish(replace(item, attributes={**defaults, **(own or {})}))

        return marked

    return wrap
