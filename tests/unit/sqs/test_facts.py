"""How a queue is set up: what GetQueueAttributes says of it and of its dead-letter queue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from messagequeue.driver import CheckedSource, TopicFacts
from messagequeue.testing import run_virtual
from messagequeue_sqs._fetching import FetchingSource
from messagequeue_sqs._s3_config import S3Payloads
from tests.unit.sqs.fake_s3 import FakeS3
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, FakeSqs, failing
from tests.unit.sqs.test_source import source_of

DEAD_ARN = "arn:aws:sqs:eu-west-1:123456789012:orders-dead"


def queue_with(**policy: Any) -> FakeSqs:
    api = FakeSqs()
    api.attributes |= {
        "MessageRetentionPeriod": "345600",
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": DEAD_ARN, **policy}),
    }
    return api


@pytest.mark.parametrize(("url", "keeps_age"), [(STANDARD_URL, True), (FIFO_URL, False)])
@pytest.mark.parametrize("count", [5, "5"])
def test_facts_of_a_queue_with_a_dead_letter_queue(url: str, keeps_age: bool, count: object) -> None:
    """The count is a number or its text; on FIFO the retention begins anew with the move."""
    api = queue_with(maxReceiveCount=count)
    source = source_of(api, url=url)

    facts = run_virtual(source.facts())

    assert facts == TopicFacts(
        dead_letters=True, max_receives=5, retention=345_600, dead_letter_retention=345_600, keeps_age=keeps_age
    )
    asked = [(asked_url, request) for action, asked_url, request in api.calls if action == "GetQueueAttributes"]
    assert [names for _, names in asked] == [["RedrivePolicy", "MessageRetentionPeriod"], ["MessageRetentionPeriod"]]
    assert [at for at, _ in asked] == [url, f"{STANDARD_URL}-dead"]


def test_what_start_has_read_is_not_read_again() -> None:
    """One look at the queue where its lease is not given; with `checks="off"`, at its lease alone."""

    async def both(api: FakeSqs, **options: Any) -> list[list[str]]:
        source = source_of(api, **options)
        await source.start()
        if options.get("checks") != "off":
            await source.facts()
        return api.requests("GetQueueAttributes")  # type: ignore[no-any-return]

    first, second = run_virtual(both(queue_with(maxReceiveCount=5)))
    assert (first, second) == (
        ["VisibilityTimeout", "RedrivePolicy", "MessageRetentionPeriod"],
        ["MessageRetentionPeriod"],
    )
    assert run_virtual(both(queue_with(maxReceiveCount=5), checks="off")) == [["VisibilityTimeout"]]


def test_queue_without_a_dead_letter_queue() -> None:
    """It is known that it has none."""
    api = FakeSqs()
    api.attributes["MessageRetentionPeriod"] = "60"

    assert run_virtual(source_of(api).facts()) == TopicFacts(dead_letters=False, retention=60)


@pytest.mark.parametrize("code", ["AccessDeniedException", "QueueDoesNotExist"])
def test_dead_letter_queue_that_may_not_be_read_has_no_known_retention(code: str) -> None:
    """Another account's, perhaps: all else is known."""
    api = queue_with(maxReceiveCount=5)

    async def main() -> TopicFacts:
        source = source_of(api)
        await source.start()
        api.answer("GetQueueAttributes", failing(code))
        return await source.facts()

    facts = run_virtual(main())
    assert (facts.dead_letters, facts.max_receives, facts.dead_letter_retention) == (True, 5, None)


def test_queue_that_may_not_be_read_has_no_known_facts() -> None:
    """`start()` goes on without, and nothing is doubtful in what is not known."""
    api = FakeSqs()
    api.answer("GetQueueAttributes", failing("AccessDeniedException"))

    async def main() -> TopicFacts:
        source = source_of(api)
        await source.start()
        return await source.facts()

    assert run_virtual(main()) == TopicFacts()


@pytest.mark.parametrize("policy", ["{", "[]", "{}", '{"deadLetterTargetArn": 7}', '{"maxReceiveCount": null}'])
def test_policy_that_cannot_be_read_is_one_all_the_same(policy: str) -> None:
    """Nobody else's JSON ends a consumer."""
    api = FakeSqs()
    api.attributes |= {"MessageRetentionPeriod": "60", "RedrivePolicy": policy}

    facts = run_virtual(source_of(api).facts())

    assert (facts.dead_letters, facts.max_receives, facts.dead_letter_retention) == (True, None, None)


def test_source_that_fetches_bodies_tells_the_same() -> None:
    """What stands before the queue's own source hands it on."""
    source = FetchingSource(
        source_of(queue_with(maxReceiveCount=5)), FakeS3(), S3Payloads(bucket="bodies"), STANDARD_URL
    )

    assert isinstance(source, CheckedSource)
    assert run_virtual(source.facts()).max_receives == 5
