"""The options of the provider `memory`; not what it does with them."""

from __future__ import annotations

from dataclasses import dataclass

from .._errors import ConfigurationError
from .._options import ConsumeOptions, PublishOptions, check_options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """
    What a topic is like when it comes into being, and how publishers and consumers work.  See each field's table row.

    The topics of a broker are made with the options of whoever names them first.

    Raises:
        ConfigurationError: an option is out of bounds.
    """

    name: str = option("default", "Name of the broker; in one process equal names meet.")
    visibility_timeout: float = option(
        30.0, "The lease of a received message.", unit="seconds", low=0, nonzero=True, high=43_200
    )
    max_receives: int | None = option(
        None,
        "Receives after which a message goes to the dead-letter topic; None: it comes back for ever.",
        low=1,
        high=1_000,
        optional=True,
    )
    dead_letter_suffix: str = option(".dead", "What a topic's name gets to be the name of its dead-letter topic.")
    delay: float = option(
        0.0, "Before a message can be received, where it does not say.", unit="seconds", low=0, high=900
    )
    max_delay: float = option(900.0, "The longest delay that a message may ask for.", unit="seconds", low=0)
    retention: float = option(
        345_600.0, "After which a message vanishes unhandled.", unit="seconds", low=0, nonzero=True, high=1_209_600
    )
    max_message_size: int = option(
        1_048_576, "Body and attributes of a message, counted as SQS counts.", unit="bytes", low=1
    )
    consume: ConsumeOptions = ConsumeOptions()
    publish: PublishOptions = PublishOptions()

    def __post_init__(self) -> None:
        check_options(self)
        for field in ("name", "dead_letter_suffix"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value.strip():
                raise ConfigurationError(f"{field}={value!r}: give a text that is not empty")
