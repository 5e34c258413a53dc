"""
Processes that publish and consume on one data folder until they are killed.

    python -m tests.acceptance.durable_worker

Reads lines `FOLDER RECORD SEED FSYNC`.  For each it forks a process, which begins at once, prints its number, waits for
its end and prints its status.  (A fork, so that a hundred rounds cost no hundred imports.)

The process appends to RECORD, one write a line, so that it survives SIGKILL:

    attempt KEY N           before message N of KEY is published
    published KEY N ID      it is confirmed
    repeated KEY N ID       the last confirmed one was published again, with the same deduplication key
    received KEY N COUNT    it was received
    settling KEY N          before it is settled
    settled KEY N           that is confirmed
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from messagequeue import Receipt
from messagequeue.broker.storage.sqlite import _store
from messagequeue.driver import EncodedMessage, LeaseSource, Sender
from messagequeue.embedded import EmbeddedConfig, EmbeddedConsumerProvider, EmbeddedPublisherProvider

TOPIC = "orders.fifo"
KEYS = ("a", "b", "c")

# So small that kills meet the log's being written back, too.
_store.LOG_BYTES = 150_000


class Round:
    """The life of one process."""

    def __init__(self, record: Path, seed: str) -> None:
        self.last = dict.fromkeys(KEYS, -1)
        if record.exists():
            for line in record.read_text().splitlines():
                word, key, number, *_ = line.split()
                if word == "published":
                    self.last[key] = int(number)
        self._record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._random = random.Random(seed)

    def note(self, *words: object) -> None:
        os.write(self._record, (" ".join(map(str, words)) + "\n").encode())

    async def publish(self, sender: Sender, key: str) -> None:
        """The next of *key*, again and again.  One that was not confirmed before is published once more."""
        if (last := self.last[key]) >= 0:
            self.note("repeated", key, last, await send(sender, key, last))
        number = last
        while True:
            number += 1
            self.note("attempt", key, number)
            self.note("published", key, number, await send(sender, key, number))
            await asyncio.sleep(self._random.choice((0, 0, 0.001, 0.003)))

    async def consume(self, source: LeaseSource) -> None:
        while True:
            stopped: set[str] = set()
            for delivery in await source.receive(5, wait=0.2):
                key, number = delivery.message.text.split()[:2]
                self.note("received", key, number, delivery.message.delivery_attempt)
                await asyncio.sleep(self._random.choice((0, 0, 0.001)))
                chance = self._random.random()
                if key in stopped or chance < 0.2:
                    stopped.add(key)  # what follows in its sequence must not be done before it
                    if chance < 0.1:
                        await source.release([delivery.lease], after=0.0)
                    continue
                self.note("settling", key, number)
                if await source.settle([delivery.lease]) == [None]:
                    self.note("settled", key, number)
                else:
                    stopped.add(key)


async def send(sender: Sender, key: str, number: int) -> str:
    body = f"{key} {number} {'x' * (number % 7) * 500}"
    message = EncodedMessage(body, ordering_key=key, deduplication_key=f"{key}-{number}")
    (receipt,) = await sender.send([message])
    assert isinstance(receipt, Receipt), receipt
    return receipt.message_id


async def live(folder: str, record: str, seed: str, fsync: str) -> None:
    work = Round(Path(record), seed)
    config = EmbeddedConfig(path=Path(folder), fsync=fsync, visibility_timeout=0.08)  # type: ignore[arg-type]
    async with EmbeddedPublisherProvider(config) as publishers, EmbeddedConsumerProvider(config) as consumers:
        sender, source = await publishers._open_sender(TOPIC), await consumers._open_source(TOPIC, config.consume)
        async with asyncio.TaskGroup() as tasks:
            for key in KEYS:
                tasks.create_task(work.publish(sender, key))
            for _ in range(2):
                tasks.create_task(work.consume(source))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(live(*line.split()))
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
