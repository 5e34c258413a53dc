"""Queues: made, made again, found, listed, purged, deleted."""

from __future__ import annotations

import json
import string

import pytest

from messagequeue_sqs.server.engine import EngineOptions
from tests.server.sqs_driving import AWS, BASE, CLIENTS, Client, Driven, JsonClient, Refused

IPV, IAN, IAV = "InvalidParameterValue", "InvalidAttributeName", "InvalidAttributeValue"


def refused_creation(sqs: Client, name: str, **attributes: str) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        sqs("CreateQueue", QueueName=name, Attributes=attributes)
    return refused.value.code, refused.value.message


# --- CreateQueue


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 80])
def test_names_that_are_allowed(sqs: Client, name: str) -> None:
    """1 to 80 letters, digits, hyphens, underscores (behaviour 27, SRV-25)."""
    assert sqs.create(name) == f"{BASE}/000000000000/{name}"


@pytest.mark.parametrize("name", ["a.b", "x" * 81, "a b", "ä", "a/b", ".fifo", "a.fifo.fifo"])
def test_names_that_are_not_allowed(sqs: Client, name: str) -> None:
    """With the sentence of AWS (behaviour 27, SRV-25)."""
    assert refused_creation(sqs, name) == (
        IPV,
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
    )


def test_fifo_suffix_counts_for_the_length_of_a_name(sqs: Client) -> None:
    """80 with it, not 81 (behaviour 27, SRV-25)."""
    assert sqs.create("x" * 75 + ".fifo")
    assert refused_creation(sqs, "x" * 76 + ".fifo", FifoQueue="true")[0] == IPV


@pytest.mark.parametrize(
    ("name", "attributes"), [("q.fifo", {}), ("q.fifo", {"FifoQueue": "false"}), ("q", {"FifoQueue": "true"})]
)
def test_fifo_name_and_attribute_go_together(sqs: Client, name: str, attributes: dict[str, str]) -> None:
    """One without the other is refused (behaviour 28, SRV-25)."""
    assert refused_creation(sqs, name, **attributes)[0] == IPV


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FifoQueue", "false", "Unknown Attribute FifoQueue."),
        ("ContentBasedDeduplication", "true", "Unknown Attribute ContentBasedDeduplication."),
        ("DeduplicationScope", "queue", "You can specify the DeduplicationScope only when FifoQueue is set to true."),
        (
            "FifoThroughputLimit",
            "perQueue",
            "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
        ),
    ],
)
def test_fifo_attributes_are_unknown_to_standard_queues(sqs: Client, name: str, value: str, text: str) -> None:
    """FifoQueue=false among them (behaviour 29, SRV-25)."""
    assert refused_creation(sqs, "q", **{name: value}) == (IAN, text)


def test_creation_of_an_equal_queue_returns_it(sqs: Client) -> None:
    """With no attributes, equal ones, defaults, other tags (behaviour 30, SRV-18)."""
    url = sqs.create("q", VisibilityTimeout=31)

    again = [sqs.create("q"), sqs.create("q", VisibilityTimeout=31), sqs.create("q", DelaySeconds=0)]
    tagged = sqs("CreateQueue", QueueName="q", tags={"a": "b"})["QueueUrl"]

    assert [*again, tagged] == [url] * 4


def test_creation_of_another_queue_of_that_name_is_refused(sqs: Client) -> None:
    """Against the attributes as they are now (behaviour 30, SRV-18)."""
    url = sqs.create("q", VisibilityTimeout=30)

    assert refused_creation(sqs, "q", VisibilityTimeout="31") == (
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute VisibilityTimeout",
    )
    sqs.set(url, VisibilityTimeout=31)
    assert sqs.create("q", VisibilityTimeout=31) == url
    assert refused_creation(sqs, "q", VisibilityTimeout="30")[0] == "QueueAlreadyExists"


def test_creation_of_another_queue_has_its_own_type(json_client: JsonClient) -> None:
    """The code is older than the type (behaviours 5 and 30)."""
    json_client.create("q", DelaySeconds=1)

    with pytest.raises(Refused) as refused:
        json_client.create("q", DelaySeconds=2)
    assert refused.value.type == "com.amazonaws.sqs#QueueNameExists"


