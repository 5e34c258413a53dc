"""
What a client does to a server that may be killed at any moment, and what it may expect afterwards.

The client outlives the servers.  What it was answered is certain; what it asked for without an answer may have happened
or not.  Every answer is held against that at once, and what is left in the end is, too.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STANDARD, FIFO = "orders", "jobs.fifo"
GROUPS = tuple("abcdef")

#: What a client sees of a server that is no more.
GONE = (OSError, asyncio.IncompleteReadError)

#: Seconds that a held message is hidden for: longer than any test takes.
LONG = 3600

#: Longest delay of a message, seconds.
DELAY = 900


class Connection:
    """One connection to the server: requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, url: str) -> Connection:
        host, port = url.removeprefix("http://").split(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=4_000_000))

    async def call(self, action: str, **params: object) -> Any:
        body = json.dumps(params).encode()
        return await self._exchange(
            f"POST / HTTP/1.1\r\nHost: sqs\r\nContent-Type: application/x-amz-json-1.0\r\n"
            f"X-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    async def get(self, path: str) -> Any:
        return await self._exchange(f"GET {path} HTTP/1.1\r\nHost: sqs\r\n\r\n".encode())

    async def _exchange(self, request: bytes) -> Any:
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = await self._reader.readexactly(length)
        assert head.startswith("http/1.1 200"), (request, head, body)
        return json.loads(body) if body else {}

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except GONE:
            pass


@dataclass
class Known:
    """
    What is certain of one message.

    Attributes:
        id, sequence: As the send was answered, or a receive; None: neither was.
        count: Receives that were answered.
        handle: Of the last of them.
        delayed, held: It must not be received (any more).
        deleting, deleted: A delete was asked for; it was answered.
    """

    body: str
    id: str | None = None
    sequence: str | None = None
    count: int = 0
    handle: str = ""
    delayed: bool = False
    held: bool = False
    deleting: bool = False
    deleted: bool = False


@dataclass
class Ledger:
    """
    Attributes:
        known: By queue and body; whatever was sent, or may have been.
        lost_receives: Receives without an answer, by queue: they may have counted any message once more.
        next: The next number of each group.
        order: Sequence numbers in the order of their answers, by group.
        attempts: Receives that were not answered, by who made them.
        unfinished: What is to be deleted and what to be released, where that was not answered.
        retried, repeated, resumed: Sends that were made again because there was no answer, or though there was one;
            receives that were made again and brought something.
    """

    seed: str
    known: dict[str, dict[str, Known]] = field(default_factory=lambda: {STANDARD: {}, FIFO: {}})
    lost_receives: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    next: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    order: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    attempts: dict[str, str] = field(default_factory=dict)
    unfinished: dict[str, tuple[Sequence[Known], Sequence[Known]]] = field(default_factory=dict)
    retried: int = 0
    repeated: int = 0
    resumed: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.numbers = itertools.count()

    # --- one life of the server

    async def live(self, url: str) -> None:
        """Work until the server is gone."""
        work: list[Callable[[Connection], Awaitable[None]]] = [
            *[self._send_one, self._send_ten, self._take, self._take],
            *[_partial(self._send_in_order, groups) for groups in (GROUPS[:3], GROUPS[3:])],
            *[_partial(self._take_in_order, name) for name in ("x", "y")],
        ]
        await asyncio.gather(*(self._until_gone(url, each) for each in work))

    async def _until_gone(self, url: str, work: Callable[[Connection], Awaitable[None]]) -> None:
        try:
            connection = await Connection.to(url)
        except GONE:
            return
        try:
            while True:
                await work(connection)
                await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.004)))
        except GONE:
            return
        finally:
            await connection.close()

    # --- a standard queue

    async def _send_one(self, connection: Connection) -> None:
        body, delay = self._new_body(), self.random.random() < 0.1
        known = self.known[STANDARD][body] = Known(body, delayed=delay)
        params: dict[str, object] = {"DelaySeconds": DELAY} if delay else {}
        answer = await connection.call("SendMessage", QueueUrl=STANDARD, MessageBody=body, **params)
        known.id = answer["MessageId"]

    async def _send_ten(self, connection: Connection) -> None:
        bodies = {str(n): self._new_body() for n in range(10)}
        self.known[STANDARD].update({body: Known(body) for body in bodies.values()})
        entries = [{"Id": key, "MessageBody": body} for key, body in bodies.items()]
        answer = await connection.call("SendMessageBatch", QueueUrl=STANDARD, Entries=entries)
        assert len(answer["Successful"]) == 10
        for entry in answer["Successful"]:
            self.known[STANDARD][bodies[entry["Id"]]].id = entry["MessageId"]

    def _new_body(self) -> str:
        return f"{next(self.numbers)} {'x' * self.random.choice((10, 300, 5_000))}"

    async def _take(self, connection: Connection) -> None:
        """Receive; then delete, release or keep."""
        received = await self._received(connection, STANDARD, VisibilityTimeout=LONG)
        fates: dict[str, list[Known]] = {"delete": [], "one": [], "release": [], "keep": []}
        for known in received:
            (fate,) = self.random.choices(tuple(fates), (6, 1, 2, 1))
            fates[fate].append(known)
        for known in fates["keep"]:
            known.held = True
        for known in fates["one"]:
            known.deleting = True
            await connection.call("DeleteMessage", QueueUrl=STANDARD, ReceiptHandle=known.handle)
            known.deleted = True
        if fates["release"]:
            entries = [{**entry, "VisibilityTimeout": 0} for entry in _entries(fates["release"])]
            await connection.call("ChangeMessageVisibilityBatch", QueueUrl=STANDARD, Entries=entries)
        await self._delete(connection, STANDARD, fates["delete"])

    # --- a FIFO queue

    async def _send_in_order(self, connection: Connection, groups: Iterable[str]) -> None:
        """The next of each group, or the last one again.  One that was not answered is sent again until it is."""
        for group in groups:
            number = self.next[group]
            if number and self.random.random() < 0.2:
                number -= 1
            body = f"{group} {number}"
            before = self.known[FIFO].get(body)
            known = self.known[FIFO].setdefault(body, Known(body))
            answer = await connection.call(
                "SendMessage",
                QueueUrl=FIFO,
                MessageBody=body,
                MessageGroupId=group,
                MessageDeduplicationId=body.replace(" ", "-"),
            )
            assert known.id in (None, answer["MessageId"]), f"{body} was stored twice: the window was lost"
            assert known.sequence in (None, answer["SequenceNumber"])
            known.id, known.sequence = answer["MessageId"], answer["SequenceNumber"]
            if number < self.next[group]:
                self.repeated += 1
                continue
            self.retried += before is not None
            self.order[group].append(answer["SequenceNumber"])
            assert self.order[group] == sorted(set(self.order[group])), "sequence numbers must grow"
            self.next[group] = number + 1

    async def _take_in_order(self, connection: Connection, taker: str) -> None:
        """Do what comes first of each group first.  What was not answered before is asked for again, as it was."""
        await self._finish(connection, taker)
        again = taker in self.attempts
        attempt = self.attempts.setdefault(taker, f"{taker}-{next(self.numbers)}")
        received = await self._received(connection, FIFO, VisibilityTimeout=LONG, ReceiveRequestAttemptId=attempt)
        del self.attempts[taker]
        self.resumed += again and bool(received)
        done: list[Known] = []
        back: list[Known] = []
        for known in received:
            group, number = known.body.split()
            if any(other.body.startswith(group) for other in back) or self.random.random() < 0.2:
                back.append(known)  # what follows must not be done before it
                continue
            earlier = [self.known[FIFO][f"{group} {n}"] for n in range(int(number))]
            assert all(other.deleting for other in earlier), f"{known.body} overtook one of its group"
            known.deleting = True
            done.append(known)
        self.unfinished[taker] = done, back
        await self._finish(connection, taker)

    async def _finish(self, connection: Connection, taker: str) -> None:
        """Delete and release what was received, with the handles of then; the end of a group goes back first."""
        done, back = self.unfinished.pop(taker, ((), ()))
        if not done and not back:
            return
        self.unfinished[taker] = done, back
        await self._delete(connection, FIFO, list(done))
        entries = [{**entry, "VisibilityTimeout": 0} for entry in _entries(list(reversed(back)))]
        if entries:
            # One that was released before is no longer held: that is no error of the batch.
            await connection.call("ChangeMessageVisibilityBatch", QueueUrl=FIFO, Entries=entries)
        del self.unfinished[taker]

    # --- both

    async def _received(self, connection: Connection, queue: str, **params: object) -> list[Known]:
        self.lost_receives[queue] += 1
        answer = await connection.call(
            "ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"], **params
        )
        self.lost_receives[queue] -= 1
        return [self._checked(queue, message) for message in answer.get("Messages", [])]

    def _checked(self, queue: str, message: Mapping[str, Any]) -> Known:
        known = self.known[queue].get(message["Body"])
        assert known is not None, "a message that nobody sent"
        assert not known.deleted, "a deleted message came back"
        assert not known.delayed, "a delayed message came early"
        assert not known.held, "a held message came before its time"
        assert known.id in (None, message["MessageId"])
        assert known.sequence in (None, message["Attributes"].get("SequenceNumber"))
        known.id, known.sequence = message["MessageId"], message["Attributes"].get("SequenceNumber")
        count = int(message["Attributes"]["ApproximateReceiveCount"])
        repeated = queue == FIFO and message["ReceiptHandle"] == known.handle
        lowest = known.count if repeated else known.count + 1
        assert lowest <= count <= known.count + 1 + self.lost_receives[queue], (known, count)
        known.count, known.handle = count, message["ReceiptHandle"]
        return known

    async def _delete(self, connection: Connection, queue: str, known: list[Known]) -> None:
        if not known:
            return
        for one in known:
            one.deleting = True
        answer = await connection.call("DeleteMessageBatch", QueueUrl=queue, Entries=_entries(known))
        assert len(answer["Successful"]) == len(known), answer
        for one in known:
            one.deleted = True

    # --- the end

    async def judge(self, url: str) -> None:
        """Hold what is there against what must be."""
        connection = await Connection.to(url)
        for queue in (STANDARD, FIFO):
            there = (await connection.get(f"/_messagequeue/peek?queue={queue}"))["messages"]
            self._judge_queue(queue, there)
            names = ("", "NotVisible", "Delayed")
            got = await connection.call("GetQueueAttributes", QueueUrl=queue, AttributeNames=["All"])
            states = [one["state"] for one in there]
            assert [int(got["Attributes"][f"ApproximateNumberOfMessages{name}"]) for name in names] == [
                states.count(state) for state in ("visible", "in_flight", "delayed")
            ]
        held = [known for known in self.known[STANDARD].values() if known.held]
        for start in range(0, len(held), 10):
            await self._delete(connection, STANDARD, held[start : start + 10])
        left = (await connection.get(f"/_messagequeue/peek?queue={STANDARD}"))["messages"]
        assert not {one["message_id"] for one in left} & {known.id for known in held}, "a handle was not good any more"
        await connection.close()

    def _judge_queue(self, queue: str, there: list[dict[str, Any]]) -> None:
        known, bodies = self.known[queue], [one["body"] for one in there]
        assert len(set(bodies)) == len(bodies), "a message is stored twice"
        assert set(bodies) <= known.keys()
        lost = [body for body, one in known.items() if one.id and not one.deleting and body not in set(bodies)]
        assert not lost, f"acknowledged and lost: {lost}"
        assert not [body for body in bodies if known[body].deleted], "deleted and still there"
        for seen in there:
            one = known[seen["body"]]
            assert one.id in (None, seen["message_id"])
            assert one.count <= seen["receives"] <= one.count + self.lost_receives[queue]
            if one.delayed or one.held:
                assert seen["state"] == ("delayed" if one.delayed else "in_flight")
        if queue == FIFO:
            for group in GROUPS:
                numbers = [int(body.split()[1]) for body in bodies if body.startswith(group)]
                assert numbers == sorted(numbers)


def _partial(work: Callable[..., Awaitable[None]], argument: object) -> Callable[[Connection], Awaitable[None]]:
    return lambda connection: work(connection, argument)


def _entries(known: list[Known]) -> list[dict[str, object]]:
    return [{"Id": str(number), "ReceiptHandle": one.handle} for number, one in enumerate(known)]
