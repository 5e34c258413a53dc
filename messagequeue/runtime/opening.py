"""What is done to a message in its handler's slot, before middleware and handler see it; not how it was received."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from types import MappingProxyType

from .._compression import COMPRESSION_ATTRIBUTE, CompressionError, plain_pieces
from .._errors import DecodeError
from .._message import Message
from .._protocols import Handler
from ..driver import LeaseSource, OpeningSource


def opened(source: LeaseSource, handler: Handler, *, max_decompressed: int) -> Handler:
    """Return *handler* behind everything that opens the messages of *source*: what it asks for, then decompression."""
    handler = decompressing(handler, limit=max_decompressed)
    return source.opening(handler) if isinstance(source, OpeningSource) else handler


def decompressing(handler: Handler, *, limit: int) -> Handler:
    """
    Return a handler that decompresses marked messages; all others go straight to *handler*.

    It raises `DecodeError` where a body cannot be opened, or has more than *limit* bytes when it is.
    """

    def decompress(message: Message) -> Awaitable[None]:
        if COMPRESSION_ATTRIBUTE in message.attributes:
            return _decompressed(message, handler, limit)
        return handler(message)

    return decompress


async def _decompressed(message: Message, handler: Handler, limit: int) -> None:
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
