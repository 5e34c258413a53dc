"""A program for `test_processes.py`: one consumer whose drain takes as many seconds as the argument says."""

from __future__ import annotations

import asyncio
import sys

from messagequeue import run


class Slow:
    """Says when it runs, when it was asked to stop and how it ended."""

    topic = "slow"

    def __init__(self, drain: float) -> None:
        self._drain = drain
        self._stopped = asyncio.Event()

    async def consume(self) -> None:
        say("running")
        try:
            await self._stopped.wait()
            await asyncio.sleep(self._drain)
            say("drained")
        except asyncio.CancelledError:
            say("cancelled")
            raise

    def stop(self) -> None:
        say("stopping")
        self._stopped.set()

    async def close(self) -> None:
        self.stop()


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main() -> None:
    try:
        await run(Slow(float(sys.argv[1])))
    finally:
        await asyncio.sleep(0)  # an application's own clean-up can still await
        say("cleaned up")


if __name__ == "__main__":
    asyncio.run(main())
