"""
What the short path takes from a client of the SDK, and how it puts an outcome into it; it sends nothing itself.

A client is asked for its next request, or told how its first attempt ended, through one handler of its `before-send`
event: an answer that a handler returns there is the SDK's answer, an exception is its transport's.

Some of what is read has a leading underscore in the SDK.  Whatever is not as expected is an obstacle, and an obstacle
means: all calls stay the SDK's.
"""

from __future__ import annotations

import os
import ssl
import types
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from typing import Any, Protocol

from ._connection import Lost, TransportError
from ._drawing import Drawn
from ._http import Answer
from ._pool import Address
from ._sigv4 import Keys

#: Events of the SDK whose handlers could see or change a call.
_EVENTS = (
    "provide-client-params",
    "before-parameter-build",
    "before-endpoint-resolution",
    "before-call",
    "request-created",
    "choose-signer",
    "before-sign",
    "before-send",
    "response-received",
    "before-parse",
    "needs-retry",
    "after-call",
    "after-call-error",
)
#: The calls that take the short path; the first is the one whose handlers are looked at for a quota of retries.
_ACTIONS = ("SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")
_OWN_MODULES = ("botocore.", "aiobotocore.", "boto3.", "aioboto3.", "messagequeue_sqs.")


class Credentials(Protocol):
    """Where the SDK keeps credentials; asking refreshes them where that is due."""

    async def get_frozen_credentials(self) -> Keys: ...


class _Asked(BaseException):
    """Ends a call before its request is sent.  Not an `Exception`: nobody on the way shall take it for a fault."""


class _Attempt:
    """What `before-send` does to the first attempt of one call: ask for the request, or say how it ended."""

    __slots__ = ("drawn", "outcome", "used")

    def __init__(self, outcome: Answer | TransportError | None) -> None:
        self.outcome = outcome
        self.drawn: Drawn | None = None
        self.used = False


_attempt: ContextVar[_Attempt | None] = ContextVar("messagequeue_sqs_attempt", default=None)