RANGES = {
    "VisibilityTimeout": (0, 43_200),
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1_024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}


@pytest.mark.parametrize("name", RANGES)
def test_attributes_have_ranges(sqs: Client, name: str) -> None:
    """Bounds included (behaviour 31, SRV-23)."""
    low, high = RANGES[name]

    for number, value in enumerate((low, high)):
        assert sqs.attributes(sqs.create(f"q{number}", **{name: value}))[name] == str(value)
    for value in (str(low - 1), str(high + 1), "many", "", "1.5", "9" * 30):
        assert refused_creation(sqs, "bad", **{name: value}) == (IAV, f"Invalid value for the parameter {name}.")
    assert "QueueUrls" not in sqs("ListQueues", QueueNamePrefix="bad")


@pytest.mark.parametrize(
    "name", ["Nope", "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", "ApproximateNumberOfMessages", "All"]
)
def test_unknown_and_read_only_attributes_are_refused(sqs: Client, name: str) -> None:
    """At creation and later (behaviour 32, SRV-23)."""
    url = sqs.create("q")

    assert refused_creation(sqs, "r", **{name: "1"}) == (IAN, f"Unknown Attribute {name}.")
    with pytest.raises(Refused, match=f"Unknown Attribute {name}"):
        sqs.set(url, **{name: "1"})


def test_boolean_attributes_take_any_case(sqs: Client) -> None:
    """And nothing else (behaviour 33)."""
    url = sqs.create("q.fifo", FifoQueue="True", ContentBasedDeduplication="TRUE", SqsManagedSseEnabled="False")

    found = sqs.attributes(url)
    assert [found["FifoQueue"], found["ContentBasedDeduplication"], found["SqsManagedSseEnabled"]] == [
        "true",
        "true",
        "false",
    ]
    assert refused_creation(sqs, "r", SqsManagedSseEnabled="yes")[0] == IAV


def test_creation_takes_tags(sqs: Client) -> None:
    """In both spellings (behaviour 34)."""
    url = sqs.create("q", tags={"Team": "x", "empty": ""})

    assert sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"Team": "x", "empty": ""}}


def test_creation_right_after_deletion_is_allowed_by_default(sqs: Client) -> None:
    """The new queue is empty, and new (behaviour 35, SRV-17)."""
    url = sqs.create("q")
    sqs.send(url)
    before = sqs.attributes(url)["CreatedTimestamp"]
    sqs("DeleteQueue", QueueUrl=url)
    sqs.server.advance(2)
    sqs.create("q")

    assert sqs.receive(url) == []
    assert int(sqs.attributes(url)["CreatedTimestamp"]) == int(before) + 2


@pytest.mark.parametrize("protocol", CLIENTS)
def test_creation_right_after_deletion_can_be_refused(protocol: str) -> None:
    """For 60 seconds, as on AWS (behaviour 35, SRV-17)."""
    sqs = CLIENTS[protocol](Driven(EngineOptions(reuse_cooldown=60)))
    sqs("DeleteQueue", QueueUrl=sqs.create("q"))
    sqs.server.advance(59)

    assert refused_creation(sqs, "q") == (
        f"{AWS}QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    )
    sqs.server.advance(2)
    assert sqs.create("q")


# --- finding


def test_url_of_a_queue(sqs: Client) -> None:
    """Of one's own account (behaviour 45)."""
    url = sqs.create("q")

    assert sqs("GetQueueUrl", QueueName="q") == {"QueueUrl": url}
    assert sqs("GetQueueUrl", QueueName="q", QueueOwnerAWSAccountId="000000000000") == {"QueueUrl": url}


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"QueueName": "nope"}, f"{AWS}NonExistentQueue"),
        ({"QueueName": "q", "QueueOwnerAWSAccountId": "111111111111"}, f"{AWS}NonExistentQueue"),
        ({}, IPV),
        ({"QueueName": ""}, IPV),
    ],
)
def test_url_of_no_queue_is_refused(sqs: Client, params: dict[str, str], code: str) -> None:
    """A missing name is an invalid value (behaviour 45)."""
    sqs.create("q")

    with pytest.raises(Refused) as refused:
        sqs("GetQueueUrl", **params)
    assert refused.value.code == code


