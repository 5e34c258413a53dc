"""What a topic's ARN says of it; not whether that topic exists."""

from __future__ import annotations

import re
from dataclasses import dataclass

from messagequeue._errors import ConfigurationError

from .._limits import TOPIC_NAME_CHARS
from .._queue import FIFO_SUFFIX, shown

# Source: SNS API Reference, CreateTopic, Name; a FIFO topic's ends in `.fifo`.
_ARN = re.compile(
    r"arn:(?P<partition>[a-z-]+):sns:(?P<region>[a-z0-9-]+):(?P<account>\d{4,}):(?P<name>[A-Za-z0-9_-]+(?:\.fifo)?)"
)


@dataclass(frozen=True, slots=True)
class Topic:
    """
    What is known of a topic without asking.

    Attributes:
        arn: Its ARN.
        name: Its name, `.fifo` included.
        region, account: Where and whose it is.
    """

    arn: str
    name: str
    region: str
    account: str

    @property
    def is_fifo(self) -> bool:
        """True where the name ends in `.fifo`, which SNS demands of FIFO topics and refuses for others."""
        return self.name.endswith(FIFO_SUFFIX)


def parse_topic_arn(text: str) -> Topic:
    """
    Read a topic's ARN.

    Raises:
        ConfigurationError: it is not the ARN of a topic.
    """
    arn = text.strip()
    found = _ARN.fullmatch(arn)
    if found is None or len(found["name"]) > TOPIC_NAME_CHARS:
        raise ConfigurationError(f"topic {shown(text)} is not a topic's ARN: give arn:aws:sns:REGION:ACCOUNT:NAME")
    return Topic(arn, found["name"], found["region"], found["account"])
