"""
Handlers of values instead of messages, and of several types of message; not what happens around them (`middleware`).

    @typed(Order)
    async def handle(order: Order) -> None: ...

    consumer = await consumers.new_consumer("orders", handle)
"""

from ._decoder import decoder
from ._router import Router
from ._typed import TypedHandler, typed

__all__ = ["Router", "TypedHandler", "decoder", "typed"]
