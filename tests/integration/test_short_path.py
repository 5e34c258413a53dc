"""
The short path on real sockets, against a server that cuts, delays, closes and lies; and over TLS.

What a test does not provoke is asserted not to happen: `fallbacks == 0`, every socket closed.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aioboto3
import pytest
from botocore.config import Config

from messagequeue import ErrorCode
from messagequeue_sqs import SQSConfig
from messagequeue_sqs._api import SqsApi
from messagequeue_sqs._client import Clients
from messagequeue_sqs._fast._transport import FastApi
from messagequeue_sqs._faults import CallError
from messagequeue_sqs._queue import parse_topic
from tests.support.raw_server import RawServer, Reply, ok
from tests.support.realtime import real_time, until

pytestmark = pytest.mark.slow

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"
QUEUE = parse_topic(URL)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(name, value)


def stored(body: bytes) -> bytes:
    """Answer a batch with success, and a receive with nothing."""
    entries = json.loads(body).get("Entries", [])
    return ok(json.dumps({"Successful": [{"Id": entry["Id"], "MessageId": entry["Id"]} for entry in entries]}).encode())


@asynccontextmanager
async def api(server: RawServer, attempts: int = 1, **options: Any) -> AsyncIterator[FastApi]:
    """Yield a short path with *attempts* per call; when it is closed, its sockets are too."""
    sdk = options.pop("client_config", Config(retries={"total_max_attempts": attempts, "mode": "standard"}))
    options = {"read_timeout": 1.0, "connect_timeout": 1.0, "transport": "fast"} | options
    clients = Clients(SQSConfig(queue_address=server.endpoint, client_config=sdk, **options))
    try:
        made = await clients.calls(QUEUE)
        assert isinstance(made, FastApi)
        yield made
    finally:
        await clients.close()
        await until(lambda: server.open == 0)


async def send(by: SqsApi, text: str = "a") -> list[str]:
    answer = await by.send_message_batch(URL, [{"Id": "0", "MessageBody": text}])
    return [entry["MessageId"] for entry in answer["Successful"]]


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'10\r\n{"Successful": [\r\n20\r\n{"Id": "0", "MessageId": "made"}\r\n2\r\n]}\r\n0\r\n\r\n'
)
MADE = ok(b'{"Successful": [{"Id": "0", "MessageId": "made"}]}')


@real_time()
async def test_calls_share_a_connection_and_none_falls_back() -> None:
    """One after another they use one connection, and every one takes the short path."""
    async with RawServer(stored) as server, api(server) as by:
        for _ in range(20):
            assert await send(by) == ["0"]

        assert server.connections == 1
        assert (by.stats.short, by.stats.fallbacks, by.stats.sdk) == (20, 0, 0)


@real_time()
async def test_calls_at_the_same_time_have_connections_of_their_own() -> None:
    """Fifty at once, and again: fifty connections at most, no call waits for another's answer."""
    async with RawServer(stored) as server, api(server) as by:
        for _ in range(2):
            await asyncio.gather(*(send(by) for _ in range(50)))

        assert server.connections <= 50
        assert (by.stats.short, by.stats.fallbacks) == (100, 0)


