"""What a queue's URL, ARN or name says."""

from __future__ import annotations

import pytest

from messagequeue import ConfigurationError
from messagequeue_sqs._queue import parse_arn, parse_queue, parse_topic, parse_url, region_of_host

HOSTS = [
    ("sqs.eu-west-1.amazonaws.com", "eu-west-1"),
    ("eu-west-1.queue.amazonaws.com", "eu-west-1"),
    ("queue.amazonaws.com", "us-east-1"),
    ("sqs-fips.us-east-2.amazonaws.com", "us-east-2"),
    ("sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ("cn-north-1.queue.amazonaws.com.cn", "cn-north-1"),
    ("sqs.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
    ("sqs.us-east-2.api.aws", "us-east-2"),
    ("vpce-1.sqs.us-east-2.vpce.amazonaws.com", "us-east-2"),
    ("vpce-1-us-east-2a.sqs.us-east-2.vpce.amazonaws.com", "us-east-2"),
    ("sqs.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"),
    ("sqs.us-isob-east-1.sc2s.sgov.gov", "us-isob-east-1"),
    ("sqs.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
    ("my-sqs.example.com", None),
    ("sqs.example.com", None),
    ("queue.example.com", None),
    ("localhost:4566", None),
    ("sqs.us-east-1.localhost.localstack.cloud:4566", "us-east-1"),
    ("us-east-2.queue.localhost.localstack.cloud:4566", "us-east-2"),
]


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
@pytest.mark.parametrize(("host", "region"), HOSTS)
def test_queue_url_of_any_host_says_region_account_name_and_kind(host: str, region: str | None, name: str) -> None:
    """The region is right or unknown, never a word of the host; the rest comes from the path's end (CFG-01)."""
    queue = parse_topic(f"https://{host}/123456789012/{name}")

    assert (queue.region, queue.account, queue.name) == (region, "123456789012", name)
    assert queue.is_fifo == name.endswith(".fifo")


@pytest.mark.parametrize(
    ("path", "account", "name"),
    [
        ("/queue/q", None, "q"),
        ("/queue/q.fifo", None, "q.fifo"),
        ("/q", None, "q"),
        ("/prefix/000000000000/q", "000000000000", "q"),
    ],
)
def test_queue_url_of_path_style_is_read_from_its_end(path: str, account: str | None, name: str) -> None:
    """Emulators put other things before the name (CFG-01)."""
    queue = parse_url(f"http://localhost:9324{path}")

    assert (queue.region, queue.account, queue.name) == (None, account, name)


def test_queue_url_of_localstack_path_strategy_names_its_region() -> None:
    """`/queue/REGION/ACCOUNT/NAME` is LocalStack's path strategy (CFG-01)."""
    assert parse_url("http://localhost:4566/queue/eu-west-3/000000000000/q").region == "eu-west-3"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/q", "https://sqs.eu-west-1.amazonaws.com/123456789012/q/"),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/q", "https://eu-west-1.queue.amazonaws.com/123456789012/q"),
        ("http://LOCALHOST:4566/000000000000/q", "http://localhost:4566/000000000000/q/"),
    ],
)
def test_queue_urls_of_one_queue_have_one_identity(one: str, other: str) -> None:
    """A trailing slash, the host's case and AWS' several hosts make no second queue (CFG-01)."""
    assert parse_topic(one).identity == parse_topic(other).identity


@pytest.mark.parametrize(
    "other",
    [
        "https://sqs.eu-west-2.amazonaws.com/123456789012/q",
        "https://sqs.eu-west-1.amazonaws.com/123456789013/q",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/q.fifo",
        "http://localhost:4566/123456789012/q",
    ],
)
def test_queue_urls_of_two_queues_have_two_identities(other: str) -> None:
    """Region, account, name and, off AWS, host tell queues apart."""
    assert parse_topic("https://sqs.eu-west-1.amazonaws.com/123456789012/q").identity != parse_topic(other).identity


@pytest.mark.parametrize(
    ("text", "what"),
    [("arn:aws:sqs:eu-west-1:123456789012:orders", "an ARN"), ("orders", "not a URL")],
)
def test_topic_that_is_an_arn_or_a_name_is_refused_with_what_to_give(text: str, what: str) -> None:
    """Looking a URL up would need a permission and a call, so the caller gives it (CFG-09)."""
    with pytest.raises(ConfigurationError, match=f"{what}.*give the queue's URL"):
        parse_topic(text)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://sqs.eu-west-1.amazonaws.com/1234/q",
        "https://",
        "https://sqs.eu-west-1.amazonaws.com",
        "https://sqs.eu-west-1.amazonaws.com/",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/q?x=1",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/b%20d",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/q.fifo.fifo",
        f"https://sqs.eu-west-1.amazonaws.com/123456789012/{'x' * 81}",
        "https://host:port/1234/q",
    ],
)
def test_queue_url_that_cannot_be_one_is_refused(url: str) -> None:
    """Before any request, with what was given."""
    with pytest.raises(ConfigurationError):
        parse_topic(url)


