"""Random operations against a model of the rules that is too simple to be wrong."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from messagequeue.broker import Peek
from tests.server.journals import Folder, killed, recorded
from tests.server.sqs_driving import CLIENTS, Driven, Refused

#: Seconds.
WINDOW = 300


@dataclass(eq=False)
class Known:
    """A message as the model knows it; `until` ends its delay or lease, `carried` are receives in another queue."""

    id: str
    body: str
    group: str | None
    until: float = 0.0
    taken: bool = False
    receives: int = 0
    carried: int = 0


@dataclass
class Model:
    """One queue: messages in their order, what every handle was for, and which identities are duplicates until when."""

    fifo: bool
    group_scope: bool = False
    bound: int | None = None
    delay: int = 0
    messages: list[Known] = field(default_factory=list)
    handles: dict[str, tuple[Known, int]] = field(default_factory=dict)
    seen: dict[tuple[str | None, str], tuple[float, dict[str, Any]]] = field(default_factory=dict)

    def visible(self, message: Known, now: float) -> bool:
        return message.until <= now

    def counts(self, now: float) -> tuple[int, int, int]:
        hidden = [message for message in self.messages if not self.visible(message, now)]
        taken = sum(message.taken for message in hidden)
        return len(self.messages) - len(hidden), taken, len(hidden) - taken

    def takeable(self, now: float) -> list[Known]:
        """Return what a receive may meet, in no particular order of groups."""
        locked: set[str | None] = set()
        found = []
        for message in self.messages:
            if self.visible(message, now) and (not self.fifo or message.group not in locked):
                found.append(message)
            else:
                locked.add(message.group)
        return found

    def is_dead(self, message: Known) -> bool:
        """Whether a receive moves it instead of returning it."""
        return self.bound is not None and message.receives - message.carried >= self.bound

    def identity(self, group: str, dedup_id: str) -> tuple[str | None, str]:
        return group if self.group_scope else None, dedup_id

    def first(self, group: str, dedup_id: str, now: float) -> dict[str, Any] | None:
        """Return what was answered to the message that this one repeats, or None."""
        at, answer = self.seen.get(self.identity(group, dedup_id), (-1e9, None))
        return answer if at + WINDOW > now else None

    def remove(self, message: Known) -> None:
        self.messages = [known for known in self.messages if known is not message]


QUEUES = st.sampled_from(["main", "main", "main", "dead"])


class SqsMachine(RuleBasedStateMachine):
    """The server in one protocol with a queue and its dead-letter queue, and the model of both."""

    @initialize(
        fifo=st.booleans(),
        group_scope=st.booleans(),
        by_content=st.booleans(),
        bound=st.sampled_from([None, 1, 2, 3]),
        protocol=st.sampled_from(sorted(CLIENTS)),
    )
    def start(self, fifo: bool, group_scope: bool, by_content: bool, bound: int | None, protocol: str) -> None:
        self.sqs = CLIENTS[protocol](self.new_server())
        self.number, self.by_content = 0, by_content
        suffix, attributes = ("", {})
        if fifo:
            suffix = ".fifo"
            attributes = {"ContentBasedDeduplication": str(by_content)}
        scope = {"DeduplicationScope": "messageGroup"} if fifo and group_scope else {}
        self.urls = {
            "dead": self.sqs.create(f"dead{suffix}", **attributes),
            "main": self.sqs.create(f"main{suffix}", **attributes, **scope),
        }
        self.models = {"dead": Model(fifo), "main": Model(fifo, group_scope, bound)}
        if bound is not None:
            self.sqs.redrive(self.urls["main"], self.urls["dead"], bound)

    def new_server(self) -> Driven:
        return Driven()

    @property
    def now(self) -> float:
        return self.sqs.server.clock.now()

    # --- in

    @rule(name=QUEUES, group=st.sampled_from("abc"), delay=st.sampled_from([None, 0, 5]), repeat=st.booleans())
    def send(self, name: str, group: str, delay: int | None, repeat: bool) -> None:
        model, url = self.models[name], self.urls[name]
        if not model.fifo:
            self.number += 1
            params = {} if delay is None else {"DelaySeconds": delay}
            answer = self.sqs.send(url, str(self.number), **params)
            self._admit(model, answer, str(self.number), None, model.delay if delay is None else delay)
            return
        self.number += not (repeat and self.number)
        dedup_id = body = str(self.number)
        explicit = {} if self.by_content else {"MessageDeduplicationId": dedup_id}
        answer = self.sqs.send(url, body, MessageGroupId=group, **explicit)
        first = model.first(group, dedup_id, self.now)
        if first is not None:
            assert answer == first
            return
        model.seen[model.identity(group, dedup_id)] = (self.now, answer)
        self._admit(model, answer, body, group, model.delay)

    def _admit(self, model: Model, answer: dict[str, Any], body: str, group: str | None, delay: int) -> None:
        model.messages.append(Known(answer["MessageId"], body, group, self.now + delay if delay else 0.0))

    @rule(delay=st.sampled_from([0, 5]))
    def set_delay(self, delay: int) -> None:
        self.sqs.set(self.urls["main"], DelaySeconds=delay)
        self.models["main"].delay = delay

    # --- out

    @rule(name=QUEUES, most=st.integers(1, 4), timeout=st.sampled_from([0, 3, 10]))
    def receive(self, name: str, most: int, timeout: int) -> None:
        model = self.models[name]
        expected = model.takeable(self.now)
        got = self.sqs.receive(self.urls[name], most, VisibilityTimeout=timeout, AttributeNames=["All"])
        by_id = {message.id: message for message in expected}
        returned = [by_id[one["MessageId"]] for one in got]
        moved = self._moved(expected) if name == "main" else []

        self._check_order(model, expected, returned, moved)
        assert len(got) == most or len(returned) + len(moved) == len(expected)
        for message, one in zip(returned, got, strict=True):
            self._take(model, message, one, timeout)
        for message in moved:
            model.remove(message)
            dead = Known(message.id, message.body, message.group, receives=message.receives, carried=message.receives)
            self.models["dead"].messages.append(dead)

    @rule(most=st.integers(2, 4))
    def fail(self, most: int) -> None:
        """As often as it takes to make dead letters of messages, once more to move them, and a look at those."""
        for _ in range((self.models["main"].bound or 0) + 1):
            self.receive("main", most, 0)
        self.receive("dead", most, 3)

    def _moved(self, expected: list[Known]) -> list[Known]:
        """Return what is with the dead letters now, in its order there."""
        by_id = {message.id: message for message in expected}
        return [by_id[seen.message.id] for seen in self._peek("dead") if seen.message.id in by_id]

    def _peek(self, name: str) -> list[Peek]:
        return list(self.sqs.server.engine.peek(self.now, self.urls[name]))

    def _check_order(self, model: Model, expected: list[Known], returned: list[Known], moved: list[Known]) -> None:
        """In each group the first ones are met, in their order: those received too often moved, others returned."""
        assert all(map(model.is_dead, moved))
        assert not any(map(model.is_dead, returned))
        for group in {message.group for message in expected}:
            line = [message for message in expected if message.group == group]
            for met in (returned, moved):
                mine = [message for message in met if message.group == group]
                assert mine == [message for message in line if message in mine]
            is_met = [message in returned or message in moved for message in line]
            assert is_met == sorted(is_met, reverse=True)

    def _take(self, model: Model, message: Known, one: dict[str, Any], timeout: int) -> None:
        message.receives += 1
        message.until, message.taken = self.now + timeout, True
        assert (one["Body"], one["Attributes"].get("MessageGroupId")) == (message.body, message.group)
        assert one["Attributes"]["ApproximateReceiveCount"] == str(message.receives)
        assert one["ReceiptHandle"] not in model.handles
        model.handles[one["ReceiptHandle"]] = (message, message.receives)

    # --- settling

    @rule(name=QUEUES, data=st.data(), in_batch=st.booleans())
    def delete(self, name: str, data: st.DataObject, in_batch: bool) -> None:
        model, handle = self.models[name], self._some_handle(name, data)
        if handle is None:
            return
        message, receive = model.handles[handle]
        here, latest = message in model.messages, receive == message.receives
        expired = here and model.fifo and not (latest and not model.visible(message, self.now))
        self._settle(name, "DeleteMessage", expired, in_batch, ReceiptHandle=handle)
        if here and latest and not expired:
            model.remove(message)

    @rule(name=QUEUES, data=st.data(), timeout=st.sampled_from([0, 2, 20]), in_batch=st.booleans())
    def change(self, name: str, data: st.DataObject, timeout: int, in_batch: bool) -> None:
        model, handle = self.models[name], self._some_handle(name, data)
        if handle is None:
            return
        message, receive = model.handles[handle]
        good = message in model.messages and receive == message.receives
        good = good and not (model.fifo and model.visible(message, self.now))
        params = {"ReceiptHandle": handle, "VisibilityTimeout": timeout}
        self._settle(name, "ChangeMessageVisibility", not good, in_batch, **params)
        if good:
            message.until, message.taken = self.now + timeout, True

    def _some_handle(self, name: str, data: st.DataObject) -> str | None:
        handles = list(self.models[name].handles)
        return data.draw(st.sampled_from(handles)) if handles else None

    def _settle(self, name: str, action: str, refused: bool, in_batch: bool, **params: Any) -> None:
        """Settle one message, alone or as an entry; where it is to be *refused* it has to be."""
        if in_batch:
            answer = self.sqs(f"{action}Batch", QueueUrl=self.urls[name], Entries=[{"Id": "x", **params}])
            codes = [entry["Code"] for entry in answer.get("Failed", [])]
        else:
            try:
                self.sqs(action, QueueUrl=self.urls[name], **params)
                codes = []
            except Refused as error:
                codes = [error.code]
        assert codes == ["InvalidParameterValue"] * refused

    # --- the whole queue

    @rule(seconds=st.sampled_from([1, 2.5, 6, 30, 200]))
    def wait(self, seconds: float) -> None:
        self.sqs.server.advance(seconds)

    @rule(name=QUEUES)
    def purge(self, name: str) -> None:
        self.sqs("PurgeQueue", QueueUrl=self.urls[name])
        self.models[name].messages = []
        self.models[name].seen = {}

    @rule()
    def move_back(self) -> None:
        """All that can be received of the dead letters becomes new at the end of the queue."""
        dead, main = self.models["dead"], self.models["main"]
        if main.bound is None:
            return
        arns = {"SourceArn": self.sqs.arn(self.urls["dead"]), "DestinationArn": self.sqs.arn(self.urls["main"])}
        before = {message.id for message in main.messages}
        going = dead.takeable(self.now)
        self.sqs("StartMessageMoveTask", **arns)
        self.sqs.server.advance(0)
        come = [seen.message for seen in self._peek("main") if seen.message.id not in before]
        assert sorted((one.body.decode(), one.key or "") for one in come) == sorted(
            (message.body, message.group or "") for message in going
        )
        for message in going:
            dead.remove(message)
        main.messages += [Known(one.id, one.body.decode(), one.key) for one in come]

    @invariant()
    def counts_are_the_models(self) -> None:
        if hasattr(self, "sqs"):
            for name, model in self.models.items():
                assert self.sqs.counts(self.urls[name]) == model.counts(self.now)


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
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
MortalMachine.TestCase.settings = settings(SqsMachine.TestCase.settings, max_examples=60)
TestSqsAgainstItsModel = SqsMachine.TestCase
TestMortalSqsAgainstItsModel = MortalMachine.TestCase