def test_list_has_pages(sqs: Client) -> None:
    """By prefix, in a stable order; a token only where more remain (behaviour 46)."""
    urls = sorted(sqs.create(f"a{letter}") for letter in string.ascii_lowercase[:5])
    sqs.create("b")

    first = sqs("ListQueues", QueueNamePrefix="a", MaxResults=2)
    second = sqs("ListQueues", QueueNamePrefix="a", MaxResults=2, NextToken=first["NextToken"])
    third = sqs("ListQueues", QueueNamePrefix="a", MaxResults=2, NextToken=second["NextToken"])

    assert [first["QueueUrls"], second["QueueUrls"], third["QueueUrls"]] == [urls[:2], urls[2:4], urls[4:]]
    assert "NextToken" not in third
    assert sqs("ListQueues", QueueNamePrefix="a") == {"QueueUrls": urls}
    assert "NextToken" not in sqs("ListQueues", QueueNamePrefix="a", MaxResults=5)
    assert sqs("ListQueues", QueueNamePrefix="zz") == {}


@pytest.mark.parametrize(
    "params", [{"MaxResults": 0}, {"MaxResults": 1001}, {"NextToken": "garbage"}, {"NextToken": "é"}]
)
def test_list_refuses_pages_that_there_are_not(sqs: Client, params: dict[str, object]) -> None:
    """Ranges and tokens (behaviour 46)."""
    with pytest.raises(Refused) as refused:
        sqs("ListQueues", **params)
    assert refused.value.code == IPV


def test_list_has_a_thousand_queues_at_most(json_client: JsonClient) -> None:
    """Without MaxResults there is no token, either (behaviour 46, CLI-07)."""
    for number in range(1_001):
        json_client.create(f"q{number}")

    page = json_client("ListQueues")
    more = json_client("ListQueues", MaxResults=1_000)

    assert (len(page["QueueUrls"]), list(page)) == (1_000, ["QueueUrls"])
    assert len(json_client("ListQueues", MaxResults=1_000, NextToken=more["NextToken"])["QueueUrls"]) == 1


@pytest.mark.parametrize("protocol", CLIENTS)
def test_regions_are_name_spaces_of_their_own(server: Driven, protocol: str) -> None:
    """The region that a request is signed for (behaviour 47)."""
    client = CLIENTS[protocol]
    default, other = client(server), client(server, "eu-west-1")
    default.create("q", DelaySeconds=1)
    url = other.create("q", DelaySeconds=2)

    assert other.attributes(url)["QueueArn"] == "arn:aws:sqs:eu-west-1:000000000000:q"
    assert client(server, "us-east-1").attributes(url)["DelaySeconds"] == "1"
    assert other.attributes(url)["DelaySeconds"] == "2"
    assert len(other("ListQueues")["QueueUrls"]) == 1
    assert client(server, "ap-south-1")("ListQueues") == {}


# --- deleting and purging


def test_deleted_queue_is_gone_for_every_action(sqs: Client) -> None:
    """Deleting it again, too (behaviour 48)."""
    url = sqs.create("q")
    sqs("DeleteQueue", QueueUrl=url)

    for action, params in {
        "DeleteQueue": {},
        "SendMessage": {"MessageBody": "x"},
        "ReceiveMessage": {},
        "PurgeQueue": {},
        "ListQueueTags": {},
        "GetQueueAttributes": {"AttributeNames": ["All"]},
    }.items():
        with pytest.raises(Refused) as refused:
            sqs(action, QueueUrl=url, **params)
        assert refused.value.code == f"{AWS}NonExistentQueue"


