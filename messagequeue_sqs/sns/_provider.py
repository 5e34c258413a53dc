"""The provider `sns`: it opens topics on shared clients; the rest is the runtime's."""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import urlsplit

from messagequeue._errors import ConfigurationError, ErrorCode, MessageQueueError
from messagequeue.driver import ProviderSpec, Sender
from messagequeue.runtime.publisher_provider import RuntimePublisherProvider
from messagequeue.telemetry import Destination, Telemetry

from .._client import Clients, require_sdk
from .._faults import CallError
from .._offloading import OffloadingSender
from .._s3_api import PayloadStats
from .._s3_client import open_s3
from ._client import open_sns
from ._config import SNSConfig
from ._sender import SNSSender
from ._topic import Topic, parse_topic_arn

#: OpenTelemetry's name of SNS, and of the attribute of a topic's ARN.
_SYSTEM, _ARN = "aws.sns", "aws.sns.topic.arn"


class SNSPublisherProvider(RuntimePublisherProvider):
    """
    Publishes to SNS topics.  The topic is its ARN; it must exist; nothing is created or looked up.

    Needs `sns:Publish` on the topic and nothing else; with `payloads`, `s3:PutObject` on the objects.

    Args:
        config: None: everything ambient.

    Raises:
        ProviderNotInstalledError: the AWS SDK is not installed.
    """

    def __init__(self, config: SNSConfig | None = None, *, telemetry: Telemetry | None = None) -> None:
        require_sdk("sns")
        self._config = config or SNSConfig()
        super().__init__("sns", self._config.publish, telemetry=telemetry)
        self._clients = Clients(self._config.client_options())
        self._topic: Topic | None = None
        self.payload_stats = PayloadStats()

    def _topic_key(self, topic: str) -> str:
        return parse_topic_arn(topic).arn

    def _destination(self, topic: str) -> Destination:
        if not topic:
            return Destination(system=_SYSTEM, name="")
        found = parse_topic_arn(topic)
        parts = urlsplit(self._config.topic_address or "")
        return Destination(
            system=_SYSTEM, name=found.name, address=parts.hostname, port=parts.port, details={_ARN: found.arn}
        )

    async def _open_sender(self, topic: str) -> Sender:
        found, config = parse_topic_arn(topic), self._config
        sender = SNSSender(
            await open_sns(self._clients, config.topic_address, found), found, limit=config.max_message_size
        )
        payloads = config.payloads
        store = None if payloads.bucket is None else await open_s3(self._clients, payloads, region=found.region)
        self._topic = found
        if store is None:
            return sender
        threshold = min(payloads.threshold, config.max_message_size)
        # Every queue of the topic gets the pointer: the object is nobody's to delete.
        return OffloadingSender(
            sender, store, payloads, found.arn, threshold=threshold, shared=True, stats=self.payload_stats
        )

    async def _ping(self) -> None:
        """
        Ask SNS for the attributes of the topic that was opened last, or of one that nobody has.

        "Denied" is an answer: the request arrived and its signature was read.  So is "no such topic" where none was
        opened yet; then the region is the ambient one, for there is no ARN to say which.

        Raises:
            MessageQueueError: no answer, no or unknown credentials, no region, or the opened topic is gone.
        """
        topic = self._topic
        api = await open_sns(self._clients, self._config.topic_address, topic)
        answers = {ErrorCode.ACCESS_DENIED} if topic is not None else {ErrorCode.ACCESS_DENIED, ErrorCode.NOT_FOUND}
        try:
            await api.get_topic_attributes(api.nobodys_topic if topic is None else topic.arn)
        except CallError as error:
            if error.fault.code not in answers:
                raise MessageQueueError(
                    str(error), code=error.fault.code, retryable=error.fault.retryable
                ) from error.origin

    async def _release(self) -> None:
        await self._clients.close()


def _no_consumer(config: SNSConfig, **options: object) -> NoReturn:
    raise ConfigurationError(
        "provider 'sns' does not consume: subscribe a queue to the topic, with messagequeue_sqs.sns.subscribe(), and "
        "consume that with provider 'sqs'"
    )


#: What the entry point `sns` of the group `messagequeue.providers` names.
PROVIDER = ProviderSpec(name="sns", config=SNSConfig, publisher=SNSPublisherProvider, consumer=_no_consumer)
