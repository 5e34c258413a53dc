"""SendMessage and SendMessageBatch: what is taken, what is refused, what is answered."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from messagequeue_sqs.server.engine import EngineOptions
from tests.server.sqs_driving import AWS, Client, Driven, JsonClient, Refused
from tests.server.test_protocols import UUID

IPV, MP = "InvalidParameterValue", "MissingParameter"
OTHER_KIND = "The request include parameter that is not valid for this queue type."


def text(value: str, kind: str = "String") -> dict[str, str]:
    return {"DataType": kind, "StringValue": value}


def refused_send(sqs: Client, url: str, body: str = "x", **params: Any) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        sqs.send(url, body, **params)
    assert sqs.counts(url) == (0, 0, 0)
    return refused.value.code, refused.value.message


def test_answer_has_id_and_digests(sqs: Client) -> None:
    """Digests of attributes only where there are any, a sequence number only on FIFO (behaviour 50)."""
    url, fifo = sqs.create("q"), sqs.create("q.fifo")
    trace = {"AWSTraceHeader": text("Root=1-2-3")}

    plain = sqs.send(url, "hé")
    full = sqs.send(url, MessageAttributes={"a": text("1")}, MessageSystemAttributes=trace)
    ordered = sqs.send(fifo, MessageGroupId="g", MessageDeduplicationId="d")

    assert set(plain) == {"MessageId", "MD5OfMessageBody"}
    assert plain["MD5OfMessageBody"] == hashlib.md5("hé".encode()).hexdigest()
    assert set(full) == set(plain) | {"MD5OfMessageAttributes", "MD5OfMessageSystemAttributes"}
    assert full["MD5OfMessageSystemAttributes"] != full["MD5OfMessageAttributes"]
    assert set(ordered) == set(plain) | {"SequenceNumber"}


def test_ids_are_uuids_of_their_own() -> None:
    """Drawn by the server (behaviour 50)."""
    from messagequeue_sqs.server.app import _uuids

    draw = _uuids()
    ids = {draw() for _ in range(1_000)}

    assert len(ids) == 1_000
    assert all(UUID.fullmatch(one) and one[14] == "4" and one[19] in "89ab" for one in ids)


def test_digest_of_attributes_is_as_every_sdk_computes_it(sqs: Client) -> None:
    """Names sorted, full types, the bytes of binary values: a recorded value (behaviour 51, SRV-04)."""
    attributes = {
        "count": text("3", "Number"),
        "blob": {"DataType": "Binary", "BinaryValue": b"\x01\x02\x03"},
        "color": text("blue"),
    }

    sent = sqs.send(sqs.create(), MessageAttributes=attributes)

    assert sent["MD5OfMessageAttributes"] == "d838729972a4b70e2d2acd9d59ac847c"


@pytest.mark.parametrize("params", [{}, {"MessageBody": ""}])
def test_body_is_needed(sqs: Client, params: dict[str, str]) -> None:
    """Missing or empty (behaviour 52)."""
    url = sqs.create()

    with pytest.raises(Refused) as refused:
        sqs("SendMessage", QueueUrl=url, **params)
    assert (refused.value.code, refused.value.message) == (MP, "The request must contain the parameter MessageBody.")


def test_size_is_of_body_and_attributes_in_utf8(sqs: Client) -> None:
    """Names, types and values; the trace header is free (behaviour 53)."""
    url = sqs.create("q", MaximumMessageSize=1024)
    attributes = {"name": text("é"), "b": {"DataType": "Binary", "BinaryValue": b"123"}}
    attributes_size = (4 + 6 + 2) + (1 + 6 + 3)
    body = "é" * ((1024 - attributes_size) // 2)
    trace = {"AWSTraceHeader": text("x" * 100)}

    assert refused_send(sqs, url, body + "x", MessageAttributes=attributes) == (
        IPV,
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
    )
    assert refused_send(sqs, url, "x" * 1025)[0] == IPV
    sqs.send(url, body, MessageAttributes=attributes, MessageSystemAttributes=trace)


def test_largest_message_fits(json_client: JsonClient) -> None:
    """1 MiB, and not one byte more (behaviours 14 and 53, SRV-23)."""
    url = json_client.create()
    body = "x" * 1_048_576

    assert refused_send(json_client, url, body + "x")[0] == IPV
    json_client.send(url, body)
    assert json_client.bodies(url) == [body]


@pytest.mark.parametrize("character", ["\x00", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff"])
def test_characters_outside_of_xml_are_refused(sqs: Client, character: str) -> None:
    """In body and attributes (behaviours 54 and 59)."""
    url = sqs.create()

    assert refused_send(sqs, url, f"a{character}b")[0] == "InvalidMessageContents"
    assert refused_send(sqs, url, MessageAttributes={"a": text(character)})[0] == "InvalidMessageContents"


@pytest.mark.parametrize("text_", ["\t\n\r", "\ud7ff\ue000\ufffd", "\U00010000\U0010ffff", " "])
def test_characters_of_xml_are_taken(sqs: Client, text_: str) -> None:
    """The bounds of every range (behaviour 54)."""
    url = sqs.create()
    sqs.send(url, text_)

    assert sqs.bodies(url) == [text_]


def test_half_of_a_surrogate_pair_is_refused(server: Driven) -> None:
    """400, and the server goes on (behaviours 54 and 126)."""
    url = JsonClient(server).create()

    for body in ('"\\ud83e"', '"\\uDC00x"'):
        answer = server.post(f'{{"QueueUrl": "{url}", "MessageBody": {body}}}', "AmazonSQS.SendMessage")
        assert answer.status == 400


@pytest.mark.parametrize("delay", [901, -1])
def test_delay_has_a_range(sqs: Client, delay: int) -> None:
    """0 to 900 (behaviour 55, SRV-23)."""
    assert refused_send(sqs, sqs.create(), DelaySeconds=delay) == (
        IPV,
        f"Value {delay} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
    )


def test_delay_of_zero_wins_over_the_queue_s(sqs: Client) -> None:
    """None given: the queue's (behaviour 55)."""
    url = sqs.create("q", DelaySeconds=10)
    sqs.send(url, "later")
    sqs.send(url, "now", DelaySeconds=0)

    assert sqs.bodies(url) == ["now"]
    sqs.server.advance(10)
    assert sqs.bodies(url) == ["later"]


