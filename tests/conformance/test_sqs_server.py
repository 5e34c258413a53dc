"""The SQS provider by either transport, judged over this package's own server, in one process, on the real clock."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from typing import Any, Literal, cast

import pytest

from messagequeue import ConsumerProvider, Message, PublisherProvider
from messagequeue.broker import Outcome, State
from messagequeue.testing.conformance import BaseHarness, ConformanceSuite, Features, Main, run_in_real_time
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from messagequeue_sqs.server import SQSServer
from messagequeue_sqs.server.engine import Call, Engine


class ServerHarness(BaseHarness):
    """A server for each fact, looked into from behind."""

    features = Features(
        unit=1.0,
        patience=15.0,
        slack=0.8,
        wait=1.0,
        ordered_topics=True,
        delays=True,
        deduplication=True,
        dead_letters=True,
    )

    def __init__(self, transport: Literal["fast", "sdk"]) -> None:
        self._transport = transport
        self._server = SQSServer()
        self._names = (f"kit-{n}" for n in itertools.count())

    def run(self, main: Main, /) -> None:
        async def served() -> None:
            async with self._server:
                await main()

        run_in_real_time(served)

    @property
    def _config(self) -> SQSConfig:
        address = self._server.endpoint_url
        return SQSConfig(queue_address=address, region="us-east-1", transport=self._transport)

    async def publisher_provider(self) -> PublisherProvider:
        return SQSPublisherProvider(self._config)

    async def consumer_provider(self) -> ConsumerProvider:
        return SQSConsumerProvider(self._config)

    def _create(self, name: str, attributes: Mapping[str, str]) -> None:
        call = Call("CreateQueue", {"QueueName": name, "Attributes": attributes}, "us-east-1", "")
        self._engine.handle(self._now, call)

    @property
    def _engine(self) -> Engine:
        return self._server._now_running().engine

    @property
    def _now(self) -> float:
        return self._server._now_running().home.clock.now()

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        name = next(self._names) + (".fifo" if ordered else "")
        kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if ordered else {}
        attributes = {**kind, "VisibilityTimeout": str(math.ceil(visibility_timeout))}
        if max_receives is not None:
            self._create(f"dead-{name}", kind)
            arn = f"arn:aws:sqs:us-east-1:000000000000:dead-{name}"
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": max_receives})
        self._create(name, attributes)
        return self._server.queue_url(name)

    def _name(self, topic: str) -> str:
        return topic.rpartition("/")[2]

    async def dead_letters(self, topic: str) -> list[bytes]:
        return [cast(bytes, seen.message.body) for seen in self._server.peek(f"dead-{self._name(topic)}")]

    async def counts(self, topic: str) -> tuple[int, int, int] | None:
        states = [seen.state for seen in self._server.peek(self._name(topic))]
        return states.count(State.VISIBLE), states.count(State.IN_FLIGHT), states.count(State.DELAYED)

    async def steal(self, topic: str, message: Message) -> bool:
        """Another receive gets the message: made visible, and taken under another handle."""
        queue, now = self._server.broker.queue(f"sqs.{self._name(topic)}"), self._now
        raw = cast("Mapping[str, Any]", message.raw)
        handle = self._engine.opened(raw["ReceiptHandle"])
        if handle is None or queue.release(now, handle) is not Outcome.DONE:
            return False
        queue.take(now, 100)
        return True


class TestSQSOverServer(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> ServerHarness:
        return ServerHarness("fast")


class TestSQSOverServerByTheSDK(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> ServerHarness:
        return ServerHarness("sdk")
