"""
What a caller may ask for, with bounds, default and one sentence each; not how it is honoured.

The option classes are the single source of the configuration tables in the documentation and of the names that
`Config` understands: a field is declared once, with `option()`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, TypeVar

from ._errors import ConfigurationError, InvalidMessageError, Signal
from ._message import AttributeValue

T = TypeVar("T")


class PublishKwargs(TypedDict, total=False):
    """
    The options of one message.

    Keys:
        ordering_key: The sequence it belongs to (SQS MessageGroupId).  Absent: no order is asked, nothing is sent.
        deduplication_key: Its identity within the broker's window (SQS MessageDeduplicationId, five minutes).
        delay: Seconds, or a timedelta, before it can be received.
        attributes: Metadata beside the body.  A value of None is left out; an empty one is refused.
    """

    ordering_key: str
    deduplication_key: str
    delay: float | timedelta
    attributes: Mapping[str, AttributeValue]


class ConsumeKwargs(TypedDict, total=False):
    """The options of one consumer; each means what the field of `ConsumeOptions` says, and wins over it."""

    concurrency: int
    prefetch: int
    adaptive: bool
    batch_size: int
    wait_time: float
    visibility_timeout: float | None
    heartbeat: bool
    heartbeat_interval: float | None
    handler_timeout: float | None
    retry_delay: float | Sequence[float] | None
    retry_factor: float
    retry_longest: float
    retry_jitter: float
    permanent: tuple[type[Exception], ...]
    undecodable: Literal["leave", "dead_letter", "discard"]
    no_dead_letter_queue: Literal["leave", "discard"]
    on_failure: Literal["block", "park", "skip_group"]
    skip_time: float
    breaker_failures: int | None
    breaker_ratio: float
    breaker_window: float
    breaker_pause: float
    checks: Literal["warn", "error", "off"]
    drain_timeout: float
    fatal_grace: float
    max_decompressed: int


def option(
    default: T,
    doc: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    optional: bool = False,
    nonzero: bool = False,
    choices: tuple[str, ...] = (),
    many: bool = False,
) -> T:
    """
    Declare a dataclass field with what its table row says and `check_options()` enforces.

    Args:
        default: Its default.
        doc: One sentence for the reader of the table.
        unit: `seconds`, `bytes` or "".  Environment variables carry it as a suffix.
        low, high: Inclusive bounds of a number.
        optional: None is allowed (and means what *doc* says).
        nonzero: *low* itself is excluded.
        choices: What a text may be.
        many: A list or tuple of such numbers, not empty, is allowed, too.
    """
    rule = {
        "doc": doc,
        "unit": unit,
        "low": low,
        "high": high,
        "optional": optional,
        "nonzero": nonzero,
        "choices": choices,
        "many": many,
    }
    value: T = field(default=default, metadata={"option": rule})
    return value


def check_options(options: object) -> None:
    """
    Hold every field declared with `option()` against its type and bounds.

    Raises:
        ConfigurationError: with the field, what was given and the bounds.
    """
    for item in fields(options):  # type: ignore[arg-type]
        rule = item.metadata.get("option")
        if rule is not None:
            _check_option(item.name, getattr(options, item.name), item.default, rule)


def _check_option(name: str, value: Any, default: Any, rule: Mapping[str, Any]) -> None:
    if value is None and rule["optional"]:
        return
    if rule.get("choices") and value not in rule["choices"]:
        raise ConfigurationError(f"{name}={value!r}: give one of {', '.join(rule['choices'])}")
    if rule.get("many") and isinstance(value, list | tuple):
        if not value:
            raise ConfigurationError(f"{name}={value!r}: give at least one number {_bounds(rule)}")
        for each in value:
            _check_option(name, each, default, {**rule, "many": False, "optional": False})
        return
    low, high = rule["low"], rule["high"]
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name}={value!r}: give True or False")
        return
    if low is None and high is None:
        return
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise ConfigurationError(f"{name}={value!r}: give {'a whole number' if whole else 'a number'} {_bounds(rule)}")
    below = low is not None and (value <= low if rule["nonzero"] else value < low)
    size = as_float(value)
    if not math.isfinite(size) or below or (high is not None and value > high):
        raise ConfigurationError(
            f"{name}={value if math.isfinite(size) else size!r} is out of range: give {_bounds(rule)}"
        )


def _bounds(rule: Mapping[str, Any]) -> str:
    low, high, unit = number(rule["low"]), number(rule["high"]), rule["unit"]
    above = f"above {low}" if rule["nonzero"] else f"{low} or more"
    text = above if high is None else f"{'above ' if rule['nonzero'] else ''}{low} to {high}"
    several = ", or several" if rule.get("many") else ""
    return f"{text} {unit}".rstrip() + several + (" (or None)" if rule["optional"] else "")


def number(value: float | None) -> str | None:
    """The shortest text of a bound; whole numbers without an exponent."""
    return None if value is None else str(int(value)) if value == int(value) else f"{value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """How a publisher gathers and sends; the same for every provider.  See each field's table row."""

    batch_size: int = option(10, "Messages in one call at most; a broker's own limit caps it.", low=1, high=10_000)
    batch_bytes: int = option(
        1_048_576, "Bytes in one call at most; a broker's own limit caps it.", unit="bytes", low=1
    )
    linger: float = option(
        0.01,
        "How long a message waits for company while other calls are in flight; a lone message never waits.",
        unit="seconds",
        low=0,
        high=60,
    )
    max_in_flight: int = option(
        50, "Calls in flight at once per topic; more than one only while full batches wait.", low=1, high=1_000
    )
    max_pending: int = option(
        10_000, "Messages waiting or in flight; above it publish() waits and publish_nowait() refuses.", low=1
    )
    entry_retries: int = option(
        3, "Resends of a single message that the broker itself reports as failed on its side.", low=0, high=100
    )
    compression: Literal["none", "gzip", "zstd"] = option(
        "none", "How bodies are compressed: `none`, `gzip` or `zstd`; consumers need no option to read them."
    )
    compression_threshold: int = option(
        1_024, "The smallest body that is compressed; smaller ones are left alone.", unit="bytes", low=0
    )
    compression_level: int | None = option(
        None, "1 to 9 for gzip, 1 to 22 for zstd; None: 6 and 3.", low=1, high=22, optional=True
    )

    def __post_init__(self) -> None:
        check_options(self)
        _check_compression(self.compression, self.compression_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """How a consumer polls, handles and stops; the same for every provider.  See each field's table row."""

    concurrency: int = option(10, "Handlers running at once.", low=1, high=100_000)
    prefetch: int = option(
        0, "Messages received beyond those that can start; their leases are kept alive too.", low=0, high=100_000
    )
    adaptive: bool = option(
        True,
        "Receive ahead of free slots, several receives at once, while handlers finish faster than receives answer.",
    )
    batch_size: int = option(10, "Messages in one receive at most; a broker's own limit caps it.", low=1, high=10_000)
    wait_time: float = option(
        20.0, "How long a receive waits for a message (long poll).", unit="seconds", low=0, high=20
    )
    visibility_timeout: float | None = option(
        None,
        "The lease of a received message before it is prolonged; None: the topic's own.",
        unit="seconds",
        low=1,
        high=43_200,
        optional=True,
    )
    heartbeat: bool = option(True, "Prolong leases from receipt to settlement, up to 12 h.")
    heartbeat_interval: float | None = option(
        None,
        "Time between two prolongations of a lease; None: a third of the lease.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=43_200,
        optional=True,
    )
    handler_timeout: float | None = option(
        None,
        "A handler still running after it is cancelled and its message comes back.",
        unit="seconds",
        low=0,
        nonzero=True,
        optional=True,
    )
    retry_delay: float | Sequence[float] | None = option(
        None,
        "When a failed message comes back; several: after its first, second, ... delivery, the last from then on; "
        "None: when its lease ends.",
        unit="seconds",
        low=0,
        high=43_200,
        optional=True,
        many=True,
    )
    retry_factor: float = option(
        1.0,
        "What the (last) retry delay is multiplied by with every further delivery; 2 doubles it.",
        low=1,
        high=1_000,
    )
    retry_longest: float = option(
        43_200.0, "The longest delay that the factor leads to.", unit="seconds", low=0, high=43_200
    )
    retry_jitter: float = option(
        0.0, "The part of a retry delay that is random: what failed together comes back spread out.", low=0, high=1
    )
    permanent: tuple[type[Exception], ...] = ()
    undecodable: Literal["leave", "dead_letter", "discard"] = option(
        "leave",
        "What becomes of a message that cannot be read: it comes back, is dead-lettered, or is taken off the queue.",
        choices=("leave", "dead_letter", "discard"),
    )
    no_dead_letter_queue: Literal["leave", "discard"] = option(
        "leave",
        "What becomes of a message that is to be dead-lettered where there is no dead-letter queue.",
        choices=("leave", "discard"),
    )
    on_failure: Literal["block", "park", "skip_group"] = option(
        "block",
        "What a failed message of an ordered topic does to its key: the later ones wait for it; it is dead-lettered "
        "and they go on; or they are dead-lettered after it.",
        choices=("block", "park", "skip_group"),
    )
    skip_time: float = option(
        300.0,
        "With on_failure=skip_group: how long after its last message a key is skipped.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=604_800,
    )
    breaker_failures: int | None = option(
        None,
        "Failures within breaker_window that stop receiving for breaker_pause; None: never.",
        low=1,
        high=1_000_000,
        optional=True,
    )
    breaker_ratio: float = option(
        0.5, "The part of all handled messages in the window that must have failed, too.", low=0, high=1, nonzero=True
    )
    breaker_window: float = option(
        60.0, "How long a failure counts for the breaker.", unit="seconds", low=0, nonzero=True, high=3_600
    )
    breaker_pause: float = option(
        30.0,
        "How long nothing is received before one message is tried.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=43_200,
    )
    checks: Literal["warn", "error", "off"] = option(
        "warn",
        "What is done where the topic's own settings make losing or repeating messages likely.",
        choices=("warn", "error", "off"),
    )
    drain_timeout: float = option(
        25.0,
        "How long stop() lets running handlers finish before it cancels them.",
        unit="seconds",
        low=0,
    )
    fatal_grace: float = option(
        60.0,
        "How long faults that asking again cannot mend (topic gone, access denied) must last to end consume().",
        unit="seconds",
        low=0,
    )
    max_decompressed: int = option(
        67_108_864,
        "The largest body that a compressed one may become; beyond it, it cannot be decoded.",
        unit="bytes",
        low=1,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if isinstance(self.retry_delay, list):
            object.__setattr__(self, "retry_delay", tuple(self.retry_delay))
        _check_permanent(self.permanent)
        interval, lease = self.heartbeat_interval, self.visibility_timeout
        if interval is not None and lease is not None and interval >= lease:
            raise ConfigurationError(
                f"heartbeat_interval={interval!r} is not below visibility_timeout={lease!r}: every lease would end "
                "before its first prolongation; give half the lease or less"
            )


def _check_permanent(kinds: object) -> None:
    wrong = not isinstance(kinds, tuple) or any(
        not (isinstance(kind, type) and issubclass(kind, Exception)) for kind in kinds
    )
    if wrong:
        raise ConfigurationError(f"permanent={kinds!r}: give a tuple of exception types")
    if isinstance(kinds, tuple) and any(issubclass(kind, Signal) for kind in kinds):
        raise ConfigurationError("permanent: signals such as RetryLater say themselves what becomes of a message")


#: The highest level of each algorithm that `PublishOptions.compression` may name.
_LEVELS = {"none": 22, "gzip": 9, "zstd": 22}


def _check_compression(algorithm: str, level: object) -> None:
    if algorithm not in _LEVELS:
        raise ConfigurationError(f"compression={algorithm!r}: give one of {', '.join(_LEVELS)}")
    if level is not None and (not isinstance(level, int) or level > _LEVELS[algorithm]):
        raise ConfigurationError(
            f"compression_level={level!r}: {algorithm} takes whole numbers from 1 to {_LEVELS[algorithm]}"
        )


def as_float(value: float) -> float:
    """Return *value* as a float; infinity, with its sign, for a whole number that no float can hold."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def refuse_unknown(given: Mapping[str, object], known: Mapping[str, object] | type[Any], what: str) -> None:
    """
    Refuse option names that do not exist, as a call with a wrong keyword does.

    Raises:
        TypeError: names the wrong ones, the likely right ones and all that exist.
    """
    names = known.__annotations__ if isinstance(known, type) else known
    wrong = sorted(given.keys() - names.keys())
    if not wrong:
        return
    near = get_close_matches(wrong[0], names, n=1)
    hint = f" — did you mean {near[0]!r}?" if near else ""
    raise TypeError(f"{what} got an unexpected option {wrong[0]!r}; options: {', '.join(sorted(names))}{hint}")


def delay_seconds(delay: float | timedelta) -> float:
    """
    Return *delay* as seconds.

    Raises:
        InvalidMessageError: it is no number or timedelta, negative, or not finite.
    """
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    if isinstance(delay, bool) or not isinstance(delay, int | float):
        raise InvalidMessageError(f"delay={delay!r}: give seconds as a number from 0 to 900, or a timedelta")
    seconds = as_float(delay)
    if not 0 <= seconds < math.inf:
        raise InvalidMessageError(f"delay={seconds!r}: give seconds from 0 to 900; a delay is 0 or more and finite")
    return seconds