def test_ten_attributes_are_the_most(sqs: Client) -> None:
    """Eleven are refused (behaviour 56)."""
    url = sqs.create()
    eleven = {f"a{number}": text("x") for number in range(11)}

    assert refused_send(sqs, url, MessageAttributes=eleven) == (
        IPV,
        "Number of message attributes [11] exceeds the allowed maximum [10].",
    )
    sqs.send(url, MessageAttributes=dict(list(eleven.items())[:10]))


@pytest.mark.parametrize(
    "name", ["a b", ".a", "a.", "a..b", "AWS.x", "aws.x", "Amazon.x", "AMAZON.x", "a/b", "x" * 257, ""]
)
def test_attribute_names_that_are_refused(sqs: Client, name: str) -> None:
    """Characters, dots, reserved beginnings, length (behaviour 57)."""
    assert refused_send(sqs, sqs.create(), MessageAttributes={name: text("x")})[0] == IPV


@pytest.mark.parametrize("name", ["a.b", "a-b_c", "awsome", "élan", "x" * 256, "9"])
def test_attribute_names_that_are_taken(sqs: Client, name: str) -> None:
    """Letters beyond ASCII, too (behaviour 57)."""
    url = sqs.create()
    sqs.send(url, MessageAttributes={name: text("x")})

    [got] = sqs.receive(url, MessageAttributeNames=["All"])
    assert list(got["MessageAttributes"]) == [name]


@pytest.mark.parametrize(
    "attribute",
    [
        {"StringValue": "x"},
        {"DataType": "", "StringValue": "x"},
        {"DataType": "Text", "StringValue": "x"},
        {"DataType": "string", "StringValue": "x"},
        {"DataType": "Strings", "StringValue": "x"},
        {"DataType": "String." + "x" * 250, "StringValue": "x"},
        {"DataType": "String", "StringValue": ""},
        {"DataType": "String"},
        {"DataType": "Binary", "BinaryValue": b""},
        {"DataType": "Binary", "StringValue": "x"},
        {"DataType": "Number", "StringValue": ""},
    ],
    ids=str,
)
def test_attributes_need_a_type_and_a_value(sqs: Client, attribute: dict[str, object]) -> None:
    """Of the three kinds, with a label or without (behaviour 58)."""
    assert refused_send(sqs, sqs.create(), MessageAttributes={"a": attribute})[0] == IPV


