"""ReceiveMessage: what comes, what is shown of it, who waits for how long and is woken by what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messagequeue_sqs.server.engine import EngineOptions
from tests.server.sqs_driving import CLIENTS, Client, Driven, JsonClient, Pending, Refused

IPV = "InvalidParameterValue"


def refused_receive(sqs: Client, url: str, **params: Any) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        sqs("ReceiveMessage", QueueUrl=url, **params)
    return refused.value.code, refused.value.message


def poll(sqs: Client, url: str, wait: int = 20, **params: Any) -> Pending:
    return sqs.start("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=wait, **params)


def bodies(pending: Pending) -> list[str]:
    return [message["Body"] for message in pending.result.get("Messages", [])]


# --- parameters


@pytest.mark.parametrize("most", [11, 0, -1])
def test_number_of_messages_has_a_range(sqs: Client, most: int) -> None:
    """1 to 10 (behaviour 71, SRV-23)."""
    assert refused_receive(sqs, sqs.create(), MaxNumberOfMessages=most) == (
        IPV,
        f"Value {most} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
    )


@pytest.mark.parametrize("wait", [21, -1])
def test_wait_has_a_range(sqs: Client, wait: int) -> None:
    """0 to 20 seconds (behaviour 72, SRV-23)."""
    assert refused_receive(sqs, sqs.create(), WaitTimeSeconds=wait) == (
        IPV,
        f"Value {wait} for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
    )


@pytest.mark.parametrize("timeout", [43_201, -1])
def test_visibility_timeout_has_a_range(sqs: Client, timeout: int) -> None:
    """0 to 12 hours (behaviour 72, SRV-23)."""
    assert refused_receive(sqs, sqs.create(), VisibilityTimeout=timeout)[0] == IPV


# --- what is shown


def test_plain_receive_shows_four_members(sqs: Client) -> None:
    """One message where no number is given (behaviour 73)."""
    url = sqs.create()
    for _ in range(2):
        sqs.send(url, MessageAttributes={"a": {"DataType": "String", "StringValue": "x"}})

    [got] = sqs("ReceiveMessage", QueueUrl=url)["Messages"]
    assert set(got) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}


def test_nothing_empty_is_shown(sqs: Client) -> None:
    """No attributes: no key of them, though asked for (behaviour 73)."""
    url = sqs.create()
    sqs.send(url)

    [got] = sqs.receive(url, MessageAttributeNames=["All"], AttributeNames=["AWSTraceHeader"])
    assert "MessageAttributes" not in got
    assert "MD5OfMessageAttributes" not in got


STANDARD = {"SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"}


@pytest.mark.parametrize("spelling", ["AttributeNames", "MessageSystemAttributeNames"])
def test_all_system_attributes_are_those_that_apply(sqs: Client, spelling: str) -> None:
    """In both spellings, times in milliseconds (behaviour 74, SRV-24)."""
    url, fifo = sqs.create("q"), sqs.create("q.fifo")
    sqs.send(url)
    sqs.send(fifo, MessageGroupId="g", MessageDeduplicationId="d")
    at = str(int(sqs.server.clock.now() * 1000))

    [standard] = sqs.receive(url, **{spelling: ["All"]})
    [ordered] = sqs.receive(fifo, **{spelling: ["All"]})

    assert standard["Attributes"] == {
        "SenderId": "000000000000",
        "SentTimestamp": at,
        "ApproximateReceiveCount": "1",
        "ApproximateFirstReceiveTimestamp": at,
    }
    assert set(ordered["Attributes"]) == STANDARD | {"SequenceNumber", "MessageGroupId", "MessageDeduplicationId"}


def test_system_attributes_of_both_spellings_are_added(sqs: Client) -> None:
    """Names that do not apply are left out (behaviour 74)."""
    url = sqs.create()
    sqs.send(url)

    [got] = sqs.receive(
        url,
        AttributeNames=["SentTimestamp"],
        MessageSystemAttributeNames=["ApproximateReceiveCount", "SequenceNumber"],
    )
    assert set(got["Attributes"]) == {"SentTimestamp", "ApproximateReceiveCount"}


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (["All"], ["bar", "foo.a", "foo.b"]),
        ([".*"], ["bar", "foo.a", "foo.b"]),
        (["*"], ["bar", "foo.a", "foo.b"]),
        (["foo.*"], ["foo.a", "foo.b"]),
        (["fo.*"], ["foo.a", "foo.b"]),
        (["foo"], []),
        (["bar"], ["bar"]),
        (["BAR"], []),
        (["bar", "foo.a", "nope"], ["bar", "foo.a"]),
        (["x" * 257, "a b", ""], []),
        ([], []),
    ],
    ids=str,
)
def test_user_attributes_are_chosen_by_name(sqs: Client, wanted: list[str], shown: list[str]) -> None:
    """Exact, prefixes, all; what is no name chooses nothing (behaviour 75, SRV-24)."""
    url = sqs.create()
    attributes = {name: {"DataType": "String", "StringValue": name} for name in ("foo.a", "foo.b", "bar")}
    sqs.send(url, MessageAttributes=attributes)

    [got] = sqs.receive(url, MessageAttributeNames=wanted)
    assert sorted(got.get("MessageAttributes", {})) == shown


def test_digest_is_of_the_attributes_that_are_shown(sqs: Client) -> None:
    """So that every SDK finds it right (behaviour 76, SRV-04)."""
    url = sqs.create()
    one = {"a": {"DataType": "String", "StringValue": "1"}}
    alone = sqs.send(url, MessageAttributes=one)["MD5OfMessageAttributes"]
    sqs("PurgeQueue", QueueUrl=url)
    sqs.send(url, MessageAttributes={**one, "b": {"DataType": "String", "StringValue": "2"}})

    [got] = sqs.receive(url, MessageAttributeNames=["a"])
    assert got["MD5OfMessageAttributes"] == alone


def test_receives_are_counted(sqs: Client) -> None:
    """The first time stays, handles are new each time (behaviour 77)."""
    url = sqs.create()
    sqs.send(url)
    got = []
    for _ in range(3):
        got += sqs.receive(url, VisibilityTimeout=5, AttributeNames=["All"])
        sqs.server.advance(5)

    assert [one["Attributes"]["ApproximateReceiveCount"] for one in got] == ["1", "2", "3"]
    assert len({one["Attributes"]["ApproximateFirstReceiveTimestamp"] for one in got}) == 1
    assert len({one["ReceiptHandle"] for one in got}) == 3


def test_receive_without_a_timeout_leaves_the_message_visible(sqs: Client) -> None:
    """It counts all the same (behaviour 78)."""
    url = sqs.create()
    sqs.send(url)
    got = [sqs.receive(url, VisibilityTimeout=0, AttributeNames=["All"])[0] for _ in range(2)]

    assert [one["Attributes"]["ApproximateReceiveCount"] for one in got] == ["1", "2"]


def test_oldest_comes_first(sqs: Client) -> None:
    """On a standard queue, too, and also after it came back (behaviour 88, SRV-12)."""
    url = sqs.create()
    for number in range(5):
        sqs.send(url, str(number))
    sqs.receive(url, 2, VisibilityTimeout=3)
    assert sqs.bodies(url, 1, VisibilityTimeout=0) == ["2"]
    sqs.server.advance(3)

    assert sqs.bodies(url) == ["0", "1", "2", "3", "4"]


def test_noisy_tenant_steps_back(sqs: Client) -> None:
    """Of a standard queue with groups: one that has it full lets the others pass (guide, "fair queues")."""
    url = sqs.create()
    for number in range(50):
        sqs.send(url, f"noisy{number}", MessageGroupId="noisy")
    for _ in range(4):
        sqs.receive(url)
    for number in range(3):
        sqs.send(url, f"quiet{number}", MessageGroupId="quiet")

    assert sqs.bodies(url) == ["quiet0", "quiet1", "quiet2", *(f"noisy{number}" for number in range(40, 47))]


# --- waiting


def test_short_poll_never_waits(sqs: Client) -> None:
    """Nor does a long one that finds something (behaviour 79)."""
    url = sqs.create()
    assert poll(sqs, url, 0).done
    sqs.send(url)

    assert bodies(poll(sqs, url, 20, MaxNumberOfMessages=10)) == ["hello"]


def test_long_poll_lasts_as_long_as_it_says(sqs: Client) -> None:
    """To the moment (behaviour 80)."""
    url = sqs.create()
    parked = poll(sqs, url, 7)
    sqs.server.advance(6.999)
    assert not parked.done
    sqs.server.advance(0.001)

    assert parked.result == {}


def test_wait_of_the_queue_applies_unless_another_is_given(sqs: Client) -> None:
    """0 is given (behaviour 80)."""
    url = sqs.create("q", ReceiveMessageWaitTimeSeconds=4)
    parked = sqs.start("ReceiveMessage", QueueUrl=url)

    assert poll(sqs, url, 0).done
    assert not parked.done
    sqs.server.advance(4)
    assert parked.done


def by_send(sqs: Client, url: str) -> None:
    sqs.send(url, "it")


def by_delay(sqs: Client, url: str) -> None:
    sqs.send(url, "it", DelaySeconds=3)
    sqs.server.advance(3)


def by_timeout(sqs: Client, url: str) -> None:
    sqs.server.advance(3)


def by_release(sqs: Client, url: str) -> None:
    sqs.change(url, sqs.server.held, 0)  # type: ignore[attr-defined]


def by_move_task(sqs: Client, url: str) -> None:
    dead = sqs.create("dead")
    source = sqs.create("source")
    sqs.redrive(source, dead)
    sqs.send(dead, "it")
    sqs("StartMessageMoveTask", SourceArn=sqs.arn(dead), DestinationArn=sqs.arn(url))
    sqs.server.advance(0)


def by_dead_letter(sqs: Client, url: str) -> None:
    source = sqs.create("source", VisibilityTimeout=0)
    sqs.redrive(source, url)
    sqs.send(source, "it")
    sqs.receive(source)
    sqs.receive(source)


@pytest.mark.parametrize("wake", [by_send, by_delay, by_timeout, by_release, by_move_task, by_dead_letter])
def test_long_poll_is_woken(sqs: Client, wake: Callable[[Client, str], None]) -> None:
    """By whatever makes a message visible, at that moment (behaviour 81, SRV-05)."""
    url = sqs.create()
    if wake in (by_timeout, by_release):
        sqs.send(url, "it")
        [held] = sqs.receive(url, VisibilityTimeout=3)
        sqs.server.held = held["ReceiptHandle"]  # type: ignore[attr-defined]
    parked = poll(sqs, url)
    assert not parked.done

    wake(sqs, url)

    assert bodies(parked) == ["it"]
    assert parked.answered_at == sqs.server.clock.now()


def fifo_by_send(sqs: Client, url: str) -> None:
    sqs.send(url, "it", MessageGroupId="g")


def fifo_by_delay(sqs: Client, url: str) -> None:
    sqs.set(url, DelaySeconds=3)
    sqs.send(url, "it", MessageGroupId="g")
    sqs.server.advance(3)


def fifo_by_dead_letter(sqs: Client, url: str) -> None:
    source = sqs.create("source.fifo", ContentBasedDeduplication="true", VisibilityTimeout=0)
    sqs.redrive(source, url)
    sqs.send(source, "it", MessageGroupId="g")
    sqs.receive(source)
    sqs.receive(source)


def fifo_by_move_task(sqs: Client, url: str) -> None:
    dead, source = (sqs.create(f"{name}.fifo", ContentBasedDeduplication="true") for name in ("dead", "source"))
    sqs.redrive(source, dead)
    sqs.send(dead, "it", MessageGroupId="g")
    sqs("StartMessageMoveTask", SourceArn=sqs.arn(dead), DestinationArn=sqs.arn(url))
    sqs.server.advance(0)


@pytest.mark.parametrize(
    "wake", [fifo_by_send, fifo_by_delay, by_timeout, by_release, fifo_by_move_task, fifo_by_dead_letter]
)
def test_long_poll_of_a_fifo_queue_is_woken(sqs: Client, wake: Callable[[Client, str], None]) -> None:
    """By the same, at that moment (behaviour 81, SRV-05)."""
    url = sqs.create("q.fifo", ContentBasedDeduplication="true")
    if wake in (by_timeout, by_release):
        sqs.send(url, "it", MessageGroupId="g")
        [held] = sqs.receive(url, VisibilityTimeout=3)
        sqs.server.held = held["ReceiptHandle"]  # type: ignore[attr-defined]
    parked = poll(sqs, url)
    assert not parked.done

    wake(sqs, url)

    assert bodies(parked) == ["it"]
    assert parked.answered_at == sqs.server.clock.now()


def test_long_poll_is_woken_by_a_group_that_is_free(sqs: Client) -> None:
    """By the delete of what held it (behaviour 81, SRV-05)."""
    url = sqs.create("q.fifo", ContentBasedDeduplication="true")
    for body in ("1", "2"):
        sqs.send(url, body, MessageGroupId="g")
    [held] = sqs.receive(url, 1)
    parked = poll(sqs, url)
    sqs.delete(url, held["ReceiptHandle"])

    assert bodies(parked) == ["2"]


def test_one_message_wakes_one_poll(sqs: Client) -> None:
    """The one that waits longest; the others wait to their own ends (behaviour 82, SRV-05)."""
    url = sqs.create()
    polls = [poll(sqs, url, wait) for wait in (20, 10, 15)]
    sqs.send(url)
    assert [one.done for one in polls] == [True, False, False]
    sqs.server.advance(10)
    assert [one.done for one in polls] == [True, True, False]
    sqs.server.advance(5)

    assert [bodies(one) for one in polls] == [["hello"], [], []]


def test_batch_serves_as_many_polls_as_it_can(sqs: Client) -> None:
    """A poll takes no more than it asked for (behaviour 82)."""
    url = sqs.create()
    polls = [poll(sqs, url, MaxNumberOfMessages=most) for most in (2, 1, 5)]
    sqs("SendMessageBatch", QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(4)])

    assert [bodies(one) for one in polls] == [["0", "1"], ["2"], ["3"]]


@pytest.mark.parametrize("groups", [None, 200, 7])
def test_two_hundred_polls_are_served_by_two_hundred_messages(sqs: Client, groups: int | None) -> None:
    """Each by one, none empty; on FIFO as groups are free, and in their order (behaviours 82 and 125)."""
    url = sqs.create("q" if groups is None else "q.fifo", **({"ContentBasedDeduplication": "true"} if groups else {}))
    polls = [poll(sqs, url, AttributeNames=["MessageGroupId"]) for _ in range(200)]
    for number in range(200):
        sqs.send(url, str(number), **({"MessageGroupId": f"g{number % groups}"} if groups else {}))
    served = [one for one in polls if one.done]
    assert served == polls[: groups or 200]
    for one in polls:  # on FIFO, each delete frees a group for the next that waits
        sqs.delete(url, one.result["Messages"][0]["ReceiptHandle"])

    got = [bodies(one) for one in polls]
    assert sorted(got, key=lambda one: int(one[0])) == [[str(number)] for number in range(200)]
    assert got[: groups or 200] == [[str(number)] for number in range(groups or 200)]
    assert len(sqs.server.parking) == 0


def test_poll_whose_client_has_gone_takes_nothing(sqs: Client) -> None:
    """The next one gets it, as its first receive (behaviour 83, SRV-07)."""
    url = sqs.create()
    gone = [poll(sqs, url) for _ in range(50)]
    for one in gone:
        one.hang_up()
    assert len(sqs.server.parking) == 0
    live = poll(sqs, url, AttributeNames=["All"])
    sqs.send(url)

    [got] = live.result["Messages"]
    assert got["Attributes"]["ApproximateReceiveCount"] == "1"


def test_poll_whose_client_has_gone_unnoticed_takes_nothing(sqs: Client) -> None:
    """What the transport does not know yet is asked for at the last moment (behaviour 83, SRV-07)."""
    url = sqs.create()
    gone, live = poll(sqs, url), poll(sqs, url)
    gone.gone = True
    sqs.send(url)

    assert (gone.done, bodies(live)) == (False, ["hello"])


def test_poll_whose_client_has_gone_can_be_made_to_take_a_message(sqs: Client) -> None:
    """As AWS may do it, for tests of clients (SRV-07)."""
    sqs.server.service.faults.dead_polls_capture = True
    url = sqs.create()
    gone, live = poll(sqs, url), poll(sqs, url)
    gone.hang_up()
    sqs.send(url)

    assert (live.done, sqs.counts(url)) == (False, (0, 1, 0))


def test_polls_beyond_the_places_are_short() -> None:
    """An empty answer, not an error."""
    sqs = JsonClient(Driven(max_polls=2))
    url = sqs.create()
    polls = [poll(sqs, url) for _ in range(3)]

    assert [one.done for one in polls] == [False, False, True]
    assert polls[2].result == {}


def test_polls_at_many_queues_are_kept_apart(sqs: Client) -> None:
    """Each is woken by its own queue."""
    urls = [sqs.create(f"q{number}") for number in range(5)]
    polls = [poll(sqs, url) for url in urls]
    sqs.send(urls[3])

    assert [one.done for one in polls] == [False, False, False, True, False]


def test_polls_that_are_over_leave_nothing_behind(sqs: Client) -> None:
    """A schedule of what is over does not grow."""
    url = sqs.create()
    for _ in range(500):
        parked = poll(sqs, url)
        sqs.send(url)
        sqs.delete(url, parked.result["Messages"][0]["ReceiptHandle"])

    assert len(sqs.server.parking._schedule) < 200


def test_change_by_another_face_of_the_broker_wakes_a_poll(server: Driven) -> None:
    """What the `embedded` provider publishes comes out here."""
    sqs = JsonClient(server)
    url = sqs.create()
    parked, later = poll(sqs, url), poll(sqs, url)
    server.broker.queue("sqs.q").put(server.clock.now(), b"direct")
    server.broker.queue("sqs.q").put(server.clock.now(), b"delayed", delay=5)
    server.settle()

    assert (bodies(parked), later.done) == (["direct"], False)
    server.advance(5)
    assert bodies(later) == ["delayed"]


def test_bytes_of_another_face_are_shown_as_base64(server: Driven) -> None:
    """With the attribute that this package's provider reads."""
    sqs = JsonClient(server)
    url = sqs.create()
    server.broker.queue("sqs.q").put(server.clock.now(), b"\xff\x00")

    [got] = sqs.receive(url, MessageAttributeNames=["All"])
    assert got["Body"] == "/wA="
    assert got["MessageAttributes"] == {"messagequeue.encoding": {"DataType": "String", "StringValue": "base64"}}


