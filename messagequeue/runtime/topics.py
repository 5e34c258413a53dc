"""The one rule about topics that holds for every provider."""

from __future__ import annotations

from .._errors import ErrEmptyTopicName


def check_topic(topic: str) -> None:
    """
    Refuse what cannot be a topic anywhere.

    Raises:
        TypeError: it is not a str.
        ErrEmptyTopicName: it is empty or blank.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic is {type(topic).__name__}: give a str")
    if not topic.strip():
        raise ErrEmptyTopicName
