"""
Publish three messages and consume them: the whole library in a page, without a broker.

`memory://` is a queue inside this process.  Nothing else in this file would change for Amazon SQS, but the topic, which
is there the queue's URL.

Prints:

    published greeting 1
    published greeting 3
    hello ada
    hello ben
    hello chloe
"""

import asyncio

from messagequeue import Message, open_consumers, open_publishers


async def main() -> None:
    async with open_publishers("memory://") as publishers, open_consumers("memory://") as consumers:
        publisher = await publishers.new_publisher("greetings")
        for number, name in enumerate(("ada", "ben", "chloe"), 1):
            await publisher.publish({"number": number, "name": name})  # returns once the broker has it
            print(f"published greeting {number}")

        async def greet(message: Message) -> None:
            """Return, and the message is taken off the queue; raise, and it comes back."""
            greeting = message.json()
            print(f"hello {greeting['name']}")
            if greeting["number"] == 3:
                consumer.stop()

        consumer = await consumers.new_consumer("greetings", greet)
        await consumer.consume()  # until stop()


asyncio.run(main())
