"""The server in a thread of its own, for clients that block."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from messagequeue import ClosedError
from messagequeue_sqs.server import ManualClock, ServerThread, SQSServer
from tests.server.test_command import posted


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with ServerThread(SQSServer(queues={"orders": {}})) as running:
        yield running


def test_thread_serves_code_that_blocks(server: ServerThread) -> None:
    """And shows what the queue has."""
    url = server.queue_url("orders")
    status, _ = posted(server.endpoint_url, "SendMessage", QueueUrl=url, MessageBody="hello")

    assert status == 200
    assert [seen.message.body for seen in server.peek("orders")] == [b"hello"]


def test_thread_does_work_where_the_server_is(server: ServerThread) -> None:
    """What it returns and what it raises comes back."""
    server.call(lambda inner: inner.faults.fail(1))

    assert server.call(lambda _: threading.current_thread().name) == "messagequeue-sqs"
    assert posted(server.endpoint_url, "ListQueues")[0] == 500
    with pytest.raises(LookupError, match="'nowhere'"):
        server.peek("nowhere")


def test_thread_moves_a_clock(server: ServerThread) -> None:
    """A parked receive ends when the test says that it is late."""
    clock = ManualClock()
    with ServerThread(SQSServer(queues={"q": {"VisibilityTimeout": 30}}, clock=clock)) as timed:
        for action, more in (("SendMessage", {"MessageBody": "a"}), ("ReceiveMessage", {})):
            assert posted(timed.endpoint_url, action, QueueUrl=timed.queue_url("q"), **more)[0] == 200
        timed.call(lambda _: clock.advance(30))

        assert [seen.state.value for seen in timed.peek("q")] == ["visible"]


def test_thread_ends_and_can_begin_again() -> None:
    """Nothing of it is left between; what is asked for then is refused with what to do."""
    before = threading.active_count()
    thread = ServerThread()
    thread.stop()
    thread.start()
    thread.start()
    url = thread.endpoint_url
    thread.stop()

    assert threading.active_count() <= before
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/health", timeout=5)
    with pytest.raises(ClosedError, match="with ServerThread"):
        thread.peek("orders")
    with pytest.raises(ClosedError, match="does not run"):
        _ = thread.endpoint_url
    with thread:
        assert urllib.request.urlopen(f"{thread.endpoint_url}/health", timeout=5).status == 200


def test_thread_says_that_the_address_is_taken() -> None:
    """As the server itself does; and no thread is left."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            ServerThread(SQSServer(port=taken.getsockname()[1])).start()
