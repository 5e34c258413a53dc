"""Subscribes a queue to a topic, as often as wanted with the same end; what is decided for it is `_policy`'s."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from messagequeue import _log_events as events
from messagequeue._errors import ConfigurationError, MessageQueueError

from .._client import Clients, require_sdk
from .._config import SQSConfig
from .._faults import CallError, normal_code
from .._queue import Queue, parse_arn, parse_topic
from ._api import QueueApi, SnsApi
from ._client import open_queues, open_sns
from ._config import SNSConfig
from ._policy import merged_policy, reduced_policy
from ._topic import Topic, parse_topic_arn

#: The key that SQS' encryption uses where nobody names another: SNS can be given no right to it.
_MANAGED_KEY = "alias/aws/sqs"
_RAW, _POLICY, _SCOPE, _REDRIVE = "RawMessageDelivery", "FilterPolicy", "FilterPolicyScope", "RedrivePolicy"
#: What is filtered on where nobody says.
_SCOPES = {"attributes": "MessageAttributes", "body": "MessageBody"}
_NO_FILTER = "{}"


@dataclass(frozen=True, slots=True)
class Subscription:
    """
    A queue's subscription to a topic.

    Attributes:
        arn: Its ARN.
        pending: The owner of the queue, which is another account's, has to confirm it; nothing is delivered before.
    """

    arn: str
    pending: bool = False


async def subscribe(
    queue: str,
    topic: str,
    *,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 (as SNS calls it)
    filter_scope: Literal["attributes", "body"] = "attributes",
    raw: bool = True,
    dead_letter_queue: str | None = None,
    config: SNSConfig | None = None,
    queue_config: SQSConfig | None = None,
) -> Subscription:
    """
    Subscribe a queue to a topic, and allow the topic to send to it; both must exist.

    Calling it again changes nothing; with other arguments, the subscription becomes what they say.  The queue's policy
    gets one statement more, and keeps all others.

    Args:
        queue: The queue's URL.
        topic: The topic's ARN.
        filter: A filter policy: `{"kind": ["order", "refund"]}`; None: everything is delivered.
        filter_scope: Whether the filter is about attributes or about the body, which then must be JSON.
        raw: Deliver what was published as it is; False: in SNS' envelope, with subject and topic.
        dead_letter_queue: The ARN of the queue for what cannot be delivered, whose own policy is not changed here;
            None: as it is.
        config: How to reach SNS.
        queue_config: How to reach SQS.

    Needs `sqs:GetQueueAttributes` and `sqs:SetQueueAttributes` on the queue, and `sns:Subscribe`,
    `sns:ListSubscriptionsByTopic`, `sns:GetSubscriptionAttributes` and `sns:SetSubscriptionAttributes` on the topic.

    Two who change one queue's policy at the same time may undo each other: SQS has no way to tell.

    Raises:
        ConfigurationError: queue and topic do not go together, or the queue's policy or key does not allow it.
        MessageQueueError: a call failed.
    """
    config, queue_config = config or SNSConfig(), queue_config or SQSConfig()
    where, source = parse_topic(queue), parse_topic_arn(topic)
    wanted = wanted_attributes(filter, filter_scope, raw=raw, dead_letter_queue=dead_letter_queue)
    if where.is_fifo and not source.is_fifo:
        raise ConfigurationError(f"queue {where.url} is FIFO and topic {source.arn} is not: use a FIFO topic")
    async with _opened(where, source, config, queue_config) as (sns, queues):
        return await subscribed(sns, queues, where, source, wanted)


async def unsubscribe(
    queue: str, topic: str, *, config: SNSConfig | None = None, queue_config: SQSConfig | None = None
) -> bool:
    """
    Undo `subscribe()`, and return whether the queue was subscribed.

    Of the queue's policy the statement that was added is taken out, and no other.  What SNS had before may still
    arrive, or, with the policy gone, be refused.

    Needs `sqs:GetQueueAttributes` and `sqs:SetQueueAttributes` on the queue, `sns:ListSubscriptionsByTopic` on the
    topic and `sns:Unsubscribe`.

    Raises:
        ConfigurationError: queue or topic is none, or the queue's policy cannot be read.
        MessageQueueError: a call failed; call it again.
    """
    config, queue_config = config or SNSConfig(), queue_config or SQSConfig()
    where, source = parse_topic(queue), parse_topic_arn(topic)
    async with _opened(where, source, config, queue_config) as (sns, queues):
        return await unsubscribed(sns, queues, where, source)


@asynccontextmanager
async def _opened(
    queue: Queue, topic: Topic, config: SNSConfig, queue_config: SQSConfig
) -> AsyncIterator[tuple[SnsApi, QueueApi]]:
    require_sdk("sns")
    sns_clients, sqs_clients = Clients(config.client_options()), Clients(queue_config)
    async with AsyncExitStack() as exits:
        exits.push_async_callback(sns_clients.close)
        exits.push_async_callback(sqs_clients.close)
        sns = await open_sns(sns_clients, config.topic_address, topic)
        yield sns, await open_queues(sqs_clients, queue_config.queue_address, queue)


def wanted_attributes(
    policy: Mapping[str, Any] | None,
    scope: Literal["attributes", "body"],
    *,
    raw: bool,
    dead_letter_queue: str | None = None,
) -> dict[str, str]:
    """Return the attributes that a subscription is to have.  Raises `ConfigurationError` for what cannot be one."""
    if scope not in _SCOPES:
        raise ConfigurationError(f"filter_scope={scope!r}: give one of {', '.join(_SCOPES)}")
    wanted = {_RAW: "true" if raw else "false"}
    if policy is not None:
        if not isinstance(policy, Mapping) or not policy:
            raise ConfigurationError("filter: give a filter policy with a key at least, or None for no filter")
        try:
            wanted |= {_SCOPE: _SCOPES[scope], _POLICY: json.dumps(policy, allow_nan=False)}
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"filter: a filter policy is JSON: {error}") from error
    if dead_letter_queue is not None:
        parse_arn(dead_letter_queue)
        wanted[_REDRIVE] = json.dumps({"deadLetterTargetArn": dead_letter_queue.strip()})
    return wanted


async def subscribed(
    sns: SnsApi, queues: QueueApi, queue: Queue, topic: Topic, wanted: Mapping[str, str]
) -> Subscription:
    """As `subscribe()`, over the calls themselves.  The policy comes first, so that no message is refused."""
    try:
        queue_arn = await _allow(queues, queue, topic)
        arn = await _find_or_make(sns, topic, queue_arn, wanted)
        there = await sns.get_subscription_attributes(arn)
        pending = there.get("PendingConfirmation") == "true"
        for name, value in () if pending else changes(there, wanted):
            await sns.set_subscription_attribute(arn, name, value)
    except CallError as error:
        raise MessageQueueError(str(error), code=error.fault.code, retryable=error.fault.retryable) from error.origin
    return Subscription(arn, pending)


async def unsubscribed(sns: SnsApi, queues: QueueApi, queue: Queue, topic: Topic) -> bool:
    """As `unsubscribe()`, over the calls themselves.  The policy goes last, so that SNS finds no closed door."""
    try:
        there = await queues.get_queue_attributes(queue.url, ["QueueArn", "Policy"])
        queue_arn = there.get("QueueArn", "")
        found = await sns.find_subscription(topic.arn, queue_arn)
        if found is not None:
            await sns.unsubscribe(found)
        policy = reduced_policy(there.get("Policy"), queue_arn=queue_arn, topic_arn=topic.arn)
        if policy is not None:
            await queues.set_queue_attributes(queue.url, {"Policy": policy})
            events.QUEUE_POLICY.log(
                "queue %s: its policy no longer lets %s send to it",
                queue.url,
                topic.arn,
                topic=topic.arn,
                queue=queue.url,
            )
    except CallError as error:
        raise MessageQueueError(str(error), code=error.fault.code, retryable=error.fault.retryable) from error.origin
    return found is not None


async def _allow(queues: QueueApi, queue: Queue, topic: Topic) -> str:
    there = await queues.get_queue_attributes(queue.url, ["QueueArn", "Policy", "KmsMasterKeyId"])
    if there.get("KmsMasterKeyId") == _MANAGED_KEY:
        raise ConfigurationError(
            f"queue {queue.url} is encrypted with {_MANAGED_KEY}, which SNS cannot use: encrypt it with a key of your "
            "own that allows sns.amazonaws.com, or with SQS' own keys (SSE-SQS)"
        )
    arn = there.get("QueueArn", "")
    policy = merged_policy(there.get("Policy"), queue_arn=arn, topic_arn=topic.arn)
    if policy is not None:
        await queues.set_queue_attributes(queue.url, {"Policy": policy})
        events.QUEUE_POLICY.log(
            "queue %s: its policy now lets %s send to it", queue.url, topic.arn, topic=topic.arn, queue=queue.url
        )
    return arn


async def _find_or_make(sns: SnsApi, topic: Topic, queue_arn: str, wanted: Mapping[str, str]) -> str:
    try:
        return await sns.subscribe(topic.arn, queue_arn, wanted)
    except CallError as error:
        # "Subscription already exists with different attributes" has no code of its own.
        if normal_code(error.name) != "InvalidParameter":
            raise
        there = await sns.find_subscription(topic.arn, queue_arn)
        if there is None:
            raise
        return there


def changes(there: Mapping[str, str], wanted: Mapping[str, str]) -> list[tuple[str, str]]:
    """
    Return the attributes of a subscription that have to be set, in this order, for it to become what is wanted.

    A filter that is to be about something else is taken off before: the old one need not fit the new scope.
    """
    todo: list[tuple[str, str]] = []
    if there.get(_RAW, "false") != wanted[_RAW]:
        todo.append((_RAW, wanted[_RAW]))
    if _REDRIVE in wanted and _content(there.get(_REDRIVE, "")) != _content(wanted[_REDRIVE]):
        todo.append((_REDRIVE, wanted[_REDRIVE]))
    return todo + _filter_changes(there, wanted)


def _filter_changes(there: Mapping[str, str], wanted: Mapping[str, str]) -> list[tuple[str, str]]:
    todo: list[tuple[str, str]] = []
    old, new = _filter_of(there), _filter_of(wanted)
    if old == new:
        return todo
    if old is not None and (new is None or old[0] != new[0]):
        todo.append((_POLICY, _NO_FILTER))
    if new is not None:
        if there.get(_SCOPE, _SCOPES["attributes"]) != new[0]:
            todo.append((_SCOPE, new[0]))
        todo.append((_POLICY, wanted[_POLICY]))
    return todo


def _filter_of(attributes: Mapping[str, str]) -> tuple[str, Any] | None:
    """Return scope and content of a filter; None for none."""
    text = attributes.get(_POLICY)
    if not text:
        return None
    policy = _content(text)
    return (attributes.get(_SCOPE, _SCOPES["attributes"]), policy) if policy else None


def _content(text: str) -> Any:
    """Return what *text* says as JSON, so that blanks and order do not count; itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
