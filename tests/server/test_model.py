"""Random operations against a model of the rules that is too simple to be wrong."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.server.journals import Folder, killed, recorded
from tests.server.sqs_driving import CLIENTS, Driven, Refused


@dataclass
class Known:
    """A message as the model knows it; `until` ends its delay or lease."""

    body: str
    group: str | None
    until: float = 0.0
    taken: bool = False
    receives: int = 0
    received_at: float = 0.0


@dataclass
class Model:
    """One queue: messages in their order, and what every handle was for."""

    fifo: bool
    messages: list[Known] = field(default_factory=list)
    handles: dict[str, tuple[Known, int]] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)

    def visible(self, message: Known, now: float) -> bool:
        return message.until <= now

    def counts(self, now: float) -> tuple[int, int, int]:
        hidden = [message for message in self.messages if not self.visible(message, now)]
        taken = sum(message.taken for message in hidden)
        return len(self.messages) - len(hidden), taken, len(hidden) - taken

    def takeable(self, now: float) -> list[Known]:
        """Return what a receive may give, in no particular order of groups."""
        locked: set[str | None] = set()
        found = []
        for message in self.messages:
            if self.visible(message, now) and (not self.fifo or message.group not in locked):
                found.append(message)
            else:
                locked.add(message.group)
        return found


class SqsMachine(RuleBasedStateMachine):
    """The server in one protocol, and its model."""

    @initialize(fifo=st.booleans(), protocol=st.sampled_from(sorted(CLIENTS)))
    def start(self, fifo: bool, protocol: str) -> None:
        self.sqs = CLIENTS[protocol](self.new_server())
        self.url = self.sqs.create("q.fifo" if fifo else "q")
        self.model = Model(fifo)
        self.number = 0

    def new_server(self) -> Driven:
        return Driven()

    @property
    def now(self) -> float:
        return self.sqs.server.clock.now()

    @rule(group=st.sampled_from("abc"), delay=st.sampled_from([0, 5]), repeat=st.booleans())
    def send(self, group: str, delay: int, repeat: bool) -> None:
        self.number += not (repeat and self.number)
        body, model = str(self.number), self.model
        if model.fifo:
            duplicate = model.seen.get(body, -1_000.0) + 300 > self.now
            self.sqs.send(self.url, body, MessageGroupId=group, MessageDeduplicationId=body)
            if duplicate:
                return
            model.seen[body] = self.now
            model.messages.append(Known(body, group))
        else:
            self.sqs.send(self.url, body, DelaySeconds=delay)
            model.messages.append(Known(body, None, self.now + delay))

    @rule(most=st.integers(1, 4), timeout=st.sampled_from([0, 3, 10]))
    def receive(self, most: int, timeout: int) -> None:
        model, now = self.model, self.now
        expected = model.takeable(now)
        got = self.sqs.receive(self.url, most, VisibilityTimeout=timeout, AttributeNames=["All"])
        assert len(got) == min(most, len(expected))
        if not model.fifo:
            assert [one["Body"] for one in got] == [message.body for message in expected[:most]]
        for one in got:
            group = one["Attributes"].get("MessageGroupId")
            message = next(known for known in expected if (known.body, known.group) == (one["Body"], group))
            expected = [known for known in expected if known is not message]
            self._take(message, one, timeout)
        self._check_groups(got)

    def _take(self, message: Known, one: dict[str, Any], timeout: int) -> None:
        message.receives += 1
        message.received_at = self.now
        message.until, message.taken = self.now + timeout, True
        assert one["Attributes"]["ApproximateReceiveCount"] == str(message.receives)
        assert one["ReceiptHandle"] not in self.model.handles
        self.model.handles[one["ReceiptHandle"]] = (message, message.receives)

    def _check_groups(self, got: list[dict[str, Any]]) -> None:
        """Within a group, messages come in the order in which they were sent."""
        places = {message.body: place for place, message in enumerate(self.model.messages)}
        groups: dict[str, list[int]] = {}
        for one in got:
            groups.setdefault(one["Attributes"].get("MessageGroupId", ""), []).append(places[one["Body"]])
        if self.model.fifo:
            assert all(order == sorted(order) for order in groups.values())

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        handle = self._some_handle(data)
        if handle is None:
            return
        message, receive = self.model.handles[handle]
        here = any(known is message for known in self.model.messages)
        latest = receive == message.receives
        if here and self.model.fifo and not (latest and not self.model.visible(message, self.now)):
            self._refused("DeleteMessage", ReceiptHandle=handle)
            return
        self.sqs.delete(self.url, handle)
        if here and latest:
            self.model.messages = [known for known in self.model.messages if known is not message]

    @rule(data=st.data(), timeout=st.sampled_from([0, 2, 20]))
    def change(self, data: st.DataObject, timeout: int) -> None:
        handle = self._some_handle(data)
        if handle is None:
            return
        message, receive = self.model.handles[handle]
        here = any(known is message for known in self.model.messages)
        good = here and receive == message.receives and not (self.model.fifo and self.model.visible(message, self.now))
        if not good:
            self._refused("ChangeMessageVisibility", ReceiptHandle=handle, VisibilityTimeout=timeout)
            return
        self.sqs.change(self.url, handle, timeout)
        message.until, message.taken = self.now + timeout, True

    def _some_handle(self, data: st.DataObject) -> str | None:
        handles = list(self.model.handles)
        return data.draw(st.sampled_from(handles)) if handles else None

    def _refused(self, action: str, **params: Any) -> None:
        try:
            self.sqs(action, QueueUrl=self.url, **params)
        except Refused as refused:
            assert refused.code == "InvalidParameterValue"  # noqa: PT017 - a state machine knows no `raises`
        else:
            raise AssertionError(f"{action} was not refused")

    @rule(seconds=st.sampled_from([1, 2.5, 6, 30]))
    def wait(self, seconds: float) -> None:
        self.sqs.server.advance(seconds)

    @rule()
    def purge(self) -> None:
        self.sqs("PurgeQueue", QueueUrl=self.url)
        self.model.messages = []
        self.model.seen = {}

    @invariant()
    def counts_are_the_model_s(self) -> None:
        if hasattr(self, "sqs"):
            assert self.sqs.counts(self.url) == self.model.counts(self.now)


class MortalMachine(SqsMachine):
    """The same, on a data folder, with a process that may be killed between any two requests (behaviour 124)."""

    def new_server(self) -> Driven:
        self.folder = tempfile.TemporaryDirectory()
        self.journal = Folder(Path(self.folder.name))
        server = Driven()
        recorded(server, self.journal)
        return server

    @rule(seconds=st.sampled_from([0, 0, 3]))
    def kill(self, seconds: float) -> None:
        self.sqs.server.parking.close()
        killed(self.sqs.server, self.journal)
        self.sqs.server.advance(seconds)

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
            self.folder.cleanup()


SqsMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
MortalMachine.TestCase.settings = settings(SqsMachine.TestCase.settings, max_examples=30)
TestSqsAgainstItsModel = SqsMachine.TestCase
TestMortalSqsAgainstItsModel = MortalMachine.TestCase
