"""The short path's signature is botocore's, for whatever is signed."""

from __future__ import annotations

from collections import namedtuple
from datetime import UTC, datetime

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue_sqs._fast import _drawing
from messagequeue_sqs._fast._drawing import Drawing, Drawn, NotReproducible, OtherKeys
from messagequeue_sqs._fast._sigv4 import Signer, derive_key, stamp

Keys = namedtuple("Keys", ["access_key", "secret_key", "token"])

word = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/+=", min_size=1, max_size=40)
keys = st.builds(Keys, word, word, st.none() | word)
regions = st.sampled_from(["us-east-1", "eu-west-3", "us-gov-west-1", "cn-north-1"])
seconds = st.integers(0, 4_102_444_800)  # to the year 2100
values = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)
headers = st.dictionaries(st.sampled_from(["x-amz-target", "content-type", "x-amzn-query-mode", "x-a"]), values)
paths = st.sampled_from(["/", "/123456789012/orders.fifo", "/a-b_c/d~e"])


def by_botocore(path: str, fields: dict[str, str], body: bytes, second: int, who: Keys, region: str) -> AWSRequest:
    """Return a request as botocore signs it."""
    request = AWSRequest("POST", f"https://sqs.example.com{path}", headers=fields, data=body)
    signer = botocore.auth.SigV4Auth(who, "sqs", region)
    request.context["timestamp"] = stamp(second)
    signer._modify_request_before_signing(request)
    del request.headers["X-Amz-Date"]
    request.headers["X-Amz-Date"] = stamp(second)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signer._inject_signature_to_request(request, signer.signature(text, request))
    return request


def lines(signed: bytes) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in signed.decode().split("\r\n"))


@given(paths, headers, st.binary(max_size=300), seconds, keys, regions)
def test_signature_equals_botocores(
    path: str, fields: dict[str, str], body: bytes, second: int, who: Keys, region: str
) -> None:
    """Date, token and Authorization are the same, whatever path, headers, body, moment, credentials and region."""
    request = by_botocore(path, fields, body, second, who, region)
    signer = Signer(path=path, headers=fields | {"host": "sqs.example.com"}, region=region, service="sqs")

    signed = lines(signer.sign(body, second, who))
    names = ("X-Amz-Date", "X-Amz-Security-Token", "Authorization")
    assert signed == {name: request.headers[name] for name in names if name in request.headers}


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(1_700_000_000, 1_700_200_000), keys), max_size=8))
def test_one_signer_signs_like_new_ones(requests: list[tuple[bytes, int, Keys]]) -> None:
    """What it keeps from one request to the next changes nothing: days and credentials may change at any time."""

    def new() -> Signer:
        return Signer(path="/", headers={"host": "h"}, region="us-east-1", service="sqs")

    kept = new()
    for body, second, who in requests:
        assert kept.sign(body, second, who) == new().sign(body, second, who)


def test_signing_key_is_the_one_of_the_documentation() -> None:
    """Source: IAM User Guide, examples of deriving a signing key."""
    key = derive_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", "us-east-1", "iam")

    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


ME = Keys("AKIA", "secret", None)
AT = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp())


def drawn(body: bytes = b"{}", **changes: str | None) -> Drawn:
    """A request as the SDK would make it; a header that is changed to None is left out."""
    fields = {"X-Amz-Target": "AmazonSQS.SendMessageBatch", "Content-Type": "application/x-amz-json-1.0"}
    request = by_botocore("/", fields, body, AT, ME, "us-east-1")
    made = {name: str(value) for name, value in request.headers.items()} | {
        "User-Agent": "agent",
        "amz-sdk-invocation-id": "1",
        "Content-Length": "2",
    }
    made |= {name.replace("_", "-"): value for name, value in changes.items() if value is not None}
    made = {name: value for name, value in made.items() if changes.get(name.replace("-", "_"), "") is not None}
    return Drawn("POST", "https://sqs.example.com/", made, body)


def test_drawing_repeats_the_request_that_it_was_made_of() -> None:
    """The same body at the same moment gives the same headers, but for the id of the call."""
    original = drawn()
    head, _, body = Drawing(original, ME, "i" * 24).fill(b"{}", AT, ME).partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    sent = dict(line.split(": ", 1) for line in rest)

    assert first == "POST / HTTP/1.1"
    assert body == b"{}"
    own = {"Host": "sqs.example.com", "Accept-Encoding": "identity", "amz-sdk-invocation-id": "i" * 24 + "000000000001"}
    assert sent == {**original.headers, **own}


def test_drawing_counts_its_requests_in_their_ids() -> None:
    """No two requests of a client have the same id."""
    drawing = Drawing(drawn(), ME, "i" * 24)
    ids = {drawing.fill(b"{}", AT, ME).partition(b"invocation-id: ")[2][:36] for _ in range(100)}

    assert len(ids) == 100


@pytest.mark.parametrize(
    "wrong",
    [
        drawn(Content_Type="text/plain"),
        drawn(Authorization="Bearer token"),
        drawn(Authorization=None),
        drawn(Content_Encoding="gzip"),
        drawn(X_Injected="a\r\nb: c"),
        Drawn("GET", "https://sqs.example.com/", drawn().headers, b""),
        Drawn("POST", "https://sqs.example.com/?a=b", drawn().headers, b"{}"),
    ],
    ids=["other-signature", "bearer", "unsigned", "compressed", "line-break", "get", "query"],
)
def test_drawing_refuses_what_it_cannot_reproduce(wrong: Drawn) -> None:
    """Another scheme, a body that was encoded, a signature that comes out different: such calls stay the SDK's."""
    if "X-Injected" in wrong.headers:  # headers are joined by blanks for the signature, but not for the wire
        with pytest.raises(NotReproducible):
            _drawing._head(wrong, "/", "h", "i" * 24)
        return
    with pytest.raises(NotReproducible):
        Drawing(wrong, ME, "i" * 24)


def test_drawing_of_other_credentials_is_told_from_a_wrong_one() -> None:
    """Credentials may be refreshed between the drawing and the proof; that is no reason to give up."""
    with pytest.raises(OtherKeys):
        Drawing(drawn(), Keys("OTHER", "secret", None), "i" * 24)


def test_equal_bodies_are_signed_once_a_second() -> None:
    """And anew where anything else of it is another: the second, the keys, the body."""
    mine, theirs = Keys("a", "b", None), Keys("c", "d", "t")
    signer = Signer(path="/", headers={"host": "h"}, region="r", service="s")
    first = signer.sign(b"{}", 1_700_000_000, mine)

    assert signer.sign(bytes(bytearray(b"{}")), 1_700_000_000, mine) == first
    others = [
        signer.sign(b"{ }", 1_700_000_000, mine),
        signer.sign(b"{ }", 1_700_000_001, mine),
        signer.sign(b"{ }", 1_700_000_001, theirs),
    ]
    assert len({first, *others}) == 4
    assert signer.sign(b"{}", 1_700_000_000, mine) == first
