"""The options of the SQS provider, checked when they are given; no connection is made from here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from messagequeue._errors import ConfigurationError
from messagequeue._options import ConsumeOptions, PublishOptions, check_options, option

from ._limits import WAIT_MAX
from ._queue import split_url
from ._s3_config import S3Payloads, text_or_none

if TYPE_CHECKING:
    from botocore.config import Config

#: Seconds to a connection, and to an answer of any call but a receive, where nobody says otherwise.  The SDK's 60 s
#: would let one dead connection outlast the default lease of 30 s, and its heartbeat with it.
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 20.0
#: Seconds that a receive's answer may take beyond its long poll.
_POLL_MARGIN = 10.0
#: What `SQSConfig.transport` may be.
TRANSPORTS = ("auto", "fast", "sdk")


@dataclass(frozen=True, slots=True, kw_only=True)
class SQSConfig:
    """
    How to reach SQS.  Credentials come from the ambient AWS chain and have no place here.

    The region of a call is, in this order: `region`; the one that the queue URL's host names; the ambient one
    (AWS_DEFAULT_REGION, the profile, AWS_REGION); with an endpoint of your own, us-east-1, which SQS-compatible
    servers need for the signature only.

    Attributes:
        payloads: Where bodies go that are too large for a queue; off unless it names a bucket.
        client_config: A `botocore.config.Config` for the SDK's clients: retries, proxies, user agent and so on.  Its
            `read_timeout` holds for receives too, unless it is shorter than the long poll; pools are sized here.

    Raises:
        ConfigurationError: an option is wrong.
    """

    queue_address: str | None = option(
        None,
        "Endpoint that all calls go to instead of AWS', such as http://localhost:4566; it overrides nothing else.",
        optional=True,
    )
    region: str | None = option(
        None, "AWS region; None: the one in the queue's URL, else the ambient one.", optional=True
    )
    profile: str | None = option(None, "Profile of the AWS configuration files; None: the ambient one.", optional=True)
    connect_timeout: float | None = option(
        None,
        "Longest wait for a connection; None: client_config's, else 5 s.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=900,
        optional=True,
    )
    read_timeout: float | None = option(
        None,
        "Longest wait for an answer to any call but a receive; None: client_config's, else 20 s.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=900,
        optional=True,
    )
    transport: Literal["auto", "fast", "sdk"] = option(
        "auto",
        "How sends, receives, deletes and prolongations travel: `auto`, a short path of less work where it does what "
        "the SDK would do, else the SDK; `fast`, the short path or an error; `sdk`, the AWS SDK alone.",
    )
    verify_checksums: bool = option(True, "Compare the MD5s that SQS returns with what was sent and received.")
    unwrap_sns: bool = option(
        False,
        "Take the envelope of SNS off messages that came through a topic without raw delivery; all others stay as they "
        "are.",
    )
    payloads: S3Payloads = field(default=S3Payloads())
    consume: ConsumeOptions = field(default=ConsumeOptions())
    publish: PublishOptions = field(default=PublishOptions())
    client_config: Config | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("queue_address", "region", "profile"):
            object.__setattr__(self, name, text_or_none(name, getattr(self, name)))
        check_options(self)
        if self.transport not in TRANSPORTS:
            raise ConfigurationError(f"transport={self.transport!r}: give one of {', '.join(TRANSPORTS)}")
        if self.queue_address is not None:
            split_url("queue_address", self.queue_address, _ADDRESS_ADVICE)
        _check_type("payloads", self.payloads, S3Payloads)
        _check_type("consume", self.consume, ConsumeOptions)
        _check_type("publish", self.publish, PublishOptions)
        # By what it can do: the SDK is not imported for a configuration.
        if self.client_config is not None and not callable(getattr(self.client_config, "merge", None)):
            raise ConfigurationError(f"client_config is a {type(self.client_config).__name__}: give a botocore Config")


_ADDRESS_ADVICE = (
    "give the endpoint with its scheme, such as http://localhost:4566, without query; the queue's URL is the topic"
)


def _check_type(name: str, value: object, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise ConfigurationError(f"{name} is a {type(value).__name__}: give {wanted.__name__}(...)")


def connect_timeout(config: SQSConfig) -> float | None:
    """Return the seconds to a connection; None where client_config says so: no limit."""
    return config.connect_timeout or _given(config, "connect_timeout", CONNECT_TIMEOUT)


def read_timeout(config: SQSConfig) -> float | None:
    """Return the seconds to an answer of any call but a receive; None where client_config says so: no limit."""
    return config.read_timeout or _given(config, "read_timeout", READ_TIMEOUT)


def receive_timeout(config: SQSConfig) -> float:
    """
    Return the seconds to a receive's answer: client_config's where they outlast the longest poll, else 30.

    Source: guide, "Configuring long polling": the HTTP read timeout must be longer than WaitTimeSeconds.
    """
    given = _given(config, "read_timeout", None)
    enough = WAIT_MAX + _POLL_MARGIN
    return max(given, enough) if given is not None else enough


def timeout_conflict(config: SQSConfig) -> str:
    """Return what to tell the user of a read timeout that cuts long polls off, or ""."""
    given, wait = _given(config, "read_timeout", None), config.consume.wait_time
    if given is None or given > wait:
        return ""
    return (
        f"client_config has read_timeout={given:g}, and a receive waits {wait:g} s for a message: receives use "
        f"{receive_timeout(config):g} s instead; all other calls keep it"
    )


def _given(config: SQSConfig, name: str, default: float | None) -> float | None:
    """Return what client_config was given for *name*, and not what the SDK put there itself."""
    client_config = config.client_config
    if client_config is None:
        return default
    value: float | None = getattr(type(client_config)(**{name: default}).merge(client_config), name)
    return value
