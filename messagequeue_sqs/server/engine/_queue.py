"""A queue as SQS shows it: attributes, tags and times around a queue of the broker, which has the messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from messagequeue.broker import DeadLetterPolicy, DedupScope, Ordering, Queue, QueueSettings

from ._attempts import Attempts
from ._attributes import DEFAULTS, FIFO_DEFAULTS
from ._names import is_fifo
from ._options import EngineOptions
from ._redrive import REDRIVE, Redrive


class SqsQueue:
    """
    Attributes:
        name, region, topic, arn: What it is called.
        fifo: What its name says.
        queue: The broker's.
        attributes: The writable ones that are set, in canonical form.
        tags: By key.
        created, modified: Seconds since the epoch.
        purged: When it was purged last, or None.
        attempts: Receives that their clients can repeat.
        max_bytes, wait, content_based: From the attributes, for every request.
    """

    __slots__ = (
        "arn",
        "attempts",
        "attributes",
        "content_based",
        "created",
        "fifo",
        "max_bytes",
        "modified",
        "name",
        "purged",
        "queue",
        "region",
        "tags",
        "topic",
        "wait",
    )

    def __init__(
        self,
        name: str,
        region: str,
        arn: str,
        queue: Queue,
        attempts: Attempts,
        attributes: Mapping[str, str],
        created: float,
    ) -> None:
        self.name = name
        self.region = region
        self.topic = queue.name
        self.arn = arn
        self.fifo = is_fifo(name)
        self.queue = queue
        self.tags: dict[str, str] = {}
        self.created = self.modified = created
        self.purged: float | None = None
        self.attempts = attempts
        self.set(attributes)

    def set(self, attributes: Mapping[str, str]) -> None:
        """Take over *attributes*; the broker's queue is not touched."""
        self.attributes = dict(attributes)
        self.max_bytes = int(attributes["MaximumMessageSize"])
        self.wait = int(attributes["ReceiveMessageWaitTimeSeconds"])
        self.content_based = attributes.get("ContentBasedDeduplication") == "true"

    @property
    def note(self) -> str:
        """What the broker does not know of it, as text: see `restore()`."""
        return json.dumps(
            {
                "attributes": self.attributes,
                "tags": self.tags,
                "created": self.created,
                "modified": self.modified,
                "purged": self.purged,
                "serial": self.queue.serial,
            }
        )

    def restore(self, note: str) -> None:
        """Take over what `note` said before, unless it was about an earlier queue of the same topic."""
        saved = cast("dict[str, object]", json.loads(note))
        if saved["serial"] != self.queue.serial:
            return
        self.set(cast("dict[str, str]", saved["attributes"]))
        self.tags = cast("dict[str, str]", saved["tags"])
        self.created = cast(float, saved["created"])
        self.modified = cast(float, saved["modified"])
        self.purged = cast("float | None", saved["purged"])


def settings_for(
    attributes: Mapping[str, str], *, fifo: bool, dead_letters: DeadLetterPolicy | None, options: EngineOptions
) -> QueueSettings:
    """Return the broker's settings of a new queue."""
    return QueueSettings(
        ordering=Ordering.FIFO if fifo else Ordering.STANDARD,
        visibility_timeout=float(attributes["VisibilityTimeout"]),
        delay=float(attributes["DelaySeconds"]),
        retention=float(attributes["MessageRetentionPeriod"]),
        dedup_scope=DedupScope.GROUP if attributes.get("DeduplicationScope") == "messageGroup" else DedupScope.QUEUE,
        dead_letters=dead_letters,
        max_in_flight=options.max_in_flight,
    )


def changed_settings(
    before: QueueSettings, attributes: Mapping[str, str], dead_letters: DeadLetterPolicy | None
) -> QueueSettings:
    """
    Return the broker's settings after a change of attributes.

    The deduplication scope stays as it was at creation, whatever the attribute says: recorded answers of AWS.
    """
    return replace(
        before,
        visibility_timeout=float(attributes["VisibilityTimeout"]),
        delay=float(attributes["DelaySeconds"]),
        retention=float(attributes["MessageRetentionPeriod"]),
        dead_letters=dead_letters,
    )


def attributes_of(settings: QueueSettings, name: str, target_arn: str | None) -> dict[str, str]:
    """Return what a queue that another face of the broker made looks like here."""
    found = {**DEFAULTS, **(FIFO_DEFAULTS if is_fifo(name) else {})}
    found["VisibilityTimeout"] = str(int(settings.visibility_timeout))
    found["DelaySeconds"] = str(int(settings.delay))
    if settings.retention is not None:
        found["MessageRetentionPeriod"] = str(int(settings.retention))
    policy = settings.dead_letters
    if policy is not None and policy.max_receives is not None and target_arn is not None:
        found[REDRIVE] = Redrive(target_arn, policy.max_receives).text
    return found
