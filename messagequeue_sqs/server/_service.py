"""From a request to its answer, now or later: what is not SQS (health, peek), and what surrounds the engine."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs

from messagequeue.broker import Envelope, Peek

from ._clock import Clock
from ._parking import Parking, Ticket
from ._signing import check_signature
from ._troubles import Faults
from .engine import Call, Engine, Poll, Result, SqsError, body_text, user_attributes
from .engine._errors import INTERNAL
from .wire import HttpAnswer, HttpRequest, base_url, protocol_of, region_of
from .wire import Protocol as WireProtocol

_log = logging.getLogger("messagequeue.server")

#: Paths that are ours, not SQS'.
HEALTH, PEEK = "/health", "/_messagequeue/peek"
_JSON = "application/json"
_FAILED = "The server failed; its log says more."


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


class Service:
    """
    Args:
        commit: Makes what was changed durable.  Answers wait for it, all those of one turn of the loop together; None:
            there is nothing to wait for.
        call_soon: Calls back after what runs now.
        new_id: Draws the id of a request.
    """

    def __init__(
        self,
        engine: Engine,
        parking: Parking,
        clock: Clock,
        options: ServiceOptions,
        *,
        commit: Callable[[], None] | None,
        call_soon: Callable[[Callable[[], None]], object],
        new_id: Callable[[], str],
    ) -> None:
        self.faults = Faults(engine)
        self._engine = engine
        self._parking = parking
        self._clock = clock
        self._options = options
        self._commit = commit
        self._call_soon = call_soon
        self._new_id = new_id
        self._outbox: list[tuple[Client, HttpAnswer | None]] = []
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
        self._parking.inside = True
        try:
            return self._call(request, client, protocol, request_id)
        except SqsError as error:
            self._reply(client, protocol.error(error, request_id))
        except Exception:
            _log.exception("a request failed on the server's side", extra={"request_id": request_id})
            self._reply(client, protocol.error(SqsError(INTERNAL, _FAILED), request_id))
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
                return Waiting(self, client, protocol, call, request_id, outcome)
            outcome = outcome.nothing
        self._finish(client, protocol, call, request_id, outcome)
        return None

    def _finish(
        self, client: Client, protocol: WireProtocol, call: Call, request_id: str, result: Result | None
    ) -> None:
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s", call.action, extra={"action": call.action, "request_id": request_id})
        if self.faults.active:
            if self.faults.cuts(call.action):
                self._reply(client, None)
                return
            result = self.faults.changed(call.action, result)
        self._reply(client, protocol.answer(call, result, request_id))

    def _reply(self, client: Client, answer: HttpAnswer | None) -> None:
        if self._commit is not None:
            if not self._outbox:
                self._call_soon(self.flush)
            self._outbox.append((client, answer))
        elif answer is None:
            client.cut()
        else:
            client.deliver(answer)

    def flush(self) -> None:
        """Commit, then let every answer go that waits for it."""
        outbox, self._outbox = self._outbox, []
        if self._commit is not None:
            self._commit()
        for client, answer in outbox:
            if answer is None:
                client.cut()
            else:
                client.deliver(answer)

    # --- what is not SQS

    def _own(self, request: HttpRequest) -> HttpAnswer | None:
        if request.path == HEALTH:
            return HttpAnswer(200, _JSON, json.dumps({"status": "ok", "waiting": len(self._parking)}).encode())
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
            self._service._reply(self._client, self._protocol.error(outcome, self._request_id))
        else:
            self._service._finish(self._client, self._protocol, self._call, self._request_id, outcome)

    def abandon(self) -> None:
        """The client has gone."""
        if not self._service.faults.dead_polls_capture:
            self._service._parking.leave(self._ticket)


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
