"""
A tiny standard queue and the SQS actions on it, for the scripted stub; not a model of SQS.

No FIFO, no dead letters, no delay: what the tests of faults need.  It shares no code with the library, MD5s included,
so that the library is not judged by itself.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class StubError(Exception):
    """An error as SQS answers it in the JSON protocol."""

    def __init__(self, code: str, message: str = "", *, status: int = 400, query_code: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.message = message or code
        self.status = status
        self.query_code = query_code or code


@dataclass(slots=True)
class StubMessage:
    """A stored message.  `visible_at` is a time of the running loop."""

    id: str
    body: str
    attributes: Json
    group: str | None
    visible_at: float = 0.0
    receives: int = 0
    handle: str = ""


@dataclass(slots=True)
class StubQueue:
    """
    Messages, and counts of what became of them.

    Attributes:
        visibility_timeout: Seconds; what `GetQueueAttributes` says too.
        messages: By id, in the order they were sent; a deleted one is gone.
        stored: Every body ever stored, in order: a copy that a retry made shows here.
        deleted: Every body deleted, in order.
    """

    visibility_timeout: float = 30.0
    messages: dict[str, StubMessage] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, *bodies: str) -> None:
        """Store messages as if another client had sent them."""
        for body in bodies:
            self._send({"MessageBody": body})

    async def call(self, action: str, request: Json) -> Json:
        """
        Do what *action* asks and return its answer.

        Raises:
            StubError: as SQS would answer it.
        """
        if action == "ReceiveMessage":
            return await self._receive(request)
        single: Mapping[str, Callable[[Json], Json]] = {
            "SendMessage": self._send,
            "DeleteMessage": self._delete,
            "ChangeMessageVisibility": self._change,
            "GetQueueAttributes": self._attributes,
        }
        if action in single:
            return single[action](request)
        if action.endswith("Batch") and action.removesuffix("Batch") in single:
            return self._batch(single[action.removesuffix("Batch")], request["Entries"])
        raise StubError("InvalidAction", f"the stub has no {action}")

    def _batch(self, one: Callable[[Json], Json], entries: list[Json]) -> Json:
        answer: Json = {"Successful": [], "Failed": []}
        for entry in entries:
            try:
                answer["Successful"].append({"Id": entry["Id"], **one(entry)})
            except StubError as error:
                failed = {"Id": entry["Id"], "Code": error.code, "Message": error.message, "SenderFault": True}
                answer["Failed"].append(failed)
        return answer

    def _send(self, request: Json) -> Json:
        attributes = request.get("MessageAttributes", {})
        message = StubMessage(
            f"id-{next(self._numbers)}", request["MessageBody"], attributes, request.get("MessageGroupId")
        )
        self.messages[message.id] = message
        self.stored.append(message.body)
        self._wake()
        answer = {"MessageId": message.id, "MD5OfMessageBody": md5(message.body.encode())}
        return answer | ({"MD5OfMessageAttributes": md5_of_attributes(attributes)} if attributes else {})

    async def _receive(self, request: Json) -> Json:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.get("WaitTimeSeconds", 0)
        while True:
            now = loop.time()
            due = [message for message in self.messages.values() if message.visible_at <= now]
            if due or now >= deadline:
                hold = request.get("VisibilityTimeout", self.visibility_timeout)
                taken = [self._take(message, now + hold) for message in due[: request.get("MaxNumberOfMessages", 1)]]
                return {"Messages": taken} if taken else {}
            wake = min([deadline, *(message.visible_at for message in self.messages.values())])
            await self._wait(wake - now)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _take(self, message: StubMessage, until: float) -> Json:
        message.visible_at = until
        message.receives += 1
        message.handle = f"{message.id}/{message.receives}"
        answer: Json = {
            "MessageId": message.id,
            "ReceiptHandle": message.handle,
            "Body": message.body,
            "MD5OfBody": md5(message.body.encode()),
            "Attributes": {"ApproximateReceiveCount": str(message.receives), "SentTimestamp": "1700000000000"},
        }
        if message.group is not None:
            answer["Attributes"]["MessageGroupId"] = message.group
        if message.attributes:
            answer["MessageAttributes"] = message.attributes
            answer["MD5OfMessageAttributes"] = md5_of_attributes(message.attributes)
        return answer

    def _find(self, handle: str) -> StubMessage | None:
        name, _, receive = handle.partition("/")
        if not receive:
            raise StubError("ReceiptHandleIsInvalid", "the stub never gave out this receipt handle")
        message = self.messages.get(name)
        return message if message is not None and message.handle == handle else None

    def _delete(self, request: Json) -> Json:
        message = self._find(request["ReceiptHandle"])
        if message is not None:
            self.deleted.append(message.body)
            del self.messages[message.id]
        return {}

    def _change(self, request: Json) -> Json:
        message = self._find(request["ReceiptHandle"])
        if message is None:
            raise StubError("InvalidParameterValue", "the message is not in flight any more")
        message.visible_at = asyncio.get_running_loop().time() + request["VisibilityTimeout"]
        self._wake()
        return {}

    def _attributes(self, request: Json) -> Json:
        every = {"VisibilityTimeout": f"{self.visibility_timeout:.0f}", "MaximumMessageSize": "1048576"}
        wanted = request.get("AttributeNames", [])
        return {"Attributes": {name: every[name] for name in every if name in wanted or "All" in wanted}}


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Json) -> str:
    """
    Return the MD5 that SQS answers for message attributes.

    Source: SQS developer guide, "Calculating the MD5 message digest for message attributes": sorted by name; of each
    name, type and value the length in 4 big-endian bytes, then its bytes; before the value 1 for text, 2 for bytes.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        value = attributes[name]
        for text in (name, value["DataType"]):
            digest.update(len(text.encode()).to_bytes(4, "big") + text.encode())
        binary = "BinaryValue" in value
        data = base64.b64decode(value["BinaryValue"]) if binary else value["StringValue"].encode()
        digest.update((b"\x02" if binary else b"\x01") + len(data).to_bytes(4, "big") + data)
    return digest.hexdigest()
