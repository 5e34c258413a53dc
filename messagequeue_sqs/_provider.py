"""The two halves of the provider: they open queues on shared clients; the rest is the runtime's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from messagequeue._errors import ErrorCode, MessageQueueError
from messagequeue._message import Message
from messagequeue._options import ConsumeOptions
from messagequeue.driver import LeaseSource, ProviderSpec, Sender
from messagequeue.runtime.consumer_provider import RuntimeConsumerProvider
from messagequeue.runtime.publisher_provider import RuntimePublisherProvider
from messagequeue.telemetry import Destination, Telemetry
from messagequeue.telemetry import _names as names

from ._client import Clients, require_sdk
from ._config import SQSConfig, receive_timeout, timeout_conflict
from ._fast._stats import TransportStats
from ._faults import CallError
from ._queue import Queue, parse_topic
from ._sender import SQSSender
from ._source import SQSSource
from ._telemetry import billed, destination_of
from ._wire import carried_traceparent

_log = logging.getLogger("messagequeue.sqs")

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


def _transport_readings(clients: Clients) -> Mapping[str, float]:
    stats = clients.stats()
    return {names.TRANSPORT_FALLBACKS.name: stats.fallbacks, names.TRANSPORT_PAUSES.name: stats.pauses}


class SQSPublisherProvider(RuntimePublisherProvider):
    """
    Publishes to SQS queues.  The topic is the queue's URL; the queue must exist; nothing is created or looked up.

    Needs `sqs:SendMessage` on the queue and nothing else.

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
        self._queue = queue
        return sender

    async def _ping(self) -> None:
        await _ping(self._clients, self._queue)

    async def _release(self) -> None:
        await self._clients.close()


class SQSConsumerProvider(RuntimeConsumerProvider):
    """
    Consumes SQS queues.  The topic is the queue's URL; the queue must exist; nothing is created or looked up.

    Needs `sqs:ReceiveMessage`, `sqs:DeleteMessage` and `sqs:ChangeMessageVisibility` on the queue.  Where
    `sqs:GetQueueAttributes` is granted too, the queue's own visibility timeout is used; `DeadLetter` needs it, and
    `sqs:SendMessage` on the dead-letter queue.

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
        conflict = timeout_conflict(self._config)
        if conflict:
            _log.warning("%s", conflict)

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
        source = SQSSource(
            receives,
            calls,
            queue,
            options,
            read_timeout=receive_timeout(self._config),
            verify_checksums=self._config.verify_checksums,
        )
        self._queue = queue
        return source

    def _carried(self, message: Message) -> str | None:
        return carried_traceparent(message)

    async def _ping(self) -> None:
        await _ping(self._clients, self._queue)

    async def _release(self) -> None:
        await self._clients.close()


#: What the entry point `sqs` of the group `messagequeue.providers` names.
PROVIDER = ProviderSpec(name="sqs", config=SQSConfig, publisher=SQSPublisherProvider, consumer=SQSConsumerProvider)
