"""The options of the SNS provider, checked when they are given; no connection is made from here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from messagequeue._errors import ConfigurationError
from messagequeue._options import PublishOptions, check_options, option

from .. import _limits
from .._config import SQSConfig
from .._queue import split_url
from .._s3_config import S3Payloads, text_or_none

if TYPE_CHECKING:
    from botocore.config import Config

_ADDRESS_ADVICE = (
    "give the endpoint of SNS with its scheme, such as http://localhost:4566; the topic's ARN is the topic"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SNSConfig:
    """
    How to reach SNS.  Credentials come from the ambient AWS chain, the region of a call from the topic's ARN.

    Attributes:
        payloads: Where bodies go that are too large for a topic; off unless it names a bucket.
        client_config: A `botocore.config.Config` for the SDK's client: retries, proxies, user agent and so on.

    Raises:
        ConfigurationError: an option is wrong.
    """

    topic_address: str | None = option(
        None,
        "Endpoint that all calls go to instead of AWS', such as http://localhost:4566; it overrides nothing else.",
        optional=True,
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
        "Longest wait for an answer; None: client_config's, else 20 s.",
        unit="seconds",
        low=0,
        nonzero=True,
        high=900,
        optional=True,
    )
    max_message_size: int = option(
        _limits.TOPIC_MESSAGE_BYTES,
        "Body and attributes of a message, and all messages of one call together: the topic's MaximumMessageSize.",
        unit="bytes",
        low=1_024,
        high=_limits.MESSAGE_BYTES,
    )
    payloads: S3Payloads = field(default=S3Payloads())
    publish: PublishOptions = field(default=PublishOptions())
    client_config: Config | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("topic_address", "profile"):
            object.__setattr__(self, name, text_or_none(name, getattr(self, name)))
        check_options(self)
        if self.topic_address is not None:
            split_url("topic_address", self.topic_address, _ADDRESS_ADVICE)
        if not isinstance(self.publish, PublishOptions):
            raise ConfigurationError(f"publish is a {type(self.publish).__name__}: give PublishOptions(...)")
        self.client_options()

    def client_options(self) -> SQSConfig:
        """Return what SQS' clients are made with: credentials, time limits and `client_config` are the same."""
        return SQSConfig(
            profile=self.profile,
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
            payloads=self.payloads,
            client_config=self.client_config,
        )
