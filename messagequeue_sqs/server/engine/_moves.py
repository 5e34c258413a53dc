"""Message move tasks: started, listed, cancelled, and carried on a little whenever the shell says what time it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from messagequeue.broker import StoredMessage

from ..._limits import MOVE_RATE_MAX, MOVE_TASKS_PAGE
from ._attributes import load_json
from ._call import Call, Result
from ._directory import Directory
from ._errors import RESOURCE_NOT_FOUND, SqsError, bad_value, invalid, missing
from ._queue import SqsQueue

NOTE = "sqs:moves"
RUNNING, COMPLETED, CANCELLED, FAILED = "RUNNING", "COMPLETED", "CANCELLED", "FAILED"
#: Messages of one step of a task without a rate: it bounds how long everybody else waits.
STEP = 200
#: Seconds that a task with a rate may lag behind and still catch up.
CATCH_UP = 1.0
_NO_QUEUE: Final = "AWS.SimpleQueueService.NonExistentQueue"
_NO_SOURCE: Final = "CouldNotDetermineMessageSource"


@dataclass(slots=True)
class Task:
    """
    Attributes:
        id: A UUID.
        source, destination: ARNs; no destination: every message goes back to where it was dead-lettered.
        rate: Messages a second, or None.
        started: Seconds since the epoch.
        to_move: Messages there were at the start.
        due: When the next message may be moved.
    """

    id: str
    source: str
    destination: str | None
    rate: int | None
    started: float
    to_move: int
    due: float
    status: str = RUNNING
    moved: int = 0
    failure: str | None = None

    @property
    def handle(self) -> str:
        return base64.b64encode(json.dumps({"taskId": self.id, "sourceArn": self.source}).encode()).decode()

    def count(self, now: float) -> None:
        """A message was moved; after a pause, such as a restart, the rate is not made up for."""
        self.moved += 1
        if self.rate is not None:
            self.due = max(self.due, now - CATCH_UP) + 1 / self.rate


class Moves:
    """
    Args:
        directory: Has the queues.
        new_id: Draws the id of a task.
    """

    def __init__(self, directory: Directory, new_id: Callable[[], str]) -> None:
        self._directory = directory
        self._new_id = new_id
        note = directory.broker.note(NOTE)
        self._tasks = [Task(**task) for task in json.loads(note)] if note else []

    # --- actions

    def start(self, now: float, call: Call) -> Result:
        source = self._source(now, call)
        if next(self._directory.sources_of(now, source), None) is None:
            raise invalid("Source queue must be configured as a Dead Letter Queue.")
        destination, rate = call.text("DestinationArn"), call.number("MaxNumberOfMessagesPerSecond")
        if destination and self._directory.by_arn(now, destination) is None:
            raise _not_found("The resource that you specified for the DestinationArn parameter doesn't exist.")
        if rate is not None and not 1 <= rate <= MOVE_RATE_MAX:
            reason = f"Must be between 1 and {MOVE_RATE_MAX}, if provided."
            raise bad_value(rate, "MaxNumberOfMessagesPerSecond", reason)
        if any(task.source == source.arn and task.status == RUNNING for task in self._tasks):
            raise invalid(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given "
                "time."
            )
        visible = source.queue.counts(now).visible
        task = Task(self._new_id(), source.arn, destination or None, rate, now, visible, due=now)
        self._tasks.append(task)
        self._forget(source.arn)
        self._save()
        return {"TaskHandle": task.handle}

    def list(self, now: float, call: Call) -> Result:
        most = call.number("MaxResults")
        if most is not None and not 1 <= most <= MOVE_TASKS_PAGE:
            raise bad_value(most, "MaxResults", f"Must be between 1 and {MOVE_TASKS_PAGE}, if provided.")
        source = self._source(now, call)
        found = [task for task in reversed(self._tasks) if task.source == source.arn]
        return {"Results": [_shown(task) for task in found[: most or 1]]} if found else {}

    def cancel(self, now: float, call: Call) -> Result:
        given = call.text("TaskHandle")
        if not given:
            raise missing("TaskHandle")
        task_id, source = _opened(given)
        if self._directory.by_arn(now, source) is None:
            raise _not_found("The resource that you specified for the SourceArn parameter doesn't exist.")
        task = next((task for task in self._tasks if task.id == task_id and task.status == RUNNING), None)
        if task is None:
            raise _not_found("Task does not exist.")
        task.status = CANCELLED
        self._save()
        return {"ApproximateNumberOfMessagesMoved": task.moved}

    def _source(self, now: float, call: Call) -> SqsQueue:
        arn = call.text("SourceArn")
        if not arn:
            raise missing("SourceArn")
        found = self._directory.by_arn(now, arn)
        if found is None:
            raise _not_found("The resource that you specified for the SourceArn parameter doesn't exist.")
        return found

    # --- the work

    def next_due(self) -> float | None:
        """Return when `step()` has something to do; None: never."""
        if not self._tasks:
            return None
        return min((task.due for task in self._tasks if task.status == RUNNING), default=None)

    def step(self, now: float) -> None:
        """Move what may be moved by *now*, and not too much of it at once."""
        for task in self._tasks:
            if task.status == RUNNING and task.due <= now:
                self._carry_on(now, task)

    def _carry_on(self, now: float, task: Task) -> None:
        source = self._directory.by_arn(now, task.source)
        for _ in range(STEP):
            if task.due > now:
                break
            message = None if source is None else source.queue.first(now)
            if source is None or message is None:
                task.status = COMPLETED if source is not None else FAILED
                task.failure = None if source is not None else _NO_QUEUE
                break
            target = self._target(now, task, message)
            if target is None:
                task.status = FAILED
                task.failure = _NO_SOURCE if task.destination is None and message.source is None else _NO_QUEUE
                break
            source.queue.hand_over(now, message.sequence, target.queue)
            task.count(now)
        self._save()

    def _target(self, now: float, task: Task, message: StoredMessage) -> SqsQueue | None:
        if task.destination is not None:
            return self._directory.by_arn(now, task.destination)
        return None if message.source is None else self._directory.at(now, message.source)

    def _forget(self, arn: str) -> None:
        """Keep as many tasks of a source as can be listed."""
        old = [task for task in self._tasks if task.source == arn][:-MOVE_TASKS_PAGE]
        self._tasks = [task for task in self._tasks if task not in old]

    def _save(self) -> None:
        self._directory.broker.remember(NOTE, json.dumps([asdict(task) for task in self._tasks]))


def _not_found(text: str) -> SqsError:
    return SqsError(RESOURCE_NOT_FOUND, text)


def _opened(handle: str) -> tuple[str, str]:
    try:
        read = load_json(base64.b64decode(handle.encode(), validate=True).decode())
    except ValueError:  # what base64 and UTF-8 raise, too
        read = None
    if isinstance(read, dict):
        task_id, source = read.get("taskId"), read.get("sourceArn")
        if isinstance(task_id, str) and isinstance(source, str):
            return task_id, source
    raise invalid("Value for parameter TaskHandle is invalid.")


def _shown(task: Task) -> Result:
    shown: Result = {
        "Status": task.status,
        "SourceArn": task.source,
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.to_move,
        "StartedTimestamp": int(task.started * 1000),
    }
    if task.status == RUNNING:
        shown["TaskHandle"] = task.handle
    if task.destination is not None:
        shown["DestinationArn"] = task.destination
    if task.rate is not None:
        shown["MaxNumberOfMessagesPerSecond"] = task.rate
    if task.failure is not None:
        shown["FailureReason"] = task.failure
    return shown
