"""The clients: endpoint, region, pools and time limits, and answers that are not SQS'.  Nothing leaves the process."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aioboto3
import pytest
from botocore.config import Config as SdkConfig

from messagequeue import ConfigurationError, ErrorCode, MessageQueueError, ProviderNotInstalledError
from messagequeue_sqs import SQSConfig, SQSConsumerProvider, SQSPublisherProvider
from messagequeue_sqs._client import CALL_CONNECTIONS, RECEIVE_CONNECTIONS, BotoApi, Clients, client_config
from messagequeue_sqs._faults import CallError
from messagequeue_sqs._queue import parse_topic

WEST = "https://sqs.us-west-2.amazonaws.com/123456789012/orders"
UNKNOWN = "http://my-sqs.example.com/123456789012/orders"
JSON_TYPE = "application/x-amz-json-1.0"
ONE_ATTEMPT = SdkConfig(retries={"total_max_attempts": 1})


@dataclass(eq=False)
class Wire:
    """In place of HTTP: keeps each request's host, signing region and body, and answers the same to all of them."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": JSON_TYPE})
    hosts: list[str] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    def __call__(self, request: Any, **_: Any) -> Any:
        self.hosts.append(urlsplit(request.url).netloc)
        self.bodies.append(request.body)
        authorization = request.headers["Authorization"]
        text = authorization.decode() if isinstance(authorization, bytes) else authorization
        self.regions.append(text.partition("Credential=")[2].split("/")[2])
        return _Answer(self.status, self.headers | {"content-length": str(len(self.body))}, self.body)


@dataclass
class _Answer:
    status_code: int
    headers: dict[str, str]
    data: bytes

    @property
    def content(self) -> Awaitable[bytes]:
        return asyncio.sleep(0, self.data)


@asynccontextmanager
async def clients_over(wire: Wire, **options: Any) -> AsyncIterator[Clients]:
    session = aioboto3.Session(profile_name=options.get("profile"))
    session._session.get_component("event_emitter").register_last("before-send.sqs", wire)
    clients = Clients(SQSConfig(**{"client_config": ONE_ATTEMPT, **options}), session)
    try:
        yield clients
    finally:
        await clients.close()


async def every_call(clients: Clients, url: str) -> None:
    queue = parse_topic(url)
    calls, receives = await clients.calls(queue), await clients.receives(queue)
    await calls.send_message_batch(url, [{"Id": "0", "MessageBody": "x"}])
    await receives.receive_message(
        {
            "QueueUrl": url,
            "MaxNumberOfMessages": 1,
            "WaitTimeSeconds": 0,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["All"],
        }
    )
    await calls.delete_message_batch(url, [{"Id": "0", "ReceiptHandle": "h"}])
    await calls.change_message_visibility_batch(url, [{"Id": "0", "ReceiptHandle": "h", "VisibilityTimeout": 1}])
    await calls.get_queue_attributes(url, ["VisibilityTimeout"])


def run(url: str, wire: Wire | None = None, **options: Any) -> Wire:
    wire = wire or Wire()

    async def go() -> None:
        async with clients_over(wire, **options) as clients:
            await every_call(clients, url)

    asyncio.run(go())
    return wire


@pytest.fixture(autouse=True)
def _no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS"):
        monkeypatch.delenv(name, raising=False)


# -- region


def test_every_call_goes_to_and_is_signed_for_the_urls_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ambient region is another queue's (CFG-02)."""
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    wire = run(WEST)

    assert set(wire.hosts) == {"sqs.us-west-2.amazonaws.com"}
    assert wire.regions == ["us-west-2"] * 5


def test_explicit_region_wins_over_the_url_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Both are named (CFG-02)."""
    wire = run(WEST, region="eu-west-1")

    assert set(wire.hosts) == {"sqs.eu-west-1.amazonaws.com"}
    assert set(wire.regions) == {"eu-west-1"}
    assert [record.levelname for record in caplog.records if record.name == "messagequeue.sqs"] == ["WARNING"]
    assert "us-west-2" in caplog.text


@pytest.mark.parametrize("variable", ["AWS_DEFAULT_REGION", "AWS_REGION"])
def test_ambient_region_is_used_where_the_url_names_none(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Both of the names in use, and the URL's host is warned of: calls do not go there (CFG-01)."""
    monkeypatch.setenv(variable, "ap-south-1")

    assert set(run(UNKNOWN).hosts) == {"sqs.ap-south-1.amazonaws.com"}


