"""
What a queue's URL, ARN or name says of it; not whether that queue exists.

A URL's path decides who and which (account, name, FIFO); its host decides only the region, and only where it has the
form of one of AWS' hosts.  Nothing is read "by position": a host of another form has no region, never a wrong one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import SplitResult, urlsplit, urlunsplit

from messagequeue._errors import ConfigurationError

from ._limits import QUEUE_NAME_CHARS

#: Source: API Reference, CreateQueue, QueueName.
FIFO_SUFFIX = ".fifo"

# us-east-1, us-gov-west-1, us-isob-east-1, eusc-de-east-1, mx-central-1: at least two words and a number.
_REGION = re.compile(r"[a-z]{2,6}(?:-[a-z]+)+-\d{1,2}")
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.fifo)?")
_ARN = re.compile(r"arn:(?P<partition>[a-z-]+):sqs:(?P<region>[a-z0-9-]*):(?P<account>\d*):(?P<name>[^:/]+)")
# Python's parser drops line ends and tabs, wherever they are: what was read would not be what is called.
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]")
_ACCOUNT = re.compile(r"\d{4,}")
# The address of the oldest region has no region in it.  Source: botocore data/endpoints.json, sqs, us-east-1.
_LEGACY_HOST, _LEGACY_REGION = "queue.amazonaws.com", "us-east-1"
_SERVICE_LABELS = ("sqs", "sqs-fips")


@dataclass(frozen=True, slots=True)
class Queue:
    """
    What is known of a queue without asking.

    Attributes:
        name: Its name, `.fifo` included.
        region: None where the text it came from does not say.
        account: The owner's account number; None likewise.
        url: Its URL as it was given, without a trailing slash; "" where it came from an ARN or a name.
        host: The URL's host and port in lower case; "" likewise.
    """

    name: str
    region: str | None = None
    account: str | None = None
    url: str = ""
    host: str = ""

    @property
    def is_fifo(self) -> bool:
        """True where the name ends in `.fifo`, which SQS demands of FIFO queues and refuses for others."""
        return self.name.endswith(FIFO_SUFFIX)

    @property
    def on_aws(self) -> bool:
        """True where the URL's host is one of AWS' own."""
        return is_aws_host(self.host.partition(":")[0])

    @property
    def identity(self) -> str:
        """The same text for every URL of one queue: the owner decides on AWS, host and path elsewhere."""
        if self.on_aws and self.region and self.account:
            return f"{self.region}:{self.account}:{self.name}"
        return f"{self.host}{urlsplit(self.url).path}" if self.url else f"{self.region}:{self.account}:{self.name}"

    def sibling_url(self, other: Queue) -> str:
        """Return the URL of *other*, a queue known by its ARN, at this queue's endpoint."""
        parts = urlsplit(self.url)
        head = _segments(parts)[:-1]
        if head and self.account is not None:
            head[-1] = other.account or self.account
        return urlunsplit((parts.scheme, parts.netloc, "/" + "/".join([*head, other.name]), "", ""))


def parse_queue(text: str) -> Queue:
    """
    Read a queue's URL, ARN or name.

    Raises:
        ConfigurationError: *text* is none of them.
    """
    text = text.strip()
    if "://" in text:
        return parse_url(text)
    if text.startswith("arn:"):
        return parse_arn(text)
    return Queue(_checked_name(text, text))


def parse_topic(text: str) -> Queue:
    """
    Read the topic of a publisher or consumer, which is a queue's URL.

    Raises:
        ConfigurationError: it is an ARN, a bare name, or no URL of a queue.
    """
    if "://" in text:
        return parse_url(text)
    kind = "an ARN" if text.strip().startswith("arn:") else "not a URL"
    raise ConfigurationError(
        f"topic {shown(text)} is {kind}: give the queue's URL, such as "
        "https://sqs.eu-west-1.amazonaws.com/123456789012/orders (`aws sqs get-queue-url` prints it)"
    )