# --- limits


def test_nobody_else_gets_a_message_within_its_timeout(sqs: Client) -> None:
    """To the moment (behaviour 84)."""
    url = sqs.create("q", VisibilityTimeout=7)
    sqs.send(url)
    sqs.receive(url)
    sqs.server.advance(6.999)
    assert sqs.receive(url) == []
    sqs.server.advance(0.001)

    assert len(sqs.receive(url)) == 1


def test_messages_vanish_when_their_time_is_over(sqs: Client) -> None:
    """In flight, too (behaviour 85)."""
    url = sqs.create("q", MessageRetentionPeriod=60)
    sqs.send(url)
    sqs.server.advance(30)
    sqs.send(url)
    sqs.receive(url, 1, VisibilityTimeout=1_000)
    sqs.server.advance(30)
    assert sqs.counts(url) == (1, 0, 0)
    sqs.server.advance(30)

    assert sqs.counts(url) == (0, 0, 0)


@pytest.mark.parametrize("protocol", CLIENTS)
def test_messages_in_flight_have_a_limit(protocol: str) -> None:
    """Standard: an error for a short poll, a wait for a long one; FIFO: nothing (behaviour 86)."""
    sqs = CLIENTS[protocol](Driven(EngineOptions(max_in_flight=2)))
    url, fifo = sqs.create("q"), sqs.create("q.fifo", ContentBasedDeduplication="true")
    for number in range(3):
        sqs.send(url, str(number))
        sqs.send(fifo, str(number), MessageGroupId=str(number))

    held = sqs.receive(url)
    assert (len(held), len(sqs.receive(fifo)), sqs.receive(fifo)) == (2, 2, [])
    with pytest.raises(Refused) as refused:
        sqs.receive(url)
    parked = poll(sqs, url)
    sqs.delete(url, held[0]["ReceiptHandle"])

    assert (refused.value.status, refused.value.code) == (403, "OverLimit")
    assert bodies(parked) == ["2"]