def test_queue_without_any_region_is_refused_with_what_to_set() -> None:
    """No region is made up for AWS (CFG-02)."""
    with pytest.raises(ConfigurationError, match=r"no region: give region=\.\.\."):
        run(UNKNOWN)


def test_own_endpoint_needs_no_region(caplog: pytest.LogCaptureFixture) -> None:
    """Requests are signed for us-east-1, which is told once (CFG-01)."""
    caplog.set_level(logging.INFO, "messagequeue.sqs")
    wire = run(UNKNOWN, queue_address="http://localhost:9324")

    assert set(wire.hosts) == {"localhost:9324"}
    assert set(wire.regions) == {"us-east-1"}
    told = [record.getMessage() for record in caplog.records if record.name == "messagequeue.sqs"]
    assert len([text for text in told if "us-east-1" in text]) == 1


def test_queue_urls_host_that_calls_do_not_go_to_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Once; a local queue's URL without queue_address would ask AWS (CFG-06)."""
    run("http://localhost:4566/000000000000/q", region="eu-west-1")

    assert [record.levelname for record in caplog.records if record.name == "messagequeue.sqs"] == ["WARNING"]
    assert "set queue_address" in caplog.text


def test_profile_that_does_not_exist_is_a_configuration_error() -> None:
    """Typed, and with its name."""

    async def go() -> None:
        clients = Clients(SQSConfig(profile="nobody"))
        try:
            await clients.calls(parse_topic(WEST))
        finally:
            await clients.close()

    with pytest.raises(ConfigurationError, match="nobody"):
        asyncio.run(go())


# -- endpoint


