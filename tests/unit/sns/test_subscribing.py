"""Subscribing: the policy keeps what others wrote, and doing it again changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from messagequeue import ConfigurationError, ErrorCode, MessageQueueError
from messagequeue.testing import run_virtual
from messagequeue_sqs._queue import parse_topic
from messagequeue_sqs.sns import Subscription, subscribe
from messagequeue_sqs.sns._policy import merged_policy
from messagequeue_sqs.sns._subscribing import subscribed, unsubscribed, wanted_attributes
from messagequeue_sqs.sns._topic import parse_topic_arn
from tests.unit.sns.fake_sns import FIFO_TOPIC, QUEUE_ARN, QUEUE_URL, TOPIC, FakeQueues, FakeSns
from tests.unit.sqs.fake_sqs import FIFO_URL, STANDARD_URL, failing

OTHER = {
    "Sid": "theirs",
    "Effect": "Deny",
    "Principal": "*",
    "Action": "sqs:*",
    "Resource": QUEUE_ARN,
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def run(
    sns: FakeSns, queues: FakeQueues, policy: Any = None, scope: Any = "attributes", *, raw: bool = True
) -> Subscription:
    wanted = wanted_attributes(policy, scope, raw=raw)
    return run_virtual(subscribed(sns, queues, parse_topic(QUEUE_URL), parse_topic_arn(TOPIC), wanted))


# -- policy ------------------------------------------------------------------------------------------------------


def merged(policy: Any, topic: str = TOPIC) -> Any:
    text = policy if isinstance(policy, str | None) else json.dumps(policy)
    made = merged_policy(text, queue_arn=QUEUE_ARN, topic_arn=topic)
    return None if made is None else json.loads(made)


def test_policy_allows_the_topic_and_nobody_else() -> None:
    """SNS may send to this queue, from this topic."""
    [statement] = merged(None)["Statement"]

    assert statement.pop("Sid").isalnum()
    assert statement == {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": QUEUE_ARN,
        "Condition": {"ArnEquals": {"aws:SourceArn": TOPIC}},
    }


@pytest.mark.parametrize("others", [[OTHER], OTHER], ids=["list", "alone"])
def test_other_statements_stay_as_they_are(others: Any) -> None:
    """Whoever wrote them; also the one of another topic, and what the policy calls itself."""
    first = merged({"Version": "2008-10-17", "Id": "theirs", "Statement": others})
    second = merged(first, topic=FIFO_TOPIC)

    assert (second["Version"], second["Id"]) == ("2008-10-17", "theirs")
    assert second["Statement"][0] == OTHER
    assert second["Statement"][1] == first["Statement"][1]
    assert len(second["Statement"]) == 3


def test_policy_that_allows_it_already_is_left_alone() -> None:
    """One of our own, or one that says the same in other words."""
    ours = merged({"Statement": [OTHER]})
    same = json.loads(json.dumps(ours))
    statement = same["Statement"][1]
    statement |= {"Sid": "handmade", "Action": ["SQS:SendMessage"], "Resource": [QUEUE_ARN]}
    statement["Condition"]["ArnEquals"]["aws:SourceArn"] = [TOPIC]

    assert merged(ours) is None
    assert merged(same) is None


def test_statement_of_ours_that_was_changed_is_mended() -> None:
    """It is known by its name; nothing else is touched."""
    policy = merged({"Statement": [OTHER]})
    policy["Statement"][1]["Effect"] = "Deny"
    mended = merged(policy)

    assert [statement["Effect"] for statement in mended["Statement"]] == ["Deny", "Allow"]
    assert len(mended["Statement"]) == 2


@pytest.mark.parametrize("policy", ["not JSON", "[]", "1"])
def test_policy_that_cannot_be_read_is_not_replaced(policy: str) -> None:
    """What it says would be lost."""
    with pytest.raises(ConfigurationError, match="left alone"):
        merged(policy)


# -- subscription -------------------------------------------------------------------------------------------------


def test_queue_is_allowed_before_it_is_subscribed_with_its_attributes() -> None:
    """Nothing is delivered to a queue that refuses it."""
    sns, queues = FakeSns(), FakeQueues(Policy=json.dumps({"Statement": [OTHER]}))
    subscription = run(sns, queues, {"kind": ["order"]})

    assert subscription == Subscription(f"{TOPIC}:1")
    assert json.loads(queues.attributes["Policy"])["Statement"][0] == OTHER
    assert sns.subscription == {
        "RawMessageDelivery": "true",
        "FilterPolicy": '{"kind": ["order"]}',
        "FilterPolicyScope": "MessageAttributes",
    }


@pytest.mark.parametrize("policy", [None, {"kind": ["order"]}])
def test_doing_it_again_changes_nothing(policy: Mapping[str, Any] | None) -> None:
    """Neither the policy nor the subscription."""
    sns, queues = FakeSns(), FakeQueues()
    first = run(sns, queues, policy)
    before, sns.calls = dict(sns.subscription or {}), []

    assert run(sns, queues, policy) == first
    assert sns.subscription == before
    assert "SetSubscriptionAttributes" not in sns.names()
    assert len(queues.written) == 1


def attributes(policy: Any = None, scope: str = "MessageAttributes", raw: str = "true") -> dict[str, str]:
    made = {"RawMessageDelivery": raw}
    return made if policy is None else made | {"FilterPolicy": json.dumps(policy), "FilterPolicyScope": scope}


@pytest.mark.parametrize(
    ("there", "wanted", "calls"),
    [
        (attributes(raw="false"), (None, "attributes"), [("RawMessageDelivery", "true")]),
        (attributes({"a": [1]}), (None, "attributes"), [("FilterPolicy", "{}")]),
        (attributes({"a": [1]}), ({"a": [2]}, "attributes"), [("FilterPolicy", '{"a": [2]}')]),
        (
            attributes({"a": {"b": [1]}}, "MessageBody"),
            ({"a": [2]}, "attributes"),
            [("FilterPolicy", "{}"), ("FilterPolicyScope", "MessageAttributes"), ("FilterPolicy", '{"a": [2]}')],
        ),
        (attributes(), ({"a": [1]}, "body"), [("FilterPolicyScope", "MessageBody"), ("FilterPolicy", '{"a": [1]}')]),
        (attributes({"a": [1], "b": [2]}), ({"b": [2], "a": [1]}, "attributes"), []),
        ({"FilterPolicy": "{}"}, (None, "attributes"), [("RawMessageDelivery", "true")]),
    ],
)
def test_subscription_becomes_what_is_asked(there: dict[str, str], wanted: Any, calls: list[Any]) -> None:
    """With what has to be set and nothing else; an old filter is taken off before its scope changes."""
    sns = FakeSns(there)
    run(sns, FakeQueues(), *wanted)

    assert [request for name, request in sns.calls if name == "SetSubscriptionAttributes"] == calls


def test_dead_letter_queue_is_set_where_it_is_given_and_differs() -> None:
    """With the call that subscribes, or afterwards; without one the present one stays."""
    sns, dead = FakeSns(), f"{QUEUE_ARN}-dead"
    policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead})}

    def again(**options: Any) -> None:
        wanted = wanted_attributes(None, "attributes", raw=True, **options)
        run_virtual(subscribed(sns, FakeQueues(), parse_topic(QUEUE_URL), parse_topic_arn(TOPIC), wanted))

    again(dead_letter_queue=dead)
    assert sns.subscription == {"RawMessageDelivery": "true"} | policy
    sns.subscription["RedrivePolicy"] = f'{{"deadLetterTargetArn":"{dead}"}}'
    again(dead_letter_queue=dead)
    again()
    assert "SetSubscriptionAttributes" not in sns.names()
    again(dead_letter_queue=f"{dead}-2")
    assert json.loads(sns.subscription["RedrivePolicy"]) == {"deadLetterTargetArn": f"{dead}-2"}


def test_unsubscribing_takes_out_the_one_statement_and_the_subscription() -> None:
    """Whoever wrote the others keeps them; of a policy of ours alone nothing is left; again is no change."""
    where, source = parse_topic(QUEUE_URL), parse_topic_arn(TOPIC)
    sns, queues = FakeSns(), FakeQueues(Policy=json.dumps({"Version": "2012-10-17", "Statement": [OTHER]}))
    run(sns, queues)

    assert run_virtual(unsubscribed(sns, queues, where, source)) is True
    assert json.loads(queues.attributes["Policy"]) == {"Version": "2012-10-17", "Statement": [OTHER]}
    assert run_virtual(unsubscribed(sns, queues, where, source)) is False
    assert (len(queues.written), sns.names().count("Unsubscribe")) == (2, 1)
    alone = FakeQueues()
    run(FakeSns(), alone)
    run_virtual(unsubscribed(FakeSns(), alone, where, source))
    assert alone.attributes["Policy"] == ""


def test_unsubscribing_leaves_a_policy_that_cannot_be_read() -> None:
    """The subscription goes all the same."""
    sns, queues = FakeSns({"RawMessageDelivery": "true"}), FakeQueues(Policy="not JSON")
    with pytest.raises(ConfigurationError, match="left alone"):
        run_virtual(unsubscribed(sns, queues, parse_topic(QUEUE_URL), parse_topic_arn(TOPIC)))

    assert (queues.written, sns.subscription) == ([], None)


def test_subscription_that_waits_for_its_owner_is_told() -> None:
    """Another account's queue has to confirm; until then there is nothing to set."""
    sns = FakeSns(pending=True)

    assert run(sns, FakeQueues()) == Subscription(f"{TOPIC}:1", pending=True)


