"""The provider `sns`: it opens topics on shared clients; the rest is the runtime's."""

from __future__ import annotations

from typing import NoReturn

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
        return Destination(system=_SYSTEM, name=found.name, details={_ARN: found.arn})

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
        Ask SNS for the attributes of a topic, the last that was opened; where none was, there is nobody to ask.

        "Denied" is an answer: the request arrived and its signature was read.

        Raises:
            MessageQueueError: no answer, no or unknown credentials, or the topic is gone.
        """
        if self._topic is None:
            return
        api = await open_sns(self._clients, self._config.topic_address, self._topic)
        try:
            await api.get_topic_attributes(self._topic.arn)
        except CallError as error:
            if error.fault.code is not ErrorCode.ACCESS_DENIED:
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
