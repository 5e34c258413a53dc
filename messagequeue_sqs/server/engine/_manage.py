"""The actions on queues as such: create, find, list, describe, change, purge, delete; not those on messages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence

from ..._limits import LIST_PAGE
from ._attributes import KNOWN, unknown
from ._call import Call, Result
from ._directory import Directory
from ._errors import INVALID_ATTRIBUTE_VALUE, PURGE_IN_PROGRESS, SqsError, bad_value, invalid, missing
from ._queue import SqsQueue
from ._tags import check_tags


def url_of(directory: Directory, call: Call, queue: SqsQueue) -> str:
    return f"{call.base_url}/{directory.options.account}/{queue.name}"


def create_queue(directory: Directory, now: float, call: Call) -> Result:
    name, tags = call.text("QueueName"), call.pairs("tags")
    if not name:
        raise missing("QueueName")
    if tags:
        check_tags(name, tags, {})
    queue = directory.create(now, call.region, name, call.pairs("Attributes"), tags)
    return {"QueueUrl": url_of(directory, call, queue)}


def delete_queue(directory: Directory, now: float, call: Call) -> None:
    directory.delete(now, directory.find(now, call))


def get_queue_url(directory: Directory, now: float, call: Call) -> Result:
    name = call.text("QueueName")
    if not name:
        raise invalid("Value for parameter QueueName is invalid. Reason: Must specify a queue name.")
    queue = directory.named(now, call.region, name, call.text("QueueOwnerAWSAccountId"))
    return {"QueueUrl": url_of(directory, call, queue)}


def list_queues(directory: Directory, now: float, call: Call) -> Result:
    prefix = call.text("QueueNamePrefix") or ""
    queues = [queue for queue in directory.of_region(now, call.region) if queue.name.startswith(prefix)]
    page, token = _page(call, queues)
    result: Result = {}
    if page:
        result["QueueUrls"] = [url_of(directory, call, queue) for queue in page]
    if token is not None:
        result["NextToken"] = token
    return result


def list_dead_letter_sources(directory: Directory, now: float, call: Call) -> Result:
    page, token = _page(call, list(directory.sources_of(now, directory.find(now, call))))
    # Lower case, unlike the other list; left out where there are none, as recorded answers have it.
    result: Result = {"queueUrls": [url_of(directory, call, queue) for queue in page]} if page else {}
    if token is not None:
        result["NextToken"] = token
    return result


def _page(call: Call, queues: Sequence[SqsQueue]) -> tuple[Sequence[SqsQueue], str | None]:
    """Return the queues of one page, and the token of the next where MaxResults was given and more remain."""
    most, token = call.number("MaxResults"), call.text("NextToken")
    if most is not None and not 1 <= most <= LIST_PAGE:
        raise bad_value(most, "MaxResults", f"MaxResults must be an integer between 1 and {LIST_PAGE}.")
    if token is not None:
        after = _after(token)
        queues = [queue for queue in queues if queue.name > after]
    page = queues[: most or LIST_PAGE]
    more = most is not None and len(queues) > len(page)
    return page, _token(page[-1].name) if more else None


_TOKEN = b"next:"


def _token(name: str) -> str:
    return base64.b64encode(_TOKEN + name.encode()).decode()


def _after(token: str) -> str:
    try:
        read = base64.b64decode(token.encode(), validate=True)
    except (binascii.Error, ValueError):
        read = b""
    if not read.startswith(_TOKEN):
        raise invalid("Invalid or expired next token.")
    return read[len(_TOKEN) :].decode(errors="replace")


def get_queue_attributes(directory: Directory, now: float, call: Call) -> Result:
    queue, wanted = directory.find(now, call), call.texts("AttributeNames")
    for name in wanted:
        if name not in KNOWN and name != "All":
            raise unknown(name)
    if not wanted:
        return {}
    everything = "All" in wanted
    shown = {name: text for name, text in _described(queue, now) if everything or name in wanted}
    return {"Attributes": shown} if shown else {}


def _described(queue: SqsQueue, now: float) -> Iterator[tuple[str, str]]:
    counts = queue.queue.counts(now)
    yield "QueueArn", queue.arn
    yield "ApproximateNumberOfMessages", str(counts.visible)
    yield "ApproximateNumberOfMessagesNotVisible", str(counts.in_flight)
    yield "ApproximateNumberOfMessagesDelayed", str(counts.delayed)
    yield "CreatedTimestamp", str(int(queue.created))
    yield "LastModifiedTimestamp", str(int(queue.modified))
    yield from queue.attributes.items()


def set_queue_attributes(directory: Directory, now: float, call: Call) -> None:
    queue, given = directory.find(now, call), call.pairs("Attributes")
    if not given:
        raise missing("Attribute.Name")
    if queue.fifo and given.get("FifoQueue", "true").lower() == "false":
        raise SqsError(
            INVALID_ATTRIBUTE_VALUE,
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        )
    directory.change(now, queue, given)


def purge_queue(directory: Directory, now: float, call: Call) -> None:
    queue = directory.find(now, call)
    cooldown = directory.options.purge_cooldown
    if cooldown and queue.purged is not None and now < queue.purged + cooldown:
        raise SqsError(PURGE_IN_PROGRESS, f"Only one PurgeQueue operation on {queue.name} is allowed every 60 seconds.")
    queue.queue.purge(now)
    queue.attempts.clear()
    if cooldown:
        queue.purged = now
        directory.save(queue)
