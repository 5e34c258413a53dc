"""What telemetry is told of a queue beside its messages: what it is called, and how many requests will be billed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from messagequeue.runtime.readings import Watches
from messagequeue.telemetry import Destination
from messagequeue.telemetry import _names as names

from . import _limits, _wire
from ._api import BatchAnswer, HandleEntry, ReceivedMessage, ReceiveRequest, SendEntry, SqsApi
from ._config import SQSConfig
from ._queue import parse_topic

#: OpenTelemetry's name of SQS, and of the attribute of a queue's URL.
SYSTEM, QUEUE_URL = "aws_sqs", "aws.sqs.queue.url"


def destination_of(config: SQSConfig, topic: str) -> Destination:
    """Return how telemetry names *topic*: by the queue's name, at the address that calls go to; "" by neither."""
    if not topic:
        return Destination(system=SYSTEM, name="")
    queue = parse_topic(topic)
    parts = urlsplit(config.queue_address or queue.url)
    return Destination(
        system=SYSTEM, name=queue.name, address=parts.hostname, port=parts.port, details={QUEUE_URL: queue.url}
    )


class Billing:
    """
    Counts the requests about one queue.

    Attributes:
        requests: So far.  What the SDK repeats on its own is not seen here and not in it.
    """

    __slots__ = ("requests",)

    def __init__(self) -> None:
        self.requests = 0

    def call(self, size: int = 0) -> None:
        """
        Count one call that carries *size* bytes.

        Source: SQS pricing: every action is a request; of a payload each 64 KB begun is one.
        """
        self.requests += max(1, -(-size // _limits.BILLED_BYTES))

    def readings(self) -> Mapping[str, float]:
        """What telemetry reads."""
        return {names.BILLABLE_REQUESTS.name: self.requests}


class BilledApi:
    """An `SqsApi` over another one, whose calls *billing* counts; a call that fails counts as well."""

    def __init__(self, api: SqsApi, billing: Billing) -> None:
        self._api = api
        self._billing = billing

    @property
    def endpoint(self) -> str:
        return self._api.endpoint

    async def send_message_batch(self, queue_url: str, entries: Sequence[SendEntry], /) -> BatchAnswer:
        self._billing.call(sum(_wire.entry_size(entry) for entry in entries))
        return await self._api.send_message_batch(queue_url, entries)

    async def receive_message(self, request: ReceiveRequest, /) -> Sequence[ReceivedMessage]:
        size = 0
        try:
            received = await self._api.receive_message(request)
            size = sum(_wire.received_size(raw) for raw in received)
        finally:
            self._billing.call(size)
        return received

    async def delete_message_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        self._billing.call()
        return await self._api.delete_message_batch(queue_url, entries)

    async def change_message_visibility_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        self._billing.call()
        return await self._api.change_message_visibility_batch(queue_url, entries)

    async def get_queue_attributes(self, queue_url: str, wanted: Sequence[str], /) -> Mapping[str, str]:
        self._billing.call()
        return await self._api.get_queue_attributes(queue_url, wanted)


def billed(watches: Watches, where: Destination, *apis: SqsApi) -> list[SqsApi]:
    """Return *apis* with their calls counted by the telemetry of *watches*; as they are where there is none."""
    if watches.telemetry is None:
        return list(apis)
    billing = Billing()
    watches.add(("billing", where.details[QUEUE_URL]), where, billing.readings)
    return [BilledApi(api, billing) for api in apis]
