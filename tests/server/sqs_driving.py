"""
The server without its socket, on a clock that a test moves, spoken to in either protocol; and what it answered.

The client here shares no table with the server: what the query protocol calls things is written down a second time.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

from messagequeue.broker import Broker
from messagequeue_sqs.server import ManualClock
from messagequeue_sqs.server._parking import Parking
from messagequeue_sqs.server._service import Commits, Service, ServiceOptions, Waiting
from messagequeue_sqs.server.engine import Engine, EngineOptions
from messagequeue_sqs.server.wire import HttpAnswer, HttpRequest

BASE = "http://sqs.test:9324"
ACCOUNT = "000000000000"
NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
AWS = "AWS.SimpleQueueService."


class Refused(Exception):
    """An error document."""

    def __init__(self, status: int, code: str, message: str, type_: str | None = None, fault: str = "Sender") -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.type = type_
        self.fault = fault


@dataclass
class Pending:
    """A request and, once there is one, its answer: this is the client of the service."""

    gone: bool = False
    was_cut: bool = False
    answer: HttpAnswer | None = None
    waiting: Waiting | None = None
    read: Callable[[HttpAnswer], Any] = lambda answer: answer
    answered_at: float | None = None
    now: Callable[[], float] = lambda: 0.0

    def is_gone(self) -> bool:
        return self.gone

    def deliver(self, answer: HttpAnswer) -> None:
        assert self.answer is None, "answered twice"
        self.answer = answer
        self.answered_at = self.now()

    def cut(self) -> None:
        self.was_cut = True

    @property
    def done(self) -> bool:
        return self.answer is not None

    @property
    def result(self) -> Any:
        assert self.answer is not None, "it still waits"
        return self.read(self.answer)

    def hang_up(self) -> None:
        self.gone = True
        if self.waiting is not None:
            self.waiting.abandon()


@dataclass
class Driven:
    """A server without a socket."""

    options: EngineOptions = field(default_factory=EngineOptions)
    broker: Broker = field(default_factory=lambda: Broker(new_id=counted("00000000-0000-4000-8000-{:012d}")))
    keys: Mapping[str, str] | None = None
    max_polls: int = 1000
    secret: bytes = b"secret"
    commits: Commits | None = None

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.soon: list[Callable[[], None]] = []
        self.start()

    def start(self) -> None:
        """A new process on the same broker."""
        self.engine = Engine(
            self.broker, secret=self.secret, new_id=counted("10000000-0000-4000-8000-{:012d}"), options=self.options
        )
        self.parking = Parking(self.broker, self.engine, self.clock, self.soon.append, self.max_polls)
        self.service = Service(
            self.engine,
            self.parking,
            self.clock,
            ServiceOptions("http://default", self.keys),
            commits=self.commits,
            new_id=counted("20000000-0000-4000-8000-{:012d}"),
        )

    def send(self, request: HttpRequest) -> Pending:
        pending = Pending(now=self.clock.now)
        pending.waiting = self.service.handle(request, pending)
        return pending

    def settle(self) -> None:
        """Let happen what others' changes of the broker call for."""
        while self.soon:
            self.soon.pop(0)()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.settle()

    def post(self, body: bytes | str, target: str | None = None, path: str = "/", **headers: str) -> HttpAnswer:
        """POST a body of JSON as it is."""
        given = {"content-type": "application/x-amz-json-1.0", "host": "sqs.test:9324", **headers}
        if target is not None:
            given["x-amz-target"] = target
        pending = self.send(HttpRequest("POST", path, "", given, body.encode() if isinstance(body, str) else body))
        assert pending.answer is not None
        return pending.answer

    def get(self, path: str, query: str = "", **headers: str) -> HttpAnswer:
        pending = self.send(HttpRequest("GET", path, query, {"host": "sqs.test:9324", **headers}, b""))
        assert pending.answer is not None
        return pending.answer

    def form(self, path: str = "/", query: str = "", **params: str) -> HttpAnswer:
        """POST a form as it is."""
        headers = {"content-type": "application/x-www-form-urlencoded", "host": "sqs.test:9324"}
        pending = self.send(HttpRequest("POST", path, query, headers, urlencode(params).encode()))
        assert pending.answer is not None
        return pending.answer


def counted(form: str) -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: form.format(next(numbers))


