"""
A web service that publishes in its requests and consumes in its lifespan.

`lifespan()` has the form that FastAPI and Starlette take (`FastAPI(lifespan=lifespan)`), and `place_order()` that of a
route's function.  So that the example needs no framework, `App` is the least that an ASGI server can call, and `main()`
plays the server: start-up, three requests, shutdown.

The consumer runs in a task that the lifespan owns and awaits: leaving it stops the consumer gracefully, and handlers
that run are waited for.  Should it end by itself (the queue is gone, access was withdrawn), the health check says so.
Several processes of the service share the work, as each has its own consumer of the queue.

Prints:

    GET /health -> 200 {"broker": "ok", "consumer": "ok"}
    POST /orders -> 202 {"order": "o-1", "message_id": ...}
    POST /orders -> 202 {"order": "o-2", "message_id": ...}
    shutting down
    consumed o-1
    consumed o-2
    shut down; nothing was lost
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from messagequeue import Config, Message, Publisher, PublisherProvider, PublishError, open_consumers, open_publishers

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


@dataclass
class State:
    """What requests need; `app.state` in FastAPI."""

    publishers: PublisherProvider
    orders: Publisher
    consuming: asyncio.Task[None]


async def fulfil(message: Message) -> None:
    """The background half of the service."""
    await asyncio.sleep(0.05)
    print(f"consumed {message.json()['order']}")


@asynccontextmanager
async def lifespan(app: "App") -> AsyncIterator[None]:
    config = Config.from_env()
    async with open_publishers(config) as publishers, open_consumers(config) as consumers:
        consumer = await consumers.new_consumer("orders", fulfil, drain_timeout=10)
        consuming = asyncio.create_task(consumer.consume(), name="consume orders")
        app.state = State(publishers, await publishers.new_publisher("orders"), consuming)
        yield
        consumer.stop()
        await consuming  # until handlers are done and their messages settled


async def health(app: "App", body: bytes) -> tuple[int, object]:
    await app.state.publishers.ping()
    ended = app.state.consuming.done()
    return (503 if ended else 200), {"broker": "ok", "consumer": "ended" if ended else "ok"}


async def place_order(app: "App", body: bytes) -> tuple[int, object]:
    order = json.loads(body)
    try:
        receipt = await app.state.orders.publish(order, attributes={"source": "web"})
    except PublishError as error:
        return (503 if error.retryable else 400), {"error": str(error)}
    return 202, {"order": order["order"], "message_id": receipt.message_id}  # the broker has it: safe to say yes


class App:
    """The part that a framework plays."""

    state: State

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        else:
            await self.respond(scope, (await receive())["body"], send)

    async def live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with lifespan(self):
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def respond(self, scope: Event, body: bytes, send: Send) -> None:
        route = {("GET", "/health"): health, ("POST", "/orders"): place_order}[scope["method"], scope["path"]]
        status, answer = await route(self, body)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


async def request(app: App, method: str, path: str, body: object = None) -> None:
    """Call *app* as a server would, and print its answer."""
    sent: list[Event] = []

    async def receive() -> Event:
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(event: Event) -> None:
        sent.append(event)

    await app({"type": "http", "method": method, "path": path}, receive, send)
    print(f"{method} {path} -> {sent[0]['status']} {sent[1]['body'].decode()}")


async def main() -> None:
    app, started, events = App(), asyncio.Event(), asyncio.Queue[Event]()

    async def tell(event: Event) -> None:
        started.set()

    async with asyncio.TaskGroup() as server:
        await events.put({"type": "lifespan.startup"})
        server.create_task(app({"type": "lifespan"}, events.get, tell))
        await started.wait()
        await request(app, "GET", "/health")
        await request(app, "POST", "/orders", {"order": "o-1"})
        await request(app, "POST", "/orders", {"order": "o-2"})
        print("shutting down")
        await events.put({"type": "lifespan.shutdown"})
    print("shut down; nothing was lost")


asyncio.run(main())