def parse_url(text: str) -> Queue:
    """
    Read a queue's URL: any scheme of http and https, any host, any path that ends in the queue's name.

    Raises:
        ConfigurationError: it is no such URL.
    """
    text = text.strip()
    parts = split_url("queue URL", text, "give http(s)://host/account/name, without query and fragment")
    segments = _segments(parts)
    if not segments:
        raise ConfigurationError(f"queue URL {shown(text)} names no queue: its path must end in the queue's name")
    account = segments[-2] if len(segments) > 1 and _ACCOUNT.fullmatch(segments[-2]) else None
    region = region_of_host(parts.hostname or "") or _region_in_path(segments)
    name = _checked_name(segments[-1], text)
    return Queue(name, region, account, text.rstrip("/"), parts.netloc.lower())


def split_url(what: str, text: str, advice: str) -> SplitResult:
    """
    Return the parts of an http(s) URL that has a host and, beside it, at most a port and a path.

    Raises:
        ConfigurationError: it is no such URL; what might be a credential is not repeated.
    """
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it is what checks it
    except ValueError as error:
        if "@" in text:  # what the parser says of it may quote a part of the password
            raise ConfigurationError(f"{what} {shown(text)} cannot be read: {advice}") from None
        raise ConfigurationError(f"{what} {shown(text)} cannot be read ({error}): {advice}") from error
    if "@" in parts.netloc:
        raise ConfigurationError(f"{what} holds a user or password: leave it out; credentials come from the AWS chain")
    if _BLANK.search(text):
        raise ConfigurationError(f"{what} {shown(text)} has a blank or control character in it: {advice}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(f"{what} {shown(text)}: {advice}")
    return parts


def shown(text: str) -> str:
    """Return *text* for an error message, without what could be a credential: user and password, or a query."""
    return "(not shown: it has an @ in it)" if "@" in text else repr(re.split("[?#]", text, maxsplit=1)[0])


def parse_arn(text: str) -> Queue:
    """
    Read a queue's ARN.

    Raises:
        ConfigurationError: it is not the ARN of a queue.
    """
    found = _ARN.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{text!r} is not a queue's ARN: give arn:aws:sqs:REGION:ACCOUNT:NAME")
    return Queue(_checked_name(found["name"], text), found["region"] or None, found["account"] or None)


def region_of_host(host: str) -> str | None:
    """
    Return the region that a host of AWS' forms names, or None for any other host.

    The forms: `sqs.R.…`, `sqs-fips.R.…`, `R.queue.…`, `queue.amazonaws.com` (us-east-1), and `….sqs.R.vpce.…`, in any
    partition.  Source: botocore data/endpoints.json and partitions.json; guide, "Amazon SQS VPC endpoints".
    """
    host = host.lower()
    if host == _LEGACY_HOST:
        return _LEGACY_REGION
    labels = host.split(".")
    for left, right in pairwise(labels):
        if left in _SERVICE_LABELS and _REGION.fullmatch(right):
            return right
        if right == "queue" and _REGION.fullmatch(left):
            return left
    return None


def _region_in_path(segments: list[str]) -> str | None:
    # LocalStack's `path` strategy: /queue/eu-west-1/000000000000/name
    if len(segments) == 4 and segments[0] == "queue" and _REGION.fullmatch(segments[1]):
        return segments[1]
    return None


# Hosts end in a partition's suffix.  Source: botocore data/partitions.json (dnsSuffix, dualStackDnsSuffix).
_AWS_SUFFIXES = (
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".amazonaws.eu",
    ".api.aws",
    ".api.amazonwebservices.com.cn",
    ".api.amazonwebservices.eu",
    ".c2s.ic.gov",
    ".sc2s.sgov.gov",
    ".cloud.adc-e.uk",
    ".csp.hci.ic.gov",
)


def is_aws_host(host: str) -> bool:
    """Return whether *host*, in lower case and without a port, is one of AWS' own."""
    return host.endswith(_AWS_SUFFIXES)


def _segments(parts: SplitResult) -> list[str]:
    return [segment for segment in parts.path.split("/") if segment]


def _checked_name(name: str, given: str) -> str:
    if len(name) > QUEUE_NAME_CHARS or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{shown(given)}: {shown(name)} is no queue name; SQS takes 1 to {QUEUE_NAME_CHARS} characters of "
            "A-Z a-z 0-9 _ - and, for FIFO queues, the ending .fifo"
        )
    return name
