"""
One upload, three workers: S3's event goes to a topic of SNS, and each worker has a queue of its own.

Each works at its own pace and has its own failures: moderation fails once for one image, and neither thumbnails nor
metadata are made twice for it.  Three processes would do, one for each queue; here they are three consumers of one.

Prints:

    cat.png: metadata, moderation, thumbnail
    dog.jpg: metadata, moderation, thumbnail
    red flower.jpg: metadata, moderation, thumbnail
    10 deliveries for 3 uploads and 3 workers: moderation was asked twice about dog.jpg

Runs on: memory, sqs
"""

import asyncio
from collections import Counter

from _demo_fan_out import fan_out

from messagequeue import Config, Message, RetryLater, open_consumers, open_publishers
from messagequeue_sqs.events import s3_events

UPLOADS = ("red+flower.jpg", "cat.png", "dog.jpg")  # as S3 writes keys: a blank is a plus
WORKERS = ("thumbnail", "metadata", "moderation")


def upload(key: str) -> dict[str, object]:
    """Return what S3 tells a topic when an object was put; in life it is S3 that publishes it."""
    thing = {"bucket": {"name": "uploads"}, "object": {"key": key, "size": 1024}}
    record = {
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": "2026-12-01T07:00:00.000Z",
        "awsRegion": "eu-west-1",
        "s3": thing,
    }
    return {"Records": [record]}


class Pipeline:
    """What the workers have done."""

    def __init__(self) -> None:
        self.done: dict[str, set[str]] = {}
        self.deliveries: Counter[tuple[str, str]] = Counter()
        self.complete = asyncio.Event()

    async def work(self, worker: str, message: Message) -> None:
        for event in s3_events(message):  # nothing for the test event that S3 sends first
            self.deliveries[worker, event.key] += 1
            if (worker, event.key) == ("moderation", "dog.jpg") and self.deliveries[worker, event.key] == 1:
                raise RetryLater(1, "the model is not loaded yet")
            self.done.setdefault(event.key, set()).add(worker)
        if len(self.done) == len(UPLOADS) and all(len(workers) == len(WORKERS) for workers in self.done.values()):
            self.complete.set()


async def main() -> None:
    pipeline = Pipeline()
    async with (
        fan_out(Config.from_env(), WORKERS) as place,
        open_publishers(place.config) as publishers,
        open_consumers(place.config) as consumers,
    ):
        for topic in place.topics:
            publisher = await publishers.new_publisher(topic)
            await publisher.publish_many([upload(key) for key in UPLOADS])

        async with asyncio.TaskGroup() as tasks:
            running = []
            for worker in WORKERS:

                async def handle(message: Message, worker: str = worker) -> None:
                    await pipeline.work(worker, message)

                running.append(await consumers.new_consumer(place.queues[worker], handle, wait_time=1))
                tasks.create_task(running[-1].consume())
            await pipeline.complete.wait()
            for consumer in running:
                consumer.stop()

    for key, workers in sorted(pipeline.done.items()):
        print(f"{key}: {', '.join(sorted(workers))}")
    [(worker, key)] = [asked for asked, count in pipeline.deliveries.items() if count > 1]
    print(
        f"{pipeline.deliveries.total()} deliveries for {len(UPLOADS)} uploads and {len(WORKERS)} workers: "
        f"{worker} was asked twice about {key}"
    )


asyncio.run(main())
