"""SQS without a socket: the calls of the provider, answered by this package's own engine, in virtual time as well."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from messagequeue.broker import Broker
from messagequeue_sqs._api import BatchAnswer, HandleEntry, ReceivedMessage, ReceiveRequest, SendEntry
from messagequeue_sqs._faults import CallError, fault_of_code
from messagequeue_sqs.server.engine import Call, Engine, Poll, SqsError

REGION, ACCOUNT, BASE = "us-east-1", "000000000000", "https://sqs.us-east-1.amazonaws.com"
#: Seconds between two looks of a receive that waits.
_LOOK = 0.1
_EPOCH = 1_700_000_000.0


class EngineSqs:
    """An `SqsApi` over a broker of its own, on the clock of the event loop."""

    endpoint = BASE

    def __init__(self) -> None:
        ids = itertools.count(1)
        self.broker = Broker(new_id=lambda: f"id-{next(ids)}")
        self.engine = Engine(self.broker, secret=b"s" * 32, new_id=lambda: f"task-{next(ids)}")

    def now(self) -> float:
        return _EPOCH + asyncio.get_running_loop().time()

    def create(self, name: str, attributes: Mapping[str, str]) -> str:
        """Make a queue and return its URL."""
        self.call("CreateQueue", QueueName=name, Attributes=attributes)
        return f"{BASE}/{ACCOUNT}/{name}"

    def call(self, action: str, **params: Any) -> Any:
        try:
            return self.engine.handle(self.now(), Call(action, params, REGION, BASE)) or {}
        except SqsError as error:
            raise self._failed(action, error) from error

    def _failed(self, action: str, error: SqsError) -> CallError:
        fault = fault_of_code(error.kind.code, error.kind.status)
        return CallError(f"{action} failed: {error.kind.code}: {error}", fault=fault, name=error.kind.code)

    async def send_message_batch(self, queue_url: str, entries: Sequence[SendEntry], /) -> BatchAnswer:
        return cast("BatchAnswer", self.call("SendMessageBatch", QueueUrl=queue_url, Entries=entries))

    async def receive_message(self, request: ReceiveRequest, /) -> Sequence[ReceivedMessage]:
        answer = self.call("ReceiveMessage", **request)
        if isinstance(answer, Poll):
            answer = await self._wait(answer)
        return cast("Sequence[ReceivedMessage]", answer.get("Messages", ()))

    async def _wait(self, poll: Poll) -> Any:
        while (left := poll.until - self.now()) > 0:
            await asyncio.sleep(min(_LOOK, left))
            try:
                found = poll.attempt(self.now())
            except SqsError as error:
                raise self._failed("ReceiveMessage", error) from error
            if found is not None:
                return found
        return poll.nothing

    async def delete_message_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        return cast("BatchAnswer", self.call("DeleteMessageBatch", QueueUrl=queue_url, Entries=entries))

    async def change_message_visibility_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        return cast("BatchAnswer", self.call("ChangeMessageVisibilityBatch", QueueUrl=queue_url, Entries=entries))

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]:
        answer = self.call("GetQueueAttributes", QueueUrl=queue_url, AttributeNames=names)
        return cast("Mapping[str, str]", answer.get("Attributes", {}))
