"""When answers leave: after the commit of what they tell of, and not at all where that fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from messagequeue.broker.storage import StorageError
from tests.server.sqs_driving import CLIENTS, Client, Driven, Pending, Refused


class ByHand:
    """Commits that a test makes, or lets fail."""

    def __init__(self) -> None:
        self.failing = False
        self._waiting: list[Callable[[Exception | None], None]] = []

    async def committed(self) -> None:
        raise NotImplementedError

    def after_commit(self, then: Callable[[Exception | None], None], /) -> None:
        self._waiting.append(then)

    def end(self, error: Exception | None = None) -> None:
        self.failing = error is not None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(error)


@pytest.fixture
def commits() -> ByHand:
    return ByHand()


@pytest.fixture(params=sorted(CLIENTS))
def sqs(request: pytest.FixtureRequest, commits: ByHand) -> Client:
    return CLIENTS[request.param](Driven(commits=commits))


def done(pending: Pending, commits: ByHand) -> object:
    """Return the answer, which must not be there before the commit."""
    assert not pending.done
    commits.end()
    return pending.result


def test_every_answer_waits_for_the_commit_of_what_it_tells_of(sqs: Client, commits: ByHand) -> None:
    """Also one that changes nothing: it may show what a crash could still undo."""
    done(sqs.start("CreateQueue", QueueName="q"), commits)
    sending = sqs.start("SendMessage", QueueUrl="q", MessageBody="x")
    counting = sqs.start("GetQueueAttributes", QueueUrl="q", AttributeNames=["All"])
    refused = sqs.start("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "1"})
    assert not any(pending.done for pending in (sending, counting, refused))
    commits.end()

    assert sending.result["MessageId"]
    assert counting.result["Attributes"]["ApproximateNumberOfMessages"] == "1"
    with pytest.raises(Refused, match="QueueAlreadyExists"):
        _ = refused.result


def test_a_receive_that_was_parked_waits_for_its_commit_too(sqs: Client, commits: ByHand) -> None:
    """What woke it and what it took are one commit."""
    done(sqs.start("CreateQueue", QueueName="q"), commits)
    parked = sqs.start("ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20)
    sending = sqs.start("SendMessage", QueueUrl="q", MessageBody="x")
    assert not parked.done
    assert not sending.done
    commits.end()

    assert [message["Body"] for message in parked.result["Messages"]] == ["x"]


def test_what_could_not_be_stored_is_not_acknowledged(sqs: Client, commits: ByHand) -> None:
    """Each of those who wait gets 503; requests that come meanwhile get it before they change anything."""
    done(sqs.start("CreateQueue", QueueName="q"), commits)
    pending = [
        sqs.start("SendMessage", QueueUrl="q", MessageBody="doubtful"),
        sqs.start("GetQueueUrl", QueueName="q"),
    ]
    commits.end(StorageError("the disk is full"))
    later = [
        sqs.start("SendMessage", QueueUrl="q", MessageBody="refused"),
        sqs.start("ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20),
        sqs.start("DeleteQueue", QueueUrl="q"),
    ]

    for each in (*pending, *later):
        with pytest.raises(Refused) as caught:
            _ = each.result
        assert (caught.value.status, caught.value.code) == (503, "ServiceUnavailable")
        assert "disk" not in caught.value.message
    assert [seen.message.body for seen in sqs.server.engine.peek(sqs.server.clock.now(), "q")] == [b"doubtful"]
    commits.end()
    assert done(sqs.start("ReceiveMessage", QueueUrl="q"), commits)


def test_a_parked_receive_takes_nothing_that_could_not_be_stored(sqs: Client, commits: ByHand) -> None:
    """What becomes visible meanwhile keeps its receive count for when it can be given out."""
    done(sqs.start("CreateQueue", QueueName="q"), commits)
    done(sqs.start("SendMessage", QueueUrl="q", MessageBody="x", DelaySeconds=5), commits)
    parked = sqs.start("ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20)
    commits.failing = True
    sqs.server.advance(5)
    commits.end()

    with pytest.raises(Refused, match="503"):
        _ = parked.result
    [seen] = sqs.server.engine.peek(sqs.server.clock.now(), "q")
    assert seen.receives == 0


def test_a_connection_that_is_to_be_cut_is_cut_after_the_commit(sqs: Client, commits: ByHand) -> None:
    """The fault that a test asks for is about the answer alone."""
    done(sqs.start("CreateQueue", QueueName="q"), commits)
    sqs.server.service.faults.cut(action="SendMessage")
    pending = sqs.start("SendMessage", QueueUrl="q", MessageBody="x")
    assert not pending.was_cut
    commits.end()

    assert pending.was_cut
