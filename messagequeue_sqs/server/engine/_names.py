"""Names of queues, their URLs and ARNs, and the topics of the broker behind them; not what a queue is."""

from __future__ import annotations

import re

from ..._limits import QUEUE_NAME_CHARS
from ._errors import SqsError, invalid

FIFO_SUFFIX = ".fifo"
#: What the topics of queues begin with; those of other regions than the default have theirs before the dot.
TOPIC_PREFIX = "sqs"

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.fifo)?")
_ARN = re.compile(r"arn:aws[a-z-]*:sqs:([a-z0-9-]+):(\d+):([A-Za-z0-9_-]+(?:\.fifo)?)")
_BAD_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"


def is_fifo(name: str) -> bool:
    return name.endswith(FIFO_SUFFIX)


def is_name(name: str) -> bool:
    """Whether a queue may have that name; the suffix counts.  Source: API Reference, CreateQueue, QueueName."""
    return len(name) <= QUEUE_NAME_CHARS and _NAME.fullmatch(name) is not None and name != FIFO_SUFFIX


def bad_name() -> SqsError:
    return invalid(_BAD_NAME)


def bad_fifo_name() -> SqsError:
    return invalid(
        "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with "
        ".fifo suffix and be 1 to 80 in length."
    )


def split_url(url: str) -> tuple[str | None, str]:
    """
    Return account and name of a queue URL; the account is None where the text is a bare name, or has none.

    Scheme, host and port do not count: containers, proxies and other machines know a server by other names.
    """
    if "/" not in url:
        return None, url
    above, _, name = url.partition("?")[0].rstrip("/").rpartition("/")
    account = above.rpartition("/")[2]
    return (account if account.isdigit() else None), name


def parse_arn(text: str) -> tuple[str, str, str] | None:
    """Return region, account and name; None where it is no queue's ARN."""
    found = _ARN.fullmatch(text)
    return None if found is None else (found[1], found[2], found[3])


class Names:
    """
    How this server names things.

    Args:
        account: The one account there is.
        region: The region whose topics are named without it.
    """

    def __init__(self, account: str, region: str) -> None:
        self.account = account
        self.region = region

    def topic(self, region: str, name: str) -> str:
        return f"{TOPIC_PREFIX}.{name}" if region == self.region else f"{TOPIC_PREFIX}@{region}.{name}"

    def split_topic(self, topic: str) -> tuple[str, str] | None:
        """Return region and name of the queue behind a topic; None where there can be none."""
        prefix, dot, name = topic.partition(".")
        kind, _, region = prefix.partition("@")
        if kind != TOPIC_PREFIX or not dot or not is_name(name):
            return None
        return region or self.region, name

    def arn(self, region: str, name: str) -> str:
        return f"arn:aws:sqs:{region}:{self.account}:{name}"

    def arn_of_topic(self, topic: str) -> str | None:
        parts = self.split_topic(topic)
        return None if parts is None else self.arn(*parts)

    def topic_of_arn(self, arn: str) -> str | None:
        """Return the topic of a queue of ours; None where the ARN is none, or another account's."""
        parts = parse_arn(arn)
        return None if parts is None or parts[1] != self.account else self.topic(parts[0], parts[2])
