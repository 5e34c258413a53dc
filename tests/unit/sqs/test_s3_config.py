"""The options of large payloads."""

from __future__ import annotations

from typing import Any

import pytest

from messagequeue import Config, ConfigurationError
from messagequeue_sqs import S3Payloads, SQSConfig


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 1_048_577}, "threshold"),
        ({"threshold": 2_000_000}, "threshold"),
        ({"threshold": -1}, "threshold"),
        ({"max_size": 0}, "max_size"),
        ({"bucket": "s3://bodies/x"}, "without s3://"),
        ({"allowed_buckets": "bodies,a b"}, "bucket"),
        ({"allowed_buckets": [1]}, "allowed_buckets"),
        ({"prefix": "a b"}, "prefix"),
        ({"prefix": "x" * 901}, "prefix"),
        ({"on_missing": "ignore"}, "on_missing"),
        ({"bucket_owner": "123"}, "bucket_owner"),
        ({"address": "localhost:4566"}, "address"),
        ({"delete": "yes"}, "delete"),
        ({"bucket": b"x"}, "bucket"),
    ],
)
def test_wrong_option_is_refused_when_it_is_given(options: dict[str, Any], words: str) -> None:
    """A threshold above what SQS takes too: such a body would be neither in S3 nor accepted (EXT-12)."""
    with pytest.raises(ConfigurationError, match=words):
        S3Payloads(**{"bucket": "bodies"} | options)


def test_it_is_off_unless_a_bucket_is_named() -> None:
    """And what a template left empty is not named."""
    assert SQSConfig().payloads.readable == frozenset()
    assert S3Payloads(bucket=" ", address="", allowed_buckets=" , ") == S3Payloads()


def test_it_can_be_set_from_every_source() -> None:
    """Environment, mapping and URL say the same."""
    environ = {
        "MESSAGEQUEUE_PROVIDER": "sqs",
        "MESSAGEQUEUE_SQS_PAYLOADS_BUCKET": "bodies",
        "MESSAGEQUEUE_SQS_PAYLOADS_THRESHOLD_BYTES": "262144",
        "MESSAGEQUEUE_SQS_PAYLOADS_ALLOWED_BUCKETS": "old, older",
        "MESSAGEQUEUE_SQS_PAYLOADS_DELETE": "yes",
    }
    table = {"bucket": "bodies", "threshold": 262_144, "allowed_buckets": ["old", "older"], "delete": True}
    url = "sqs://?payloads.bucket=bodies&payloads.threshold=262144&payloads.allowed_buckets=old,older&payloads.delete=1"
    settings = [
        Config.from_env(environ=environ).consumer.settings,
        Config.from_mapping({"provider": "sqs", "sqs": {"payloads": table}}).consumer.settings,
        Config.from_url(url).consumer.settings,
    ]

    assert settings[0] == settings[1] == settings[2]
    assert settings[0].payloads.readable == {"bodies", "old", "older"}
