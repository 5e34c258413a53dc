"""From a request to its answer, now or later: what is not SQS (health, peek), and what surrounds the engine."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import parse_qs

from messagequeue import _log_events as events
from messagequeue.broker import Envelope, Peek

from ._clock import Clock
from ._parking import Parking, Ticket
from ._signing import check_signature
from ._troubles import Faults
from .engine import Call, Engine, Poll, Result, SqsError, body_text, user_attributes
from .engine._errors import INTERNAL, UNAVAILABLE
from .wire import HttpAnswer, HttpRequest, base_url, protocol_of, region_of
from .wire import Protocol as WireProtocol

#: Paths that are ours, not SQS'.
HEALTH, PEEK = "/health", "/_messagequeue/peek"
_JSON = "application/json"
_FAILED = "The server failed; its log says more."
_NOT_STORED = "The server cannot write to its data folder at present; its log says more."


class Client(Protocol):
    """Who made a request and gets the answer, once."""

    def is_gone(self) -> bool: ...

    def deliver(self, answer: HttpAnswer, /) -> None: ...

    def cut(self) -> None:
        """Close the connection without an answer."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """
    Attributes:
        base_url: What queue URLs begin with for a client that names no host.
        keys: Secrets by key id; None: signatures are not looked at.
    """

    base_url: str
    keys: Mapping[str, str] | None


class Commits(Protocol):
    """When what was changed is safe; see `messagequeue.embedded`."""

    @property
    def failing(self) -> bool:
        """It cannot be made safe at present."""
        ...

    async def committed(self) -> None:
        """Return once everything changed so far is safe.  Raises `StorageError`: that is not known."""
        ...

    def after_commit(self, then: Callable[[Exception | None], None], /) -> None:
        """`committed()` for who does not wait: *then* is called with None, or with the error; at once where it can."""
        ...


class Service:
    """
    Args:
        commits: Answers wait for it, whatever they say: none shows what a crash could undo.  While it fails, requests
            are refused before they change anything.  None: there is nothing to wait for.
        new_id: Draws the id of a request.
    """

    def __init__(
        self,
        engine: Engine,
        parking: Parking,
        clock: Clock,
        options: ServiceOptions,
        *,
        commits: Commits | None,
        new_id: Callable[[], str],
    ) -> None:
        self.faults = Faults(engine)
        self._engine = engine
        self._parking = parking
        self._clock = clock
        self._options = options
        self._commits = commits
        self._new_id = new_id
        self._region = engine.options.region

    def handle(self, request: HttpRequest, client: Client) -> Waiting | None:
        """
        Answer *request* now or later, once.

        Returns:
            Where it waits, so that a client that goes away can be taken out of the line; else None.
        """
        if request.method not in ("POST", "GET", "HEAD"):
            client.deliver(_plain(405, "POST and GET are understood here."))
            return None
        if request.method != "POST":
            own = self._own(request)
            if own is not None:
                client.deliver(own)
                return None
        protocol, request_id = protocol_of(request), self._new_id()
        if self._commits is not None and self._commits.failing:
            client.deliver(protocol.error(_not_stored(), request_id))
            return None
        self._parking.inside = True
        try:
            return self._call(request, client, protocol, request_id)
        except SqsError as error:
            self._reply(client, protocol, request_id, protocol.error(error, request_id))
        except Exception:
            events.SERVER_FAILED.log("a request failed on the server's side", exc_info=True, request_id=request_id)
            self._reply(client, protocol, request_id, protocol.error(SqsError(INTERNAL, _FAILED), request_id))
        finally:
            self._parking.inside = False
            self._parking.run()
        return None

    def _call(self, request: HttpRequest, client: Client, protocol: WireProtocol, request_id: str) -> Waiting | None:
        if self._options.keys is not None:
            check_signature(request, self._options.keys, self._clock.now())
        call = protocol.read(
            request,
            region=region_of(request) or self._region,
            base_url=base_url(request, self._options.base_url),
        )
        if self.faults.active:
            self.faults.refuse(call.action)
        outcome = self._engine.handle(self._clock.now(), call)
        if isinstance(outcome, Poll):
            if not self._parking.full:
                return Waiting(self, client, protocol, call, request_id, self._guarded(outcome))
            outcome = outcome.nothing
        self._finish(client, protocol, call, request_id, outcome)
        return None

    def _finish(
        self, client: Client, protocol: WireProtocol, call: Call, request_id: str, result: Result | None
    ) -> None:
        if events.SERVER_REQUEST.enabled:
            events.SERVER_REQUEST.log("%s", call.action, action=call.action, request_id=request_id)
        if self.faults.active:
            if self.faults.cuts(call.action):
                self._reply(client, protocol, request_id, None)
                return
            result = self.faults.changed(call.action, result)
        self._reply(client, protocol, request_id, protocol.answer(call, result, request_id))

    def _reply(self, client: Client, protocol: WireProtocol, request_id: str, answer: HttpAnswer | None) -> None:
        """Let the answer go, or cut the connection where it is None, once what it tells of is safe."""
        if self._commits is None:
            _send(client, answer)
            return

        def committed(error: Exception | None) -> None:
            _send(client, answer if error is None else protocol.error(_not_stored(), request_id))

        self._commits.after_commit(committed)

    def _guarded(self, poll: Poll) -> Poll:
        """Return *poll* as one that takes nothing while that could not be made safe."""
        commits, attempt = self._commits, poll.attempt
        if commits is None:
            return poll

        def guarded(now: float) -> Result | None:
            if commits.failing:
                raise _not_stored()
            return attempt(now)

        return replace(poll, attempt=guarded)

    # --- what is not SQS

    def _own(self, request: HttpRequest) -> HttpAnswer | None:
        if request.path == HEALTH:
            return self._health()
        if request.path != PEEK:
            return None
        given = parse_qs(request.query)
        try:
            seen = self._engine.peek(
                self._clock.now(), given.get("queue", [""])[0], given.get("region", [self._region])[0]
            )
        except SqsError as error:
            return HttpAnswer(404, _JSON, json.dumps({"message": error.message}).encode())
        return HttpAnswer(200, _JSON, json.dumps({"messages": list(map(_peeked, seen))}).encode())

    def _health(self) -> HttpAnswer:
        failing = self._commits is not None and self._commits.failing
        status = {"status": "cannot write" if failing else "ok", "waiting": len(self._parking)}
        return HttpAnswer(503 if failing else 200, _JSON, json.dumps(status).encode())


class Waiting:
    """A receive of one client that is parked."""

    __slots__ = ("_call", "_client", "_protocol", "_request_id", "_service", "_ticket")

    def __init__(
        self, service: Service, client: Client, protocol: WireProtocol, call: Call, request_id: str, poll: Poll
    ) -> None:
        self._service = service
        self._client = client
        self._protocol = protocol
        self._call = call
        self._request_id = request_id
        self._ticket: Ticket = service._parking.park(poll, self)

    def is_gone(self) -> bool:
        return self._client.is_gone() and not self._service.faults.dead_polls_capture

    def resume(self, outcome: Result | SqsError) -> None:
        if isinstance(outcome, SqsError):
            answer = self._protocol.error(outcome, self._request_id)
            self._service._reply(self._client, self._protocol, self._request_id, answer)
        else:
            self._service._finish(self._client, self._protocol, self._call, self._request_id, outcome)

    def abandon(self) -> None:
        """The client has gone."""
        if not self._service.faults.dead_polls_capture:
            self._service._parking.leave(self._ticket)


def _send(client: Client, answer: HttpAnswer | None) -> None:
    if answer is None:
        client.cut()
    else:
        client.deliver(answer)


def _not_stored() -> SqsError:
    return SqsError(UNAVAILABLE, _NOT_STORED)


def _plain(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _peeked(seen: Peek) -> dict[str, object]:
    stored = seen.message
    envelope = stored.attributes if isinstance(stored.attributes, Envelope) else None
    body, encoded = body_text(stored.body)
    return {
        "message_id": stored.id,
        "state": seen.state.value,
        "body": body,
        "attributes": {
            name: {part: _shown(value) for part, value in attribute.items()}
            for name, attribute in user_attributes(envelope, encoded=encoded).items()
        },
        "group_id": stored.key,
        "deduplication_id": stored.dedup_id,
        "sent_at": stored.sent_at,
        "receives": seen.receives,
        "until": seen.until,
    }


def _shown(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
