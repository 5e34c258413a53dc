"""The options of large payloads, checked when they are given; no connection is made from here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from messagequeue._errors import ConfigurationError
from messagequeue._options import check_options, option

from . import _limits
from ._queue import split_url

# Source: S3 guide, "General purpose bucket naming rules"; older buckets may have capitals and underscores, and an
# access point's ARN can stand in a bucket's place.
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]|arn:[!-~]{1,2000}")
_PREFIX = re.compile(r"[!-~]*")
_ACCOUNT = re.compile(r"\d{12}")
_ADDRESS_ADVICE = "give the endpoint of S3 with its scheme, such as http://localhost:4566"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Payloads:
    """
    Bodies that are too large for a queue go to S3, and a pointer goes through the queue.  Off unless a bucket is given.

    Raises:
        ConfigurationError: an option is wrong.
    """

    bucket: str | None = option(
        None, "Bucket that publishers put large bodies into, and consumers fetch them from; None: off.", optional=True
    )
    prefix: str = option("", "What the key of every object begins with, such as `orders/`.")
    threshold: int = option(
        _limits.MESSAGE_BYTES,
        "Body and attributes above it go to S3; 0: all of them. A queue's own lower limit wins where it may be read.",
        unit="bytes",
        low=0,
        high=_limits.MESSAGE_BYTES,
    )
    max_size: int = option(
        67_108_864,
        "The largest body that is put or fetched; a consumer holds up to `concurrency` of them in memory.",
        unit="bytes",
        low=1,
        high=2_147_483_648,
    )
    allowed_buckets: str | Sequence[str] = option(
        "", "Buckets beside `bucket` that consumers may fetch from, separated by commas; all others are refused."
    )
    delete: bool = option(
        False, "Delete the object after its message was deleted. Never where several queues get the same message."
    )
    on_missing: Literal["leave", "delete"] = option(
        "leave",
        "A message whose object is gone for certain: `leave` it to come back and be dead-lettered, or `delete` it.",
    )
    legacy: bool = option(
        False, "Write the older names of attribute and class, for readers that know no others; both are always read."
    )
    address: str | None = option(
        None,
        "Endpoint of S3 instead of AWS', such as http://localhost:4566; buckets are then in the path.",
        optional=True,
    )
    region: str | None = option(None, "The bucket's region; None: the one of the queues.", optional=True)
    bucket_owner: str | None = option(
        None, "Account number that must own the bucket; calls to a bucket of another are refused.", optional=True
    )
    kms_key: str | None = option(
        None, "KMS key that objects are encrypted with; None: what the bucket is set to.", optional=True
    )

    def __post_init__(self) -> None:
        for name in ("bucket", "address", "region", "bucket_owner", "kms_key"):
            object.__setattr__(self, name, text_or_none(name, getattr(self, name)))
        object.__setattr__(self, "allowed_buckets", _names(self.allowed_buckets))
        check_options(self)
        self._check_text()

    def _check_text(self) -> None:
        for bucket in self.readable:
            if not _BUCKET.fullmatch(bucket):
                raise ConfigurationError(f"{bucket[:100]!r} is no bucket's name: give the name alone, without s3://")
        if not isinstance(self.prefix, str) or not _PREFIX.fullmatch(self.prefix) or len(self.prefix) > _PREFIX_CHARS:
            raise ConfigurationError(f"prefix: give up to {_PREFIX_CHARS} printable ASCII characters without blanks")
        if self.on_missing not in ("leave", "delete"):
            raise ConfigurationError(f"on_missing={self.on_missing!r}: give leave or delete")
        if self.bucket_owner is not None and not _ACCOUNT.fullmatch(self.bucket_owner):
            raise ConfigurationError(f"bucket_owner={self.bucket_owner!r}: give an account number of 12 digits")
        if self.address is not None:
            split_url("address", self.address, _ADDRESS_ADVICE)

    @property
    def readable(self) -> frozenset[str]:
        """The buckets that consumers may fetch from; none: bodies in S3 are not fetched."""
        return frozenset(self.allowed_buckets) | ({self.bucket} if self.bucket else frozenset())


#: Characters of a prefix at most; a key has 1024 bytes at most, and 71 of them are ours.
_PREFIX_CHARS = 900


def _names(given: object) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise ConfigurationError("allowed_buckets: give the names of buckets, separated by commas, or a list of them")
    return tuple(part.strip() for part in parts if part.strip())


def text_or_none(name: str, value: object) -> str | None:
    """Return *value* without blanks around it; None where nothing is left: a template that was not filled in."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is a {type(value).__name__}: give text, or None")
    return value.strip() or None
