"""
The only module that knows the AWS SDK: clients, regions, endpoints, pools and time limits; no rule of SQS itself.

The SDK is imported when the first queue is opened.  One session per provider holds the credentials, which the SDK
refreshes; keys are never copied out of it.

Two clients of SQS per region, because a client's connections are one pool: long polls would take them all and let
deletes and heartbeats wait (the SDK's default is a pool of 10).  Other services have one.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from messagequeue import _log_events as events
from messagequeue._errors import (
    ClosedError,
    ConfigurationError,
    ErrorCode,
    MessageQueueError,
    ProviderNotInstalledError,
)

from . import _faults
from ._api import BatchAnswer, HandleEntry, ReceivedMessage, ReceiveRequest, SendEntry, SqsApi
from ._config import SQSConfig, connect_timeout, read_timeout, receive_timeout
from ._fast._sdk import Sdk
from ._fast._stats import TransportStats
from ._fast._transport import FastApi
from ._queue import Queue, is_aws_host

if TYPE_CHECKING:
    import aioboto3

#: Connections at most.  They are opened when they are needed, so a large pool costs nothing.
RECEIVE_CONNECTIONS = 1_000
CALL_CONNECTIONS = 100

#: What SQS-compatible servers are signed for where nobody names a region: they need one, and do not look at it.
_SIGNING_REGION = "us-east-1"

_Purpose = Literal["calls", "receives"]


def require_sdk(provider: str = "sqs") -> None:
    """Raise `ProviderNotInstalledError` where the AWS SDK is not installed."""
    if importlib.util.find_spec("aioboto3") is None:
        raise ProviderNotInstalledError(f"provider {provider!r} needs aioboto3: pip install aioboto3")


class SdkCalls:
    """Calls of one client of aioboto3, whose exceptions become `CallError`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.endpoint = _without_user(client.meta.endpoint_url)

    async def call(self, method: str, target: str, /, **request: Any) -> dict[str, Any]:
        """Return what *method* answers.  Raises `_faults.CallError` with *target* in its text."""
        try:
            answer: dict[str, Any] = await getattr(self._client, method)(**request)
        except Exception as error:  # whatever the SDK raises: the table says what it is, the cause is kept
            raise translate(error, _action(method), target, self.endpoint) from error
        return answer


class BotoApi:
    """The `_api.SqsApi` over a client of aioboto3."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls = SdkCalls(client)
        client.meta.events.register("before-send.sqs", stream_large_body)
        self._endpoint = self._calls.endpoint

    @property
    def client(self) -> Any:
        """The SDK's client."""
        return self._client

    @property
    def endpoint(self) -> str:
        return self._endpoint

    async def send_message_batch(self, queue_url: str, entries: Sequence[SendEntry], /) -> BatchAnswer:
        answer: Any = await self._call("send_message_batch", QueueUrl=queue_url, Entries=entries)
        return answer  # type: ignore[no-any-return]

    async def receive_message(self, request: ReceiveRequest, /) -> Sequence[ReceivedMessage]:
        answer = await self._call("receive_message", **request)
        return answer.get("Messages") or ()

    async def delete_message_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        answer: Any = await self._call("delete_message_batch", QueueUrl=queue_url, Entries=entries)
        return answer  # type: ignore[no-any-return]

    async def change_message_visibility_batch(self, queue_url: str, entries: Sequence[HandleEntry], /) -> BatchAnswer:
        answer: Any = await self._call("change_message_visibility_batch", QueueUrl=queue_url, Entries=entries)
        return answer  # type: ignore[no-any-return]

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]:
        answer = await self._call("get_queue_attributes", QueueUrl=queue_url, AttributeNames=names)
        return answer.get("Attributes") or {}

    async def _call(self, method: str, **request: Any) -> dict[str, Any]:
        target = f"queue {request['QueueUrl']}"
        answer = await self._calls.call(method, target, **request)
        if not _is_from_sqs(answer):
            text = _faults.describe(_action(method), target, self._endpoint, _faults.NOT_SQS, "not an answer of SQS")
            raise _faults.CallError(text, fault=_faults.NOT_SQS, name="BadResponse")
        return answer


def translate(error: Exception, action: str, target: str, endpoint: str) -> _faults.CallError:
    """Return what an exception of the SDK means, by the table in `_faults`."""
    response = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        name = str(response["Error"].get("Code") or "")
        words = str(response["Error"].get("Message") or "")
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        fault = _faults.fault_of_code(name, status)
        name = f"HTTP {status}" if name.isdigit() or not name else name
    else:
        fault = _faults.fault_of_class(kind.__name__ for kind in type(error).__mro__)
        name, words = type(error).__name__, str(error)
    return _faults.CallError(_faults.describe(action, target, endpoint, fault, name, words), fault=fault, name=name)


