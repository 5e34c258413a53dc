"""
Every line that this library logs: its event, logger, level and keys; its words are where it is logged.

Events and keys are stable, words are not: programs go by `record.event` and what is beside it.  No line holds a body,
an attribute or a credential.  Lines that may come once for every message are DEBUG, or faults, of which a burst is
logged and then one in half a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from logging import DEBUG, ERROR, INFO, WARNING, Logger, getLogger
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """
    One kind of line.

    Attributes:
        name: `record.event`.
        logger: Where it is logged, behind `messagequeue.`.
        level: Of the module `logging`; what middleware logs has the level that its user gave, and this by default.
        keys: What else is in the record.
        doc: When it is logged.
    """

    name: str
    logger: str
    level: int
    keys: tuple[str, ...]
    doc: str
    _log: Logger = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_log", getLogger(f"messagequeue.{self.logger}"))

    @property
    def enabled(self) -> bool:
        """Whether the line would be written, for who has to work for it."""
        return self._log.isEnabledFor(self.level)

    def log(self, text: str, *args: object, exc_info: Any = None, to: Logger | None = None, **values: object) -> None:
        """
        Write a line; where its level is off, make nothing ready for it.

        Args:
            text: What it says, filled in with *args* as `logging` does.
            exc_info: As `logging` takes it.
            to: Another logger.
            values: One for each of `keys`.
        """
        log = to or self._log
        if log.isEnabledFor(self.level):
            extra = {"event": self.name, **values}
            log.log(self.level, text, *args, exc_info=exc_info, extra=extra, stacklevel=2)


#: In the place of a logger: that of whoever owns the task.
OWNERS = "*"

# -- consumers
RECEIVE_FAILED = Event(
    "receive.failed", "consumer", WARNING, ("topic", "message_id", "error_code"), "A receive failed; it is repeated."
)
RECEIVE_RECOVERED = Event("receive.recovered", "consumer", INFO, ("topic",), "Receives work again.")
RECEIVE_LATE = Event(
    "receive.late", "consumer", DEBUG, ("topic", "count"), "Messages came after the stop, and are handed back."
)
TOPIC_DOUBTFUL = Event(
    "topic.doubtful",
    "consumer",
    WARNING,
    ("topic", "finding"),
    "How a topic is set up makes losing or repeating messages likely; once.",
)
TOPIC_UNKNOWN = Event(
    "topic.unknown", "consumer", DEBUG, ("topic", "error"), "The broker does not tell how a topic is set up."
)
MESSAGE_UNREADABLE = Event(
    "message.unreadable",
    "consumer",
    ERROR,
    ("topic", "message_id", "error_code"),
    "A body or attributes cannot be read; the handler was not called.",
)
MESSAGE_DISCARDED = Event(
    "message.discarded",
    "consumer",
    DEBUG,
    ("topic", "message_id", "reason"),
    "A message is taken off the queue without having been handled.",
)
HANDLER_FAILED = Event(
    "handler.failed", "consumer", ERROR, ("topic", "message_id", "error_code"), "A handler raised; with its traceback."
)
HANDLER_CANCELLED = Event(
    "handler.cancelled", "consumer", WARNING, ("topic", "message_id"), "A handler outlasted the drain at shutdown."
)
SETTLE_FAILED = Event(
    "settle.failed",
    "consumer",
    ERROR,
    ("topic", "message_id", "error_code"),
    "A message could not be taken off the queue, handed back or dead-lettered.",
)
SETTLE_UNFINISHED = Event(
    "settle.unfinished", "consumer", ERROR, ("topic", "count"), "Messages that could not be settled before the end."
)
RELEASE_STALE = Event(
    "release.stale", "consumer", DEBUG, ("topic", "message_id"), "A message to hand back is somebody else's already."
)
LEASE_LOST = Event(
    "lease.lost", "consumer", ERROR, ("topic", "message_id", "error_code"), "A lease ended before the work did."
)
HEARTBEAT_FAILED = Event(
    "heartbeat.failed",
    "consumer",
    WARNING,
    ("topic", "message_id", "error_code", "left"),
    "A lease could not be prolonged; it lasts `left` seconds more.",
)
HEARTBEAT_LATE = Event(
    "heartbeat.late", "consumer", DEBUG, ("topic", "message_id"), "A prolongation was refused after the settlement."
)
BREAKER_OPENED = Event(
    "breaker.opened",
    "consumer",
    WARNING,
    ("topic", "pause"),
    "Too much fails: nothing is received for `pause` seconds.",
)
BREAKER_CLOSED = Event("breaker.closed", "consumer", INFO, ("topic",), "Handlers work again.")
SINK_RAISED = Event("error_sink.raised", "consumer", ERROR, ("topic",), "`on_error` itself raised; with its traceback.")

# -- publishers
PUBLISH_UNREAD = Event(
    "publish.unread",
    "publisher",
    ERROR,
    ("topic", "error_code"),
    "A message of `publish_nowait()` failed, and nobody read its result.",
)
PUBLISH_BAD_ANSWER = Event(
    "publish.bad_answer", "publisher", ERROR, ("topic",), "A sender answered for more or fewer messages than it got."
)
PUBLISHER_UNCLEAN = Event(
    "publisher.unclean_stop", "publisher", WARNING, ("topic",), "A publisher that is replaced did not stop cleanly."
)
CONTEXT_SKIPPED = Event(
    "publish.context_skipped",
    "publisher",
    WARNING,
    ("topic",),
    "A message has no room for its trace context; once per publisher.",
)
TASK_FAILED = Event(
    "task.failed", OWNERS, ERROR, ("task",), "A fault of the library's own, or of a provider's; with its traceback."
)

# -- programs
RUN_STOPPING = Event("run.stopping", "run", INFO, ("signal",), "`run()` stops gracefully.")
RUN_HURRIED = Event("run.hurried", "run", WARNING, ("signal",), "`run()` stops at once.")
CONSUMER_ENDED = Event(
    "consumer.ended", "run", ERROR, ("topic", "error_code"), "A consumer of `run()` ended with an error."
)

# -- middleware
HANDLER_BEGIN = Event(
    "handler.begin",
    "handler",
    DEBUG,
    ("topic", "message_id", "ordering_key", "delivery_attempt", "age"),
    "`middleware.logging()`: before a handler.",
)
HANDLER_END = Event(
    "handler.end",
    "handler",
    DEBUG,
    ("topic", "message_id", "ordering_key", "delivery_attempt", "outcome", "duration", "error_type", "reason"),
    "`middleware.logging()`: after it.",
)
HANDLER_RETRY = Event(
    "handler.retry",
    "handler",
    DEBUG,
    ("topic", "message_id", "attempt", "error_type", "pause"),
    "`middleware.retry()`: before a pause.",
)
PUBLISH_END = Event(
    "publish.end",
    "publisher",
    DEBUG,
    ("topic", "ordering_key", "duration", "message_id", "sequence_number"),
    "`publish_logging()`: a message was confirmed.",
)
PUBLISH_FAILED = Event(
    "publish.failed",
    "publisher",
    WARNING,
    ("topic", "ordering_key", "duration", "error_type", "error_code"),
    "`publish_logging()`: a message failed.",
)
PUBLISH_RETRY = Event(
    "publish.retry",
    "publisher",
    DEBUG,
    ("topic", "attempt", "error_code", "pause"),
    "`publish_retry()`: before a pause.",
)

# -- idempotency
CLAIM_REPLAYED = Event("claim.replayed", "idempotency", DEBUG, ("key",), "The work of a key is done already.")
CLAIM_TAKEN_OVER = Event("claim.taken_over", "idempotency", INFO, ("key",), "Work that was begun before is done again.")
CLAIM_SKIPPED = Event(
    "claim.skipped", "idempotency", WARNING, ("key", "error_code"), "Work is done without a claim (`fail_open`)."
)
CLAIM_LEFT = Event(
    "claim.left", "idempotency", DEBUG, ("key", "error_code"), "A claim that may have been made ends by itself."
)
CLAIM_KEPT = Event(
    "claim.kept", "idempotency", WARNING, ("key", "error_code"), "A claim could not be released; it ends by itself."
)
CLAIM_NOT_RENEWED = Event(
    "claim.not_renewed", "idempotency", WARNING, ("key", "error_code"), "A claim could not be prolonged."
)
CLAIM_NOT_RECORDED = Event(
    "claim.not_recorded", "idempotency", ERROR, ("key", "error_code"), "Work is done and may be done again."
)
STORE_FULL = Event("store.full", "idempotency", WARNING, ("count",), "`MemoryStore` forgets its oldest records.")

# -- the folder of `embedded`
FOLDER_FAILED = Event("folder.failed", "embedded", ERROR, ("error_code",), "The data folder cannot be written.")
FOLDER_RECOVERED = Event("folder.recovered", "embedded", WARNING, (), "It can be written again.")
FOLDER_NOT_SYNCED = Event("folder.not_synced", "embedded", ERROR, (), "What was committed was not forced to the disk.")
FOLDER_WAITER = Event(
    "folder.waiter_failed", "embedded", ERROR, (), "A fault of the library's own; with its traceback."
)

# -- telemetry
PROPAGATOR_RAISED = Event(
    "propagator.raised", "telemetry", WARNING, ("propagator",), "Trace context could not be read or written; once."
)
TELEMETRY_RAISED = Event(
    "telemetry.raised",
    "telemetry",
    WARNING,
    ("telemetry", "call", "error_type"),
    "Telemetry, or a part of OpenTelemetry's SDK, raised; once for each kind of call.",
)

# -- SQS
SQS_READ_TIMEOUT = Event(
    "sqs.read_timeout", "sqs", WARNING, (), "`client_config` has a read timeout that would cut long polls off."
)
SQS_SHORT_LEASE = Event(
    "sqs.short_lease", "sqs", WARNING, ("topic",), "The visibility timeout is below the read timeout of receives."
)
SQS_UNKNOWN_LEASE = Event(
    "sqs.unknown_lease", "sqs", WARNING, ("topic",), "The visibility timeout may not be read; receives ask for one."
)
SQS_NO_GROUP = Event("sqs.no_group", "sqs", WARNING, ("topic",), "A FIFO queue gave a message without a group.")
SQS_STRANGE_ENTRIES = Event(
    "sqs.strange_entries", "sqs", WARNING, ("topic",), "A batch's answer names entries that were not sent."
)
SQS_OTHER_HOST = Event(
    "sqs.other_host", "sqs", WARNING, ("topic", "endpoint"), "A queue's host is not the one that calls go to."
)
SQS_OTHER_REGION = Event(
    "sqs.other_region",
    "sqs",
    WARNING,
    ("topic", "region"),
    "A queue's URL names another region than the configured one.",
)
SQS_SIGNING_REGION = Event(
    "sqs.signing_region", "sqs", INFO, ("endpoint", "region"), "No region is set; one is used for signatures."
)
SQS_FALLBACK = Event(
    "sqs.fallback", "sqs", DEBUG, ("endpoint", "action", "reason"), "A call of the short path is left to the SDK."
)
SQS_FALLBACK_PAUSE = Event(
    "sqs.fallback_pause", "sqs", WARNING, ("endpoint", "reason"), "All calls are left to the SDK for a while."
)
SQS_NO_SHORT_PATH = Event(
    "sqs.no_short_path", "sqs", INFO, ("endpoint", "reason"), "Something set up here needs the SDK for all calls."
)
SQS_UNKNOWN_LIMIT = Event(
    "sqs.unknown_limit", "sqs", INFO, ("topic",), "A queue's largest message size may not be read."
)
PAYLOAD_MISSING = Event(
    "payload.missing", "sqs", WARNING, ("topic", "message_id"), "A body is gone from S3; its message is deleted."
)
PAYLOADS_LEFT = Event(
    "payload.left", "sqs", WARNING, ("topic", "count"), "Bodies of settled messages could not be deleted from S3."
)
QUEUE_POLICY = Event(
    "sns.queue_policy",
    "sns",
    INFO,
    ("topic", "queue"),
    "A queue's policy was changed: a topic may send to it, or no longer.",
)
CLOCK_WRONG = Event("clock.wrong", "sqs", WARNING, ("difference",), "The machine's clock is not DynamoDB's.")

# -- the server
SERVER_STARTED = Event("server.started", "server", INFO, ("url", "region", "data"), "It answers.")
SERVER_UNGUARDED = Event("server.unguarded", "server", WARNING, ("host",), "It answers other machines without keys.")
SERVER_REQUEST = Event("server.request", "server", DEBUG, ("action", "request_id"), "A request was answered.")
SERVER_BAD_REQUEST = Event("server.bad_request", "server", INFO, ("status",), "A connection sent no HTTP.")
SERVER_FAILED = Event("server.failed", "server", ERROR, ("request_id",), "A fault of the server's; with its traceback.")

#: All of them, in the order of the documentation.
EVENTS: tuple[Event, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Event))