def test_queue_url_with_a_password_is_refused_without_repeating_it() -> None:
    """No error text holds a credential."""
    with pytest.raises(ConfigurationError) as caught:
        parse_topic("https://me:hunter2@localhost/1234/q")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hunter2@localhost/1234/q?x=1",
        "https://me:hunter2@[localhost/1234/q",
        "https://me:hunter2@localhost:port/1234/q",
        "https://me:hunter2/rest@localhost/1234/q",
        "https://me:hunter2@/1234/q",
        "ftp://me:hunter2@localhost/1234/q",
        "https://me:hunter2@local\u2100host/1234/q",
        "https://localhost/1234/q?X-Amz-Signature=hunter2",
        "https://localhost/1234/q#hunter2",
        "//me:hunter2@localhost/1234/q",
        "me:hunter2@localhost/1234/q",
    ],
)
def test_topic_that_is_wrong_in_another_way_too_is_refused_without_its_credential(text: str) -> None:
    """Neither the error nor what caused it repeats a user, a password or a query."""
    with pytest.raises(ConfigurationError) as caught:
        parse_topic(text)

    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("blank", ["\n", "\t", "\r", " ", "\x00"])
def test_queue_url_with_a_blank_in_it_is_refused(blank: str) -> None:
    """Python's URL parser drops some of them, so that the queue that was read would not be the one that is called."""
    with pytest.raises(ConfigurationError, match="blank"):
        parse_topic(f"https://localhost/12{blank}34/orders")


def test_queue_arn_and_name_are_understood_where_no_url_is_needed() -> None:
    """Admin tools take all three forms; partitions other than aws too."""
    arn = parse_queue("arn:aws-cn:sqs:cn-north-1:123456789012:q.fifo")

    assert (arn.region, arn.account, arn.name, arn.is_fifo) == ("cn-north-1", "123456789012", "q.fifo", True)
    assert parse_queue("q").name == "q"
    with pytest.raises(ConfigurationError):
        parse_arn("arn:aws:sns:eu-west-1:123456789012:q")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/1234/q", "https://sqs.eu-west-1.amazonaws.com/9999/dead"),
        ("http://localhost:9324/queue/q", "http://localhost:9324/queue/dead"),
        (
            "http://localhost:4566/queue/eu-west-1/1234/q",
            "http://localhost:4566/queue/eu-west-1/9999/dead",
        ),
    ],
)
def test_queue_url_of_a_sibling_keeps_scheme_host_and_prefix(url: str, expected: str) -> None:
    """A dead-letter queue is known by its ARN and reached where its source is."""
    assert parse_url(url).sibling_url(parse_arn("arn:aws:sqs:eu-west-1:9999:dead")) == expected


def test_region_of_a_host_is_not_taken_from_a_word_that_only_stands_in_its_place() -> None:
    """The second label is a region only where it looks like one (CFG-01)."""
    assert region_of_host("sqs.internal.example.com") is None