@real_time()
async def test_calls_beyond_the_pool_wait_and_a_cancelled_one_loses_no_place() -> None:
    """With two connections ten calls come through; of three that wait, the middle one gives up."""
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=2)
    async with RawServer(stored) as server, api(server, client_config=config) as by:
        by._sdk._client.meta.config.max_pool_connections = 2  # the provider's own minimum is 100
        await send(by)
        gate = asyncio.Event()
        server.script.extend([Reply(MADE, gate=gate), Reply(MADE, gate=gate)])
        calls = [asyncio.create_task(send(by)) for _ in range(5)]
        await until(lambda: len(server.requests) == 3)
        calls[3].cancel()
        gate.set()
        results = await asyncio.gather(*calls, return_exceptions=True)

        assert [isinstance(result, BaseException) for result in results] == [False, False, False, True, False]
        assert server.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [
        [MADE[at : at + 1] for at in range(len(MADE))],
        [CHUNKED[at : at + 1] for at in range(len(CHUNKED))],
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\n\r\n" + MADE],
        [ok(b'{"Successful": [{"Id": "0", "MessageId": "made"}]}', "Connection: close")],
        [b'HTTP/1.1 200 OK\r\n\r\n{"Successful": [{"Id": "0", "MessageId": "made"}]}'],
    ],
    ids=["bytewise", "chunked-bytewise", "interim", "close", "until-eof"],
)
@real_time()
async def test_answers_of_every_framing_are_taken(pieces: list[bytes]) -> None:
    """In whatever pieces they come, and whether or not the connection goes on after them."""
    ends = b"close" in pieces[0] or (b"Content-Length" not in pieces[0] and len(pieces) == 1)
    async with RawServer(stored) as server, api(server) as by:
        server.script.append(Reply(*pieces, then="close" if ends else "keep"))

        assert await send(by) == ["made"]
        assert await send(by) == ["0"]
        assert server.connections == (2 if ends else 1)
        assert (by.stats.short, by.stats.fallbacks) == (2, 0)


@real_time()
async def test_late_answer_of_a_cancelled_call_is_nobodys() -> None:
    """The cancelled call's connection is closed, so that the next call cannot get its answer."""
    async with RawServer(stored) as server, api(server) as by:
        await send(by)
        gate = asyncio.Event()
        server.script.append(Reply(ok(b'{"Successful": [{"Id": "0", "MessageId": "late"}]}'), gate=gate))
        call = asyncio.create_task(send(by))
        await until(lambda: len(server.requests) == 2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        next_call = asyncio.create_task(send(by))
        await until(lambda: len(server.requests) == 3)
        gate.set()

        assert await next_call == ["0"]
        assert server.connections == 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(MADE[:-1], then="close"),
        Reply(MADE[:30], then="eof"),
        Reply(then="eof"),
        Reply(then="close"),
        Reply(b"garbage\r\n\r\n", then="hang"),
        Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}x", then="keep"),
        Reply(then="hang"),
        Reply(MADE[:40], then="hang"),
    ],
    ids=["cut", "half-closed", "half-closed-before", "closed", "garbage", "no-json", "silent", "stalled"],
)
@pytest.mark.parametrize("attempts", [1, 2, 3])
@real_time(60)
async def test_attempts_are_the_configured_ones_whatever_goes_wrong(reply: Reply, attempts: int) -> None:
    """
    The short path's attempt is the SDK's first: as many requests arrive as without it, whatever ends the attempts.

    The one answer that the SDK does not try again, JSON that is none, is tried once by both.
    """
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"})
    seen: list[tuple[int, ErrorCode]] = []
    for transport in ("fast", "sdk"):
        async with RawServer(stored) as server:
            clients = Clients(
                SQSConfig(queue_address=server.endpoint, client_config=config, read_timeout=0.2, transport=transport)  # type: ignore[arg-type]
            )
            server.script.extend([reply] * 10)
            with pytest.raises(CallError) as caught:
                await send(await clients.calls(QUEUE))
            await clients.close()
            seen.append((len(server.requests), caught.value.fault.code))

    assert seen[0] == seen[1]
    assert seen[0][0] in (1, attempts)


@real_time()
async def test_fallback_goes_on_with_the_sdks_remaining_attempts() -> None:
    """A connection lost on the short path is made good by the SDK's retry: counted, and two requests in all."""
    async with RawServer(stored) as server, api(server, attempts=3) as by:
        server.script.append(Reply(then="close"))

        assert await send(by) == ["0"]
        assert len(server.requests) == 2
        assert (by.stats.short, by.stats.fallbacks) == (0, 1)


@real_time()
async def test_server_that_closes_idle_connections_costs_nothing() -> None:
    """A connection that was closed while idle is not used: no fallback, no error."""
    async with RawServer(stored) as server, api(server) as by:
        for _ in range(5):
            await send(by)
            server.close_idle()
            await until(lambda: server.open == 0)
            await asyncio.sleep(0.01)

        assert (by.stats.short, by.stats.fallbacks) == (5, 0)
        assert server.connections == 5