@pytest.mark.parametrize(
    ("address", "environment", "host"),
    [
        (None, {}, "sqs.us-west-2.amazonaws.com"),
        ("", {}, "sqs.us-west-2.amazonaws.com"),
        ("http://x:1", {}, "x:1"),
        (None, {"AWS_ENDPOINT_URL": "http://all:1"}, "all:1"),
        (None, {"AWS_ENDPOINT_URL": "http://all:1", "AWS_ENDPOINT_URL_SQS": "http://sqs:2"}, "sqs:2"),
        ("", {"AWS_ENDPOINT_URL_SQS": "http://sqs:2"}, "sqs:2"),
        ("http://x:1", {"AWS_ENDPOINT_URL_SQS": "http://sqs:2"}, "x:1"),
        (
            None,
            {"AWS_ENDPOINT_URL": "http://all:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
            "sqs.us-west-2.amazonaws.com",
        ),
    ],
)
def test_endpoint_is_the_option_then_the_services_variable_then_the_general_one(
    monkeypatch: pytest.MonkeyPatch, address: str | None, environment: dict[str, str], host: str
) -> None:
    """And AWS' own where none is set; an empty option is none (CFG-05)."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert set(run(WEST, queue_address=address).hosts) == {host}


def test_queue_url_is_passed_on_as_it_is() -> None:
    """Any host in it: the endpoint decides where calls go (CFG-06)."""
    wire = run("http://alias:99/000000000000/q", queue_address="http://localhost:5000")

    assert all(b'"QueueUrl": "http://alias:99/000000000000/q"' in body for body in wire.bodies)


# -- one client per region and purpose


def test_queues_of_a_region_share_one_client_for_polls_and_one_for_the_rest() -> None:
    """Parked polls have connections of their own, and plenty."""

    async def go() -> None:
        async with clients_over(Wire()) as clients:
            one, other = parse_topic(WEST), parse_topic(WEST + "2")
            elsewhere = parse_topic(WEST.replace("us-west-2", "eu-west-1"))
            calls, receives = await asyncio.gather(clients.calls(one), clients.receives(one))

            assert calls is await clients.calls(other)
            assert receives is await clients.receives(other)
            assert calls is not receives
            assert calls is not await clients.calls(elsewhere)

    asyncio.run(go())


def test_client_config_is_the_users_with_pools_and_timeouts_for_the_purpose() -> None:
    """Retries stay what the user or the SDK says (PUB-11, CON-05)."""
    config = SQSConfig(client_config=SdkConfig(read_timeout=10, max_pool_connections=500, retries={"mode": "standard"}))
    calls, receives = client_config(config, "calls"), client_config(config, "receives")

    assert (calls.read_timeout, receives.read_timeout) == (10, 30.0)
    assert (calls.max_pool_connections, receives.max_pool_connections) == (500, RECEIVE_CONNECTIONS)
    assert calls.retries == receives.retries == {"mode": "standard"}
    assert client_config(SQSConfig(), "calls").retries is None
    assert client_config(SQSConfig(), "calls").max_pool_connections == CALL_CONNECTIONS


def test_full_batch_goes_out_as_a_stream() -> None:
    """aiohttp warns of larger bodies than 1 MiB as bytes, and where warnings are errors the send would fail."""

    async def go() -> None:
        wire = Wire()
        async with clients_over(wire) as clients:
            api = await clients.calls(parse_topic(WEST))
            await api.send_message_batch(WEST, [{"Id": "0", "MessageBody": "x" * 1_048_576}])
            assert wire.bodies[0].read().count(b"x") >= 1_048_576

    asyncio.run(go())


# -- answers


def fails(call: Callable[[BotoApi], Awaitable[Any]], wire: Wire) -> CallError:
    async def go() -> None:
        async with clients_over(wire, queue_address="http://proxy:8080") as clients:
            await call(await clients.calls(parse_topic(WEST)))

    with pytest.raises(CallError) as caught:
        asyncio.run(go())
    return caught.value


HTML = {"content-type": "text/html"}


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        (Wire(200, b"<html>hello</html>", HTML), ErrorCode.BAD_RESPONSE),
        (Wire(200, b""), ErrorCode.BAD_RESPONSE),
        (Wire(200, b"", {}), ErrorCode.BAD_RESPONSE),
        (Wire(200, b"[]"), ErrorCode.BAD_RESPONSE),
        (Wire(200, b"null"), ErrorCode.BAD_RESPONSE),
        (Wire(200, b"\xff\xfe"), ErrorCode.BAD_RESPONSE),
        (Wire(301, b"", HTML), ErrorCode.BAD_RESPONSE),
        (Wire(404, b"<html>hello</html>", HTML), ErrorCode.BAD_RESPONSE),
        (Wire(502, b"<html>hello</html>", HTML), ErrorCode.UNAVAILABLE),
        (Wire(503, b""), ErrorCode.UNAVAILABLE),
    ],
    ids=lambda value: f"{value.status}-{value.body!r}" if isinstance(value, Wire) else str(value),
)
@pytest.mark.parametrize("action", ["send", "receive"])
def test_answer_that_is_not_of_sqs_is_an_error_that_names_the_endpoint(
    action: str, wire: Wire, kind: ErrorCode
) -> None:
    """For a receive too: a page is no empty queue (PUB-12)."""

    async def call(api: BotoApi) -> object:
        if action == "send":
            return await api.send_message_batch(WEST, [{"Id": "0", "MessageBody": "x"}])
        return await api.receive_message({"QueueUrl": WEST, "MaxNumberOfMessages": 1})  # type: ignore[typeddict-item]

    error = fails(call, wire)

    assert error.fault.code is kind
    assert error.fault.retryable
    assert not error.fault.fatal
    assert "http://proxy:8080" in str(error)
    assert "hello" not in str(error)


def test_empty_answer_of_sqs_is_an_empty_receive() -> None:
    """`{}` is what SQS says of an empty queue (CON-01)."""

    async def go() -> object:
        async with clients_over(Wire()) as clients:
            api = await clients.receives(parse_topic(WEST))
            return await api.receive_message({"QueueUrl": WEST, "MaxNumberOfMessages": 1})  # type: ignore[typeddict-item]

    assert asyncio.run(go()) == ()


def test_error_of_the_service_is_known_by_its_code() -> None:
    """The compatible code of the header, or the shape's name without one."""
    body = b'{"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "gone"}'
    headers = {"content-type": JSON_TYPE, "x-amzn-query-error": "AWS.SimpleQueueService.NonExistentQueue;Sender"}
    for given in (headers, {"content-type": JSON_TYPE}):
        error = fails(lambda api: api.get_queue_attributes(WEST, ["All"]), Wire(400, body, given))

        assert error.fault.code is ErrorCode.NOT_FOUND
        assert error.__cause__ is error.origin


# -- providers


def test_provider_without_the_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """At construction, by the name of the package."""
    monkeypatch.setitem(sys.modules, "aioboto3", None)
    for provider in (SQSPublisherProvider, SQSConsumerProvider):
        with pytest.raises(ProviderNotInstalledError, match="pip install aioboto3"):
            provider()


def test_importing_and_configuring_loads_no_sdk() -> None:
    """Nor does making the providers: the first queue does."""
    code = (
        "import sys, messagequeue_sqs as m; m.SQSPublisherProvider(); m.SQSConsumerProvider(m.SQSConfig());"
        "print([name for name in ('aioboto3', 'aiobotocore', 'botocore', 'aiohttp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"


def test_consumer_provider_warns_of_a_read_timeout_below_the_poll(caplog: pytest.LogCaptureFixture) -> None:
    """Once, when it is made (CON-05)."""
    SQSConsumerProvider(SQSConfig(client_config=SdkConfig(read_timeout=10)))

    assert len(caplog.records) == 1
    assert "receives use 30 s instead" in caplog.text


@pytest.mark.parametrize("topic", ["arn:aws:sqs:eu-west-1:123456789012:orders", "orders"])
def test_topic_that_is_no_url_is_refused_by_both_halves(topic: str) -> None:
    """With what to give; nothing is looked up (CFG-09)."""

    async def handle(message: object) -> None: ...

    async def go() -> None:
        async with SQSPublisherProvider() as publishers, SQSConsumerProvider() as consumers:
            with pytest.raises(ConfigurationError, match="queue's URL"):
                await publishers.new_publisher(topic)
            with pytest.raises(ConfigurationError, match="queue's URL"):
                await consumers.new_consumer(topic, handle)

    asyncio.run(go())


def ping(wire: Wire, **options: Any) -> None:
    async def go() -> None:
        provider = SQSPublisherProvider(SQSConfig(client_config=ONE_ATTEMPT, **options))
        session = aioboto3.Session()
        session._session.get_component("event_emitter").register_last("before-send.sqs", wire)
        provider._clients._session = session
        async with provider:
            await provider.ping()

    asyncio.run(go())


@pytest.mark.parametrize("code", ["AccessDeniedException", "QueueDoesNotExist"])
def test_ping_takes_a_refusal_for_an_answer(code: str) -> None:
    """It needs no permission and no queue, and never lists or looks up (CFG-09)."""
    wire = Wire(403, b'{"__type": "com.amazonaws.sqs#%s"}' % code.encode())
    ping(wire, region="eu-west-1")

    assert wire.hosts == ["sqs.eu-west-1.amazonaws.com"]


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        (Wire(403, b'{"__type": "InvalidClientTokenId"}'), ErrorCode.CREDENTIALS),
        (Wire(503, b""), ErrorCode.UNAVAILABLE),
        (Wire(200, b"<html></html>", HTML), ErrorCode.BAD_RESPONSE),
    ],
)
def test_ping_raises_what_keeps_every_call_from_working(wire: Wire, kind: ErrorCode) -> None:
    """Unknown keys, a service that is down, an endpoint that is none."""
    with pytest.raises(MessageQueueError) as caught:
        ping(wire, queue_address="http://localhost:1")

    assert caught.value.code is kind
