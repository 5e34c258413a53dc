"""A stand-in for the service: it records every request and answers what it was told; it is no queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from messagequeue_sqs._api import BatchAnswer, HandleEntry, ReceivedMessage, ReceiveRequest, SendEntry
from messagequeue_sqs._faults import CallError, fault_of_code

STANDARD_URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
FIFO_URL = f"{STANDARD_URL}.fifo"


def failing(code: str, status: int = 400, words: str = "") -> CallError:
    """Return what the client raises for an error code of the service."""
    return CallError(f"call failed: {code}: {words}", fault=fault_of_code(code, status), name=code)


def failed(entry_id: str, code: str, *, sender_fault: bool, words: str = "") -> Any:
    return {"Id": entry_id, "Code": code, "Message": words, "SenderFault": sender_fault}


class FakeSqs:
    """
    An `SqsApi`.  `calls` holds (action, queue URL, request) in order.

    Answers are taken from `answers[action]`, a queue of answers and exceptions; with none left, everything succeeds.
    """

    endpoint = "https://fake.example"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers: dict[str, deque[Any]] = {}
        self.attributes: dict[str, str] = {"VisibilityTimeout": "30"}

    def answer(self, action: str, *answers: Any) -> None:
        self.answers.setdefault(action, deque()).extend(answers)

    def requests(self, action: str) -> list[Any]:
        return [request for name, _, request in self.calls if name == action]

    def _next(self, action: str, url: str, request: Any, default: Any) -> Any:
        self.calls.append((action, url, request))
        waiting = self.answers.get(action)
        answer = waiting.popleft() if waiting else default
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def send_message_batch(self, queue_url: str, entries: Sequence[SendEntry], /) -> BatchAnswer:
        stored = {"Successful": [{"Id": entry["Id"], "MessageId": f"id-{entry['Id']}"} for entry in entries]}
        return self._next("SendMessageBatch", queue_url, list(entries), stored)  # type: ignore[no-any-return]

    async def receive_message(self, request: ReceiveRequest, /) -> Sequence[ReceivedMessage]:
        return self._next("ReceiveMessage", request["QueueUrl"], request, ())  # type: ignore[no-any-return]

    async def delete_message_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        return self._handles("DeleteMessageBatch", queue_url, entries)

    async def change_message_visibility_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        return self._handles("ChangeMessageVisibilityBatch", queue_url, entries)

    def _handles(self, action: str, queue_url: str, entries: Sequence[HandleEntry]) -> BatchAnswer:
        done = {"Successful": [{"Id": entry["Id"]} for entry in entries]}
        return self._next(action, queue_url, list(entries), done)  # type: ignore[no-any-return]

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]:
        known = {name: self.attributes[name] for name in names if name in self.attributes}
        return self._next("GetQueueAttributes", queue_url, list(names), known)  # type: ignore[no-any-return]
