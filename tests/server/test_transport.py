"""The server behind its socket: how requests and answers travel, who is served while others wait, how it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from typing import Any

import pytest

from messagequeue import ClosedError, ConfigurationError
from messagequeue.broker import State
from messagequeue_sqs.server import ManualClock, SQSServer, queues_from_toml
from tests.support.realtime import real_time, until


def request(action: str, *, headers: str = "", method: str = "POST", path: str = "/", **params: object) -> bytes:
    body = json.dumps(params).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: sqs.test\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"X-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    )
    return head.encode() + body


class Raw:
    """One connection, and what comes back on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, server: SQSServer) -> Raw:
        host, port = server.endpoint_url.removeprefix("http://").split(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=4_000_000))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        return int(lines[0].split(" ")[1]), headers

    async def answer(self) -> tuple[int, Any]:
        status, headers = await self.head()
        body = await self.reader.readexactly(int(headers["content-length"]))
        is_json = "json" in headers.get("content-type", "")
        return status, json.loads(body) if body and is_json else body

    async def call(self, action: str, **params: object) -> Any:
        self.write(request(action, **params))
        status, body = await self.answer()
        assert status == 200, body
        return body

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()

    def abort(self) -> None:
        """Reset the connection."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


async def with_queue(server: SQSServer) -> tuple[Raw, str]:
    raw = await Raw.to(server)
    await raw.call("CreateQueue", QueueName="q")
    return raw, server.queue_url("q")


@real_time()
async def test_connection_is_kept_and_requests_may_be_pipelined() -> None:
    """Answers come in the order of the requests, also behind one that waits (behaviour 14)."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        raw.write(
            request("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=1)
            + request("SendMessage", QueueUrl=url, MessageBody="1")
            + request("ReceiveMessage", QueueUrl=url)
        )
        answers = [await raw.answer() for _ in range(3)]
        await raw.close()

    assert answers[0] == (200, {})
    assert answers[2][1]["Messages"][0]["Body"] == "1"


@real_time()
async def test_request_may_come_in_pieces() -> None:
    """Byte by byte, after blank lines (behaviour 14)."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        for byte in b"\r\n\r\n" + request("SendMessage", QueueUrl=url, MessageBody="1"):
            raw.write(bytes([byte]))
            await asyncio.sleep(0)
        status, _ = await raw.answer()
        await raw.close()

    assert status == 200


@real_time()
async def test_request_of_a_mebibyte_in_chunks() -> None:
    """With extensions of chunks, and the next request right behind (behaviour 14)."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        body = json.dumps({"QueueUrl": url, "MessageBody": "x" * 1_048_576}).encode()
        head = (
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n\r\n"
        )
        pieces = [body[at : at + 70_000] for at in range(0, len(body), 70_000)]
        chunked = b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        raw.write(head + chunked + request("ReceiveMessage", QueueUrl=url))
        sent, got = await raw.answer(), await raw.answer()
        await raw.close()

    assert sent[0] == 200
    assert got[1]["Messages"][0]["Body"] == "x" * 1_048_576


