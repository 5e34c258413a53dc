"""A session whose handler takes lists: how lists are gathered, and what becomes of each message of one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from .._batch import BatchHandler, PartialFailure
from .._compression import COMPRESSION_ATTRIBUTE
from .._errors import RetryLater, Signal
from .._message import Message
from .._options import ConsumeOptions
from ..driver import LeaseSource, OpeningSource
from ..telemetry import ConsumerTelemetry
from .dispatch import Cancelled, Held, Lanes, State
from .observed_handling import observed_list
from .opening import opened
from .outcome import NotAsyncError
from .runs import RunLanes, first
from .session import Session
from .sink import Faults
from .stats import ConsumerStats
from .tasks import own_cancellation

Failures = Mapping[str, BaseException]


class BatchSession(Session):
    """
    A `Session` with a `BatchHandler`.

    A message is `RUNNING` while the list runs that it is in; all messages of a list have one task.
    """

    _lanes: RunLanes

    def __init__(
        self,
        topic: str,
        source: LeaseSource,
        batches: BatchHandler,
        options: ConsumeOptions,
        faults: Faults,
        stats: ConsumerStats,
        telemetry: ConsumerTelemetry | None = None,
    ) -> None:
        super().__init__(topic, source, batches, options, faults, stats, telemetry)
        self._batches = batches
        self._lists = 0
        self._pumping = False
        self._gathering: asyncio.TimerHandle | None = None
        self._slots = options.concurrency * batches.max_messages + options.prefetch

    def _new_lanes(self, *, ordered: bool) -> Lanes:
        return RunLanes(ordered=ordered)

    # -- gathering

    def _pump(self, not_before: float = 0.0) -> None:
        """
        Start the lists that are full, or whose first message has waited long enough.

        Args:
            not_before: What time it is at least: a timer may fire a little early, by the clock that it goes by.
        """
        if self._pumping:
            return
        self._pumping = True
        try:
            while not self._stopping and self._lists < self._options.concurrency and self._is_due(not_before):
                self._start_list(self._take_list())
        finally:
            self._pumping = False
        self._pumped()

    def _is_due(self, not_before: float) -> bool:
        """Whether a list should start now; where one should later, a timer is set."""
        batches = self._batches
        if not self._lanes.ready:
            return False
        found, full = first(self._lanes.startable(), batches.max_messages, batches.max_bytes)
        if full:
            return True
        due = min(held.received_at for held in found) + batches.max_wait
        if due <= max(not_before, self._loop.time()):
            return True
        if self._gathering is None or self._gathering.when() > due:
            self._stop_gathering()
            self._gathering = self._loop.call_at(due, self._on_due, due)
        return False

    def _on_due(self, due: float) -> None:
        self._gathering = None
        self._pump(due)

    def _stop_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def stop(self) -> None:
        self._stop_gathering()
        super().stop()

    def _take_list(self) -> list[Held]:
        most, room = self._batches.max_messages, self._batches.max_bytes
        taken = self._lanes.take_run(most, room) or self._lanes.take_run(1, None)
        while len(taken) < most:
            left = None if room is None else room - sum(len(held.message.body) for held in taken)
            more = self._lanes.take_run(most - len(taken), left)
            if not more:
                break
            taken += more
        return taken

    # -- handling

    def _start_list(self, members: list[Held]) -> None:
        self._lists += 1
        self._running += len(members)
        for held in members:
            held.state = State.RUNNING
            held.company = members
        name = f"messagequeue handler {self._topic} {members[0].id} and {len(members) - 1} more"
        telemetry = self._telemetry
        work = self._work_list(members) if telemetry is None else observed_list(telemetry, members, self._work_list)
        task = self._handlers.begin(work, name=name, ended=partial(self._list_ended, members))
        if not task.done():
            for held in members:
                held.task = task

    async def _work_list(self, members: Sequence[Held]) -> Failures:
        """Run the handler; return what is not done."""
        alone: dict[str, BaseException] = {}
        timeout = self._options.handler_timeout
        timer = None if timeout is None else self._loop.call_later(timeout, self._list_timed_out, members)
        try:
            messages = await self._open_list(members, alone)
            called = await self._call(messages) if messages else {}
        finally:
            if timer is not None:
                timer.cancel()
        return self._with_those_behind(members, alone, called) if called else alone

    async def _call(self, messages: Sequence[Message]) -> Failures:
        """Call the function; what it raises is not the fate of what it never got, so that it is returned."""
        try:
            await self._function(messages)
        except PartialFailure as some:
            return some.failures
        except Exception as error:
            return {message.id: error for message in messages}
        return {}

    async def _function(self, messages: Sequence[Message]) -> None:
        try:
            work = self._batches.handle(messages)
            if not inspect.isawaitable(work):
                raise NotAsyncError
            await work
        except PartialFailure as some:
            some.refuse_unknown(messages)
            raise

    def _with_those_behind(self, members: Sequence[Held], alone: Failures, called: Failures) -> Failures:
        def meets(held: Held, raised: BaseException) -> Signal | None:
            return None if held.id in alone else self._following.behind(held, raised, called=True)

        failures = {**alone, **called}
        hold_up(members, failures, meets)
        return failures

    async def _open_list(self, members: Sequence[Held], failures: dict[str, BaseException]) -> list[Message]:
        """
        Return the messages as the handler gets them; one that cannot be read fails alone.

        On an ordered topic those behind one that stays are not handled: they would overtake it.
        """
        read: dict[str, Message] = {}

        async def keep(message: Message) -> None:
            read[message.id] = message

        most = self._options.max_decompressed
        opening = opened(self._source, keep, max_decompressed=most, note=self.note_opened)
        plain = not isinstance(self._source, OpeningSource)

        async def read_one(held: Held) -> None:
            try:
                await opening(held.message)
            except (Exception, asyncio.CancelledError) as error:
                if own_cancellation(error):
                    raise
                failures[held.id] = error  # a task that only ended as cancelled would be no failure to its group

        async with asyncio.TaskGroup() as readers:
            for held in members:
                if held.fault is not None:
                    failures[held.id] = held.fault
                elif self._following.skipping and (skipped := self._following.skipped(held)) is not None:
                    failures[held.id] = skipped
                elif plain and COMPRESSION_ATTRIBUTE not in held.message.attributes:
                    read[held.id] = held.message
                else:
                    readers.create_task(read_one(held), name=f"messagequeue open {self._topic} {held.id}")
        if failures:
            hold_up(members, failures, partial(self._following.behind, called=False))
        return [read[held.id] for held in members if held.id in read and held.id not in failures]

    def _list_timed_out(self, members: Sequence[Held]) -> None:
        if any(held.cancelled is not None for held in members):
            return  # it unwinds already
        for held in members:
            self._time_out(held)

    # -- what follows

    def _list_ended(self, members: Sequence[Held], task: asyncio.Task[Any]) -> None:
        raised = asyncio.CancelledError() if task.cancelled() else task.exception()
        failures: Failures = {} if raised is not None else task.result()
        ours = any(held.cancelled is not None for held in members)
        self._lists -= 1
        self._running -= len(members)
        for held in members:
            held.task = None
            self._handled(held)
        for held in members:
            if self._lanes.broken(held):
                self._lanes.forget(held)
                self._settling.give_back([held], 0.0)
            else:
                self._follow(held, failures.get(held.id) if raised is None else why(held, raised, ours=ours))
        self._pump()


def hold_up(
    members: Sequence[Held],
    failures: dict[str, BaseException],
    meets: Callable[[Held, BaseException], Signal | None],
) -> None:
    """
    Add to *failures* the messages of *members* that are done, but stand behind a failed one of their key.

    Args:
        meets: What those behind a failed message meet; None where it holds up nobody.
    """
    stopped: dict[str, Signal] = {}
    for held in members:
        if held.key is None:
            continue
        raised = failures.get(held.id)
        if raised is None:
            if (signal := stopped.get(held.key)) is not None:
                failures[held.id] = signal
        elif held.key not in stopped and (signal := meets(held, raised)) is not None:
            stopped[held.key] = signal


def why(held: Held, raised: BaseException, *, ours: bool) -> BaseException:
    """
    What a message of a list that raised is taken to have raised itself.

    Args:
        ours: This consumer cancelled the list, for the sake of one or all of its messages.
    """
    if not isinstance(raised, asyncio.CancelledError) or not ours:
        return raised
    match held.cancelled:
        case Cancelled.TIMEOUT:
            return TimeoutError()
        case None:
            return RetryLater(0)
        case _:
            return raised