def test_deletion_ends_the_receives_that_wait(sqs: Client) -> None:
    """At once, with the error (behaviour 48)."""
    url = sqs.create("q")
    parked = sqs.start("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20)
    sqs("DeleteQueue", QueueUrl=url)

    with pytest.raises(Refused) as refused:
        _ = parked.result
    assert refused.value.code == f"{AWS}NonExistentQueue"


def test_purge_removes_everything(sqs: Client) -> None:
    """Visible, in flight, delayed; old handles are harmless (behaviour 49, SRV-16)."""
    url = sqs.create("q")
    sqs.send(url)
    [held] = sqs.receive(url)
    sqs.send(url)
    sqs.send(url, DelaySeconds=5)
    assert sqs.counts(url) == (1, 1, 1)

    sqs("PurgeQueue", QueueUrl=url)

    assert sqs.counts(url) == (0, 0, 0)
    sqs.delete(url, held["ReceiptHandle"])
    sqs.server.advance(60)
    assert sqs.receive(url) == []


def test_purge_frees_groups_and_forgets_deduplication_ids(sqs: Client) -> None:
    """As recorded (behaviour 49, SRV-16)."""
    url = sqs.create("q.fifo", ContentBasedDeduplication="true")
    first = sqs.send(url, "a", MessageGroupId="g")
    sqs.receive(url)

    sqs("PurgeQueue", QueueUrl=url)
    second = sqs.send(url, "a", MessageGroupId="g")

    assert second["MessageId"] != first["MessageId"]
    assert sqs.bodies(url) == ["a"]


def test_purge_can_be_repeated_by_default(sqs: Client) -> None:
    """Test suites purge all the time (behaviour 49, SRV-16)."""
    url = sqs.create("q")

    sqs("PurgeQueue", QueueUrl=url)
    sqs("PurgeQueue", QueueUrl=url)


@pytest.mark.parametrize("protocol", CLIENTS)
def test_purge_can_have_its_cooldown(protocol: str) -> None:
    """60 seconds, as on AWS (behaviour 49, SRV-16)."""
    sqs = CLIENTS[protocol](Driven(EngineOptions(purge_cooldown=60)))
    url = sqs.create("q")
    sqs("PurgeQueue", QueueUrl=url)
    sqs.server.advance(10)

    with pytest.raises(Refused) as refused:
        sqs("PurgeQueue", QueueUrl=url)
    sqs.server.advance(51)
    sqs("PurgeQueue", QueueUrl=url)

    assert (refused.value.status, refused.value.code) == (403, f"{AWS}PurgeQueueInProgress")
    assert refused.value.message == "Only one PurgeQueue operation on q is allowed every 60 seconds."


def test_queues_come_into_being_when_asked_for() -> None:
    """Where that is switched on, and with names that are allowed."""
    sqs = JsonClient(Driven(EngineOptions(auto_create=True)))

    sqs.send(f"{BASE}/000000000000/q")
    sqs.send(f"{BASE}/000000000000/q.fifo", MessageGroupId="g", MessageDeduplicationId="d")

    assert len(sqs("ListQueues")["QueueUrls"]) == 2
    with pytest.raises(Refused):
        sqs.send("a.b")


# --- attributes

TWELVE = {
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
    "CreatedTimestamp",
    "DelaySeconds",
    "LastModifiedTimestamp",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "QueueArn",
    "ReceiveMessageWaitTimeSeconds",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
}
FIFO_FOUR = {"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}


def test_fresh_queue_has_the_attributes_of_its_kind(sqs: Client) -> None:
    """Twelve, and four more (behaviour 36)."""
    standard, fifo = sqs.attributes(sqs.create("q")), sqs.attributes(sqs.create("q.fifo"))

    assert (set(standard), set(fifo)) == (TWELVE, TWELVE | FIFO_FOUR)
    assert {
        name: standard[name] for name in ("MaximumMessageSize", "MessageRetentionPeriod", "SqsManagedSseEnabled")
    } == {
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "SqsManagedSseEnabled": "true",
    }


def test_attributes_are_asked_for_by_name(sqs: Client) -> None:
    """None asked for: none; unknown: refused; not set: left out (behaviour 37)."""
    url = sqs.create("q")

    assert sqs("GetQueueAttributes", QueueUrl=url) == {}
    assert sqs.attributes(url, "DelaySeconds", "Policy") == {"DelaySeconds": "0"}
    assert sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"]) == {}
    with pytest.raises(Refused) as refused:
        sqs.attributes(url, "DelaySeconds", "Nope")
    assert (refused.value.code, refused.value.message) == (IAN, "Unknown Attribute Nope.")


def test_timestamps_are_whole_seconds(sqs: Client) -> None:
    """The second one moves with a change (behaviour 38)."""
    url = sqs.create("q")
    made = int(sqs.server.clock.now())
    sqs.server.advance(3)
    sqs.set(url, DelaySeconds=1)

    found = sqs.attributes(url)
    assert (found["CreatedTimestamp"], found["LastModifiedTimestamp"]) == (str(made), str(made + 3))


def test_change_is_partial_and_whole(sqs: Client) -> None:
    """What is not named stays; one bad value changes nothing (behaviour 39, SRV-23)."""
    url = sqs.create("q", DelaySeconds=1, VisibilityTimeout=2)
    sqs.set(url, DelaySeconds=3)
    with pytest.raises(Refused):
        sqs.set(url, DelaySeconds=4, VisibilityTimeout=99_999)

    found = sqs.attributes(url)
    assert (found["DelaySeconds"], found["VisibilityTimeout"]) == ("3", "2")


def test_kind_of_a_queue_cannot_change(sqs: Client) -> None:
    """FifoQueue on a standard queue, and false on a FIFO one (behaviour 40, SRV-25)."""
    standard, fifo = sqs.create("q"), sqs.create("q.fifo")
    sqs.set(fifo, FifoQueue="true")

    with pytest.raises(Refused) as on_standard:
        sqs.set(standard, FifoQueue="true")
    with pytest.raises(Refused) as on_fifo:
        sqs.set(fifo, FifoQueue="false")
    assert on_standard.value.code == IAN
    assert (on_fifo.value.code, on_fifo.value.message) == (
        IAV,
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    )


def test_empty_policies_take_themselves_off(sqs: Client) -> None:
    """Policy and RedrivePolicy; a policy is JSON (behaviour 41)."""
    dead, url = sqs.create("dead"), sqs.create("q", Policy='{"Version": "2012-10-17"}')
    sqs.redrive(url, dead)
    assert {"Policy", "RedrivePolicy"} <= set(sqs.attributes(url))

    sqs.set(url, Policy="", RedrivePolicy="")

    assert set(sqs.attributes(url)) == TWELVE
    with pytest.raises(Refused) as refused:
        sqs.set(url, Policy="{not json")
    assert refused.value.code == IAV


def test_encryption_is_kept_and_returned(sqs: Client) -> None:
    """One kind at a time (behaviour 42)."""
    url = sqs.create("q", KmsMasterKeyId="alias/x", KmsDataKeyReusePeriodSeconds=600)
    found = sqs.attributes(url)
    assert (found["KmsMasterKeyId"], found["SqsManagedSseEnabled"]) == ("alias/x", "false")

    with pytest.raises(Refused, match="You can use one type of server-side encryption") as refused:
        sqs.set(url, KmsMasterKeyId="alias/y", SqsManagedSseEnabled="true")
    sqs.set(url, KmsMasterKeyId="", KmsDataKeyReusePeriodSeconds=300)

    assert refused.value.code == IAN
    assert set(sqs.attributes(url)) == TWELVE


def test_high_throughput_attributes_go_together(sqs: Client) -> None:
    """The limit per group only with the scope of groups (behaviour 43)."""
    url = sqs.create("q.fifo")
    for attributes in (
        {"DeduplicationScope": "shoe"},
        {"FifoThroughputLimit": "perShoe"},
        {"FifoThroughputLimit": "perMessageGroupId"},
    ):
        with pytest.raises(Refused) as refused:
            sqs.set(url, **attributes)
        assert refused.value.code == IAV
    sqs.set(url, DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")

    assert sqs.attributes(url)["FifoThroughputLimit"] == "perMessageGroupId"


def test_counts_are_exact_and_follow_time(sqs: Client) -> None:
    """With nobody looking in between; all are text (behaviour 44, SRV-22)."""
    url = sqs.create("q", VisibilityTimeout=10)
    for _ in range(3):
        sqs.send(url)
    for _ in range(2):
        sqs.send(url, DelaySeconds=5)
    sqs.receive(url, 1)

    counts = [sqs.counts(url)]
    for seconds in (6, 5):
        sqs.server.advance(seconds)
        counts.append(sqs.counts(url))

    assert counts == [(2, 1, 2), (4, 1, 0), (5, 0, 0)]


def test_counts_of_a_locked_group_are_of_visible_messages(sqs: Client) -> None:
    """As on AWS (behaviour 44)."""
    url = sqs.create("q.fifo", ContentBasedDeduplication="true")
    for body in "abc":
        sqs.send(url, body, MessageGroupId="g")
    sqs.receive(url, 1)

    assert sqs.counts(url) == (2, 1, 0)


# --- tags and permissions


def test_tags_are_put_and_taken_off(sqs: Client) -> None:
    """Case counts, later ones win, unknown ones may be taken off (behaviour 122)."""
    url = sqs.create("q")
    sqs("TagQueue", QueueUrl=url, Tags={"a": "1", "A": "2", "b": ""})
    sqs("TagQueue", QueueUrl=url, Tags={"a": "3"})
    sqs("UntagQueue", QueueUrl=url, TagKeys=["b", "nope"])

    assert sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "3", "A": "2"}}


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ({}, "MissingParameter"),
        ({f"k{number}": "v" for number in range(51)}, IPV),
        ({"": "v"}, IPV),
        ({"k" * 129: "v"}, IPV),
        ({"k": "v" * 257}, IPV),
    ],
    ids=["none", "51", "no key", "long key", "long value"],
)
def test_tags_have_limits(sqs: Client, tags: dict[str, str], code: str) -> None:
    """And nothing changes where one is broken (behaviour 122)."""
    url = sqs.create("q", tags={"k1": "before"})

    with pytest.raises(Refused) as refused:
        sqs("TagQueue", QueueUrl=url, Tags=tags)

    assert refused.value.code == code
    assert sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"k1": "before"}}