@real_time()
async def test_client_is_told_to_go_on() -> None:
    """`Expect: 100-continue` (behaviour 14)."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        whole = request("SendMessage", headers="Expect: 100-continue\r\n", QueueUrl=url, MessageBody="1")
        head, _, body = whole.partition(b"\r\n\r\n")
        raw.write(head + b"\r\n\r\n")
        first, _ = await raw.head()
        raw.write(body)
        second, _ = await raw.answer()
        await raw.close()

    assert (first, second) == (100, 200)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413),
        (b"GET /" + b"x" * 40_000, 431),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(data: bytes, status: int) -> None:
    """And the server goes on (behaviour 126)."""

    @real_time()
    async def run() -> None:
        async with SQSServer() as server:
            raw = await Raw.to(server)
            raw.write(data)
            found, _ = await raw.answer()
            rest = await raw.reader.read()
            await raw.close()
            other = await Raw.to(server)
            assert await other.call("ListQueues") == {}
            await other.close()
        assert (found, rest) == (status, b"")

    run()


@real_time()
async def test_connection_is_closed_when_asked_for() -> None:
    """`Connection: close`, and HTTP/1.0."""
    async with SQSServer() as server:
        for data in (request("ListQueues", headers="Connection: close\r\n"), b"GET /health HTTP/1.0\r\n\r\n"):
            raw = await Raw.to(server)
            raw.write(data)
            status, headers = await raw.head()
            await raw.reader.read()
            await raw.close()
            assert (status, headers["connection"]) == (200, "close")


@real_time()
async def test_health_is_answered_without_anything() -> None:
    """GET and HEAD."""
    async with SQSServer() as server:
        raw = await Raw.to(server)
        raw.write(b"HEAD /health HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\n\r\n")
        head_status, head = await raw.head()
        status, body = await raw.answer()
        await raw.close()

    assert (head_status, status, body) == (200, 200, {"status": "ok", "waiting": 0})
    assert int(head["content-length"]) > 0


@real_time()
async def test_polls_of_clients_that_hung_up_take_nothing() -> None:
    """Closed and reset ones; the message goes to the one that is alive (behaviour 83, SRV-07)."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        dead = [await Raw.to(server) for _ in range(50)]
        for one in dead:
            one.write(request("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20))
        await until(lambda: server.waiting == 50)
        for number, one in enumerate(dead):
            one.abort() if number % 2 else one.writer.close()
        await until(lambda: server.waiting == 0)
        live = await Raw.to(server)
        live.write(request("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20, AttributeNames=["All"]))
        await until(lambda: server.waiting == 1)
        await raw.call("SendMessage", QueueUrl=url, MessageBody="it")
        _, got = await live.answer()
        for one in (raw, live):
            await one.close()

    assert got["Messages"][0]["Attributes"]["ApproximateReceiveCount"] == "1"


@real_time()
async def test_client_that_hung_up_a_moment_ago_takes_nothing() -> None:
    """The loop has not heard of it yet, the kernel has (behaviour 83, SRV-07)."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        address = server.endpoint_url.removeprefix("http://").split(":")
        dead = socket.create_connection((address[0], int(address[1])))
        dead.sendall(request("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20))
        await until(lambda: server.waiting == 1)
        # Both before the loop looks again; the send is the first that it hears of.
        raw.writer.get_extra_info("socket")
        raw.write(request("SendMessage", QueueUrl=url, MessageBody="it"))
        dead.close()
        await raw.answer()
        got = await raw.call("ReceiveMessage", QueueUrl=url)
        await raw.close()

    assert [message["Body"] for message in got["Messages"]] == ["it"]


@real_time()
async def test_creations_at_once_make_one_queue() -> None:
    """Twenty clients, one URL, no error (behaviour 30, SRV-18)."""
    async with SQSServer() as server:
        clients = [await Raw.to(server) for _ in range(20)]
        made = await asyncio.gather(*(client.call("CreateQueue", QueueName="q") for client in clients))
        listed = await clients[0].call("ListQueues")
        for client in clients:
            await client.close()

    assert {answer["QueueUrl"] for answer in made} == set(listed["QueueUrls"])
    assert len(listed["QueueUrls"]) == 1


@real_time()
async def test_two_hundred_polls_are_served_by_two_hundred_messages() -> None:
    """None empty, none twice; others are answered meanwhile (behaviours 82 and 125)."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        polls = [await Raw.to(server) for _ in range(200)]
        for one in polls:
            one.write(request("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20))
        await until(lambda: server.waiting == 200)
        before = time.process_time()
        await asyncio.sleep(0.2)
        spent = time.process_time() - before
        for number in range(200):
            await raw.call("SendMessage", QueueUrl=url, MessageBody=str(number))
        answers = await asyncio.gather(*(one.answer() for one in polls))
        for one in (raw, *polls):
            await one.close()

    assert sorted(int(answer["Messages"][0]["Body"]) for _, answer in answers) == list(range(200))
    assert spent < 0.1


@real_time()
async def test_stop_answers_the_polls_that_wait() -> None:
    """At once and empty; the connection is closed, the address free."""
    server = SQSServer()
    async with server:
        raw, url = await with_queue(server)
        raw.write(request("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20))
        await until(lambda: server.waiting == 1)
        started = time.monotonic()
    status, body = await raw.answer()
    rest = await raw.reader.read()
    await raw.close()

    assert (status, body, rest) == (200, {}, b"")
    assert time.monotonic() - started < 5
    await server.stop()
    with pytest.raises(ClosedError):
        _ = server.endpoint_url


@real_time()
async def test_fault_closes_the_connection_after_the_work() -> None:
    """No answer comes, and the message is there."""
    async with SQSServer() as server:
        raw, url = await with_queue(server)
        server.faults.cut(action="SendMessage")
        raw.write(request("SendMessage", QueueUrl=url, MessageBody="x"))
        try:
            rest = await raw.reader.read()
        except ConnectionResetError:
            rest = b""
        await raw.close()

        assert rest == b""
        assert [seen.message.body for seen in server.peek("q")] == [b"x"]


@real_time()
async def test_messages_can_be_seen_without_a_receive() -> None:
    """In every state, from Python and over HTTP."""
    clock = ManualClock()
    async with SQSServer(clock=clock) as server:
        raw, url = await with_queue(server)
        blob = {"blob": {"DataType": "Binary", "BinaryValue": "AAE="}}
        await raw.call("SendMessage", QueueUrl=url, MessageBody="flight", MessageAttributes=blob)
        await raw.call("ReceiveMessage", QueueUrl=url)
        await raw.call("SendMessage", QueueUrl=url, MessageBody="visible")
        await raw.call("SendMessage", QueueUrl=url, MessageBody="delayed", DelaySeconds=9)

        seen = server.peek("q")
        raw.write(b"GET /_messagequeue/peek?queue=q HTTP/1.1\r\n\r\nGET /_messagequeue/peek?queue=r HTTP/1.1\r\n\r\n")
        (status, body), (missing, _) = await raw.answer(), await raw.answer()
        await raw.close()
        with pytest.raises(LookupError, match="there is no queue 'r'"):
            server.peek("r")

    assert [(one.message.body, one.state) for one in seen] == [
        (b"flight", State.IN_FLIGHT),
        (b"visible", State.VISIBLE),
        (b"delayed", State.DELAYED),
    ]
    assert [one.until for one in seen] == [clock.now() + 30, None, clock.now() + 9]
    assert (status, missing) == (200, 404)
    assert [(one["body"], one["state"], one["receives"]) for one in body["messages"]] == [
        ("flight", "in_flight", 1),
        ("visible", "visible", 0),
        ("delayed", "delayed", 0),
    ]
    assert body["messages"][0]["attributes"] == blob


@real_time()
async def test_declared_queues_are_there_from_the_start(tmp_path: Any) -> None:
    """From a file; dead-letter queues in any order."""
    file = tmp_path / "queues.toml"
    file.write_text(
        '[queues.orders]\nVisibilityTimeout = 60\ndead_letters = { queue = "orders-dead", max_receives = 5 }\n'
        'tags = { team = "x" }\n[queues.orders-dead]\n[queues."jobs.fifo"]\nContentBasedDeduplication = true\n'
    )
    async with SQSServer(queues=queues_from_toml(file)) as server:
        raw = await Raw.to(server)
        listed = await raw.call("ListQueues")
        got = await raw.call("GetQueueAttributes", QueueUrl="orders", AttributeNames=["All"])
        tags = await raw.call("ListQueueTags", QueueUrl="orders")
        await raw.close()

    assert [url.rpartition("/")[2] for url in listed["QueueUrls"]] == ["jobs.fifo", "orders", "orders-dead"]
    assert got["Attributes"]["VisibilityTimeout"] == "60"
    assert json.loads(got["Attributes"]["RedrivePolicy"])["maxReceiveCount"] == 5
    assert tags == {"Tags": {"team": "x"}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "queues.toml"),
        ("a = 1", "declares no queues"),
        ("[queues.'a b']", "queue 'a b' cannot be made: Can only include alphanumeric"),
        ("[queues.q]\nNope = 1", "queue 'q' cannot be made: Unknown Attribute Nope."),
        ("[queues.q]\nDelaySeconds = 1.5", "queue 'q': DelaySeconds is 1.5"),
        ("[queues.q]\ndead_letters = 3", "queue 'q': dead_letters"),
        ("[queues]\nq = 3", "queue 'q' is declared as int"),
    ],
)
def test_declarations_that_cannot_be_honoured_are_told(tmp_path: Any, text: str, says: str) -> None:
    """With the name of the queue, before anything listens."""
    file = tmp_path / "queues.toml"
    file.write_text(text)

    @real_time()
    async def run() -> None:
        with pytest.raises(ConfigurationError, match=says.replace("(", r"\(")):
            await SQSServer(queues=queues_from_toml(file)).start()

    run()


@real_time()
async def test_listening_for_everybody_is_told_loudly(caplog: pytest.LogCaptureFixture) -> None:
    """Unless requests have to be signed."""
    caplog.set_level(logging.WARNING, "messagequeue.server")
    async with SQSServer(host="0.0.0.0", keys={"AKID": "s"}) as server:
        assert server.endpoint_url.startswith("http://127.0.0.1:")
    assert not caplog.records
    async with SQSServer(host="0.0.0.0"):
        pass

    assert "without asking for a signature" in caplog.text


@real_time()
async def test_many_messages_do_not_slow_a_queue_down() -> None:
    """The cost of a send does not grow with what is stored (behaviour 125)."""
    clock = ManualClock()
    server = SQSServer(clock=clock, queues={"q": {}})
    async with server:
        raw = await Raw.to(server)
        url = server.queue_url("q")

        async def sends() -> float:
            started = time.process_time()
            for _ in range(200):
                await raw.call("SendMessage", QueueUrl=url, MessageBody="x")
            return time.process_time() - started

        empty = min([await sends() for _ in range(3)])
        queue = server.broker.queue("sqs.q")
        for _ in range(50_000):
            queue.put(clock.now(), b"x")
        full = min([await sends() for _ in range(3)])
        await raw.close()

    assert full < 3 * empty
