"""
Stop without losing or repeating work: `run()` under a process manager.

`run(consumer, ...)` consumes until SIGTERM or SIGINT.  Then no new message is taken, handlers that run are waited for
(up to `drain_timeout`), what was received and not begun is handed back to the queue at once, and `run()` returns, so
that the process exits with 0.  A second signal stops at once.

Give the process manager more patience than the consumer, or it kills what it should wait for:

    systemd      TimeoutStopSec=50            (it sends SIGTERM, after that time SIGKILL)
    Kubernetes   terminationGracePeriodSeconds: 50, and start the program itself, not through a shell, which would
                 keep the signal to itself

with `drain_timeout` at its default of 25 s: deletes and hand-backs may take up to 20 s more where the broker is slow.

Here the program sends SIGTERM to itself while the first of three orders is being handled.

Prints:

    order 1: begun
    order 1: SIGTERM arrives
    order 1: done
    stopped; handled: 1
    the next process handles: 2, 3
"""

import asyncio
import os
import signal

from messagequeue import ConsumerProvider, Message, open_consumers, open_publishers, run


async def first_process(consumers: ConsumerProvider) -> list[str]:
    handled: list[str] = []

    async def handle(message: Message) -> None:
        print(f"order {message.text}: begun")
        await asyncio.sleep(0.1)
        print(f"order {message.text}: SIGTERM arrives")
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.1)  # work goes on, and is not cancelled
        print(f"order {message.text}: done")
        handled.append(message.text)

    # prefetch: messages 2 and 3 are received, too, and wait for the one slot.
    consumer = await consumers.new_consumer("orders", handle, concurrency=1, prefetch=5, drain_timeout=5)
    await run(consumer)
    await consumer.close()  # gives the topic free, for the "next process" below
    return handled


async def next_process(consumers: ConsumerProvider) -> list[str]:
    handled: list[str] = []

    async def handle(message: Message) -> None:
        handled.append(message.text)
        if len(handled) == 2:
            consumer.stop()

    consumer = await consumers.new_consumer("orders", handle, concurrency=1)
    await run(consumer)
    return handled


async def main() -> None:
    async with open_publishers("memory://") as publishers, open_consumers("memory://") as consumers:
        publisher = await publishers.new_publisher("orders")
        await publisher.publish_many(["1", "2", "3"])
        print("stopped; handled:", ", ".join(await first_process(consumers)))
        print("the next process handles:", ", ".join(await next_process(consumers)))


asyncio.run(main())