# --- repeated attempts


def attempt(sqs: Client, url: str, id_: str = "try", **params: Any) -> list[dict[str, Any]]:
    return sqs.receive(url, ReceiveRequestAttemptId=id_, **params)


@pytest.fixture
def fifo(sqs: Client) -> str:
    url = sqs.create("q.fifo", ContentBasedDeduplication="true", VisibilityTimeout=10)
    for number in range(3):
        sqs.send(url, str(number), MessageGroupId="g")
    return url


def test_attempt_that_is_repeated_gets_the_same_messages(sqs: Client, fifo: str) -> None:
    """With the same handles, for their whole time again, not counted again (behaviour 87)."""
    first = attempt(sqs, fifo, AttributeNames=["All"])
    sqs.server.advance(8)
    second = attempt(sqs, fifo, AttributeNames=["All"])
    sqs.server.advance(8)

    assert first == second
    assert len(first) == 3
    assert sqs.counts(fifo) == (0, 3, 0)
    sqs.server.advance(2)
    assert sqs.counts(fifo) == (3, 0, 0)


def test_attempt_is_another_after_a_change(sqs: Client, fifo: str) -> None:
    """Deleted, or its timeout changed (behaviour 87)."""
    [first, *_] = attempt(sqs, fifo)
    sqs.delete(fifo, first["ReceiptHandle"])
    assert attempt(sqs, fifo) == []
    sqs.server.advance(10)
    [second, *_] = attempt(sqs, fifo, "other")
    sqs.change(fifo, second["ReceiptHandle"], 60)

    assert attempt(sqs, fifo, "other") == []