def test_refusal_that_is_not_about_another_subscription_is_told() -> None:
    """A filter that SNS does not take: nothing is there that could be changed."""
    sns = FakeSns()

    async def refuse(*_: object) -> str:
        raise failing("InvalidParameter", 400, "FilterPolicy: bad")

    sns.subscribe = refuse  # type: ignore[assignment, method-assign]
    with pytest.raises(MessageQueueError, match="FilterPolicy: bad") as raised:
        run(sns, FakeQueues(), {"a": ["b"]})
    assert raised.value.code is ErrorCode.INVALID


def test_queue_with_a_key_that_sns_cannot_use_is_refused() -> None:
    """Its messages would never arrive, without a word."""
    sns, queues = FakeSns(), FakeQueues(KmsMasterKeyId="alias/aws/sqs")
    with pytest.raises(ConfigurationError, match="alias/aws/sqs"):
        run(sns, queues)

    assert queues.written == []
    assert sns.calls == []


@pytest.mark.parametrize(
    ("queue", "topic", "options"),
    [
        (FIFO_URL, TOPIC, {}),
        ("orders", TOPIC, {}),
        (STANDARD_URL, "uploads", {}),
        (STANDARD_URL, TOPIC, {"filter": {}}),
        (STANDARD_URL, TOPIC, {"dead_letter_queue": STANDARD_URL}),
        (STANDARD_URL, TOPIC, {"filter": {"a": {1, 2}}}),
        (STANDARD_URL, TOPIC, {"filter": {"a": ["b"]}, "filter_scope": "subject"}),
    ],
)
def test_what_cannot_go_together_is_refused_without_a_call(queue: str, topic: str, options: Any) -> None:
    """A FIFO queue at a standard topic, names that are none, filters that are none."""
    with pytest.raises(ConfigurationError):
        run_virtual(subscribe(queue, topic, **options))