def test_fiftieth_tag_fits(sqs: Client) -> None:
    """And one more does not (behaviour 122)."""
    url = sqs.create("q")
    sqs("TagQueue", QueueUrl=url, Tags={f"k{number}": "v" for number in range(50)})
    sqs("TagQueue", QueueUrl=url, Tags={"k1": "again"})

    with pytest.raises(Refused, match="Too many tags added for queue q"):
        sqs("TagQueue", QueueUrl=url, Tags={"more": "v"})


def test_permissions_are_a_policy(sqs: Client) -> None:
    """One account is text, several are a list (behaviour 123)."""
    url = sqs.create("q")
    arn = sqs.arn(url)
    sqs("AddPermission", QueueUrl=url, Label="one", AWSAccountIds=["111111111111"], Actions=["SendMessage"])
    sqs("AddPermission", QueueUrl=url, Label="two", AWSAccountIds=["1" * 12, "2" * 12], Actions=["*", "ReceiveMessage"])

    assert json.loads(sqs.attributes(url)["Policy"]) == {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "one",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
                "Action": "SQS:SendMessage",
                "Resource": arn,
            },
            {
                "Sid": "two",
                "Effect": "Allow",
                "Principal": {"AWS": ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"]},
                "Action": ["SQS:*", "SQS:ReceiveMessage"],
                "Resource": arn,
            },
        ],
    }
    for label in ("one", "two"):
        sqs("RemovePermission", QueueUrl=url, Label=label)
    assert "Policy" not in sqs.attributes(url)


