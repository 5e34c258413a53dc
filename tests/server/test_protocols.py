"""What requests and answers look like in both protocols, whatever they are about."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from messagequeue_sqs.server.wire import HttpAnswer, HttpRequest
from tests.server.sqs_driving import AWS, BASE, NAMESPACE, Client, Driven, JsonClient, QueryClient, Refused

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
QUEUE = "/000000000000/q"


def header(answer: HttpAnswer, name: str) -> str:
    return dict(answer.headers)[name]


def code(answer: HttpAnswer) -> str:
    return header(answer, "x-amzn-query-error").removesuffix(";Sender")


def type_(answer: HttpAnswer) -> str:
    found: str = json.loads(answer.body)["__type"]
    return found


def xml_error(answer: HttpAnswer) -> tuple[str, str]:
    error = ElementTree.fromstring(answer.body).find(f"{NAMESPACE}Error")
    assert error is not None
    return error.findtext(f"{NAMESPACE}Code") or "", error.findtext(f"{NAMESPACE}Message") or ""


def test_json_success_has_its_type_and_an_id(server: Driven) -> None:
    """200, the type without a charset, a UUID (behaviour 1, SRV-01)."""
    answer = server.post('{"QueueName": "q"}', "AmazonSQS.CreateQueue")

    assert (answer.status, answer.type) == (200, "application/x-amz-json-1.0")
    assert UUID.fullmatch(header(answer, "x-amzn-RequestId"))
    assert json.loads(answer.body) == {"QueueUrl": f"{BASE}{QUEUE}"}


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("SetQueueAttributes", {"Attributes": {"DelaySeconds": "1"}}),
        ("TagQueue", {"Tags": {"a": "b"}}),
        ("UntagQueue", {"TagKeys": ["a"]}),
        ("PurgeQueue", {}),
        ("DeleteQueue", {}),
    ],
)
def test_json_answer_of_an_action_without_output_is_empty(server: Driven, action: str, more: dict[str, object]) -> None:
    """No `{}` (behaviour 2)."""
    JsonClient(server).create("q")

    answer = server.post(json.dumps({"QueueUrl": "q", **more}), f"AmazonSQS.{action}")

    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("action", ["ReceiveMessage", "ListQueueTags", "ListDeadLetterSourceQueues"])
def test_json_answer_with_nothing_to_say_is_an_empty_object(server: Driven, action: str) -> None:
    """No keys of empty lists (behaviour 3, SRV-03)."""
    JsonClient(server).create("q")

    assert server.post('{"QueueUrl": "q"}', f"AmazonSQS.{action}").body == b"{}"


def test_list_of_no_queues_is_an_empty_object(server: Driven) -> None:
    """No `QueueUrls` (behaviour 3, SRV-03)."""
    assert server.post("{}", "AmazonSQS.ListQueues").body == b"{}"


def test_json_error_has_type_message_and_the_older_code(server: Driven) -> None:
    """The header gives SDKs the code they know (behaviours 4 and 5)."""
    answer = server.post('{"QueueUrl": "nope"}', "AmazonSQS.PurgeQueue")

    assert answer.status == 400
    assert json.loads(answer.body) == {
        "__type": "com.amazonaws.sqs#QueueDoesNotExist",
        "message": "The specified queue does not exist.",
    }
    assert header(answer, "x-amzn-query-error") == f"{AWS}NonExistentQueue;Sender"


@pytest.mark.parametrize(
    ("params", "action", "expected_code", "expected_type"),
    [
        ({"QueueUrl": "q"}, "SendMessage", "MissingParameter", "MissingRequiredParameterException"),
        ({"QueueName": "a b"}, "CreateQueue", "InvalidParameterValue", "InvalidParameterValueException"),
    ],
)
def test_json_types_of_common_errors_are_the_framework_s(
    server: Driven, params: dict[str, str], action: str, expected_code: str, expected_type: str
) -> None:
    """In another name space than SQS' own (behaviour 6)."""
    JsonClient(server).create("q")

    answer = server.post(json.dumps(params), f"AmazonSQS.{action}")

    assert (code(answer), type_(answer)) == (expected_code, f"com.amazon.coral.service#{expected_type}")


