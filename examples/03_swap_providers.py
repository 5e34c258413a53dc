"""
Choose the broker by configuration: the same application on `memory`, on `noop`, and on `sqs`.

`application()` knows no broker.  Its configuration comes from the environment, a mapping, a TOML file or a URL, and may
name one provider to publish to and another one to consume from.  A name that does not exist is an error that says which
do, before anything is sent.

Prints:

    environment: publishes to memory, consumes from memory: 3 published, 3 consumed
    mapping: publishes to noop, consumes from noop: 3 published, 0 consumed
    TOML: publishes to noop, consumes from memory: 3 published, 0 consumed
    URL: would publish to sqs, region eu-west-1, 20 handlers at once
    unknown provider 'sqss'; installed: embedded, memory, noop, sns, sqs... did you mean 'sqs'?
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from messagequeue import Config, ConfigurationError, Message, open_consumers, open_publishers

TOML = """
[messagequeue.publisher]
provider = "noop"

[messagequeue.consumer]
provider = "memory"
memory.consume.concurrency = 5
"""


async def application(config: Config) -> str:
    """Publish three numbers, consume for a moment, and say what came of it."""
    numbers: list[int] = []

    async def remember(message: Message) -> None:
        numbers.append(message.json())

    async with open_publishers(config) as publishers, open_consumers(config) as consumers:
        publisher = await publishers.new_publisher("numbers")
        receipts = [await publisher.publish(number) for number in range(3)]
        consumer = await consumers.new_consumer("numbers", remember)
        asyncio.get_running_loop().call_later(0.1, consumer.stop)
        await consumer.consume()
    return f"{len(receipts)} published, {len(numbers)} consumed"


def by_environment() -> Config:
    """What a deployment sets; without `environ`, the process's own variables are read."""
    return Config.from_env(environ={"MESSAGEQUEUE_PROVIDER": "memory"})


def by_mapping() -> Config:
    """For settings that an application has already, whatever they were read with."""
    return Config.from_mapping({"provider": "noop"})


def by_toml() -> Config:
    """Two halves: read from one broker, write to another."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "settings.toml")
        path.write_text(TOML)
        return Config.from_toml(path)


async def main() -> None:
    for source, config in (("environment", by_environment()), ("mapping", by_mapping()), ("TOML", by_toml())):
        halves = f"publishes to {config.publisher.provider}, consumes from {config.consumer.provider}"
        print(f"{source}: {halves}: {await application(config)}")

    sqs = Config.from_url("sqs://?region=eu-west-1&consume.concurrency=20")  # read and checked; nothing is opened
    settings = sqs.publisher.settings
    print(
        f"URL: would publish to {sqs.publisher.provider}, region {settings.region},"
        f" {settings.consume.concurrency} handlers at once"
    )
    try:
        Config.from_mapping({"provider": "sqss"})
    except ConfigurationError as error:
        print(error)


asyncio.run(main())