def test_attempt_ends_with_its_timeout_and_after_five_minutes(sqs: Client, fifo: str) -> None:
    """Then it is a receive like any other (behaviour 87)."""
    first = attempt(sqs, fifo)
    sqs.server.advance(10)
    second = attempt(sqs, fifo, VisibilityTimeout=400)
    assert [one["ReceiptHandle"] for one in first] != [one["ReceiptHandle"] for one in second]
    sqs.server.advance(300)

    assert attempt(sqs, fifo) == []


def test_attempts_are_for_fifo_queues(sqs: Client) -> None:
    """A standard queue refuses the parameter (behaviour 87)."""
    code, message = refused_receive(sqs, sqs.create(), ReceiveRequestAttemptId="x")

    assert code == IPV
    assert message.endswith("The request include parameter that is not valid for this queue type.")


# --- faults on request


def test_faults_happen_as_often_as_asked_for(sqs: Client) -> None:
    """Refused before anything is done; other actions are left alone."""
    faults, url = sqs.server.service.faults, sqs.create()
    faults.throttle(action="SendMessage")
    faults.fail(2, action="SendMessage")

    codes = []
    for _ in range(3):
        with pytest.raises(Refused) as refused:
            sqs.send(url)
        codes.append((refused.value.status, refused.value.code, refused.value.fault))
        assert sqs.receive(url) == []
    sqs.send(url)

    assert codes == [(403, "RequestThrottled", "Sender"), *[(500, "InternalFailure", "Receiver")] * 2]


