"""Requests that have to be signed: by botocore, so that the server does not judge itself."""

from __future__ import annotations

import datetime
import json

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from messagequeue_sqs.server.wire import HttpAnswer, HttpRequest
from tests.server.sqs_driving import Driven

KEYS = {"AKIDONE": "secret-one"}


@pytest.fixture
def guarded() -> Driven:
    server = Driven(keys=KEYS)
    # botocore signs for the real time.
    server.clock.advance(datetime.datetime.now(datetime.UTC).timestamp() - server.clock.now())
    return server


def signed(key: str = "AKIDONE", secret: str = "secret-one", body: bytes = b"{}", path: str = "/") -> dict[str, str]:
    headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.ListQueues"}
    request = AWSRequest("POST", f"http://sqs.test:9324{path}", headers=headers, data=body)
    SigV4Auth(Credentials(key, secret), "sqs", "us-east-1").add_auth(request)
    return {"host": "sqs.test:9324", **{name.lower(): value for name, value in request.headers.items()}}


def asked(server: Driven, headers: dict[str, str], body: bytes = b"{}", path: str = "/", query: str = "") -> HttpAnswer:
    answer = server.send(HttpRequest("POST", path, query, headers, body)).answer
    assert answer is not None
    return answer


def refusal(answer: HttpAnswer) -> tuple[int, str, str]:
    code = dict(answer.headers)["x-amzn-query-error"].removesuffix(";Sender")
    return answer.status, code, json.loads(answer.body)["__type"].partition("#")[2]


@pytest.mark.parametrize("path", ["/", "/000000000000/q"])
def test_signed_request_is_answered(guarded: Driven, path: str) -> None:
    """At the root and at a queue's path (behaviour 16)."""
    assert asked(guarded, signed(path=path), path=path).status == 200


def test_unsigned_request_is_denied(guarded: Driven) -> None:
    """403 AccessDenied (behaviour 16)."""
    headers = signed()
    del headers["authorization"]

    assert refusal(asked(guarded, headers))[:2] == (403, "AccessDenied")


def test_unknown_key_is_denied(guarded: Driven) -> None:
    """403 InvalidClientTokenId (behaviour 16)."""
    answer = asked(guarded, signed(key="AKIDTWO"))

    assert refusal(answer) == (403, "InvalidClientTokenId", "UnrecognizedClientException")


def test_wrong_signature_is_denied(guarded: Driven) -> None:
    """With another secret, another body, another path (behaviour 16)."""
    expected = 403, "SignatureDoesNotMatch", "InvalidSignatureException"

    assert refusal(asked(guarded, signed(secret="other"))) == expected
    assert refusal(asked(guarded, signed(), body=b'{"MaxResults": 3}')) == expected
    assert refusal(asked(guarded, signed(), path="/000000000000/q")) == expected
    assert refusal(asked(guarded, signed(), query="a=b")) == expected


@pytest.mark.parametrize("seconds", [1_000, -1_000])
def test_signature_of_another_time_is_denied(guarded: Driven, seconds: float) -> None:
    """More than 15 minutes (behaviour 16)."""
    headers = signed()
    if seconds < 0:
        guarded = Driven(keys=KEYS)
    guarded.advance(seconds)

    assert refusal(asked(guarded, headers))[:2] == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize("value", ["Bearer x", "AWS4-HMAC-SHA256 Credential=AKIDONE/x", "AWS4-HMAC-SHA256 "])
def test_malformed_signature_is_incomplete(guarded: Driven, value: str) -> None:
    """400 IncompleteSignature (behaviour 16)."""
    assert refusal(asked(guarded, {**signed(), "authorization": value}))[:2] == (400, "IncompleteSignature")