@pytest.mark.parametrize(
    ("label", "actions", "status", "code", "text"),
    [
        ("one", ["SendMessage"], 400, IPV, "Value one for parameter Label is invalid. Reason: Already exists."),
        ("two", ["DeleteQueue"], 400, IPV, "Only the queue owner is allowed to invoke this action."),
        ("two", ["SendMessage"] * 8, 403, "OverLimit", "8 Actions were found, maximum allowed is 7."),
        ("a b", ["SendMessage"], 400, IPV, "Label"),
    ],
)
def test_permissions_have_rules(sqs: Client, label: str, actions: list[str], status: int, code: str, text: str) -> None:
    """Labels, actions and their number (behaviour 123)."""
    url = sqs.create("q")
    sqs("AddPermission", QueueUrl=url, Label="one", AWSAccountIds=["111111111111"], Actions=["SendMessage"])

    with pytest.raises(Refused) as refused:
        sqs("AddPermission", QueueUrl=url, Label=label, AWSAccountIds=["111111111111"], Actions=actions)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert text in refused.value.message


def test_permission_of_an_unknown_label_cannot_be_removed(sqs: Client) -> None:
    """With the sentence of AWS (behaviour 123)."""
    url = sqs.create("q")

    with pytest.raises(Refused, match="Reason: can't find label"):
        sqs("RemovePermission", QueueUrl=url, Label="x")
