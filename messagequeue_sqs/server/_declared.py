"""
Queues that are there from the start: what a file or a mapping says of them, as calls of CreateQueue.

    [queues.orders]
    VisibilityTimeout = 60
    dead_letters = { queue = "orders-dead", max_receives = 5 }
    tags = { team = "billing" }

    [queues."jobs.fifo"]
    ContentBasedDeduplication = true
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from messagequeue import ConfigurationError

from .engine import Call, Engine, SqsError
from .engine._errors import QUEUE_EXISTS

_OWN = frozenset({"tags", "dead_letters"})


@dataclass(frozen=True, slots=True)
class Declared:
    """
    A queue to make.

    Attributes:
        attributes: As CreateQueue takes them, but for the RedrivePolicy.
        dead_letters: Queue and count, or None.
    """

    name: str
    attributes: Mapping[str, str]
    tags: Mapping[str, str]
    dead_letters: tuple[str, int] | None


def queues_from_toml(path: str | Path) -> Mapping[str, Mapping[str, object]]:
    """
    Return the table `queues` of a file.

    Raises:
        ConfigurationError: it cannot be read, or has no such table.
    """
    try:
        with Path(path).open("rb") as file:
            tables = tomllib.load(file).get("queues")
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if not isinstance(tables, dict):
        raise ConfigurationError(f"{path} declares no queues: write a table [queues.NAME] for each")
    return tables


def declare(engine: Engine, now: float, queues: Mapping[str, Mapping[str, object]]) -> None:
    """
    Make the queues that are not there yet, and set what is declared of those that are; their other attributes stay.

    Raises:
        ConfigurationError: SQS would not make one, or not change it so.
    """
    declared = [_read(name, table) for name, table in queues.items()]
    region = engine.options.region
    for queue in declared:
        _make(engine, now, queue)
    for queue in declared:
        if queue.dead_letters is not None:
            target, count = queue.dead_letters
            arn = f"arn:aws:sqs:{region}:{engine.options.account}:{target}"
            policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": count})
            params = {"QueueUrl": queue.name, "Attributes": {"RedrivePolicy": policy}}
            _call(engine, now, Call("SetQueueAttributes", params, region, ""), queue.name)


def _make(engine: Engine, now: float, queue: Declared) -> None:
    region, named = engine.options.region, {"QueueUrl": queue.name}
    params = {"QueueName": queue.name, "Attributes": queue.attributes}
    try:
        engine.handle(now, Call("CreateQueue", params, region, ""))
    except SqsError as error:
        if error.kind is not QUEUE_EXISTS:
            raise _refused(queue.name, error) from error
        _call(engine, now, Call("SetQueueAttributes", named | {"Attributes": queue.attributes}, region, ""), queue.name)
    if queue.tags:
        _call(engine, now, Call("TagQueue", named | {"Tags": queue.tags}, region, ""), queue.name)


def _call(engine: Engine, now: float, call: Call, name: str) -> None:
    try:
        engine.handle(now, call)
    except SqsError as error:
        raise _refused(name, error) from error


def _refused(name: str, error: SqsError) -> ConfigurationError:
    return ConfigurationError(f"queue {name!r} cannot be made: {error.message}")


def _read(name: str, table: object) -> Declared:
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"queue {name!r} is declared as {type(table).__name__}: write a table")
    attributes = dict(_texts(name, {key: value for key, value in table.items() if key not in _OWN}))
    if name.endswith(".fifo"):
        attributes.setdefault("FifoQueue", "true")
    tags = table.get("tags", {})
    if not isinstance(tags, Mapping):
        raise ConfigurationError(f"queue {name!r}: tags is a table of text")
    return Declared(name, attributes, dict(_texts(name, tags)), _dead_letters(name, table.get("dead_letters")))


def _texts(name: str, table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, bool):
            yield key, "true" if value else "false"
        elif isinstance(value, str | int):
            yield key, str(value)
        elif isinstance(value, Mapping):
            yield key, json.dumps(value)
        else:
            raise ConfigurationError(f"queue {name!r}: {key} is {value!r}; give text, a number, a boolean or a table")


def _dead_letters(name: str, value: object) -> tuple[str, int] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        queue, count = value.get("queue"), value.get("max_receives", 10)
        if isinstance(queue, str) and isinstance(count, int):
            return queue, count
    raise ConfigurationError(f'queue {name!r}: dead_letters = {{ queue = "NAME", max_receives = 10 }}')
