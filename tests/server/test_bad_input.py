"""Requests that no client should make: each is refused as a fault of the sender, and the queues go on as before."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messagequeue_sqs.server.wire import ACTIONS, HttpRequest
from tests.server.sqs_driving import CLIENTS, Client, Driven, JsonClient, Refused

ARN = "arn:aws:sqs:us-east-1:000000000000:"
MEMBERS = sorted({name for action in ACTIONS.values() for name in action.members} | {"Id", "Nope"})

#: Text that means something somewhere, at its bounds, or nothing at all.
TEXT = st.one_of(
    st.sampled_from(
        ["", "q", "q.fifo", "dead", "/000000000000/q", f"{ARN}q", f"{ARN}dead", "All", "FifoQueue", "RedrivePolicy"]
    ),
    st.sampled_from(["true", "-1", "0", "1", "43200", "9" * 40, "1.5", "null", "{}", "[]", "=", "é", "\0"]),
    st.sampled_from(
        [json.dumps({"deadLetterTargetArn": f"{ARN}dead", "maxReceiveCount": n}) for n in (1, "1e999", None)]
    ),
    st.text(max_size=8),
)
NUMBER = st.one_of(st.integers(-2, 12), st.sampled_from([43_200, 43_201, 10**30, -(10**30), 1e300, 0.5]))
VALUE = st.recursive(
    st.one_of(TEXT, NUMBER, st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(TEXT | st.sampled_from(MEMBERS), inner, max_size=4)
    ),
    max_leaves=8,
)
#: What the right types look like, of whatever content.
SHAPED: dict[str, st.SearchStrategy[Any]] = {
    "Attributes": st.dictionaries(
        st.sampled_from(["DelaySeconds", "Policy", "RedrivePolicy", "RedriveAllowPolicy"]) | TEXT, TEXT, max_size=3
    ),
    "Entries": st.lists(
        st.fixed_dictionaries({"Id": TEXT}, optional=dict.fromkeys(sorted(set(MEMBERS) - {"Id"}), VALUE)), max_size=11
    ),
    "MessageAttributes": st.dictionaries(
        TEXT,
        st.dictionaries(st.sampled_from(["DataType", "StringValue", "BinaryValue", "StringListValues"]), TEXT | VALUE),
        max_size=3,
    ),
}
PARAMS = st.dictionaries(st.sampled_from(MEMBERS), VALUE, max_size=5).flatmap(
    lambda some: st.fixed_dictionaries({}, optional=SHAPED).map(lambda shaped: {**some, **shaped})
)
URL = st.sampled_from(["/000000000000/q", "/000000000000/q.fifo", "/000000000000/dead"])


def server() -> Driven:
    """A server with a queue of each kind, a dead-letter queue, and a message in each."""
    made = Driven()
    client = JsonClient(made)
    client.create("dead")
    client.redrive(client.create("q"), "dead", 1)
    client.create("q.fifo", ContentBasedDeduplication="true")
    client.send("q")
    client.send("q.fifo", MessageGroupId="g")
    client.send("dead")
    return made


def check(made: Driven, request: HttpRequest) -> None:
    """One answer, or a wait that can be ended; never a fault of the server; and the rest of it is as it was."""
    pending = made.send(request)
    made.advance(1)
    if pending.answer is None:
        pending.hang_up()
    else:
        assert pending.answer.status < 500, pending.answer.body
    for client in (client_of(made) for client_of in CLIENTS.values()):
        assert_well(client)


def assert_well(client: Client) -> None:
    client.create("untouched")
    client.send("untouched", "x")
    assert client.bodies("untouched") == ["x"]
    client("DeleteQueue", QueueUrl="untouched")
    for name in ("q", "q.fifo", "dead"):
        try:
            client.attributes(name)
        except Refused as refused:
            assert refused.code.endswith("NonExistentQueue")  # noqa: PT017 - it was deleted, which was no bad input


FUZZED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@FUZZED
@given(action=st.sampled_from(sorted(ACTIONS)), params=PARAMS, url=URL | TEXT)
def test_json_of_any_content_is_never_a_fault_of_the_server(action: str, params: dict[str, Any], url: str) -> None:
    """Whatever the members are (behaviour 126)."""
    headers = {"x-amz-target": f"AmazonSQS.{action}", "content-type": "application/x-amz-json-1.0"}
    body = json.dumps({"QueueUrl": url, **params}).encode()

    check(server(), HttpRequest("POST", "/", "", headers, body))


PARTS = (
    "Attribute",
    "Tag",
    "MessageAttribute",
    "SendMessageBatchRequestEntry",
    "AttributeName",
    "Name",
    "Key",
    "Value",
)
NAMES = st.lists(
    st.sampled_from([*PARTS, "1", "2", "01", "x", "", "DataType", "StringValue", "BinaryValue", *MEMBERS]),
    min_size=1,
    max_size=5,
).map(".".join)


@FUZZED
@given(
    action=st.sampled_from(sorted(ACTIONS)) | TEXT,
    form=st.dictionaries(NAMES, TEXT, max_size=8),
    url=URL | TEXT,
    method=st.sampled_from(["POST", "GET"]),
    path=st.sampled_from(["/", "/000000000000/q", "/x"]),
)
def test_query_of_any_content_is_never_a_fault_of_the_server(
    action: str, form: dict[str, str], url: str, method: str, path: str
) -> None:
    """Whatever the parameters are called (behaviour 126)."""
    pairs = urlencode({"Action": action, "QueueUrl": url, **form}, errors="surrogatepass")
    query, body = (pairs, b"") if method == "GET" else ("", pairs.encode())

    check(server(), HttpRequest(method, path, query, {"content-type": "application/x-www-form-urlencoded"}, body))


@settings(FUZZED, max_examples=100)
@given(body=st.binary(max_size=60), type_=st.sampled_from(["application/x-amz-json-1.0", "text/plain", ""]))
def test_body_of_any_bytes_is_never_a_fault_of_the_server(body: bytes, type_: str) -> None:
    """In whatever protocol (behaviour 126)."""
    check(
        server(), HttpRequest("POST", "/", "", {"content-type": type_, "x-amz-target": "AmazonSQS.SendMessage"}, body)
    )
    check(server(), HttpRequest("POST", "/000000000000/q", "", {"content-type": type_}, body))
