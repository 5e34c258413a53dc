"""What is done to a message in its handler's slot, before middleware and handler see it; not how it was received."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import MappingProxyType

from .._compression import COMPRESSION_ATTRIBUTE, CompressionError, plain_pieces
from .._errors import DecodeError
from .._message import Message
from .._protocols import Handler
from ..driver import LeaseSource, OpeningSource

#: Told of the message that stands in the place of a received one from now on; it has the same id.
Note = Callable[[Message], None]


def opened(source: LeaseSource, handler: Handler, *, max_decompressed: int, note: Note) -> Handler:
    """Return *handler* behind everything that opens the messages of *source*: what it asks for, then decompression."""
    handler = decompressing(handler, limit=max_decompressed, note=note)
    return source.opening(_noting(handler, note)) if isinstance(source, OpeningSource) else handler


def decompressing(handler: Handler, *, limit: int, note: Note = lambda message: None) -> Handler:
    """
    Return a handler that decompresses marked messages; all others go straight to *handler*.

    It raises `DecodeError` where a body cannot be opened, or has more than *limit* bytes when it is.
    """

    def decompress(message: Message) -> Awaitable[None]:
        if COMPRESSION_ATTRIBUTE in message.attributes:
            return _decompress(message, _noting(handler, note), limit)
        return handler(message)

    return decompress


def _noting(handler: Handler, note: Note) -> Handler:
    def noted(message: Message) -> Awaitable[None]:
        note(message)
        return handler(message)

    return noted


async def _decompress(message: Message, handler: Handler, limit: int) -> None:
    attributes = dict(message.attributes)
    algorithm = attributes.pop(COMPRESSION_ATTRIBUTE)
    pieces: list[bytes] = []
    try:
        for piece in plain_pieces(message.body, algorithm, limit=limit):
            if pieces:
                await asyncio.sleep(0)  # a large body is not everybody's wait
            pieces.append(piece)
    except CompressionError as error:
        raise DecodeError(f"message {message.id}: {error}", topic=message.topic, about=message) from error.__cause__
    await handler(replace(message, body=b"".join(pieces), attributes=MappingProxyType(attributes)))