def test_fault_can_cut_the_connection_after_the_work_is_done(sqs: Client) -> None:
    """The client does not know, the queue does."""
    url = sqs.create()
    sqs.server.service.faults.cut(action="SendMessage")
    pending = sqs.start("SendMessage", QueueUrl=url, MessageBody="x")

    assert (pending.was_cut, pending.done, sqs.bodies(url)) == (True, False, ["x"])


def test_fault_can_deliver_twice(sqs: Client) -> None:
    """In one answer, with one handle."""
    url = sqs.create()
    sqs.send(url)
    sqs.server.service.faults.duplicate()

    first, second = sqs.receive(url)
    assert first == second


def test_fault_can_put_standard_queues_out_of_order(sqs: Client) -> None:
    """The same way for one seed, nothing lost; FIFO keeps its order."""
    url, fifo = sqs.create("q"), sqs.create("q.fifo", ContentBasedDeduplication="true")
    entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(10)]
    for _ in range(2):
        sqs("SendMessageBatch", QueueUrl=url, Entries=entries)
    sqs("SendMessageBatch", QueueUrl=fifo, Entries=[{**entry, "MessageGroupId": "g"} for entry in entries])
    in_order = [str(n) for n in range(10)]

    orders = []
    for seed in (1, 1):
        sqs.server.service.faults.disorder(seed)
        orders.append(sqs.bodies(url, 10, VisibilityTimeout=0))
    rest = sqs.bodies(url) + sqs.bodies(url)

    assert orders[0] == orders[1] != in_order
    assert sorted(rest) == sorted(in_order * 2)
    assert sqs.bodies(fifo) == in_order
    sqs.server.service.faults.clear()