#: Bytes of a request's body above which aiohttp warns (a `ResourceWarning`) unless it comes as a stream.  A full batch
#: of 1 MiB has more, with its JSON around it.
_LARGE_BODY = 1_000_000


def stream_large_body(request: Any, **_: Any) -> None:
    """Before each attempt, make a stream of a large body; where warnings are errors, the send would fail."""
    if isinstance(request.body, bytes) and len(request.body) > _LARGE_BODY:
        request.body = io.BytesIO(request.body)


def _is_from_sqs(answer: dict[str, Any]) -> bool:
    """
    Return False for a success that holds nothing and is no JSON either: an HTML page, or nothing at all.

    The SDK reads those as an answer without members, which for a receive would be an empty queue.
    """
    meta = answer.get("ResponseMetadata", {})
    headers = meta.get("HTTPHeaders", {})
    if len(answer) > 1:
        return True
    return "json" in headers.get("content-type", "") and headers.get("content-length") != "0"


def _action(method: str) -> str:
    return "".join(word.capitalize() for word in method.split("_"))


class Clients:
    """
    The SDK's clients of one provider: opened at the first queue of a region, shared by all queues of it.

    Args:
        config: See `SQSConfig` for the order in which regions are decided.
        session: An `aioboto3.Session` to use; None: one of the configured profile.
    """

    def __init__(self, config: SQSConfig, session: aioboto3.Session | None = None) -> None:
        self._config = config
        self._session: Any = session
        self._open: dict[tuple[str | None, _Purpose], SqsApi] = {}
        self._others: dict[tuple[str, str | None], Any] = {}
        self._stats: list[TransportStats] = []
        self._opening: asyncio.Lock | None = None
        self._exits = AsyncExitStack()
        self._closed = False
        self._told: set[str] = set()

    async def calls(self, queue: Queue | None) -> SqsApi:
        """Return the client for everything but receives."""
        return await self._get(queue, "calls")

    async def receives(self, queue: Queue) -> SqsApi:
        """Return the client for receives."""
        return await self._get(queue, "receives")

    async def other(
        self, service: str, address: str | None, region: str | None, queue: Queue | None = None, **config: Any
    ) -> Any:
        """
        Return the SDK's client of another service in a region, opened with the first call of this provider.

        Args:
            service: As the SDK names it, such as `s3`.
            address: Its endpoint; None: the SDK's own, which looks at AWS_ENDPOINT_URL.
            region: None: that of *queue*, in the order of `SQSConfig`.
            config: For the client's `AioConfig`.
        """
        async with self._lock():
            if self._closed:
                raise ClosedError("the provider is closed: make a new one")
            try:
                region = region or self._region(queue)
                client = self._others.get((service, region))
                if client is None:
                    client = self._others[service, region] = await self._make_other(service, address, region, config)
            except MessageQueueError:
                raise
            except Exception as error:
                raise _setup_error(error) from error
            return client

    def stats(self) -> TransportStats:
        """Return what became of the calls so far, those of closed clients included."""
        return sum(self._stats, TransportStats())

    async def close(self) -> None:
        """Close every client, also one that is being opened.  Later calls of theirs fail, and none is opened again."""
        self._closed = True
        async with self._lock():
            self._open.clear()
            self._others.clear()
            await self._exits.aclose()

    async def _get(self, queue: Queue | None, purpose: _Purpose) -> SqsApi:
        async with self._lock():
            if self._closed:
                raise ClosedError("the provider is closed: make a new one")
            try:
                region = self._region(queue)
                api = self._open.get((region, purpose))
                if api is None:
                    api = self._open[region, purpose] = await self._make(region, purpose)
            except MessageQueueError:
                raise
            except Exception as error:
                raise _setup_error(error) from error
        if queue is not None and not queue.on_aws and is_aws_host(_host(api.endpoint)):
            self._tell(
                events.SQS_OTHER_HOST,
                queue.host,
                "queue %s: its host is not AWS', but calls go to %s: set queue_address where it should be another",
                queue.url,
                api.endpoint,
                topic=queue.url,
                endpoint=api.endpoint,
            )
        return api

    def _lock(self) -> asyncio.Lock:
        if self._opening is None:
            self._opening = asyncio.Lock()
        return self._opening

    def _region(self, queue: Queue | None) -> str | None:
        explicit, named = self._config.region, None if queue is None else queue.region
        if explicit is not None and named is not None and explicit != named and queue is not None:
            self._tell(
                events.SQS_OTHER_REGION,
                queue.url,
                "queue %s is in region %s by its URL, but region=%r wins: calls go there",
                queue.url,
                named,
                explicit,
                topic=queue.url,
                region=explicit,
            )
        return explicit or named or self._get_session().region_name or os.environ.get("AWS_REGION") or None

    def _get_session(self) -> Any:
        if self._session is None:
            import aioboto3

            self._session = aioboto3.Session(profile_name=self._config.profile)
        return self._session

    async def _make(self, region: str | None, purpose: _Purpose) -> SqsApi:
        # endpoint_url is left out where nobody gave one: only then does the SDK look at AWS_ENDPOINT_URL(_SQS).
        address = self._config.queue_address
        where = {} if address is None else {"endpoint_url": address}
        context = self._get_session().client(
            "sqs", region_name=region or _SIGNING_REGION, config=client_config(self._config, purpose), **where
        )
        async with AsyncExitStack() as unless_refused:
            api = BotoApi(await unless_refused.enter_async_context(context))
            if region is None:
                self._accept_no_region(api)
            self._exits.push_async_exit(unless_refused.pop_all())
        return self._shortened(api)

    async def _make_other(self, service: str, address: str | None, region: str | None, config: dict[str, Any]) -> Any:
        region = region or (_SIGNING_REGION if address is not None else None)
        where = {} if address is None else {"endpoint_url": address}
        context = self._get_session().client(
            service, region_name=region, config=client_config(self._config, "calls", **config), **where
        )
        return await self._exits.enter_async_context(context)

    def _shortened(self, api: BotoApi) -> SqsApi:
        if self._config.transport == "sdk":
            return api
        strict = self._config.transport == "fast"
        try:
            fast = FastApi(api, Sdk(api.client), translate, tell=self._tell, strict=strict)
        except Exception as error:  # a version of the SDK that is built otherwise
            if strict:
                raise ConfigurationError(
                    f"transport='fast' does not know this version of the AWS SDK ({type(error).__name__}): "
                    "use transport='auto'"
                ) from error
            text = "this version of the AWS SDK is not known (%s): calls to %s go through it alone"
            name, where = type(error).__name__, api.endpoint
            self._tell(events.SQS_NO_SHORT_PATH, name, text, name, where, endpoint=where, reason=name)
            return api
        self._stats.append(fast.stats)
        self._exits.push_async_callback(fast.close)
        return fast

    def _accept_no_region(self, api: BotoApi) -> None:
        if is_aws_host(_host(api.endpoint)):
            raise ConfigurationError(
                "no region: give region=..., set AWS_DEFAULT_REGION, or use the queue's URL of the form "
                "https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"
            )
        self._tell(
            events.SQS_SIGNING_REGION,
            "",
            "no region is set; requests to %s are signed for %s",
            api.endpoint,
            _SIGNING_REGION,
            endpoint=api.endpoint,
            region=_SIGNING_REGION,
        )

    def _tell(self, event: events.Event, about: str, text: str, *args: object, **values: str | None) -> None:
        """Log a line of *event* once for each *about*."""
        key = f"{event.name} {about}"
        if key not in self._told:
            self._told.add(key)
            event.log(text, *args, exc_info=None, to=None, **values)


