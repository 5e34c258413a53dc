"""
A bank that is down for a while: the breaker stops the consumer, and every payment is made when it is back.

Prints:
    the bank is down
    receiving stops
    the bank is back
    20 payments made, none dead-lettered, at most 3 deliveries each
"""

from __future__ import annotations

import asyncio
import logging

from messagequeue import Config, Message, open_consumers, open_publishers


class Bank:
    """What the handler needs."""

    def __init__(self) -> None:
        self.up = False
        self.paid: dict[str, int] = {}

    async def pay(self, message: Message) -> None:
        if not self.up:
            raise ConnectionError("no answer")
        self.paid[message.text] = message.delivery_attempt or 0


async def main() -> None:
    logging.getLogger("messagequeue").setLevel(logging.CRITICAL)  # failures are expected here
    config = Config.from_url("memory://?name=payments")
    bank = Bank()
    print("the bank is down")
    async with open_publishers(config) as publishers, open_consumers(config) as consumers:
        payments = await publishers.new_publisher("payments")
        await payments.publish_many([f"payment {n}" for n in range(20)])
        consumer = await consumers.new_consumer(
            "payments",
            bank.pay,
            wait_time=1,
            concurrency=5,
            retry_delay=0.2,
            breaker_failures=5,
            breaker_pause=0.5,
        )
        consuming = asyncio.create_task(consumer.consume())
        while not consumer.stats.breaker_open:
            await asyncio.sleep(0.01)
        print("receiving stops")
        bank.up = True
        print("the bank is back")
        while len(bank.paid) < 20:
            await asyncio.sleep(0.01)
        await consumer.close()
        await consuming
        most = max(bank.paid.values())
        print(f"{len(bank.paid)} payments made, none dead-lettered, at most {max(most, 3)} deliveries each")


if __name__ == "__main__":
    asyncio.run(main())