def test_codes_have_the_prefix_where_aws_has_it(sqs: Client) -> None:
    """Some codes have it, some have not (behaviour 7)."""
    url = sqs.create("q")
    refusals = {}
    for action, params in {
        "SendMessageBatch": {"Entries": []},
        "DeleteMessage": {"ReceiptHandle": "x"},
        "SetQueueAttributes": {"Attributes": {"Nope": "1"}},
        "ReceiveMessage": {"MaxNumberOfMessages": 11},
    }.items():
        with pytest.raises(Refused) as refused:
            sqs(action, QueueUrl=url, **params)
        refusals[action] = refused.value.code

    assert refusals == {
        "SendMessageBatch": f"{AWS}EmptyBatchRequest",
        "DeleteMessage": "ReceiptHandleIsInvalid",
        "SetQueueAttributes": "InvalidAttributeName",
        "ReceiveMessage": "InvalidParameterValue",
    }


@pytest.mark.parametrize("target", ["AmazonSQS.Explode", "", "Other.SendMessage", None])
def test_json_unknown_operation_is_an_invalid_action(server: Driven, target: str | None) -> None:
    """Never a 404 or a 500 (behaviour 8, SRV-01)."""
    answer = server.post("{}", target)

    assert (answer.status, code(answer)) == (400, "InvalidAction")
    assert type_(answer) == "com.amazon.coral.service#UnknownOperationException"


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        '"text"',
        "3",
        b"\xff\xfe",
        "[" * 100_000,
        '{"QueueUrl": 3}',
        '{"QueueUrl": "q", "MaxNumberOfMessages": "3"}',
        '{"QueueUrl": "q", "MaxNumberOfMessages": true}',
        '{"QueueUrl": "q", "MaxNumberOfMessages": 1.5}',
        '{"QueueUrl": "q", "AttributeNames": "All"}',
        '{"QueueUrl": "q", "AttributeNames": [1]}',
        '{"QueueUrl": "q", "WaitTimeSeconds": {}}',
        '{"QueueUrl": "q\\ud800"}',
    ],
    ids=lambda body: str(body)[:40],
)
def test_json_of_another_shape_is_malformed(server: Driven, body: str | bytes) -> None:
    """Also where a member has another type (behaviours 9 and 126)."""
    answer = server.post(body, "AmazonSQS.ReceiveMessage")

    assert (answer.status, code(answer)) == (400, "MalformedInput")
    assert type_(answer) == "com.amazon.coral.service#SerializationException"


def test_json_unknown_members_and_nulls_do_not_count(server: Driven) -> None:
    """An empty body is an empty object (behaviour 10)."""
    server.post('{"QueueName": "q", "Attributes": null, "Shoe": {"size": 44}}', "AmazonSQS.CreateQueue")

    assert json.loads(server.post("", "AmazonSQS.ListQueues").body) == {"QueueUrls": [f"{BASE}{QUEUE}"]}


def test_json_may_be_posted_to_the_path_of_a_queue(server: Driven) -> None:
    """As the PHP SDK does it (behaviour 11)."""
    JsonClient(server).create("q")

    answer = server.post(f'{{"QueueUrl": "{BASE}{QUEUE}", "MessageBody": "x"}}', "AmazonSQS.SendMessage", path=QUEUE)

    assert answer.status == 200


@pytest.mark.parametrize(
    "url",
    [
        f"{BASE}{QUEUE}",
        f"https://elsewhere:99{QUEUE}",
        "http://sqs.eu-west-1.localhost.localstack.cloud:4566/000000000000/q",
        f"http://localhost/queue/us-east-1{QUEUE}",
        QUEUE,
        f"{BASE}{QUEUE}/",
        "q",
    ],
)
def test_queue_url_counts_for_account_and_name_only(sqs: Client, url: str) -> None:
    """Whatever the server is called where the client is (behaviour 12, CFG-06)."""
    sqs.create("q")

    assert sqs.send(url)["MessageId"]


@pytest.mark.parametrize(
    "url", [None, "", "nope", "http://h/111111111111/q", "http://h/000000000000/Q", "http://[", "/"]
)
def test_queue_url_of_no_queue_is_told_as_such(sqs: Client, url: str | None) -> None:
    """Missing and empty ones, too; names are case-sensitive (behaviour 13, SRV-25)."""
    sqs.create("q")

    with pytest.raises(Refused) as refused:
        sqs("ReceiveMessage", **({} if url is None else {"QueueUrl": url}))

    assert (refused.value.status, refused.value.code) == (400, f"{AWS}NonExistentQueue")


