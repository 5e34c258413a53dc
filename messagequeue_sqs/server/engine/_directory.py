"""The queues by name and region, made, found, changed and deleted; not what is done with their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from messagequeue.broker import Broker, DeadLetterPolicy, Queue

from ._attempts import Attempts, noted_attempts
from ._attributes import DEFAULTS, FIFO_DEFAULTS, canonical, differing, merged
from ._call import Call
from ._errors import DELETED_RECENTLY, QUEUE_EXISTS, SqsError, no_queue
from ._names import Names, bad_fifo_name, bad_name, is_fifo, is_name, split_url
from ._options import EngineOptions
from ._queue import SqsQueue, attributes_of, changed_settings, settings_for
from ._redrive import ALLOW, REDRIVE, Redrive, allows, bad_redrive, check_allow, parse_redrive

#: The broker's notes about queues are under this and their topic.
NOTES = "sqs:queue:"
#: Those about when the queue of a topic was deleted.
DELETED = "sqs:deleted:"
#: Regions and URLs of queues that are kept in mind.
_MOST_FOUND = 1_024


@dataclass(frozen=True, slots=True)
class _Named:
    """A queue about to be, or one there is: all that the rules about other queues ask for."""

    name: str
    region: str
    arn: str


class Directory:
    """
    Args:
        broker: Has the messages, and the notes that outlive the process.
        options: How strict to be.

    Attributes:
        shuffle: Puts the messages of standard queues out of order at a receive; for tests.
    """

    def __init__(self, broker: Broker, options: EngineOptions) -> None:
        self.broker = broker
        self.options = options
        self.names = Names(options.account, options.region)
        self.shuffle: Callable[[list[Any]], None] | None = None
        self._queues: dict[str, SqsQueue] = {}
        self._found: dict[tuple[str, str], SqsQueue] = {}  # by what clients call them, not to be worked out each time
        self._attempts = noted_attempts(broker)
        self._deleted = _noted_deletions(broker)

    # --- finding

    def at(self, now: float, topic: str) -> SqsQueue | None:
        """
        Return the queue of a topic, or None.

        Topics are found that another face of the broker made, and forgotten once it has deleted them.
        """
        queue, known = self.broker.get(topic), self._queues.get(topic)
        if known is not None and known.queue is queue:
            return known
        self._queues.pop(topic, None)
        return None if queue is None else self._adopt(now, queue)

    def _adopt(self, now: float, queue: Queue) -> SqsQueue | None:
        parts = self.names.split_topic(queue.name)
        if parts is None:
            return None
        region, name = parts
        policy = queue.settings.dead_letters
        target = None if policy is None else self.names.arn_of_topic(policy.target)
        attributes = attributes_of(queue.settings, name, target)
        attempts = Attempts(self.broker, queue, self._attempts.pop(queue.serial, None))
        found = SqsQueue(name, region, self.names.arn(region, name), queue, attempts, attributes, now)
        note = self.broker.note(NOTES + queue.name)
        if note is not None:
            found.restore(note)
            if queue.settings.max_in_flight != self.options.max_in_flight:  # the server's, not the queue's
                queue.configure(replace(queue.settings, max_in_flight=self.options.max_in_flight))
        self._queues[queue.name] = found
        return found

    def find(self, now: float, call: Call) -> SqsQueue:
        """
        Return the queue that QueueUrl names; a bare name will do.

        Raises:
            SqsError: there is none.
        """
        url: str = call.params.get("QueueUrl") or ""
        found = self._found.get((call.region, url))
        if found is None or self.broker.get(found.topic) is not found.queue:
            account, name = split_url(url)
            found = self.named(now, call.region, name, account)
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[call.region, url] = found
        return found

    def named(self, now: float, region: str, name: str, account: str | None = None) -> SqsQueue:
        """Return the queue *name* of a region and account.  Raises `SqsError` where there is none."""
        if account is None or account == self.options.account:
            found = self.at(now, self.names.topic(region, name))
            if found is None and self.options.auto_create and is_name(name):
                return self.create(now, region, name, {"FifoQueue": "true"} if is_fifo(name) else {})
            if found is not None:
                return found
        raise no_queue()

    def by_arn(self, now: float, arn: str) -> SqsQueue | None:
        topic = self.names.topic_of_arn(arn)
        return None if topic is None else self.at(now, topic)

    def of_region(self, now: float, region: str) -> Iterator[SqsQueue]:
        """Yield every queue of a region, by name."""
        topics = (queue.name for queue in self.broker)
        found = [queue for queue in (self.at(now, topic) for topic in topics) if queue is not None]
        return iter(sorted((queue for queue in found if queue.region == region), key=lambda queue: queue.name))

    def sources_of(self, now: float, target: SqsQueue) -> Iterator[SqsQueue]:
        """Yield every queue whose dead letters go to *target*, by name."""
        for queue in self.of_region(now, target.region):
            policy = queue.queue.settings.dead_letters
            if REDRIVE in queue.attributes and policy is not None and policy.target == target.topic:
                yield queue

    # --- making and changing

    def create(
        self,
        now: float,
        region: str,
        name: str,
        given: Mapping[str, str],
        tags: Mapping[str, str] | None = None,
    ) -> SqsQueue:
        """
        Make a queue, or return the one of that name where no given attribute differs from its own.

        Raises:
            SqsError: name or attributes are not allowed, the queue is another, or the name was freed just now.
        """
        _check_kind(name, given)
        change = canonical(given, fifo=is_fifo(name))
        topic = self.names.topic(region, name)
        found = self.at(now, topic)
        if found is not None:
            return _same(found, change)
        freed = self._deleted.get(topic)
        if freed is not None and now < freed + self.options.reuse_cooldown:
            raise SqsError(
                DELETED_RECENTLY,
                "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
            )
        named = _Named(name, region, self.names.arn(region, name))
        dead_letters = self._tie(now, named, change)
        attributes = merged({**DEFAULTS, **(FIFO_DEFAULTS if is_fifo(name) else {})}, change)
        settings = settings_for(attributes, fifo=is_fifo(name), dead_letters=dead_letters, options=self.options)
        made = self.broker.create(topic, settings)
        queue = SqsQueue(name, region, named.arn, made, Attempts(self.broker, made), attributes, now)
        queue.tags.update(tags or {})
        self._queues[topic] = queue
        self._free(topic)
        self.save(queue)
        return queue

    def change(self, now: float, queue: SqsQueue, given: Mapping[str, str]) -> None:
        """
        Set attributes: all of them or, where one is not allowed, none.

        Raises:
            SqsError: one is not allowed.
        """
        change = canonical(given, fifo=queue.fifo)
        settings = queue.queue.settings
        dead_letters = settings.dead_letters
        named = _Named(queue.name, queue.region, queue.arn)
        tied = self._tie(now, named, change)
        if REDRIVE in change:
            dead_letters = tied
        attributes = merged(queue.attributes, change)
        queue.queue.configure(changed_settings(settings, attributes, dead_letters))
        queue.set(attributes)
        queue.modified = now
        self.save(queue)

    def _tie(self, now: float, named: _Named, change: dict[str, str]) -> DeadLetterPolicy | None:
        """Check what *change* says of dead letters, make it canonical, and return the broker's policy."""
        if change.get(ALLOW):
            check_allow(change[ALLOW])
        text = change.get(REDRIVE)
        if not text:
            return None
        redrive = parse_redrive(text)
        topic = self._target(now, named, redrive, text)
        change[REDRIVE] = redrive.text
        return DeadLetterPolicy(topic, redrive.receives)

    def _target(self, now: float, named: _Named, redrive: Redrive, text: str) -> str:
        target = self.by_arn(now, redrive.arn)
        if target is None or target.region != named.region:
            raise bad_redrive(text, "Dead letter target does not exist.")
        if target.fifo is not is_fifo(named.name):
            raise bad_redrive(text, "Dead-letter queue must be same type of queue as the source.")
        if not allows(target.attributes, named.arn):
            raise bad_redrive(text, "Queue does not have permission to use the dead-letter target.")
        return target.topic

    def save(self, queue: SqsQueue) -> None:
        """Have the broker note what it does not know of *queue*; call it after each change."""
        self.broker.remember(NOTES + queue.topic, queue.note)

    def delete(self, now: float, queue: SqsQueue) -> None:
        self._queues.pop(queue.topic, None)
        self._found.clear()
        queue.attempts.clear()
        self.broker.remember(NOTES + queue.topic, None)
        self.broker.delete(queue.topic)
        if self.options.reuse_cooldown:
            self._forget_deletions(now)
            self._deleted[queue.topic] = now
            self.broker.remember(DELETED + queue.topic, repr(now))

    def _forget_deletions(self, now: float) -> None:
        """Names that can be used again need no note."""
        for topic, at in list(self._deleted.items()):
            if at + self.options.reuse_cooldown <= now:
                self._free(topic)

    def _free(self, topic: str) -> None:
        if self._deleted.pop(topic, None) is not None:
            self.broker.remember(DELETED + topic, None)


def _noted_deletions(broker: Broker) -> dict[str, float]:
    return {key.removeprefix(DELETED): float(text) for key, text in broker.notes(DELETED).items()}


def _check_kind(name: str, given: Mapping[str, str]) -> None:
    wants_fifo = given.get("FifoQueue", "false").lower() == "true"
    if wants_fifo and not (is_fifo(name) and is_name(name)):
        raise bad_fifo_name()
    if not is_name(name) or (is_fifo(name) and not wants_fifo):
        raise bad_name()


def _same(queue: SqsQueue, change: dict[str, str]) -> SqsQueue:
    if change.get(REDRIVE):
        change[REDRIVE] = parse_redrive(change[REDRIVE]).text
    other = differing(queue.attributes, change)
    if other is None:
        return queue
    raise SqsError(
        QUEUE_EXISTS, f"A queue already exists with the same name and a different value for attribute {other}"
    )
