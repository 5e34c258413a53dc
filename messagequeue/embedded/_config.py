"""The options of the providers `memory` and `embedded`; not what they do with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .._errors import ConfigurationError
from .._options import ConsumeOptions, PublishOptions, check_options, option

_PATH_RULE = {
    "doc": "Folder of the queues, made where it is missing. One process owns it; in it, equal folders meet.",
    "unit": "",
    "low": None,
    "high": None,
    "optional": False,
    "nonzero": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """
    What a topic is like when it comes into being, and how publishers and consumers work.  See each field's table row.

    Raises:
        ConfigurationError: an option is out of bounds.
    """

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
        _check_text("dead_letter_suffix", self.dead_letter_suffix)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig(TopicOptions):
    """
    The options of the provider `memory`: a broker of this process, and what its topics are like.

    The topics of a broker are made with the options of whoever names them first.

    Raises:
        ConfigurationError: an option is out of bounds.
    """

    name: str = option("default", "Name of the broker; in one process equal names meet.")

    def __post_init__(self) -> None:
        TopicOptions.__post_init__(self)
        _check_text("name", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedConfig(TopicOptions):
    """
    The options of the provider `embedded`: a folder that this process owns, and what its topics are like.

    Whoever names a topic first in a process says what it is like from then on; but for its order, which stays.

    Raises:
        ConfigurationError: an option is out of bounds.
    """

    path: Path = field(metadata={"option": _PATH_RULE})
    fsync: Literal["second", "always"] = option(
        "second",
        "When a commit is forced to the disk: `second` within a second, `always` before the answer. "
        "Either survives the end of the process; a power cut may undo the last second of `second`.",
    )

    def __post_init__(self) -> None:
        TopicOptions.__post_init__(self)
        object.__setattr__(self, "path", Path(self.path))
        if self.path == Path():
            raise ConfigurationError("path is empty: give a folder, as in embedded:///var/lib/app/queues")
        if self.fsync not in ("second", "always"):
            raise ConfigurationError(f"fsync={self.fsync!r}: give 'second' or 'always'")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{name}={value!r}: give a text that is not empty")