class Sdk:
    """One client, which must not be used for SQS elsewhere."""

    def __init__(self, client: Any) -> None:
        self._client = client
        client.meta.events.register_first("before-send.sqs", self._before_send, unique_id="messagequeue-short-path")

    def obstacle(self) -> str:
        """Return why calls must stay the SDK's, or ""."""
        try:
            return self._obstacle()
        except Exception as error:  # a version of the SDK that is built otherwise
            return f"this version of the SDK is not known ({type(error).__name__})"

    def _obstacle(self) -> str:
        client, session = self._client, self._client._endpoint.http_session
        config = client.meta.config
        if f"{type(session).__module__}.{type(session).__qualname__}" != "aiobotocore.httpsession.AIOHTTPSession":
            return "a custom HTTP session"
        if session._proxy_config.proxy_url_for(client.meta.endpoint_url) is not None:
            return "a proxy"
        if set(config.connector_args) != {"keepalive_timeout"}:
            return "connector_args of the configuration"
        if config.retries.get("mode") not in ("legacy", "standard"):
            return f"retry mode {config.retries.get('mode')}"
        if client._request_signer._signature_version not in ("v4", None):
            return f"signature version {client._request_signer._signature_version}"
        if os.environ.get("AWS_LAMBDA_FUNCTION_NAME"):
            return "AWS Lambda, where every request carries a trace id of its invocation"
        return self._instrumented() or self._hooked()

    def _instrumented(self) -> str:
        """Tracing libraries wrap these; what they would not see must not happen behind their back."""
        client = self._client
        for kind, method in ((type(client), "_make_api_call"), (type(client._endpoint), "_send_request")):
            function = getattr(kind, method)
            if type(function) is not types.FunctionType or not f"{function.__module__}.".startswith(_OWN_MODULES):
                return f"instrumentation of the SDK ({method} is wrapped)"
        return ""

    def _hooked(self) -> str:
        for event, action in product(_EVENTS, _ACTIONS):
            for handler in self._handlers().prefix_search(f"{event}.sqs.{action}"):
                module = str(getattr(getattr(handler, "func", handler), "__module__", ""))
                if not f"{module}.".startswith(_OWN_MODULES) or module == "botocore.stub":
                    return f"a handler of the SDK's {event} event ({module})"
        return ""

    def _handlers(self) -> Any:
        emitter = self._client.meta.events
        return getattr(emitter, "_emitter", emitter)._handlers

    def credentials(self) -> Credentials | None:
        """Where the client's credentials are; None where it has none."""
        found: Credentials | None = self._client._request_signer._credentials
        return found

    def fixed_keys(self) -> Keys | None:
        """The credentials themselves where they are a fixed set, which asking does not refresh; else None."""
        found: Any = self.credentials()
        kind = type(found)
        return found if f"{kind.__module__}.{kind.__qualname__}" == "aiobotocore.credentials.AioCredentials" else None

    def retry_quota(self) -> Callable[[int], None] | None:
        """What a success gives back to the quota of retries (mode `standard`); None where there is no quota."""
        for handler in self._handlers().prefix_search(f"after-call.sqs.{_ACTIONS[0]}"):
            quota = getattr(getattr(handler, "__self__", None), "_quota", None)
            if quota is not None:
                release: Callable[[int], None] = quota.release
                return release
        return None

    def address(self, host: str, port: int, *, tls: bool) -> Address:
        """Return where to connect, with the client's limits and its trust."""
        config = self._client.meta.config
        return Address(
            host,
            port,
            self._tls() if tls else None,
            config.connect_timeout,
            config.read_timeout,
            config.connector_args["keepalive_timeout"],
            config.max_pool_connections,
        )

    def _tls(self) -> ssl.SSLContext:
        from botocore.httpsession import get_cert_path

        session = self._client._endpoint.http_session
        if not session._verify:
            blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
            return blind
        context: ssl.SSLContext = session._get_ssl_context()
        # The SDK's context leaves this to its HTTP client, as urllib3 did; aiohttp does not do it.
        context.check_hostname = True
        if session._cert_file:
            context.load_cert_chain(session._cert_file, session._key_file)
        context.load_verify_locations(get_cert_path(session._verify))
        return context

    async def draw(self, call: Callable[[], Awaitable[object]]) -> Drawn | None:
        """
        Have the SDK make the request of *call*, which uses this client, and not send it.

        Raises:
            Exception: what *call* raises before it would have sent anything.
        """
        with self._during(_Attempt(None)) as attempt:
            try:
                await call()
            except _Asked:
                pass
        return attempt.drawn

    @contextmanager
    def first_attempt(self, outcome: Answer | TransportError) -> Iterator[None]:
        """Let the first attempt of the next call of this task end in *outcome*, without being sent."""
        with self._during(_Attempt(outcome)):
            yield

    @contextmanager
    def _during(self, attempt: _Attempt) -> Iterator[_Attempt]:
        token = _attempt.set(attempt)
        try:
            yield attempt
        finally:
            _attempt.reset(token)

    async def _before_send(self, request: Any, **_: object) -> Any:
        attempt = _attempt.get()
        if attempt is None or attempt.used:
            return None
        attempt.used = True
        outcome = attempt.outcome
        if outcome is None:
            attempt.drawn = _drawn(request)
            raise _Asked
        if isinstance(outcome, TransportError):
            raise _as_sdk_error(outcome, request.url) from outcome
        return _as_sdk_answer(outcome, request.url)


def _drawn(request: Any) -> Drawn:
    headers = {str(name): _text(value) for name, value in request.headers.items()}
    body = request.body if isinstance(request.body, bytes | bytearray) else b""
    return Drawn(request.method, request.url, headers, bytes(body))


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _as_sdk_answer(answer: Answer, url: str) -> Any:
    from aiobotocore.awsrequest import AioAWSResponse

    made = AioAWSResponse(url, answer.status, answer.headers, None)
    made._content = answer.body
    return made


def _as_sdk_error(error: TransportError, url: str) -> Exception:
    """As the SDK's own HTTP session would put it, so that its retries know it."""
    from botocore import exceptions as sdk

    cause = error.__cause__ or error
    if error.lost is Lost.NOT_MADE_IN_TIME:
        return sdk.ConnectTimeoutError(endpoint_url=url, error=cause)  # type: ignore[no-any-return]
    if error.lost is Lost.SILENT:
        return sdk.ReadTimeoutError(endpoint_url=url, error=cause)  # type: ignore[no-any-return]
    if error.lost is Lost.NOT_TRUSTED:
        return sdk.SSLError(endpoint_url=url, error=cause)  # type: ignore[no-any-return]
    if error.lost is Lost.NOT_MADE:
        return sdk.EndpointConnectionError(endpoint_url=url, error=cause)  # type: ignore[no-any-return]
    return sdk.ConnectionClosedError(endpoint_url=url, error=cause)  # type: ignore[no-any-return]
