"""FIFO queues: what has to be given, what is a duplicate, what is locked and what comes when."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.server.sqs_driving import Client, Refused

IPV = "InvalidParameterValue"


@pytest.fixture
def url(sqs: Client) -> str:
    return sqs.create("q.fifo", ContentBasedDeduplication="true", VisibilityTimeout=10)


def fill(sqs: Client, url: str, *names: str) -> None:
    """Send messages whose first letters are their groups."""
    for name in names:
        sqs.send(url, name, MessageGroupId=name[0])


def take(sqs: Client, url: str, most: int = 10, **params: Any) -> dict[str, str]:
    """Return handles by body, in the order of the answer."""
    return {one["Body"]: one["ReceiptHandle"] for one in sqs.receive(url, most, **params)}


def test_keys_are_needed_and_delays_refused(sqs: Client) -> None:
    """Each with its code (behaviour 99, FIFO-09)."""
    url = sqs.create("q.fifo")
    refusals = []
    for params in (
        {},
        {"MessageGroupId": "g"},
        {"MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": 2},
    ):
        with pytest.raises(Refused) as refused:
            sqs.send(url, **params)
        refusals.append((refused.value.code, refused.value.message))

    assert refusals == [
        ("MissingParameter", "The request must contain the parameter MessageGroupId."),
        (
            IPV,
            (
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided "
                "explicitly"
            ),
        ),
        (
            IPV,
            (
                "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not "
                "valid for this queue type."
            ),
        ),
    ]
    assert sqs.counts(url) == (0, 0, 0)


def test_delay_of_zero_is_taken_and_the_queue_s_applies(sqs: Client) -> None:
    """It does not win here (behaviours 99 and 110)."""
    url = sqs.create("q.fifo", ContentBasedDeduplication="true", DelaySeconds=5)
    sqs.send(url, "1", MessageGroupId="g", DelaySeconds=0)
    sqs.server.advance(1)
    sqs.send(url, "2", MessageGroupId="g")

    assert take(sqs, url) == {}
    sqs.server.advance(4)
    assert list(take(sqs, url)) == ["1"]
    sqs.server.advance(30)
    assert list(take(sqs, url)) == ["1", "2"]


def test_sequence_numbers_rise_over_the_queue(sqs: Client, url: str) -> None:
    """Twenty digits, the same at both ends (behaviour 100)."""
    sent = [sqs.send(url, str(n), MessageGroupId=str(n % 2))["SequenceNumber"] for n in range(4)]
    got = {one["Body"]: one["Attributes"]["SequenceNumber"] for one in sqs.receive(url, AttributeNames=["All"])}

    assert sent == sorted(set(sent))
    assert all(len(number) == 20 and number.isdigit() for number in sent)
    assert [got[str(n)] for n in range(4)] == sent


def test_duplicate_is_answered_like_the_first(sqs: Client, url: str) -> None:
    """For five minutes from the first, deleted or not (behaviour 101, FIFO-12)."""

    def send(id_: str = "d") -> tuple[str, str]:
        answer = sqs.send(url, "x", MessageGroupId="g", MessageDeduplicationId=id_)
        return answer["MessageId"], answer["SequenceNumber"]

    first = send()
    again = [send()]
    [handle] = take(sqs, url).values()
    sqs.delete(url, handle)
    again.append(send())
    sqs.server.advance(299)
    again.append(send())
    assert sqs.counts(url) == (0, 0, 0)
    sqs.server.advance(2)
    later = send()

    assert again == [first] * 3
    assert later > first or later[0] != first[0]
    assert sqs.counts(url) == (1, 0, 0)


def test_content_is_an_identity(sqs: Client, url: str) -> None:
    """Of the body alone; a given one wins (behaviour 102, FIFO-12)."""
    attribute = {"a": {"DataType": "String", "StringValue": "x"}}
    sqs.send(url, "hé", MessageGroupId="g")
    sqs.send(url, "hé", MessageGroupId="g", MessageAttributes=attribute)
    sqs.send(url, "hé", MessageGroupId="g", MessageDeduplicationId="own")

    got = sqs.receive(url, AttributeNames=["MessageDeduplicationId"])
    assert [one["Attributes"]["MessageDeduplicationId"] for one in got] == [
        hashlib.sha256("hé".encode()).hexdigest(),
        "own",
    ]


@pytest.mark.parametrize(("scope", "stored"), [("queue", 1), ("messageGroup", 2)])
def test_scope_of_an_identity(sqs: Client, scope: str, stored: int) -> None:
    """The queue, or one group (behaviour 103)."""
    url = sqs.create("q.fifo", DeduplicationScope=scope)
    for group in "ab":
        sqs.send(url, MessageGroupId=group, MessageDeduplicationId="d")
        sqs.send(url, MessageGroupId=group, MessageDeduplicationId="d")

    assert sqs.counts(url)[0] == stored


@pytest.mark.parametrize(("before", "after", "stored"), [("queue", "messageGroup", 1), ("messageGroup", "queue", 2)])
def test_scope_stays_as_it_was_made(sqs: Client, before: str, after: str, stored: int) -> None:
    """The attribute shows the change, the queue does not make it (behaviour 104)."""
    url = sqs.create("q.fifo", DeduplicationScope=before)
    sqs.send(url, MessageGroupId="a", MessageDeduplicationId="d")
    sqs.set(url, DeduplicationScope=after)
    for group in "ab":
        sqs.send(url, MessageGroupId=group, MessageDeduplicationId="new")
    sqs.server.advance(60)

    assert sqs.attributes(url)["DeduplicationScope"] == after
    assert sqs.counts(url)[0] == 1 + stored


def test_group_in_flight_is_locked(sqs: Client, url: str) -> None:
    """Others flow (behaviour 105, SRV-09)."""
    fill(sqs, url, "a1", "a2", "b1")
    take(sqs, url, 1)

    assert list(take(sqs, url)) == ["b1"]


def test_group_is_locked_by_a_delay_of_its_first(sqs: Client) -> None:
    """Also when the delay of the queue is gone by then (behaviour 105)."""
    url = sqs.create("q.fifo", ContentBasedDeduplication="true", DelaySeconds=5)
    fill(sqs, url, "a1")
    sqs.set(url, DelaySeconds=0)
    fill(sqs, url, "a2", "b1")

    assert list(take(sqs, url)) == ["b1"]


def test_delayed_message_does_not_lock_what_was_before_it(sqs: Client, url: str) -> None:
    """The earlier ones of its group are delivered."""
    fill(sqs, url, "a1")
    sqs.set(url, DelaySeconds=5)
    fill(sqs, url, "a2")

    assert list(take(sqs, url)) == ["a1"]


def test_receive_takes_all_of_a_group_before_the_next(sqs: Client, url: str) -> None:
    """In order (behaviour 106)."""
    fill(sqs, url, "a1", "b1", "a2", "b2", "a3")

    assert list(take(sqs, url, 4)) == ["a1", "a2", "a3", "b1"]


def test_delete_of_the_last_in_flight_unlocks(sqs: Client, url: str) -> None:
    """At once, and not before (behaviour 107, SRV-09)."""
    fill(sqs, url, "a1", "a2", "a3")
    held = take(sqs, url, 2)
    sqs.delete(url, held["a2"])
    assert take(sqs, url) == {}
    sqs.delete(url, held["a1"])

    assert list(take(sqs, url)) == ["a3"]


def test_release_of_one_brings_it_back_in_its_place(sqs: Client, url: str) -> None:
    """The later ones stay hidden (behaviour 108)."""
    fill(sqs, url, "a1", "a2", "a3")
    held = take(sqs, url, 2)
    sqs.change(url, held["a1"], 0)

    assert list(take(sqs, url)) == ["a1"]


def test_extension_blocks_what_is_behind(sqs: Client, url: str) -> None:
    """Until it ends (behaviour 108, SRV-09)."""
    fill(sqs, url, "g1", "g2", "g3", "h1")
    held = take(sqs, url, 3)
    sqs.change(url, held["g1"], 15)
    fill(sqs, url, "g4")
    sqs.server.advance(12)
    assert list(take(sqs, url, VisibilityTimeout=0)) == ["h1"]
    sqs.server.advance(4)

    assert list(take(sqs, url)) == ["h1", "g1", "g2", "g3", "g4"]


def test_extension_in_the_middle_blocks_what_is_behind_it(sqs: Client, url: str) -> None:
    """Not what is before it (behaviour 108)."""
    fill(sqs, url, "a1", "a2", "a3")
    held = take(sqs, url)
    sqs.change(url, held["a2"], 60)
    sqs.server.advance(10)

    assert list(take(sqs, url)) == ["a1"]


def test_group_that_was_served_goes_to_the_end(sqs: Client, url: str) -> None:
    """Behind those that wait (behaviour 109)."""
    fill(sqs, url, "1a", "2a", "3a", "1b")
    take(sqs, url, 2, VisibilityTimeout=0)

    order = [next(iter(take(sqs, url, 1, VisibilityTimeout=0))) for _ in range(3)]
    assert order == ["2a", "3a", "1a"]


def test_order_is_kept_after_timeouts(sqs: Client, url: str) -> None:
    """All of them, in order (SRV-12)."""
    fill(sqs, url, "a1", "a2", "a3", "a4", "a5")
    take(sqs, url, 2)
    sqs.server.advance(10)

    assert list(take(sqs, url)) == ["a1", "a2", "a3", "a4", "a5"]


def test_dead_letter_unlocks_its_group(sqs: Client, url: str) -> None:
    """In the receive that moves it, and it may fail again there (behaviour 111, SRV-11)."""
    dead = sqs.create("dead.fifo", ContentBasedDeduplication="true")
    sqs.redrive(url, dead)
    for _ in range(2):
        sqs.send(url, "g1", MessageGroupId="g", MessageDeduplicationId=str(sqs.server.clock.now()))
        fill(sqs, url, "g2") if not sqs.counts(dead)[0] else None
        assert next(iter(take(sqs, url, 1))) == "g1"
        sqs.server.advance(10)
        assert "g1" not in take(sqs, url)
        sqs("PurgeQueue", QueueUrl=url)

    got = sqs.receive(dead, AttributeNames=["All"])
    assert [one["Body"] for one in got] == ["g1", "g1"]
    assert {one["Attributes"]["MessageGroupId"] for one in got} == {"g"}