@real_time()
async def test_idle_connections_are_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the server would close them; and what was sent on them unasked is not an answer."""
    async with RawServer(stored) as server, api(server) as by:
        by._sdk._client.meta.config.connector_args["keepalive_timeout"] = 0.1
        await asyncio.gather(*(send(by) for _ in range(5)))
        await until(lambda: server.open == 0, within=2)

        assert await send(by) == ["0"]
        assert by.stats.fallbacks == 0


@real_time()
async def test_too_many_fallbacks_leave_the_calls_to_the_sdk_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and counted; calls go on working meanwhile."""
    async with RawServer(stored) as server, api(server, attempts=2) as by:
        for _ in range(5):
            server.script.append(Reply(then="close"))
            await send(by)
        for _ in range(3):
            assert await send(by) == ["0"]

        assert (by.stats.fallbacks, by.stats.pauses, by.stats.sdk) == (5, 1, 3)
        assert len([r for r in caplog.records if "again and again" in r.getMessage()]) == 1


@real_time()
async def test_error_of_the_service_is_judged_by_the_sdk_and_no_fallback() -> None:
    """Throttling is retried as the SDK does; it says nothing against the short path."""
    error = json.dumps({"__type": "com.amazonaws.sqs#ThrottlingException", "message": "slow down"}).encode()
    answer = ok(error).replace(b"200 OK", b"400 Bad Request")
    async with RawServer(stored) as server, api(server, attempts=2) as by:
        for _ in range(6):
            server.script.append(Reply(answer))
            assert await send(by) == ["0"]

        assert (by.stats.errors, by.stats.fallbacks, by.stats.pauses) == (6, 0, 0)
        assert len(server.requests) == 12


