"""The form of a message whose body is in S3, against bytes that Amazon's clients write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagequeue_sqs._pointer import (
    Pointer,
    PointerError,
    derived_key,
    plain_handle,
    read_pointer,
    read_size,
    write_pointer,
)

#: As amazon-sqs-java-extended-client-lib 2 writes it (Jackson), and amazon-sqs-extended-client 1.0 for Python (json).
JAVA = '["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"bodies","s3Key":"a-b/c"}]'
PYTHON = '["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": "bodies", "s3Key": "a-b/c"}]'
#: As both write it for readers that know the older names alone.
LEGACY_JAVA = '["com.amazon.sqs.javamessaging.MessageS3Pointer",{"s3BucketName":"bodies","s3Key":"a-b/c"}]'
LEGACY_PYTHON = '["com.amazon.sqs.javamessaging.MessageS3Pointer", {"s3BucketName": "bodies", "s3Key": "a-b/c"}]'
WHERE = Pointer("bodies", "a-b/c")


def test_pointer_is_written_byte_for_byte_as_amazons_java_client_writes_it() -> None:
    """A list of the class name and an object with s3BucketName and s3Key; the older name where asked (EXT-01)."""
    assert write_pointer(WHERE) == JAVA
    assert write_pointer(WHERE, legacy=True) == LEGACY_JAVA


@pytest.mark.parametrize("text", [JAVA, PYTHON, LEGACY_JAVA, LEGACY_PYTHON])
def test_pointer_of_every_amazon_client_is_read(text: str) -> None:
    """Either class name, with blanks or without (EXT-02)."""
    assert read_pointer(text, {"bodies"}) == WHERE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "not JSON",
        JAVA[:-1],
        JAVA.replace("software.amazon", "com.example"),
        JAVA.replace('"s3Key"', '"key"'),
        JAVA.replace('"a-b/c"', "1"),
        JAVA.replace('"a-b/c"', '""'),
        JAVA.replace('"bodies"', "null"),
        f"[{JAVA}]",
        f"[{JAVA},1,2]",
        '["software.amazon.payloadoffloading.PayloadS3Pointer","s3BucketName"]',
        "[" * 100_000,
    ],
)
def test_look_alikes_are_no_pointers(text: str) -> None:
    """The whole shape is asked for (EXT-02)."""
    with pytest.raises(PointerError, match="no pointer"):
        read_pointer(text, {"bodies"})


def test_bucket_that_is_not_allowed_is_refused() -> None:
    """The body is the sender's: it must not choose what the consumer reads; the error says which option (EXT-02)."""
    with pytest.raises(PointerError, match=r"'bodies'.*payloads\.allowed_buckets"):
        read_pointer(JAVA, {"others"})


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1e3", "١٢", "9" * 16, "0x10", " 1"])
def test_size_that_is_no_count_is_refused(text: str) -> None:
    """It is compared with what is fetched, so it has to be a number of bytes."""
    with pytest.raises(PointerError):
        read_size(text)


@given(st.text(max_size=200))
def test_any_body_is_read_or_refused(text: str) -> None:
    """A sender can write anything; no other exception comes out."""
    try:
        read_pointer(text, {"bodies"})
    except PointerError:
        pass


# -- keys ----------------------------------------------------------------------------------------------------------


def test_derived_key_is_the_same_for_the_same_message_alone() -> None:
    """Topic, ordering key, deduplication key and body all count, and none can be taken for a part of another."""
    same = derived_key("p/", "orders", "ada", "o-1", body=b"x")

    assert same == derived_key("p/", "orders", "ada", "o-1", body=b"x")
    assert same.startswith("p/")
    others = [("orders", "ada", "o-2"), ("orders", "adao", "-1"), ("order", "sada", "o-1"), ("orders", "", "adao-1")]
    assert len({same, *(derived_key("p/", *parts, body=b"x") for parts in others)}) == 5
    assert same != derived_key("p/", "orders", "ada", "o-1", body=b"y")


# -- receipt handles -----------------------------------------------------------------------------------------------

HANDLE = "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a-x..b+/="
DECORATED = f"-..s3BucketName..-bodies-..s3BucketName..--..s3Key..-a-b/c-..s3Key..-{HANDLE}"


@pytest.mark.parametrize("handle", [HANDLE, DECORATED])
def test_handle_of_amazons_clients_is_undone(handle: str) -> None:
    """What stands before the real one is taken off, hyphens in key and handle included (EXT-06)."""
    assert plain_handle(handle) == HANDLE


@pytest.mark.parametrize("handle", ["", "-..s3Key..-", "-..s3BucketName..-x", f"x{DECORATED}"])
def test_handle_that_is_not_decorated_is_left_alone(handle: str) -> None:
    """Only the whole form is undone (EXT-06)."""
    assert plain_handle(handle) == handle
