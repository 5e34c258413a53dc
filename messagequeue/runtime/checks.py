"""
What is doubtful in how a topic is set up, next to how a consumer handles what fails: `findings()` is pure.

Nothing of it keeps a consumer from working today; all of it loses or repeats messages on some other day.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .. import _log_events as events
from .._errors import ConfigurationError
from .._options import ConsumeOptions
from ..driver import CheckedSource, TopicFacts
from .retrying import retry_after

#: Seconds that the broker has to say how a topic is set up.
FACTS_TIMEOUT = 10.0

#: Receives that an ordered topic should allow at least: messages behind a failed one are received with it, handed back
#: unhandled, and have counted one receive.
ORDERED_RECEIVES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """
    Attributes:
        code: Stable.
        text: What is wrong, what there is, and what to do.
    """

    code: str
    text: str


def findings(facts: TopicFacts, options: ConsumeOptions, *, ordered: bool) -> list[Finding]:
    """
    Return what is doubtful; what the broker did not tell is not.

    Source of the rules on retention: SQS Developer Guide, "Using dead-letter queues".
    """
    found = []
    if facts.dead_letters is False and options.no_dead_letter_queue == "leave":
        found.append(
            Finding(
                "no_dead_letter_queue",
                "it has no dead-letter queue, so that a message that always fails comes back until its retention ends, "
                "and is gone then: give it one (checks='off' where it is a dead-letter queue itself)",
            )
        )
    found += _receives(facts, options, ordered=ordered)
    keep, keep_dead = facts.retention, facts.dead_letter_retention
    if facts.keeps_age and keep is not None and keep_dead is not None and keep_dead <= keep:
        found.append(
            Finding(
                "dead_letter_retention",
                f"its dead-letter queue keeps messages for {keep_dead:g} s, counted from when they were first sent, "
                f"and it itself for {keep:g} s: what is dead-lettered late is gone at once; give the dead-letter queue "
                "the longer retention",
            )
        )
    return found


def _receives(facts: TopicFacts, options: ConsumeOptions, *, ordered: bool) -> list[Finding]:
    most = facts.max_receives
    if most is None:
        return []
    found = []
    if most == 1:
        found.append(
            Finding(
                "one_receive",
                "it dead-letters after 1 receive: a consumer that ends, or hands a message back, has that message "
                "dead-lettered unhandled; allow more receives",
            )
        )
    elif ordered and most < ORDERED_RECEIVES:
        found.append(
            Finding(
                "few_receives",
                f"it keeps order and dead-letters after {most} receives: messages that are received behind a failed "
                "one are handed back, and dead-lettered unhandled after a few of its failures; allow "
                f"{ORDERED_RECEIVES} or more",
            )
        )
    delays = options.retry_delay
    if delays is None:
        return found
    given = 1 if isinstance(delays, int | float) else len(delays)
    if given > most:
        found.append(
            Finding(
                "unreachable_retries",
                f"retry_delay has {given} delays, and it dead-letters after {most} receives, before the last of them: "
                "give fewer, or allow more receives",
            )
        )
    waits = sum(retry_after(options, attempt, 0.0) or 0.0 for attempt in range(1, most + 1))
    if facts.retention is not None and waits >= facts.retention:
        found.append(
            Finding(
                "retries_outlast_retention",
                f"its {most} receives with their retry delays take {waits:g} s, and it keeps messages for "
                f"{facts.retention:g} s: one that always fails is gone before it is dead-lettered; shorten the delays, "
                "or keep messages longer",
            )
        )
    return found


class Checks:
    """
    Has the topic of one consumer looked at, once.

    Args:
        source: Tells the facts; None where it cannot.
    """

    def __init__(self, topic: str, source: CheckedSource | None, options: ConsumeOptions) -> None:
        self._topic = topic
        self._source = source
        self._options = options
        self._done = False

    @property
    def due(self) -> bool:
        """There is something to look at that was not looked at yet."""
        return self._source is not None and not self._done and self._options.checks != "off"

    async def warn(self) -> None:
        """Log what is doubtful."""
        for finding in await self._find():
            text = "topic %s: %s"
            events.TOPIC_DOUBTFUL.log(text, self._topic, finding.text, topic=self._topic, finding=finding.code)

    async def refuse(self) -> None:
        """
        Raises:
            ConfigurationError: something is doubtful.
        """
        found = await self._find()
        if found:
            self._done = False
            words = "; ".join(finding.text for finding in found)
            raise ConfigurationError(f"topic {self._topic!r}: {words} (or checks='warn' to go on)")

    async def _find(self) -> list[Finding]:
        source = self._source
        if source is None:
            return []
        try:
            async with asyncio.timeout(FACTS_TIMEOUT):
                facts = await source.facts()
        except Exception as error:  # whoever receives says it, where it is a fault: nothing depends on this
            text, kind = "topic %s: how it is set up is not known (%s)", type(error).__name__
            events.TOPIC_UNKNOWN.log(text, self._topic, kind, topic=self._topic, error=kind)
            return []
        finally:
            self._done = True
        return findings(facts, self._options, ordered=source.capabilities.ordering)