@real_time()
async def test_requests_are_what_the_sdk_sends() -> None:
    """Apart from date, ids and how JSON is spaced, heads and bodies are equal; so is what the service makes of them."""
    heads, bodies = [], []
    for transport in ("fast", "sdk"):
        async with RawServer(stored) as server:
            clients = Clients(SQSConfig(queue_address=server.endpoint, transport=transport))  # type: ignore[arg-type]
            by = await clients.calls(QUEUE)
            attributes = {"b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
            await by.send_message_batch(URL, [{"Id": "0", "MessageBody": "é\u2028", "MessageAttributes": attributes}])  # type: ignore[typeddict-item]
            await clients.close()
            [(head, body)] = server.requests
        bodies.append(json.loads(body))
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
        heads.append({name.lower(): value for name, value in lines.items()})

    fast, sdk = heads
    changing = {"host", "x-amz-date", "authorization", "amz-sdk-invocation-id", "content-length", "accept"}
    assert {n: v for n, v in fast.items() if n not in changing} == {n: v for n, v in sdk.items() if n not in changing}
    assert fast["authorization"].split("Signature")[0] == sdk["authorization"].split("Signature")[0]
    assert bodies[0] == bodies[1]


# -- what is left to the SDK -------------------------------------------------------------------------------------------


def hook(**_: object) -> None:
    """A handler of the user's."""


def hooked(session: aioboto3.Session) -> None:
    session._session.register("before-send.sqs", hook)


def hooked_one_call(session: aioboto3.Session) -> None:
    session._session.register("before-call.sqs.ReceiveMessage", hook)


class Mock:
    """In-process mocks are objects that the SDK calls before it sends anything."""

    def __call__(self, **_: object) -> None: ...


def mocked(session: aioboto3.Session) -> None:
    session._session.register("before-send", Mock())


OBSTACLES: dict[str, tuple[Config, Callable[[aioboto3.Session], None], str]] = {
    "proxy": (Config(proxies={"http": "http://127.0.0.1:1"}), lambda _: None, "proxy"),
    "adaptive": (Config(retries={"mode": "adaptive"}), lambda _: None, "retry mode"),
    "hook": (Config(), hooked, "before-send"),
    "hook of one call": (Config(), hooked_one_call, "before-call"),
    "mock": (Config(), mocked, "before-send"),
}


@pytest.mark.parametrize(("config", "change", "words"), OBSTACLES.values(), ids=OBSTACLES.keys())
@real_time()
async def test_obstacle_leaves_all_calls_to_the_sdk_and_is_said_once(
    config: Config, change: Callable[[aioboto3.Session], None], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be done faithfully is the SDK's, from the first call; `transport="fast"` is refused then."""
    caplog.set_level("INFO")
    async with RawServer(stored) as server:
        for transport in ("auto", "fast"):
            session = aioboto3.Session()
            change(session)
            options = {"client_config": config.merge(Config(retries=config.retries or {"total_max_attempts": 1}))}
            clients = Clients(SQSConfig(queue_address=server.endpoint, transport=transport, **options), session)  # type: ignore[arg-type]
            by = await clients.calls(QUEUE)
            for _ in range(2):
                try:
                    await send(by)
                except CallError as error:
                    code = error.fault.code
                    assert code is (ErrorCode.CONFIGURATION if transport == "fast" else ErrorCode.CONNECTION)
            assert isinstance(by, FastApi)
            assert (by.stats.short, by.stats.sdk) == (0, 2 if transport == "auto" else 0)
            await clients.close()

    told = [record.getMessage() for record in caplog.records if "go through the AWS SDK alone" in record.getMessage()]
    assert len([text for text in told if words in text]) == 1


# -- TLS ---------------------------------------------------------------------------------------------------------------


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ca.pem` and what it signed: `leaf.pem` for localhost, `other.pem` for another name."""
    folder = tmp_path_factory.mktemp("certificates")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    ca = ("-subj", "/CN=test CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl(folder, "req", "-x509", *new, "-days", "2", *ca, "-keyout", "ca.key", "-out", "ca.pem")
    for name, host in (("leaf", "localhost"), ("other", "elsewhere.example")):
        openssl(folder, "req", *new, "-subj", f"/CN={host}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        extensions = f"subjectAltName=DNS:{host}\nbasicConstraints=CA:FALSE\nauthorityKeyIdentifier=keyid\n"
        (folder / "ext.cnf").write_text(extensions + "subjectKeyIdentifier=hash\n")
        signed = ("-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        openssl(folder, "x509", "-req", *signed, "-extfile", "ext.cnf", "-out", f"{name}.pem")
    return folder


def server_side(folder: Path, name: str = "leaf") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


@real_time()
async def test_tls_trusts_the_bundle_that_the_sdk_trusts(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With AWS_CA_BUNDLE the short path takes every call, large bodies too; connections are kept and made anew."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    async with RawServer(stored, server_side(certificates)) as server, api(server) as by:
        for _ in range(5):
            assert await send(by, "x" * 100_000) == ["0"]
        server.close_idle()
        await until(lambda: server.open == 0)
        await asyncio.sleep(0.01)
        await asyncio.gather(*(send(by) for _ in range(10)))

        assert (by.stats.short, by.stats.fallbacks, by.stats.sdk) == (15, 0, 0)


@real_time()
async def test_tls_of_an_unknown_issuer_is_refused(certificates: Path) -> None:
    """Without the bundle no request is sent, and the error is the SDK's."""
    async with RawServer(stored, server_side(certificates)) as server, api(server) as by:
        with pytest.raises(CallError) as caught:
            await send(by)

        assert caught.value.fault.code is ErrorCode.CONNECTION
        assert "certificate" in str(caught.value)
        assert server.requests == []


@real_time()
async def test_tls_of_another_host_is_refused(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trusted certificate for another name is not this server's."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    async with RawServer(stored, server_side(certificates, "other")) as server, api(server) as by:
        with pytest.raises(CallError):
            await send(by)

        assert server.requests == []


@real_time()
async def test_tls_connection_that_is_cut_is_no_answer(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TLS connection that ends within an answer fails the attempt; the next one works."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    async with RawServer(stored, server_side(certificates)) as server, api(server, attempts=2) as by:
        server.script.append(Reply(MADE[:-1], then="close"))

        assert await send(by) == ["0"]
        assert by.stats.fallbacks == 1
