"""What becomes of failed messages of FIFO queues, and what the dead-letter queue is told, on SQS wire."""

from __future__ import annotations

import json
import logging

import pytest

from messagequeue import Message, Outgoing
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from tests.support.localstack import Queues
from tests.support.realtime import consuming, real_time, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class OddError(Exception):
    """What the handler raises."""


async def publish(queues: Queues, url: str) -> None:
    async with SQSPublisherProvider(SQSConfig(queue_address=queues.endpoint)) as publishers:
        publisher = await publishers.new_publisher(url)
        names = ["a1", "a2", "a3", "b1", "b2"]
        results = await publisher.publish_many(
            [Outgoing(name, ordering_key=name[0], attributes={"n": name}) for name in names]
        )
        assert not [result for result in results if isinstance(result, Exception)]


def dead_letter_queue(queues: Queues, url: str) -> str:
    arn = json.loads(queues.attributes(url)["RedrivePolicy"])["deadLetterTargetArn"]
    found: str = queues.client.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
    return found


@pytest.mark.parametrize("policy", ["park", "skip_group"])
@real_time(60)
async def test_a_failed_message_of_a_fifo_queue_is_put_aside(queues: Queues, policy: str) -> None:
    """Its key goes on, or follows it in order; the dead-letter queue has reason, exception and origin."""
    url = queues.create(fifo=True, dead_letters=5)
    seen: list[str] = []

    async def handle(message: Message) -> None:
        seen.append(message.text)
        if message.text == "a2":
            raise OddError

    await publish(queues, url)
    aside = ["a2"] if policy == "park" else ["a2", "a3"]
    options = {"wait_time": 1, "on_failure": policy, "on_error": lambda error: None}
    async with (
        SQSConsumerProvider(SQSConfig(queue_address=queues.endpoint)) as provider,
        consuming(provider, url, handle, **options) as (consumer, _),
    ):
        await until(lambda: consumer.stats.settled + consumer.stats.dead_lettered >= 5)

    assert [text for text in seen if text[0] == "b"] == ["b1", "b2"]
    assert [text for text in seen if text[0] == "a"] == (["a1", "a2", "a3"] if policy == "park" else ["a1", "a2"])
    assert queues.counts(url) == (0, 0, 0)
    dead = queues.drain(dead_letter_queue(queues, url), wait=1)
    assert [message["Body"] for message in dead] == aside
    story = {name: value["StringValue"] for name, value in dead[0]["MessageAttributes"].items()}
    assert story == {
        "n": "a2",
        "messagequeue.dead_letter_reason": story["messagequeue.dead_letter_reason"],
        "messagequeue.dead_letter_source": url,
        "messagequeue.dead_letter_error": f"{__name__}.OddError",
    }


@real_time(60)
async def test_a_queue_without_dead_letters_loses_nothing_to_a_permanent_error(queues: Queues) -> None:
    """The message stays and comes back; with `no_dead_letter_queue="discard"` it goes."""
    url = queues.create(VisibilityTimeout=1)
    queues.send(url, "hopeless")

    async def handle(message: Message) -> None:
        raise OddError

    async with SQSConsumerProvider(SQSConfig(queue_address=queues.endpoint)) as provider:
        options = {"wait_time": 1, "permanent": (OddError,), "on_error": lambda error: None}
        async with consuming(provider, url, handle, **options) as (consumer, _):
            await until(lambda: consumer.stats.received >= 2)
        assert sum(queues.counts(url)) == 1
        await consumer.close()

        async with consuming(provider, url, handle, no_dead_letter_queue="discard", **options) as (consumer, _):
            await until(lambda: consumer.stats.settled == 1)
        assert sum(queues.counts(url)) == 0


@real_time(60)
async def test_what_is_doubtful_in_a_queue_is_told_at_the_start(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    """By the service's own word: no dead-letter queue, and one that moves after one receive and keeps no longer."""
    without, one = queues.create(fifo=True), queues.create(dead_letters=1)

    async def handle(message: Message) -> None: ...

    async with SQSConsumerProvider(SQSConfig(queue_address=queues.endpoint)) as provider:
        with caplog.at_level(logging.WARNING, "messagequeue"):
            async with consuming(provider, without, handle, wait_time=1), consuming(provider, one, handle, wait_time=1):
                await until(lambda: len([r for r in caplog.records if r.event == "topic.doubtful"]) == 3)

    found = [(record.topic, record.finding) for record in caplog.records if record.event == "topic.doubtful"]
    assert sorted(found) == sorted(
        [(without, "no_dead_letter_queue"), (one, "one_receive"), (one, "dead_letter_retention")]
    )
