"""
A consumer as people run one: a process of its own, on the public API only.

    python -m tests.acceptance.worker TOPIC RECORD [--work SECONDS] [--slow SECONDS] [OPTION=VALUE]...

Appends a line to RECORD when a handler begins and when it is about to return: `began` or `done`, the message's id and
its body.  A line is one write to a file opened for appending, so that it survives SIGKILL and processes can share it.
Provider and endpoint come from the environment; OPTION=VALUE are options of the consumer.  Prints `ready` first.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from messagequeue import Handler, Message, open_consumers, run


def handler(record: int, work: float, slow: float) -> Handler:
    """Make a handler that works for *work* seconds; for *slow* ones where the body begins so."""

    def note(word: str, message: Message) -> None:
        os.write(record, f"{word} {message.id} {message.text}\n".encode())

    async def handle(message: Message) -> None:
        note("began", message)
        await asyncio.sleep(slow if message.text.startswith("slow") else work)
        note("done", message)

    return handle


async def main(given: argparse.Namespace) -> None:
    record = os.open(given.record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    options: dict[str, Any] = {}
    for option in given.options:
        name, _, value = option.partition("=")
        options[name] = int(value) if value.isdigit() else float(value)
    async with open_consumers() as provider:
        consumer = await provider.new_consumer(given.topic, handler(record, given.work, given.slow), **options)
        print("ready", flush=True)
        await run(consumer)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("topic")
    parser.add_argument("record")
    parser.add_argument("--work", type=float, default=0.0)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("options", nargs="*")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    asyncio.run(main(arguments()))