def client_config(config: SQSConfig, purpose: _Purpose, **preset: Any) -> Any:
    """Return the `AioConfig` of a client: *preset*, the user's, and pool and time limits for its purpose."""
    from aiobotocore.config import AioConfig

    given = config.client_config
    base = AioConfig(connector_args=getattr(given, "connector_args", None), **preset)
    merged: Any = base if given is None else base.merge(given)
    pool = RECEIVE_CONNECTIONS if purpose == "receives" else CALL_CONNECTIONS
    made = merged.merge(
        AioConfig(
            connect_timeout=connect_timeout(config),
            read_timeout=receive_timeout(config) if purpose == "receives" else read_timeout(config),
            max_pool_connections=max(pool, merged.max_pool_connections),
        )
    )
    session = getattr(given, "http_session_cls", None)
    if session is not None:  # merging drops it
        made.http_session_cls = session
    return made


def _setup_error(error: Exception) -> MessageQueueError:
    fault = _faults.fault_of_class(kind.__name__ for kind in type(error).__mro__)
    words = " ".join(str(error).split()) if fault.quote else type(error).__name__
    if fault.code in (ErrorCode.CONFIGURATION, ErrorCode.BAD_RESPONSE, ErrorCode.OTHER):
        return ConfigurationError(f"the AWS client cannot be made: {words}")
    return MessageQueueError(f"the AWS client cannot be made: {words}", code=fault.code, retryable=fault.retryable)


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
