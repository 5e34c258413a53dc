"""
An HTTP server that speaks SQS's JSON protocol and misbehaves on request, in-process on 127.0.0.1.

    async with FaultStub() as stub:
        stub.script("ReceiveMessage", status(500), status(503), reset(), EMPTY)   # the next four calls, one each
        stub.always("SendMessageBatch", denied())                                 # until `stub.relent()`
        ...  # a client with endpoint_url=stub.endpoint and queue stub.queue_url
        assert stub.count("DeleteMessageBatch") == 1

It answers every other call from a real, tiny queue (`stub.queue`).  One instance, one loop, one queue.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from tests.support.stub_queue import Json, StubError, StubQueue

JSON_TYPE = "application/x-amz-json-1.0"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as it goes out."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        headers = {"Content-Type": JSON_TYPE, **self.headers, "Content-Length": str(len(self.body))}
        lines = [f"HTTP/1.1 {self.status} Stub", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


@dataclass(frozen=True, slots=True)
class Fault:
    """
    What happens to one call.

    Attributes:
        commit: The queue sees the call, whatever the client is told.
        answer: Sent instead of the queue's answer.
        edit: Changes the queue's answer.
        then: What becomes of the connection: `keep`; `close` after the answer, without a word; `reset` in place of the
            answer; `cut` in the middle of it; `hang`: no answer, ever.
    """

    commit: bool = False
    answer: Answer | None = None
    edit: Callable[[Json], Json] | None = None
    then: Literal["keep", "close", "reset", "cut", "hang"] = "keep"


def status(code: int, body: str = "<html><body>Service Unavailable</body></html>") -> Fault:
    """Answer with a status and a body that SQS did not write (a load balancer's page, by default)."""
    return Fault(answer=Answer(code, body.encode(), {"Content-Type": "text/html"}))


def sqs_error(code: str, *, http_status: int = 400, query_code: str = "", message: str = "") -> Fault:
    """Answer with an error of SQS's own."""
    return Fault(answer=error_answer(StubError(code, message, status=http_status, query_code=query_code)))


def denied() -> Fault:
    return sqs_error("AccessDeniedException", http_status=403, query_code="AccessDenied", message="not authorized")


def expired_token() -> Fault:
    return sqs_error("ExpiredTokenException", http_status=403, query_code="ExpiredToken", message="token expired")


def throttled() -> Fault:
    return sqs_error("RequestThrottled", message="slow down")


def no_queue() -> Fault:
    return sqs_error(
        "QueueDoesNotExist",
        query_code="AWS.SimpleQueueService.NonExistentQueue",
        message="The specified queue does not exist.",
    )


def reset(*, commit: bool = False) -> Fault:
    """Reset the connection instead of answering; *commit*: after the queue has done what was asked."""
    return Fault(commit=commit, then="reset")


def cut(*, commit: bool = True) -> Fault:
    """Reset the connection in the middle of the answer's body."""
    return Fault(commit=commit, then="cut")


def edited(edit: Callable[[Json], Json]) -> Fault:
    """Do what was asked, and answer something else."""
    return Fault(commit=True, edit=edit)


HTML = status(200, "<html><body>Welcome to the proxy</body></html>")
EMPTY = Fault(answer=Answer(200, b""))
#: No answer: the client has to run into its own timeout.  The queue does not see the call.
SILENCE = Fault(then="hang")
#: A good answer, after which the connection is closed without notice.
CLOSE = Fault(commit=True, then="close")


def error_answer(error: StubError) -> Answer:
    body = {"__type": f"com.amazonaws.sqs#{error.code}", "message": error.message}
    fault = "Sender" if error.status < 500 else "Receiver"
    return Answer(error.status, json.dumps(body).encode(), {"x-amzn-query-error": f"{error.query_code};{fault}"})


@dataclass(frozen=True, slots=True)
class Request:
    """A call as it arrived.  `region` and `access_key` are those it was signed with; "" where it was not."""

    action: str
    payload: Json
    headers: Mapping[str, str]
    access_key: str
    region: str
    at: float


class FaultStub:
    """The server; see the module's docstring.  `requests` has every call, in the order they arrived."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.outstanding: dict[str, int] = {}
        self.most_outstanding: dict[str, int] = {}
        self.refuse: Callable[[Request], Fault | None] = lambda _request: None
        self._scripts: dict[str, deque[Fault]] = {}
        self._always: dict[str, Fault] = {}
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        self.queue = StubQueue()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.endpoint = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        handlers = list(self._connections.values())
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await self._server.wait_closed()

    queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"

    # -- scripting

    def script(self, action: str, *faults: Fault) -> None:
        """Let the next calls of *action* meet *faults*, one each; the calls after them succeed."""
        self._scripts.setdefault(action, deque()).extend(faults)

    def always(self, action: str, fault: Fault) -> None:
        """Let every call of *action* (`*`: of any) meet *fault*, until `relent()`; scripted ones come first."""
        self._always[action] = fault

    def relent(self) -> None:
        """Answer every call from now on, whatever was scripted."""
        self._scripts.clear()
        self._always.clear()

    def allow_only(self, *actions: str) -> None:
        """Answer AccessDenied to every other action."""
        self.refuse = lambda request: None if request.action in actions else denied()

    def unused(self) -> int:
        """Return how many scripted faults no call has met yet."""
        return sum(map(len, self._scripts.values()))

    def close_idle_connections(self) -> None:
        """Close every connection, as SQS does with idle ones."""
        for writer in self._connections:
            writer.close()

    def count(self, *actions: str) -> int:
        """Return how many calls of *actions* arrived, failed ones included."""
        return sum(request.action in actions for request in self.requests)

    # -- serving

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[writer] = task
        try:
            while (request := await _read(reader)) is not None:
                if not await self._serve(request, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass  # only __aexit__ cancels; Python 3.11 logs a cancelled connection handler as an error
        finally:
            del self._connections[writer]
            writer.transport.abort()

    async def _serve(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one call; return whether the connection goes on."""
        self.requests.append(request)
        fault = self._fault(request)
        self._enter(request.action)
        try:
            answer = await self._answer(request, fault, reader)
        finally:
            self.outstanding[request.action] -= 1
        if answer is None or fault.then == "reset":
            return False
        data = answer.encode()
        writer.write(data[: len(data) - len(answer.body) // 2 - 1] if fault.then == "cut" else data)
        await writer.drain()
        if fault.then == "close":
            writer.close()
        return fault.then == "keep"

    def _fault(self, request: Request) -> Fault:
        refused = self.refuse(request)
        if refused is not None:
            return refused
        script = self._scripts.get(request.action)
        if script:
            return script.popleft()
        return self._always.get(request.action) or self._always.get("*") or Fault(commit=True)

    def _enter(self, action: str) -> None:
        now = self.outstanding[action] = self.outstanding.get(action, 0) + 1
        self.most_outstanding[action] = max(now, self.most_outstanding.get(action, 0))

    async def _answer(self, request: Request, fault: Fault, reader: asyncio.StreamReader) -> Answer | None:
        """
        Return what goes out; None for nothing.

        A receive whose client has gone away meanwhile takes its message all the same, as it does at SQS.
        """
        real = await self._call(request, fault) if fault.commit else None
        if fault.then == "hang":
            await reader.read()  # until the client gives up
            return None
        return fault.answer or real

    async def _call(self, request: Request, fault: Fault) -> Answer:
        try:
            answer = await self.queue.call(request.action, request.payload)
        except StubError as error:
            return error_answer(error)
        return Answer(200, json.dumps(fault.edit(answer) if fault.edit else answer).encode())


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """Read one call; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")[1:]
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    access_key, region = _signed_with(headers.get("authorization", ""))
    action = headers.get("x-amz-target", "").removeprefix("AmazonSQS.")
    return Request(action, json.loads(body or b"{}"), headers, access_key, region, asyncio.get_running_loop().time())


def _signed_with(authorization: str) -> tuple[str, str]:
    """Return access key and region of `AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/sqs/aws4_request, ...`."""
    _, _, credential = authorization.partition("Credential=")
    parts = credential.split(",")[0].split("/")
    return (parts[0], parts[2]) if len(parts) == 5 else ("", "")
