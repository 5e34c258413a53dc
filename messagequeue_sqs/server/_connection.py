"""One connection of a client: bytes to requests, answers to bytes, in order; not what the answers are."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import cast

from messagequeue import _log_events as events

from ._http import CONTINUE, BadRequestError, RequestReader, serialized
from ._service import Service, Waiting
from .wire import HttpAnswer, HttpRequest

#: Bytes of requests that a client may send ahead while an earlier one waits.
_AHEAD = 262_144
#: What the kernel says of a peer that has closed its side; Linux has the first, and without it only an error shows.
_HANGUP = getattr(select, "POLLRDHUP", 0) | getattr(select, "POLLHUP", 0) | getattr(select, "POLLERR", 0)


class Connection(asyncio.Protocol):
    """
    Args:
        service: Answers.
        limit: Bytes of a request's body at most.
        closed: Told when it is over.
    """

    __slots__ = (
        "_advancing",
        "_closed",
        "_closing",
        "_full",
        "_head_only",
        "_paused",
        "_reader",
        "_service",
        "_transport",
        "_waiting",
        "busy",
    )

    def __init__(self, service: Service, limit: int, closed: Callable[[Connection], None]) -> None:
        self.busy = False
        self._service = service
        self._closed = closed
        self._reader = RequestReader(limit)
        self._transport: asyncio.Transport | None = None
        self._waiting: Waiting | None = None
        self._advancing = False
        self._closing = False
        self._head_only = False
        self._paused = False  # reading
        self._full = False  # writing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._waiting is not None:
            self._waiting.abandon()
            self._waiting = None
        self._closed(self)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._advance()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        if self.busy or self._full:
            if self._reader.buffered > _AHEAD and self._transport is not None and not self._paused:
                self._paused = True
                self._transport.pause_reading()
            return
        self._advance()

    def _advance(self) -> None:
        """Answer what has come, until something has to wait."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while not self.busy and not self._full and not self._closing and self._transport is not None:
                request = self._reader.next()
                if request is None:
                    self._ask_for_more()
                    return
                self._start(request)
        except BadRequestError as error:
            events.SERVER_BAD_REQUEST.log("a connection is closed: %s", error, status=error.status)
            self._closing = True
            self._write(HttpAnswer(error.status, "text/plain; charset=utf-8", f"{error}\n".encode()))
        finally:
            self._advancing = False

    def _start(self, request: HttpRequest) -> None:
        self.busy = True
        self._head_only = request.method == "HEAD"
        if not self._reader.keep_alive:
            self._closing = True
        waiting = self._service.handle(request, self)
        if waiting is not None and self.busy:
            self._waiting = waiting

    def _ask_for_more(self) -> None:
        if self._transport is None:
            return
        if self._reader.expects:
            self._reader.expects = False
            self._transport.write(CONTINUE)
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    # --- for the service

    def is_gone(self) -> bool:
        transport = self._transport
        if transport is None or transport.is_closing():
            return True
        sock = transport.get_extra_info("socket")
        if sock is None or not _HANGUP or sock.fileno() < 0:
            return False
        # What the loop has not read yet: a client that closed in this same turn must not be given a message.
        poll = select.poll()
        poll.register(sock.fileno(), _HANGUP)
        return bool(poll.poll(0))

    def deliver(self, answer: HttpAnswer) -> None:
        self._waiting = None
        self.busy = False
        self._write(answer)
        self._advance()

    def cut(self) -> None:
        self._waiting = None
        self.busy = False
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _write(self, answer: HttpAnswer) -> None:
        transport = self._transport
        if transport is None:
            return
        transport.write(serialized(answer, keep_alive=not self._closing, head_only=self._head_only))
        if self._closing:
            transport.close()

    # --- for the server

    def finish(self) -> None:
        """Close once the request that is being answered, if any, has been."""
        self._closing = True
        if not self.busy and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