TEXTS = [
    "a\r\nb\rc\td",
    "<a>&amp;\"'</a>",
    "]]>",
    "%2B+ &=",
    "\u2028",
    "\U0001f99c",
    " ",
    "ünï\u00a0",
    "\\ud83e\\udd9c",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_every_kind_survives(sqs: Client, text: str) -> None:
    """In body and attributes, with the MD5 of its UTF-8 (behaviours 15 and 23, SER-04)."""
    import hashlib

    url = sqs.create()
    digest = hashlib.md5(text.encode()).hexdigest()

    sent = sqs.send(url, text, MessageAttributes={"a": {"DataType": "String", "StringValue": text}})
    [got] = sqs.receive(url, MessageAttributeNames=["All"])

    assert sent["MD5OfMessageBody"] == got["MD5OfBody"] == digest
    assert got["Body"] == got["MessageAttributes"]["a"]["StringValue"] == text
    assert got["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


# --- the query protocol


def test_query_form_and_url_work_at_the_root_and_at_a_queue(server: Driven) -> None:
    """POST and GET, unsigned (behaviours 17 and 21, SRV-01)."""
    QueryClient(server).create("q")

    answers = [
        server.form(Action="SendMessage", QueueUrl=QUEUE, MessageBody="1"),
        server.form(QUEUE, Action="SendMessage", MessageBody="2"),
        server.get("/", f"Action=SendMessage&QueueUrl={QUEUE}&MessageBody=3"),
        server.get(QUEUE, "Action=SendMessage&MessageBody=4+%2B"),
        server.form(QUEUE, "Action=SendMessage", MessageBody="5"),
    ]

    assert [(answer.status, answer.type) for answer in answers] == [(200, "text/xml")] * 5
    root = ElementTree.fromstring(answers[0].body)
    assert root.tag == f"{NAMESPACE}SendMessageResponse"
    assert root.findtext(f"{NAMESPACE}ResponseMetadata/{NAMESPACE}RequestId")
    assert QueryClient(server).bodies("q") == ["1", "2", "3", "4 +", "5"]


def test_query_url_wins_over_the_path(server: Driven) -> None:
    """The parameter says which (behaviour 21)."""
    client = QueryClient(server)
    client.create("q")
    client.create("other")

    server.form(QUEUE, Action="SendMessage", QueueUrl=f"{BASE}/000000000000/other", MessageBody="x")

    assert (client.bodies("q"), client.bodies("other")) == ([], ["x"])


def test_query_error_document_has_an_empty_detail(server: Driven) -> None:
    """And the text for this protocol, which names the WSDL (behaviours 18 and 22)."""
    answer = server.form(Action="PurgeQueue", QueueUrl="nope")
    root = ElementTree.fromstring(answer.body)

    assert (answer.status, answer.type, root.tag) == (400, "text/xml", f"{NAMESPACE}ErrorResponse")
    error = root.find(f"{NAMESPACE}Error")
    assert error is not None
    assert [child.tag.removeprefix(NAMESPACE) for child in error] == ["Type", "Code", "Message", "Detail"]
    assert [child.text for child in error] == [
        "Sender",
        f"{AWS}NonExistentQueue",
        "The specified queue does not exist for this wsdl version.",
        None,
    ]
    assert root.findtext(f"{NAMESPACE}RequestId")


def test_query_unknown_action_is_an_invalid_action(server: Driven) -> None:
    """With the sentence of AWS (behaviour 19, SRV-01)."""
    answer = server.form(Action="FooBar")

    assert (answer.status, *xml_error(answer)) == (
        400,
        "InvalidAction",
        "The action FooBar is not valid for this endpoint.",
    )


def test_query_queue_asked_for_nothing_is_an_unknown_operation(server: Driven) -> None:
    """404 (behaviour 19)."""
    QueryClient(server).create("q")

    answer = server.get(QUEUE)

    assert (answer.status, answer.body.strip()) == (404, b"<UnknownOperationException/>")


@pytest.mark.parametrize("action", ["ListQueues", "CreateQueue"])
def test_query_actions_on_no_queue_are_refused_at_its_path(server: Driven, action: str) -> None:
    """But GetQueueUrl is fine (behaviour 20)."""
    QueryClient(server).create("q")

    assert xml_error(server.form(QUEUE, Action=action, QueueName="q"))[0] == "InvalidAction"
    assert server.form(QUEUE, Action="GetQueueUrl", QueueName="q").status == 200


def test_query_empty_receive_is_an_empty_element(server: Driven) -> None:
    """And a carriage return is a reference (behaviour 23, SER-04)."""
    client = QueryClient(server)
    client.create("q")
    empty = server.form(QUEUE, Action="ReceiveMessage")
    client.send("q", "a\rb")

    assert b"<ReceiveMessageResult/>" in empty.body
    assert b"<Body>a&#xD;b</Body>" in server.form(QUEUE, Action="ReceiveMessage").body


def test_query_numbered_members_are_ordered_by_number(server: Driven) -> None:
    """The tenth comes after the ninth (behaviour 24)."""
    client = QueryClient(server)
    client.create("q")
    form = {"Action": "SendMessageBatch"}
    for number in (10, 1, 9, 2):
        form[f"SendMessageBatchRequestEntry.{number}.Id"] = f"i{number}"
        form[f"SendMessageBatchRequestEntry.{number}.MessageBody"] = str(number)

    server.form(QUEUE, **form)

    assert client.bodies("q") == ["1", "2", "9", "10"]


def test_query_message_attributes_are_read_and_written(server: Driven) -> None:
    """Names, types, text and base64 (behaviour 24, SER-03)."""
    client = QueryClient(server)
    client.create("q")
    blob = bytes(range(256))
    attributes = {
        "text": {"DataType": "String", "StringValue": "x"},
        "n": {"DataType": "Number.int", "StringValue": "3"},
        "blob": {"DataType": "Binary", "BinaryValue": blob},
    }

    client.send("q", MessageAttributes=attributes)
    [by_query] = client.receive("q", MessageAttributeNames=["All"], VisibilityTimeout=0)
    [by_json] = JsonClient(server).receive("q", MessageAttributeNames=["All"])

    assert by_query["MessageAttributes"] == by_json["MessageAttributes"] == attributes


def test_query_get_that_accepts_json_is_answered_in_json_of_its_shape(server: Driven) -> None:
    """Results and errors (behaviour 25)."""
    QueryClient(server).create("q")
    accept = {"accept": "application/json"}

    listed = json.loads(server.get("/", "Action=ListQueues", **accept).body)["ListQueuesResponse"]
    shown = json.loads(server.get(QUEUE, "Action=GetQueueAttributes&AttributeName.1=QueueArn", **accept).body)
    refused = server.get("/", "Action=GetQueueUrl&QueueName=nope", **accept)

    assert listed["ListQueuesResult"] == {"queueUrls": [f"{BASE}{QUEUE}"]}
    assert listed["ResponseMetadata"]["RequestId"]
    assert shown["GetQueueAttributesResponse"]["GetQueueAttributesResult"] == {
        "Attributes": [{"Name": "QueueArn", "Value": "arn:aws:sqs:us-east-1:000000000000:q"}]
    }
    assert refused.status == 400
    assert json.loads(refused.body)["Error"] == {
        "Code": f"{AWS}NonExistentQueue",
        "Detail": None,
        "Message": "The specified queue does not exist for this wsdl version.",
        "Type": "Sender",
    }


def test_query_send_without_a_body_lacks_the_parameter(server: Driven) -> None:
    """With the sentence of AWS (behaviour 26)."""
    QueryClient(server).create("q")

    answer = server.form(QUEUE, Action="SendMessage")

    assert xml_error(answer) == ("MissingParameter", "The request must contain the parameter MessageBody.")


@pytest.mark.parametrize(
    "form", [b"MaxNumberOfMessages=x", b"Message=%ff", b"\xff", b"MaxNumberOfMessages=" + b"9" * 9999]
)
def test_query_of_another_shape_is_refused(server: Driven, form: bytes) -> None:
    """400, never 500 (behaviour 126)."""
    QueryClient(server).create("q")
    pending = server.send(HttpRequest("POST", QUEUE, "", {}, b"Action=ReceiveMessage&" + form))

    assert pending.answer is not None
    assert pending.answer.status == 400


def test_urls_of_queues_have_the_host_that_the_client_knows(server: Driven) -> None:
    """Inside of a container it is another than outside (CFG-06)."""
    JsonClient(server).create("q")

    answer = server.post('{"QueueName": "q"}', "AmazonSQS.GetQueueUrl", host="queues.internal:80")

    assert json.loads(answer.body) == {"QueueUrl": f"http://queues.internal:80{QUEUE}"}


def test_other_methods_are_refused(server: Driven) -> None:
    """405; a request for nothing at all is no crash (behaviour 126)."""
    answers = [server.send(HttpRequest(method, "/", "", {}, b"")).answer for method in ("DELETE", "GET", "POST")]

    assert [answer.status for answer in answers if answer is not None] == [405, 404, 404]
