"""Subscribes a queue to a topic, as often as wanted with the same end; what is decided for it is `_policy`'s."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal

from messagequeue import _log_events as events
from messagequeue._errors import ConfigurationError, MessageQueueError

from .._client import Clients
from .._config import SQSConfig
from .._faults import CallError, normal_code
from .._queue import Queue, parse_topic
from ._api import QueueApi, SnsApi
from ._client import open_queues, open_sns
from ._config import SNSConfig
from ._policy import merged_policy
from ._topic import Topic, parse_topic_arn

#: The key that SQS' encryption uses where nobody names another: SNS can be given no right to it.
_MANAGED_KEY = "alias/aws/sqs"
_RAW, _POLICY, _SCOPE = "RawMessageDelivery", "FilterPolicy", "FilterPolicyScope"
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
    wanted = wanted_attributes(filter, filter_scope, raw=raw)
    if where.is_fifo and not source.is_fifo:
        raise ConfigurationError(f"queue {where.url} is FIFO and topic {source.arn} is not: use a FIFO topic")
    sns_clients, sqs_clients = Clients(config.client_options()), Clients(queue_config)
    async with AsyncExitStack() as exits:
        exits.push_async_callback(sns_clients.close)
        exits.push_async_callback(sqs_clients.close)
        sns = await open_sns(sns_clients, config.topic_address, source)
        queues = await open_queues(sqs_clients, queue_config.queue_address, where)
        return await subscribed(sns, queues, where, source, wanted)


def wanted_attributes(
    policy: Mapping[str, Any] | None, scope: Literal["attributes", "body"], *, raw: bool
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
    try:
        policy = json.loads(text)
    except ValueError:
        policy = text
    return (attributes.get(_SCOPE, _SCOPES["attributes"]), policy) if policy else None
