"""
Every name that telemetry writes: attributes, span operations, instruments; not what records them.

Names without `messagequeue.` in front are OpenTelemetry's, as its semantic conventions for messaging have them in
`CONVENTIONS`.  Names are stable: dashboards and alerts go by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The version of the OpenTelemetry semantic conventions that the standard names are of.
CONVENTIONS = "1.44.0"

# -- attributes of spans and metrics
SYSTEM = "messaging.system"
DESTINATION = "messaging.destination.name"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"
OUTCOME = "messagequeue.outcome"

# -- attributes of spans only: they have as many values as there are messages
MESSAGE_ID = "messaging.message.id"
MESSAGE_COUNT = "messaging.batch.message_count"
CLIENT_ID = "messaging.client.id"
ORDERING_KEY = "messagequeue.ordering_key"
DELIVERY_ATTEMPT = "messagequeue.delivery_attempt"
FAILED_COUNT = "messagequeue.batch.failed_count"

#: What the end of an operation is called in `error.type` whose caller, or whose loop, did not wait for it.
CANCELLED = "cancelled"
#: What is neither of ours nor one of the first `MOST_ERROR_TYPES` foreign exceptions, in `error.type` of metrics.
OTHER_ERROR = "_OTHER"
MOST_ERROR_TYPES = 50

# -- operations: the name that spans begin with, and the type that the conventions give it
SEND, CREATE, RECEIVE, PROCESS = "send", "create", "receive", "process"
SETTLE, RELEASE, DEAD_LETTER = "settle", "release", "dead_letter"
OPERATION_TYPES = {
    SEND: "send",
    CREATE: "create",
    RECEIVE: "receive",
    PROCESS: "process",
    SETTLE: "settle",
    RELEASE: "settle",
    DEAD_LETTER: "settle",
}

#: What `OUTCOME` may be: how a handler ended.
OUTCOMES = (
    "handled",
    "discarded",
    "dead_lettered",
    "retry_later",
    "failed",
    "timed_out",
    "lease_lost",
    "cancelled",
    "undecodable",
)

Kind = Literal["histogram", "counter", "up-down counter"]

#: Seconds.  Source: semantic conventions, messaging metrics, `messaging.client.operation.duration`.
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
#: Seconds: a message may wait as long as its queue keeps it, which is 14 days on SQS.
_AGES = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0)
_SIZES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 25.0, 50.0, 100.0)

_WHERE = (SYSTEM, DESTINATION, SERVER_ADDRESS, SERVER_PORT)
_OPERATION = (*_WHERE, OPERATION_NAME, OPERATION_TYPE, ERROR_TYPE)


@dataclass(frozen=True, slots=True)
class Instrument:
    """
    One metric.

    Attributes:
        kind: A `histogram` is recorded as things happen; the others are read when metrics are collected.
        unit: As UCUM writes it.
        doc: One sentence for the reader of the table.
        attributes: Which it may have.
        buckets: Upper bounds of a histogram's buckets, as advice to the SDK.
    """

    name: str
    kind: Kind
    unit: str
    doc: str
    attributes: tuple[str, ...] = _WHERE
    buckets: tuple[float, ...] = ()


OPERATION_DURATION = Instrument(
    "messaging.client.operation.duration",
    "histogram",
    "s",
    "How long `publish()`, a receive that brought messages, or a settlement took.",
    _OPERATION,
    _DURATIONS,
)
SENT = Instrument(
    "messaging.client.sent.messages",
    "counter",
    "{message}",
    "Messages that were sent, by how that ended; those that were refused before are not in it.",
    _OPERATION,
)
CONSUMED = Instrument(
    "messaging.client.consumed.messages",
    "counter",
    "{message}",
    "Messages that were given to a handler, or could not be read.",
    (*_OPERATION, OUTCOME),
)
PROCESS_DURATION = Instrument(
    "messaging.process.duration",
    "histogram",
    "s",
    "How long handlers took.",
    (*_OPERATION, OUTCOME),
    _DURATIONS,
)
MESSAGE_AGE = Instrument(
    "messagequeue.message.age",
    "histogram",
    "s",
    "Time from a message's publication to the start of its handler, earlier deliveries included.",
    buckets=_AGES,
)
BATCH_SIZE = Instrument(
    "messagequeue.publisher.batch.size",
    "histogram",
    "{message}",
    "Messages that left in one request.",
    buckets=_SIZES,
)
CONTEXT_SKIPPED = Instrument(
    "messagequeue.publisher.context.skipped",
    "counter",
    "{message}",
    "Messages without room for the attributes of their trace context, which left without them.",
)

# -- read when metrics are collected
PENDING = Instrument(
    "messagequeue.publisher.pending",
    "up-down counter",
    "{message}",
    "Messages that wait to be sent or are on their way.",
)
RESENT = Instrument(
    "messagequeue.publisher.resent",
    "counter",
    "{message}",
    "Messages that were sent once more, as the broker had failed on its own side.",
)
IN_FLIGHT = Instrument(
    "messagequeue.consumer.in_flight",
    "up-down counter",
    "{message}",
    "Messages that were received and are not settled.",
)
RUNNING = Instrument("messagequeue.consumer.running", "up-down counter", "{message}", "Messages whose handler runs.")
BLOCKED_KEYS = Instrument(
    "messagequeue.consumer.blocked_keys",
    "up-down counter",
    "{key}",
    "Ordering keys whose messages wait for one that failed to come back.",
)
EMPTY_RECEIVES = Instrument(
    "messagequeue.consumer.empty_receives", "counter", "{receive}", "Receives that brought no message."
)
RECEIVE_ERRORS = Instrument("messagequeue.consumer.receive_errors", "counter", "{receive}", "Receives that failed.")
LEASES_LOST = Instrument(
    "messagequeue.consumer.leases_lost", "counter", "{lease}", "Leases that ended before the work did."
)
LEASES_EXTENDED = Instrument(
    "messagequeue.consumer.leases_extended", "counter", "{lease}", "Prolongations that landed."
)
SETTLE_ERRORS = Instrument(
    "messagequeue.consumer.settle_errors",
    "counter",
    "{message}",
    "Messages that were handled and could not be taken off the queue: they come again.",
)
RELEASED = Instrument(
    "messagequeue.consumer.released",
    "counter",
    "{message}",
    "Messages that were handed back, unhandled or for a later retry.",
)
BREAKER_OPEN = Instrument(
    "messagequeue.consumer.breaker_open",
    "up-down counter",
    "{consumer}",
    "Consumers whose circuit breaker keeps them from receiving.",
)
BREAKER_OPENED = Instrument(
    "messagequeue.consumer.breaker_opened", "counter", "{event}", "How often a circuit breaker opened."
)
BILLABLE_REQUESTS = Instrument(
    "messagequeue.client.billable_requests",
    "counter",
    "{request}",
    "Requests as SQS bills them: one for each call, more for one that carries more than 64 KiB.",
)
TRANSPORT_FALLBACKS = Instrument(
    "messagequeue.client.transport_fallbacks",
    "counter",
    "{call}",
    "Calls that the short path to SQS could not bring to an answer, so that the SDK had to.",
    (SYSTEM,),
)
TRANSPORT_PAUSES = Instrument(
    "messagequeue.client.transport_pauses",
    "counter",
    "{pause}",
    "How often too many fallbacks in a row made the SDK take all calls for a while.",
    (SYSTEM,),
)

#: Every instrument, in the order of the documentation.
INSTRUMENTS = (
    OPERATION_DURATION,
    SENT,
    CONSUMED,
    PROCESS_DURATION,
    MESSAGE_AGE,
    BATCH_SIZE,
    CONTEXT_SKIPPED,
    PENDING,
    RESENT,
    IN_FLIGHT,
    RUNNING,
    BLOCKED_KEYS,
    EMPTY_RECEIVES,
    RECEIVE_ERRORS,
    LEASES_LOST,
    LEASES_EXTENDED,
    SETTLE_ERRORS,
    RELEASED,
    BREAKER_OPEN,
    BREAKER_OPENED,
    BILLABLE_REQUESTS,
    TRANSPORT_FALLBACKS,
    TRANSPORT_PAUSES,
)
