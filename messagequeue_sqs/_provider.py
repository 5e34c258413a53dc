"""The two halves of the provider: they open queues on shared clients; the rest is the runtime's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from messagequeue import _log_events as events
from messagequeue._errors import ErrorCode, MessageQueueError
from messagequeue._message import Message
from messagequeue._options import ConsumeOptions
from messagequeue.driver import LeaseSource, ProviderSpec, Sender
from messagequeue.runtime.consumer_provider import RuntimeConsumerProvider
from messagequeue.runtime.publisher_provider import RuntimePublisherProvider
from messagequeue.telemetry import Destination, Telemetry
from messagequeue.telemetry import _names as names

from ._api import SqsApi
from ._client import Clients, require_sdk
from ._config import SQSConfig, receive_timeout, timeout_conflict
from ._fast._stats import TransportStats
from ._faults import CallError
from ._fetching import FetchingSource
from ._limits import MESSAGE_BYTES
from ._offloading import OffloadingSender
from ._opening import Opening
from ._queue import Queue, parse_topic
from ._s3_api import PayloadStats
from ._s3_client import open_s3
from ._sender import SQSSender
from ._source import SQSSource
from ._telemetry import billed, destination_of
from ._wire import carried_traceparent, decode_message

#: A queue that nobody has: account numbers have no such value.
_NOBODYS_QUEUE = "000000000000/messagequeue-ping"


async def _ping(clients: Clients, queue: Queue | None) -> None:
    """
    Ask SQS for an attribute of *queue*, or of a queue that nobody has.

    "Denied" is an answer: the request arrived and its signature was read.  So is "no such queue" where none was opened
    yet.  Hence it needs no permission, and no call that lists or looks up queues.  It cannot say whether publishing
    or consuming is allowed.

    Raises:
        MessageQueueError: no answer, no or unknown credentials, or the opened queue is gone.
    """
    api = await clients.calls(queue)
    answers = {ErrorCode.ACCESS_DENIED} if queue is not None else {ErrorCode.ACCESS_DENIED, ErrorCode.NOT_FOUND}
    url = f"{api.endpoint.rstrip('/')}/{_NOBODYS_QUEUE}" if queue is None else queue.url
    try:
        await api.get_queue_attributes(url, ["QueueArn"])
    except CallError as error:
        if error.fault.code not in answers:
            raise MessageQueueError(
                str(error), code=error.fault.code, retryable=error.fault.retryable
            ) from error.origin


async def message_limit(api: SqsApi, queue: Queue) -> int:
    """
    Return the bytes that a message may have in *queue*: what it is set to, else, where none may read that, SQS' limit.

    Queues that were made before August 2025 take 256 KiB until somebody changes that.
    """
    try:
        text = (await api.get_queue_attributes(queue.url, ["MaximumMessageSize"])).get("MaximumMessageSize", "")
    except CallError as error:
        events.SQS_UNKNOWN_LIMIT.log(
            "queue %s: its MaximumMessageSize cannot be read (%s); bodies go to S3 above payloads.threshold alone",
            queue.url,
            error.name,
            topic=queue.url,
        )
        return MESSAGE_BYTES
    return int(text) if text.isdigit() else MESSAGE_BYTES


def _transport_readings(clients: Clients) -> Mapping[str, float]:
    stats = clients.stats()
    return {names.TRANSPORT_FALLBACKS.name: stats.fallbacks, names.TRANSPORT_PAUSES.name: stats.pauses}


class SQSPublisherProvider(RuntimePublisherProvider):
    """
    Publishes to SQS queues.  The topic is the queue's URL; the queue must exist; nothing is created or looked up.

    Needs `sqs:SendMessage` on the queue and nothing else.  With `payloads`, `s3:PutObject` on the objects, and
    `sqs:GetQueueAttributes` where the queue's own limit is to be known.

    Args:
        config: None: everything ambient.
        telemetry: Is told of every message; None for nobody.

    Raises:
        ProviderNotInstalledError: the AWS SDK is not installed.
    """

    def __init__(self, config: SQSConfig | None = None, *, telemetry: Telemetry | None = None) -> None:
        require_sdk()
        self._config = config or SQSConfig()
        super().__init__("sqs", self._config.publish, telemetry=telemetry)
        self._clients = Clients(self._config)
        self._watches.add("transport", self._destination(""), partial(_transport_readings, self._clients))
        self._queue: Queue | None = None
        self.payload_stats = PayloadStats()

    @property
    def transport_stats(self) -> TransportStats:
        """What became of the calls so far; `fallbacks` is 0 where all is well."""
        return self._clients.stats()

    def _topic_key(self, topic: str) -> str:
        return parse_topic(topic).identity

    def _destination(self, topic: str) -> Destination:
        return destination_of(self._config, topic)

    async def _open_sender(self, topic: str) -> Sender:
        queue = parse_topic(topic)
        [api] = billed(self._watches, self._destination(topic), await self._clients.calls(queue))
        sender = SQSSender(api, queue, verify_checksums=self._config.verify_checksums)
        payloads = self._config.payloads
        store = None if payloads.bucket is None else await open_s3(self._clients, payloads, queue)
        self._queue = queue
        if store is None:
            return sender
        threshold = min(payloads.threshold, await message_limit(api, queue))
        return OffloadingSender(sender, store, payloads, queue.url, threshold=threshold, stats=self.payload_stats)

    async def _ping(self) -> None:
        await _ping(self._clients, self._queue)

    async def _release(self) -> None:
        await self._clients.close()


class SQSConsumerProvider(RuntimeConsumerProvider):
    """
    Consumes SQS queues.  The topic is the queue's URL; the queue must exist; nothing is created or looked up.

    Needs `sqs:ReceiveMessage`, `sqs:DeleteMessage` and `sqs:ChangeMessageVisibility` on the queue.  Where
    `sqs:GetQueueAttributes` is granted too, the queue's own visibility timeout is used; `DeadLetter` needs it, and
    `sqs:SendMessage` on the dead-letter queue.  With `payloads`, `s3:GetObject` on the objects, and
    `s3:DeleteObject` where `payloads.delete` is set.

    Args:
        config: None: everything ambient.
        telemetry: Is told of every message; None for nobody.

    Raises:
        ProviderNotInstalledError: the AWS SDK is not installed.
    """

    def __init__(self, config: SQSConfig | None = None, *, telemetry: Telemetry | None = None) -> None:
        require_sdk()
        self._config = config or SQSConfig()
        super().__init__("sqs", self._config.consume, telemetry=telemetry)
        self._clients = Clients(self._config)
        self._watches.add("transport", self._destination(""), partial(_transport_readings, self._clients))
        self._queue: Queue | None = None
        self.payload_stats = PayloadStats()
        conflict = timeout_conflict(self._config)
        if conflict:
            events.SQS_READ_TIMEOUT.log("%s", conflict)

    @property
    def transport_stats(self) -> TransportStats:
        """What became of the calls so far; `fallbacks` is 0 where all is well."""
        return self._clients.stats()

    def _topic_key(self, topic: str) -> str:
        return parse_topic(topic).identity

    def _destination(self, topic: str) -> Destination:
        return destination_of(self._config, topic)

    async def _open_source(self, topic: str, options: ConsumeOptions) -> LeaseSource:
        queue = parse_topic(topic)
        receives, calls = await self._clients.receives(queue), await self._clients.calls(queue)
        receives, calls = billed(self._watches, self._destination(topic), receives, calls)
        payloads = self._config.payloads
        envelopes, buckets = self._config.unwrap_sns, payloads.readable
        source = SQSSource(
            receives,
            calls,
            queue,
            options,
            read_timeout=receive_timeout(self._config),
            verify_checksums=self._config.verify_checksums,
            decode=Opening(envelopes=envelopes, buckets=buckets).decode if envelopes or buckets else decode_message,
        )
        store = await open_s3(self._clients, payloads, queue) if buckets else None
        self._queue = queue
        return source if store is None else FetchingSource(source, store, payloads, queue.url, stats=self.payload_stats)

    def _carried(self, message: Message) -> str | None:
        return carried_traceparent(message)

    async def _ping(self) -> None:
        await _ping(self._clients, self._queue)

    async def _release(self) -> None:
        await self._clients.close()


#: What the entry point `sqs` of the group `messagequeue.providers` names.
PROVIDER = ProviderSpec(name="sqs", config=SQSConfig, publisher=SQSPublisherProvider, consumer=SQSConsumerProvider)
