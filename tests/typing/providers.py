"""Each provider's halves are the protocols, and their config classes know their options; for type checkers only."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from messagequeue import ConsumeOptions, ConsumerProvider, PublisherProvider, PublishOptions
from messagequeue.driver import ProviderSpec
from messagequeue.embedded import MemoryConsumerProvider, MemoryPublisherProvider
from messagequeue.noop import NOOP, NoopConfig, NoopConsumerProvider, NoopPublisherProvider
from messagequeue.telemetry import OpenTelemetry
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider


def halves(config: SQSConfig) -> tuple[list[PublisherProvider], list[ConsumerProvider]]:
    telemetry = OpenTelemetry()
    publishers: list[PublisherProvider] = [
        NoopPublisherProvider(),
        MemoryPublisherProvider(telemetry=telemetry),
        SQSPublisherProvider(config, telemetry=telemetry),
    ]
    consumers: list[ConsumerProvider] = [
        NoopConsumerProvider(telemetry=telemetry),
        MemoryConsumerProvider(),
        SQSConsumerProvider(config, telemetry=telemetry),
    ]
    SQSPublisherProvider(config, telemetry="otel")  # type: ignore[arg-type]
    return publishers, consumers


def configs() -> None:
    SQSConfig(
        queue_address="http://localhost:4566", region="eu-west-1", consume=ConsumeOptions(), publish=PublishOptions()
    )
    SQSConfig(queue_adress="http://localhost:4566")  # type: ignore[call-arg]
    SQSConfig(region=5)  # type: ignore[arg-type]
    NoopConfig(max_message_sise=1)  # type: ignore[call-arg]


async def misspelt(publishers: NoopPublisherProvider, consumers: SQSConsumerProvider) -> None:
    publisher = await publishers.new_publisher("orders")
    await publisher.publish("x", dealy=1)  # type: ignore[call-arg]
    await consumers.new_consumer("orders", print, concurency=1)  # type: ignore[call-arg,arg-type]


def spec() -> ProviderSpec:
    ProviderSpec("noop", NoopConfig, NoopPublisherProvider, NoopConsumerProvider)  # type: ignore[call-arg]
    return NOOP