def signed_for(region: str | None) -> dict[str, str]:
    if region is None:
        return {}
    credential = f"Credential=AKIDEXAMPLE/20260131/{region}/sqs/aws4_request"
    return {"authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature={'0' * 64}"}


class Client:
    """Calls actions in one protocol."""

    protocol = ""

    def __init__(self, server: Driven, region: str | None = None) -> None:
        self.server = server
        self.region = region

    def start(self, action: str, /, *, headers: Mapping[str, str] | None = None, **params: Any) -> Pending:
        """Make a request that may wait."""
        request = self._request(action, params)
        all_headers = {**request.headers, "host": "sqs.test:9324", **signed_for(self.region), **(headers or {})}
        pending = self.server.send(HttpRequest(request.method, request.path, request.query, all_headers, request.body))
        pending.read = lambda answer: self._read(action, answer)
        return pending

    def __call__(self, action: str, /, **params: Any) -> dict[str, Any]:
        """Make a request that does not wait, and return the members of its answer.  Raises `Refused`."""
        result: dict[str, Any] = self.start(action, **params).result
        return result

    def _request(self, action: str, params: Mapping[str, Any]) -> HttpRequest:
        raise NotImplementedError

    def _read(self, action: str, answer: HttpAnswer) -> dict[str, Any]:
        raise NotImplementedError

    # --- what most tests need

    def create(self, name: str = "q", tags: Mapping[str, str] | None = None, **attributes: object) -> str:
        if name.endswith(".fifo"):
            attributes = {"FifoQueue": "true", **attributes}
        given = {key: str(value) for key, value in attributes.items()}
        extra = {"tags": tags} if tags else {}
        url: str = self("CreateQueue", QueueName=name, Attributes=given, **extra)["QueueUrl"]
        return url

    def send(self, url: str, body: str = "hello", **params: Any) -> dict[str, Any]:
        return self("SendMessage", QueueUrl=url, MessageBody=body, **params)

    def receive(self, url: str, most: int = 10, **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=most, **params).get(
            "Messages", []
        )
        return found

    def bodies(self, url: str, most: int = 10, **params: Any) -> list[str]:
        return [message["Body"] for message in self.receive(url, most, **params)]

    def delete(self, url: str, handle: str) -> None:
        self("DeleteMessage", QueueUrl=url, ReceiptHandle=handle)

    def change(self, url: str, handle: str, timeout: int) -> None:
        self("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=timeout)

    def attributes(self, url: str, *names: str) -> dict[str, str]:
        found: dict[str, str] = self("GetQueueAttributes", QueueUrl=url, AttributeNames=list(names) or ["All"]).get(
            "Attributes", {}
        )
        return found

    def set(self, url: str, **attributes: object) -> None:
        given = {key: str(value) for key, value in attributes.items()}
        self("SetQueueAttributes", QueueUrl=url, Attributes=given)

    def counts(self, url: str) -> tuple[int, int, int]:
        """Visible, in flight, delayed."""
        found = self.attributes(url)
        name = "ApproximateNumberOfMessages"
        return int(found[name]), int(found[f"{name}NotVisible"]), int(found[f"{name}Delayed"])

    def arn(self, url: str) -> str:
        return self.attributes(url, "QueueArn")["QueueArn"]

    def redrive(self, url: str, target: str, most: int = 1) -> None:
        self.set(url, RedrivePolicy=json.dumps({"deadLetterTargetArn": self.arn(target), "maxReceiveCount": most}))


def binary(value: Any) -> Any:
    """Bytes as they travel in either protocol."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: binary(item) for key, item in value.items()}
    return [binary(item) for item in value] if isinstance(value, list) else value


class JsonClient(Client):
    protocol = "json"

    def _request(self, action: str, params: Mapping[str, Any]) -> HttpRequest:
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"AmazonSQS.{action}"}
        return HttpRequest("POST", "/", "", headers, json.dumps(binary(params)).encode())

    def _read(self, action: str, answer: HttpAnswer) -> dict[str, Any]:
        document = json.loads(answer.body) if answer.body else {}
        if answer.status == 200:
            return _decoded(document)
        code, fault = dict(answer.headers)["x-amzn-query-error"].split(";")
        raise Refused(answer.status, code, document["message"], document["__type"], fault)


def _decoded(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            key: base64.b64decode(value) if key == "BinaryValue" else _decoded(value) for key, value in document.items()
        }
    return [_decoded(item) for item in document] if isinstance(document, list) else document


#: What the query protocol calls lists and maps.  Source: SQS API Reference, 2012-11-05, examples.
FLAT = {
    "AttributeNames": "AttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "TagKeys": "TagKey",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "Attributes": "Attribute",
    "Tags": "Tag",
    "tags": "Tag",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributes": "MessageSystemAttribute",
}
NUMBERS = {
    "ApproximateNumberOfMessagesMoved",
    "ApproximateNumberOfMessagesToMove",
    "StartedTimestamp",
    "MaxNumberOfMessagesPerSecond",
}
MAPS = {"Attribute": "Attributes", "MessageAttribute": "MessageAttributes", "Tag": "Tags"}
LISTS = {
    "Message": "Messages",
    "BatchResultErrorEntry": "Failed",
    "SendMessageBatchResultEntry": "Successful",
    "DeleteMessageBatchResultEntry": "Successful",
    "ChangeMessageVisibilityBatchResultEntry": "Successful",
    "ListMessageMoveTasksResultEntry": "Results",
}


def flattened(action: str, params: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Return *params* as the parameters of the query protocol."""
    flat: dict[str, str] = {}
    for name, value in params.items():
        if name == "Entries":
            for number, entry in enumerate(value, 1):
                flat |= flattened(action, entry, f"{action}RequestEntry.{number}.")
        elif isinstance(value, Mapping):
            key = "Key" if FLAT[name] == "Tag" else "Name"
            for number, (word, item) in enumerate(value.items(), 1):
                flat[f"{before}{FLAT[name]}.{number}.{key}"] = word
                flat |= _valued(f"{before}{FLAT[name]}.{number}.Value", item)
        elif isinstance(value, list):
            flat |= {f"{before}{FLAT[name]}.{number}": str(item) for number, item in enumerate(value, 1)}
        else:
            flat[before + name] = str(value)
    return flat


def _valued(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {name: value}
    flat = {}
    for part, item in value.items():
        if isinstance(item, list):
            flat |= {f"{name}.{part[:-1]}.{number}": binary(each) for number, each in enumerate(item, 1)}
        else:
            flat[f"{name}.{part}"] = binary(item)
    return flat


class QueryClient(Client):
    protocol = "query"

    def _request(self, action: str, params: Mapping[str, Any]) -> HttpRequest:
        form = urlencode({"Action": action, "Version": "2012-11-05", **flattened(action, params)})
        return HttpRequest("POST", "/", "", {"content-type": "application/x-www-form-urlencoded"}, form.encode())

    def _read(self, action: str, answer: HttpAnswer) -> dict[str, Any]:
        root = ElementTree.fromstring(answer.body)
        if answer.status != 200:
            error = root.find(f"{NAMESPACE}Error")
            assert error is not None
            fault, code, message = (error.findtext(f"{NAMESPACE}{name}") or "" for name in ("Type", "Code", "Message"))
            raise Refused(answer.status, code, message, None, fault)
        assert root.tag == f"{NAMESPACE}{action}Response"
        result = root.find(f"{NAMESPACE}{action}Result")
        return {} if result is None else members(result, action)


def members(element: ElementTree.Element, action: str = "") -> dict[str, Any]:
    """Return the members that an element of an answer stands for."""
    found: dict[str, Any] = {}
    for child in element:
        tag = child.tag.removeprefix(NAMESPACE)
        if tag in MAPS:
            key, value = child
            found.setdefault(MAPS[tag], {})[key.text or ""] = members(value) if len(value) else value.text or ""
        elif tag in LISTS:
            found.setdefault(LISTS[tag], []).append(members(child))
        elif tag == "QueueUrl" and action in ("ListQueues", "ListDeadLetterSourceQueues"):
            found.setdefault("QueueUrls" if action == "ListQueues" else "queueUrls", []).append(child.text)
        elif tag == "BinaryValue":
            found[tag] = base64.b64decode(child.text or "")
        elif tag in NUMBERS:
            found[tag] = int(child.text or "")
        else:
            text = child.text or ""
            found[tag] = text == "true" if tag == "SenderFault" else text
    return found


CLIENTS: dict[str, type[Client]] = {"json": JsonClient, "query": QueryClient}
