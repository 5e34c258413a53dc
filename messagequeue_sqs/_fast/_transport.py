"""
The `_api.SqsApi` whose four hot calls take the short path; what that path cannot answer is the SDK's.

A call on the short path is the first attempt that the SDK would have made.  A clean answer is taken.  Anything else is
put into the SDK as the outcome of its first attempt, so that exactly the configured number of attempts is made, of
which this was one, and every error is the SDK's own.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from messagequeue import _log_events as events
from messagequeue._errors import ErrorCode

from .. import _faults
from .._api import BatchAnswer, HandleEntry, ReceivedMessage, ReceiveRequest, SendEntry, SqsApi
from .._json import dumps, loads
from ._answers import batch_answer, received_messages
from ._breaker import Breaker
from ._connection import TransportError
from ._drawing import Drawing, NotReproducible, OtherKeys
from ._http import Answer
from ._pool import Pool
from ._sdk import Sdk
from ._sigv4 import Keys
from ._stats import TransportStats

R = TypeVar("R")
Tell = Callable[..., None]
Translate = Callable[[Exception, str, str, str], _faults.CallError]


class FastApi:
    """
    Args:
        by_sdk: The same calls over the same client, all of them through the SDK.
        sdk: The client.
        translate: Makes of the SDK's exception, an action, a target and an endpoint what a call raises.
        tell: Logs a line of an event once for each second argument.
        strict: An obstacle is an error of the call instead of a reason to use the SDK (`transport="fast"`).
    """

    def __init__(self, by_sdk: SqsApi, sdk: Sdk, translate: Translate, *, tell: Tell, strict: bool = False) -> None:
        self._by_sdk = by_sdk
        self._sdk = sdk
        self._translate = translate
        self._tell = tell
        self._strict = strict
        self._credentials = sdk.credentials()
        self._fixed_keys = sdk.fixed_keys()
        self._release_quota = sdk.retry_quota()
        self._drawings: dict[str, Drawing] = {}
        self._invocation = f"{uuid.uuid4()}"[:24]
        self._pool: Pool | None = None
        self._breaker = Breaker()
        self._obstacle = ""
        self._loop = asyncio.get_running_loop()
        self.stats = TransportStats()

    @property
    def endpoint(self) -> str:
        return self._by_sdk.endpoint

    def send_message_batch(self, queue_url: str, entries: Sequence[SendEntry], /) -> Coroutine[Any, Any, BatchAnswer]:
        request = {"QueueUrl": queue_url, "Entries": entries}
        return self._call(
            "SendMessageBatch", request, batch_answer, lambda: self._by_sdk.send_message_batch(queue_url, entries)
        )

    def receive_message(self, request: ReceiveRequest, /) -> Coroutine[Any, Any, Sequence[ReceivedMessage]]:
        return self._call("ReceiveMessage", request, received_messages, lambda: self._by_sdk.receive_message(request))

    def delete_message_batch(
        self, queue_url: str, entries: Sequence[HandleEntry], /
    ) -> Coroutine[Any, Any, BatchAnswer]:
        request = {"QueueUrl": queue_url, "Entries": entries}
        return self._call(
            "DeleteMessageBatch", request, batch_answer, lambda: self._by_sdk.delete_message_batch(queue_url, entries)
        )

    def change_message_visibility_batch(
        self, queue_url: str, entries: Sequence[HandleEntry], /
    ) -> Coroutine[Any, Any, BatchAnswer]:
        request = {"QueueUrl": queue_url, "Entries": entries}
        return self._call(
            "ChangeMessageVisibilityBatch",
            request,
            batch_answer,
            lambda: self._by_sdk.change_message_visibility_batch(queue_url, entries),
        )

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str], /) -> Mapping[str, str]:
        return await self._by_sdk.get_queue_attributes(queue_url, names)

    async def close(self) -> None:
        """Close the short path's connections.  The SDK's client is its owner's to close."""
        if self._pool is not None:
            await self._pool.close()

    # -- one call

    async def _call(
        self,
        action: str,
        request: Mapping[str, object],
        read: Callable[[Any, Answer], R | None],
        by_sdk: Callable[[], Awaitable[R]],
    ) -> R:
        """
        Args:
            read: Makes the result of an answer's JSON; None where it is not as it should be.
            by_sdk: The same call through the SDK alone.
        """
        drawing = self._drawings.get(action)
        if self._obstacle or not self._breaker.allows(self._loop.time()):
            drawing = None
        elif drawing is None:
            drawing = await self._draw(action, request, by_sdk)
        if drawing is None or self._pool is None:
            return await self._leave_to_sdk(action, by_sdk)
        try:
            body = dumps(request)
        except (TypeError, ValueError):  # it cannot be written: the SDK says what is wrong with it
            return await self._leave_to_sdk(action, by_sdk)
        keys = self._fixed_keys or await self._keys(action, request)
        sending = self._pool.exchange(drawing.fill(body, int(time.time()), keys))
        del body  # while the answer is awaited, nobody needs it
        try:
            answer = await sending
        except TransportError as error:
            return await self._fall_back(action, error, by_sdk)
        result = _read(answer, read)
        if result is None:
            return await self._fall_back(action, answer, by_sdk)
        self.stats.short += 1
        self._breaker.worked()
        if self._release_quota is not None:
            self._release_quota(1)
        return result

    async def _leave_to_sdk(self, action: str, by_sdk: Callable[[], Awaitable[R]]) -> R:
        if self._strict and self._obstacle:
            raise self._refusal(action)
        self.stats.sdk += 1
        return await by_sdk()

    async def _fall_back(self, action: str, outcome: Answer | TransportError, by_sdk: Callable[[], Awaitable[R]]) -> R:
        """Have the SDK judge *outcome*, and go on from there."""
        if _is_service_error(outcome):
            self.stats.errors += 1
            self._breaker.worked()
        else:
            self._count_fallback(action, outcome)
        if isinstance(outcome, Answer) and 300 <= outcome.status < 400:
            # Nothing was done there, and the SDK's HTTP client follows redirects: let it make the attempt itself.
            return await by_sdk()
        with self._sdk.first_attempt(outcome):
            return await by_sdk()

    def _count_fallback(self, action: str, outcome: Answer | TransportError) -> None:
        reason = outcome.lost.value if isinstance(outcome, TransportError) else f"HTTP {outcome.status}"
        self.stats.fallbacks += 1
        self.stats.reasons[reason] += 1
        where = self.endpoint
        events.SQS_FALLBACK.log(
            "%s at %s: %s; the SDK goes on", action, where, reason, endpoint=where, action=action, reason=reason
        )
        if self._breaker.fell_back(self._loop.time()):
            self.stats.pauses += 1
            events.SQS_FALLBACK_PAUSE.log(
                "calls to %s fail on the short path again and again (last: %s); for a while the AWS SDK makes them, "
                "which costs more CPU",
                where,
                reason,
                endpoint=where,
                reason=reason,
            )

    # -- what to send

    async def _keys(self, action: str, request: Mapping[str, object]) -> Keys:
        """Ask the SDK for its credentials, as it does itself before every request."""
        assert self._credentials is not None
        try:
            return await self._credentials.get_frozen_credentials()
        except Exception as error:
            raise self._translate(error, action, f"queue {request['QueueUrl']}", self.endpoint) from error

    async def _draw(
        self, action: str, request: Mapping[str, object], by_sdk: Callable[[], Awaitable[object]]
    ) -> Drawing | None:
        """
        Have the SDK draw the first request of *action*; return the form made of it, or None: leave the call to the SDK.

        Raises:
            CallError: the SDK cannot make the request: no credentials, for one.
        """
        obstacle = self._sdk.obstacle()
        try:
            if not obstacle and self._credentials is not None:
                drawn = await self._sdk.draw(by_sdk)
                keys = await self._keys(action, request)
                if drawn is None:
                    raise NotReproducible("the SDK sent it by another way")
                drawing = self._drawings[action] = Drawing(drawn, keys, self._invocation)
                self._open_pool(drawing.url)
                return drawing
        except NotReproducible as error:
            obstacle = str(error)
        except OtherKeys:
            return None
        if obstacle:
            self._stop(obstacle)
        return None

    def _open_pool(self, url: str) -> None:
        if self._pool is None:
            parts = urlsplit(url)
            tls = parts.scheme == "https"
            self._pool = Pool(self._sdk.address(parts.hostname or "", parts.port or (443 if tls else 80), tls=tls))

    def _stop(self, obstacle: str) -> None:
        if self._obstacle:
            return
        self._obstacle = obstacle
        self.stats.reasons[obstacle] += 1
        if not self._strict:
            text, where = "calls to %s go through the AWS SDK alone: %s", self.endpoint
            event = events.SQS_NO_SHORT_PATH
            self._tell(event, obstacle, text, where, obstacle, endpoint=where, reason=obstacle)

    def _refusal(self, action: str) -> _faults.CallError:
        text = (
            f"{action} at {self.endpoint}: transport='fast' cannot be used because of {self._obstacle}: remove that, "
            "or use transport='auto'"
        )
        return _faults.CallError(text, fault=_faults.Fault(ErrorCode.CONFIGURATION, fatal=True), name="Transport")


def _read(answer: Answer, read: Callable[[Any, Answer], R | None]) -> R | None:
    if answer.status != 200:
        return None
    try:
        found = loads(answer.body)
    except ValueError:
        return None
    return read(found, answer)


def _is_service_error(outcome: Answer | TransportError) -> bool:
    """A faultless exchange whose answer is an error in the service's own words."""
    return isinstance(outcome, Answer) and outcome.status >= 400 and "json" in outcome.headers.get("content-type", "")
