"""The MD5s that SQS returns with messages."""

from __future__ import annotations

from messagequeue_sqs._md5 import attributes_md5, body_md5


def test_md5_of_a_body_is_of_its_utf8_bytes() -> None:
    """The known digests of an ASCII and of another text."""
    assert body_md5("hello") == "5d41402abc4b2a76b9719d911017c592"
    assert body_md5("é") == "66ddcd97cfdeabb2f6fb8a999b4bc76f"


def test_md5_of_attributes_is_what_sqs_answers() -> None:
    """Names sorted; lengths, names, types, kinds and values; binary values as their bytes (a recorded answer)."""
    attributes = {
        "count": {"DataType": "Number", "StringValue": "3"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x01\x02\x03"},
        "color": {"DataType": "String", "StringValue": "blue"},
    }

    assert attributes_md5(attributes) == "d838729972a4b70e2d2acd9d59ac847c"
    assert attributes_md5(dict(sorted(attributes.items()))) == "d838729972a4b70e2d2acd9d59ac847c"