def test_empty_attribute_is_refused_with_the_sentence_of_aws(sqs: Client) -> None:
    """It names attribute and type (behaviour 58)."""
    refusal = refused_send(sqs, sqs.create(), MessageAttributes={"user": text("")})

    assert refusal[1] == "Message (user) attribute 'user' must contain a non-empty value of type 'String'."


@pytest.mark.parametrize("kind", ["String", "String.a.b", "Number.int", "Binary.gif"])
def test_labels_are_kept(sqs: Client, kind: str) -> None:
    """With the digest over the whole type (behaviours 51 and 58, SRV-04)."""
    url = sqs.create()
    value: dict[str, object] = {"DataType": kind}
    value |= {"BinaryValue": b"\0"} if kind.startswith("Binary") else {"StringValue": "7"}
    sent = sqs.send(url, MessageAttributes={"a": value})

    [got] = sqs.receive(url, MessageAttributeNames=["a"])
    assert got["MessageAttributes"] == {"a": value}
    assert got["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


@pytest.mark.parametrize("number", ["x", "1x", "NaN", "Infinity", "1e127", "1e-129", "1" * 39, "1_000", "--1", "٣"])
def test_numbers_that_are_refused(sqs: Client, number: str) -> None:
    """No number, or none of 38 digits within the range (behaviour 59)."""
    assert refused_send(sqs, sqs.create(), MessageAttributes={"n": text(number, "Number")})[0] == IPV


@pytest.mark.parametrize("number", ["0", "-1.5", "1e126", "1e-128", "9" * 38, "+3", "0.000"])
def test_numbers_that_are_taken(sqs: Client, number: str) -> None:
    """As they are written (behaviour 59)."""
    url = sqs.create()
    sqs.send(url, MessageAttributes={"n": text(number, "Number")})

    [got] = sqs.receive(url, MessageAttributeNames=["n"])
    assert got["MessageAttributes"]["n"]["StringValue"] == number


@pytest.mark.parametrize("lists", [{"StringListValues": ["x"]}, {"BinaryListValues": [b"x"]}])
def test_list_values_are_not_supported(sqs: Client, lists: dict[str, object]) -> None:
    """Reserved by AWS (behaviour 60)."""
    refusal = refused_send(sqs, sqs.create(), MessageAttributes={"a": {"DataType": "String", **lists}})

    assert refusal[0] == f"{AWS}UnsupportedOperation"


def test_trace_header_is_the_one_system_attribute(sqs: Client) -> None:
    """And a String (behaviour 61)."""
    url = sqs.create()
    for attributes in (
        {"SenderId": text("x")},
        {"AWSTraceHeader": text("1", "Number")},
        {"AWSTraceHeader": text("")},
    ):
        assert refused_send(sqs, url, MessageSystemAttributes=attributes)[0] == IPV
    sqs.send(url, MessageSystemAttributes={"AWSTraceHeader": text("Root=1")})

    [got] = sqs.receive(url, MessageSystemAttributeNames=["AWSTraceHeader"])
    assert got["Attributes"] == {"AWSTraceHeader": "Root=1"}


def test_trace_header_of_the_request_is_taken(sqs: Client) -> None:
    """Unless the message has its own; without a digest (behaviour 61)."""
    url = sqs.create()
    trace = {"x-amzn-trace-id": "Root=request"}
    own = {"AWSTraceHeader": text("Root=own")}
    first = sqs.start("SendMessage", headers=trace, QueueUrl=url, MessageBody="1").result
    _ = sqs.start("SendMessage", headers=trace, QueueUrl=url, MessageBody="2", MessageSystemAttributes=own).result

    got = sqs.receive(url, AttributeNames=["AWSTraceHeader"])
    assert [one["Attributes"]["AWSTraceHeader"] for one in got] == ["Root=request", "Root=own"]
    assert "MD5OfMessageSystemAttributes" not in first


def test_standard_queue_takes_a_group_but_no_deduplication(sqs: Client) -> None:
    """The group comes back, there is no sequence number (behaviour 62)."""
    url = sqs.create()
    assert refused_send(sqs, url, MessageDeduplicationId="d") == (
        IPV,
        f"Value d for parameter MessageDeduplicationId is invalid. Reason: {OTHER_KIND}",
    )
    sent = sqs.send(url, MessageGroupId="tenant")

    [got] = sqs.receive(url, AttributeNames=["All"])
    assert "SequenceNumber" not in sent
    assert got["Attributes"]["MessageGroupId"] == "tenant"
    assert "SequenceNumber" not in got["Attributes"]


@pytest.mark.parametrize("name", ["MessageGroupId", "MessageDeduplicationId"])
@pytest.mark.parametrize("value", ["", "x" * 129, "a b", "é", "\x7f"])
def test_keys_are_printable_ascii(sqs: Client, name: str, value: str) -> None:
    """1 to 128, without the blank (behaviour 63, SRV-23)."""
    url = sqs.create("q.fifo")
    params = {"MessageGroupId": "g", "MessageDeduplicationId": "d", name: value}

    assert refused_send(sqs, url, **params) == (
        IPV,
        (
            f"Value {value} for parameter {name} is invalid. Reason: {name} can only include alphanumeric and "
            "punctuation characters. 1 to 128 in length."
        ),
    )


def test_keys_of_every_allowed_character(sqs: Client) -> None:
    """The bounds (behaviour 63)."""
    url, key = sqs.create("q.fifo"), "!~" * 64
    sqs.send(url, MessageGroupId=key, MessageDeduplicationId=key)
    [got] = sqs.receive(url, AttributeNames=["All"])

    assert got["Attributes"]["MessageGroupId"] == got["Attributes"]["MessageDeduplicationId"] == key


def test_sizes_and_characters_can_be_let_pass() -> None:
    """With the switch for it, and then they come back as they were."""
    sqs = JsonClient(Driven(EngineOptions(relaxed=True)))
    url = sqs.create("q", MaximumMessageSize=1024)
    sqs.send(url, "\x00" * 2_000)

    assert sqs.bodies(url) == ["\x00" * 2_000]


# --- batches


def batch(sqs: Client, url: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return sqs("SendMessageBatch", QueueUrl=url, Entries=list(entries))


def entry(id_: str, body: str = "x", **more: Any) -> dict[str, Any]:
    return {"Id": id_, "MessageBody": body, **more}


BATCHES = {
    "SendMessageBatch": {"MessageBody": "x"},
    "DeleteMessageBatch": {"ReceiptHandle": "x"},
    "ChangeMessageVisibilityBatch": {"ReceiptHandle": "x", "VisibilityTimeout": 1},
}


@pytest.mark.parametrize("action", BATCHES)
@pytest.mark.parametrize(
    ("ids", "code", "message"),
    [
        ([], "EmptyBatchRequest", "There should be at least one {action}RequestEntry in the request."),
        (
            [str(number) for number in range(11)],
            "TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 10. You have sent 11.",
        ),
        (["id_1", "id_2", "id_2", "id_1"], "BatchEntryIdsNotDistinct", "Id id_2 repeated."),
        (["x" * 81], "InvalidBatchEntryId", None),
        (["a b"], "InvalidBatchEntryId", None),
        ([""], "InvalidBatchEntryId", None),
    ],
    ids=["empty", "eleven", "twice", "long id", "blank in id", "empty id"],
)
def test_batches_are_refused_as_a_whole(
    sqs: Client, action: str, ids: list[str], code: str, message: str | None
) -> None:
    """Nothing is done (behaviours 64, 65, 66 and 98, SRV-27, BAT-09)."""
    url = sqs.create()
    rule = (
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 "
        "letters long."
    )

    with pytest.raises(Refused) as refused:
        sqs(action, QueueUrl=url, Entries=[{"Id": id_, **BATCHES[action]} for id_ in ids])

    assert refused.value.code == f"{AWS}{code}"
    assert refused.value.message == (message or rule).format(action=action)
    assert sqs.counts(url) == (0, 0, 0)


def test_batch_for_no_queue_is_told_so_first(sqs: Client) -> None:
    """Whatever else is wrong (behaviour 64)."""
    with pytest.raises(Refused) as refused:
        batch(sqs, "nope")
    assert refused.value.code == f"{AWS}NonExistentQueue"


def test_batch_has_a_size_in_all(json_client: JsonClient) -> None:
    """1 MiB of bodies and attributes, also for one entry (behaviour 67)."""
    url, half = json_client.create(), 524_288

    for entries in ([entry("1", "x" * 1_048_577)], [entry("1", "x" * half), entry("2", "x" * (half + 1))]):
        with pytest.raises(Refused) as refused:
            batch(json_client, url, *entries)
        assert (refused.value.code, refused.value.message) == (
            f"{AWS}BatchRequestTooLong",
            "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        )
    assert len(batch(json_client, url, entry("1", "x" * half), entry("2", "y" * half))["Successful"]) == 2


def test_batch_size_of_the_queue_is_of_each_entry(sqs: Client) -> None:
    """Its sum may be more (behaviours 67 and 68)."""
    url = sqs.create("q", MaximumMessageSize=1024)
    result = batch(sqs, url, entry("a", "x" * 1024), entry("b", "x" * 1025), entry("c", "x" * 1024))

    assert [one["Id"] for one in result["Successful"]] == ["a", "c"]
    [failed] = result["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("b", IPV, True)


def test_bad_entries_fail_alone(sqs: Client) -> None:
    """The others keep their order; each failure has its code (behaviour 68, SRV-27)."""
    url = sqs.create()
    result = batch(
        sqs,
        url,
        entry("one", "1"),
        entry("chars", "\x00"),
        {"Id": "nobody"},
        entry("delay", DelaySeconds=901),
        entry("dedup", MessageDeduplicationId="d"),
        entry("two", "2", MessageAttributes={"a": text("x")}),
    )

    assert [one["Id"] for one in result["Successful"]] == ["one", "two"]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in result["Failed"]] == [
        ("chars", "InvalidMessageContents", True),
        ("nobody", MP, True),
        ("delay", IPV, True),
        ("dedup", IPV, True),
    ]
    assert "MD5OfMessageAttributes" in result["Successful"][1]
    assert sqs.bodies(url) == ["1", "2"]


def test_batch_leaves_out_empty_lists(sqs: Client) -> None:
    """All good, all bad (behaviour 68)."""
    url = sqs.create()

    assert list(batch(sqs, url, entry("a"))) == ["Successful"]
    assert list(batch(sqs, url, entry("a", DelaySeconds=901))) == ["Failed"]


@pytest.mark.parametrize(
    ("bad", "code", "message"),
    [
        ({"MessageDeduplicationId": "2"}, MP, "The request must contain the parameter MessageGroupId."),
        (
            {"MessageGroupId": "g"},
            IPV,
            (
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided "
                "explicitly"
            ),
        ),
    ],
)
def test_fifo_batch_fails_whole_without_its_keys(sqs: Client, bad: dict[str, str], code: str, message: str) -> None:
    """Nothing is stored (behaviour 69, FIFO-09)."""
    url = sqs.create("q.fifo")

    with pytest.raises(Refused) as refused:
        batch(sqs, url, entry("a", MessageGroupId="g", MessageDeduplicationId="1"), entry("b", **bad))

    assert (refused.value.code, refused.value.message) == (code, message)
    assert sqs.counts(url) == (0, 0, 0)


def test_fifo_batch_keeps_its_order(sqs: Client) -> None:
    """Each entry with its number (behaviour 70)."""
    url = sqs.create("q.fifo", ContentBasedDeduplication="true")
    result = batch(sqs, url, *(entry(f"i{number}", str(number), MessageGroupId="g") for number in range(10)))

    numbers = [one["SequenceNumber"] for one in result["Successful"]]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 10
    assert sqs.bodies(url) == [str(number) for number in range(10)]
