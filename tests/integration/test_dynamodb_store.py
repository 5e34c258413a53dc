"""`DynamoDBStore` against moto: its table, its items, and what faults mean; the rest is the conformance kit's."""

from __future__ import annotations

import logging
import re
import uuid
from datetime import UTC, datetime

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from messagequeue import ClosedError, ConfigurationError, ErrorCode
from messagequeue.idempotency import Claimed, Done, Idempotency, IdempotencyStoreError, InFlight
from messagequeue_sqs._dynamodb import ConditionFailedError, translate
from messagequeue_sqs.idempotency import DynamoDBStore
from tests.support.realtime import real_time

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("dynamodb")]

NOW = 1_800_000_000.25


@pytest.fixture
def client(dynamodb_url):
    """Plain boto3, so that the store does not judge itself."""
    made = boto3.client("dynamodb", endpoint_url=dynamodb_url, region_name="us-east-1")
    yield made
    made.close()


@pytest.fixture
def table():
    return f"claims-{uuid.uuid4()}"


@pytest.fixture
def open_store(dynamodb_url, table):
    def make(**options):
        given = {"endpoint_url": dynamodb_url, "region": "us-east-1", "clock": lambda: NOW} | options
        return DynamoDBStore(table, **given)

    return make


async def claim(store, key="k", *, owner="me", lease=10.0):
    return await store.claim(key, owner=owner, fingerprint="f", lease=lease)


@real_time()
async def test_the_table_is_made_as_documented(open_store, client, table):
    """Text key `id`, paid by request, time to live on `expires_at`; making it again changes nothing."""
    async with open_store() as store:
        await store.create_table()
        await store.create_table()

    described = client.describe_table(TableName=table)["Table"]
    lifetime = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert described["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert described["AttributeDefinitions"] == [{"AttributeName": "id", "AttributeType": "S"}]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert (lifetime["TimeToLiveStatus"], lifetime["AttributeName"]) == ("ENABLED", "expires_at")


@pytest.mark.parametrize(
    ("keys", "lifetime", "text"),
    [
        ([("pk", "S", "HASH")], None, "another key"),
        ([("id", "N", "HASH")], None, "another key"),
        ([("id", "S", "HASH"), ("sk", "S", "RANGE")], None, "another key"),
        ([("id", "S", "HASH")], "ttl", "time to live on 'ttl'"),
    ],
)
@real_time()
async def test_a_table_of_another_form_is_refused(open_store, client, table, keys, lifetime, text):
    """Rather than used in a way in which records never leave it."""
    client.create_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, _, kind in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    if lifetime:
        client.update_time_to_live(
            TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": lifetime}
        )
    async with open_store() as store:
        with pytest.raises(ConfigurationError, match=text):
            await store.create_table()


@real_time()
async def test_items_are_as_documented(open_store, client, table):
    """Times are seconds since 1970 everywhere; the one that DynamoDB removes by is whole and not too early."""

    def item():
        return client.get_item(TableName=table, Key={"id": {"S": "k"}}, ConsistentRead=True)["Item"]

    async with open_store() as store:
        await store.create_table()
        await claim(store, lease=10)
        claimed = item()
        await store.renew("k", owner="me", lease=20)
        renewed = item()
        await store.complete("k", owner="me", ttl=100, result=b"r")
        done = item()

    common = {"id": {"S": "k"}, "owner": {"S": "me"}, "fingerprint": {"S": "f"}}
    assert claimed == common | {
        "state": {"S": "claimed"},
        "ends_at": {"N": "1800000010.250"},
        "expires_at": {"N": "1800000021"},
    }
    assert renewed == claimed | {"ends_at": {"N": "1800000020.250"}, "expires_at": {"N": "1800000041"}}
    assert done == common | {
        "state": {"S": "done"},
        "ends_at": {"N": "1800000100.250"},
        "expires_at": {"N": "1800000101"},
        "result": {"B": b"r"},
    }


@real_time()
async def test_what_dynamodb_has_not_removed_yet_does_not_count(open_store):
    """It removes items days after their time."""
    now = [NOW]
    async with open_store(clock=lambda: now[0]) as store:
        await store.create_table()
        await claim(store)
        await store.complete("k", owner="me", ttl=100, result=None)
        now[0] += 100.25

        assert await claim(store, owner="other") == Claimed(took_over=False)


class Blind:
    """A server that does not say what a condition failed for, before a real client."""

    def __init__(self, client, *hooks):
        self.client = client
        self.hooks = list(hooks)

    async def call(self, method, request):
        try:
            return await self.client.call(method, request)
        except ConditionFailedError as failed:
            if self.hooks:
                await self.hooks.pop(0)()
            raise ConditionFailedError({}) from failed

    async def close(self):
        await self.client.close()


@real_time()
async def test_a_server_that_does_not_say_why_is_asked(open_store):
    """With a consistent read; where the record is gone by then, the claim is tried again."""
    async with open_store() as store:
        await store.create_table()
        await claim(store, "done")
        await store.complete("done", owner="me", ttl=100, result=b"r")
        await claim(store, "taken")
        await claim(store, "gone")

        seeing, store._client = store._client, Blind(store._client)
        assert await claim(store, "done", owner="other") == Done("f", b"r")
        assert isinstance(await claim(store, "taken", owner="other"), InFlight)
        gone = {"TableName": store._table, "Key": {"id": {"S": "gone"}}}
        store._client = Blind(seeing, lambda: seeing.call("delete_item", gone))
        assert await claim(store, "gone", owner="other") == Claimed()


@real_time()
async def test_a_missing_table_says_what_makes_it(open_store):
    """It stays missing: fail_open does not hide it."""
    async with open_store() as store:
        with pytest.raises(IdempotencyStoreError, match=r"create_table\(\) makes it") as caught:
            await Idempotency(store, namespace="n", fail_open=True).run("k", pytest.fail)

    assert caught.value.code is ErrorCode.NOT_FOUND
    assert isinstance(caught.value.__cause__, ClientError)


@real_time()
async def test_a_closed_store_is_refused(open_store):
    """Closing twice does nothing."""
    store = open_store()
    await store.close()
    await store.close()

    with pytest.raises(ClosedError, match="after the consumers"):
        await claim(store)


@real_time()
async def test_a_service_that_is_not_there_is_a_passing_fault():
    """Nobody listens at the port."""
    async with DynamoDBStore("claims", endpoint_url="http://127.0.0.1:1", region="us-east-1") as store:
        with pytest.raises(IdempotencyStoreError) as caught:
            await claim(store)

    assert caught.value.code is ErrorCode.CONNECTION
    assert caught.value.retryable


@real_time()
async def test_a_missing_region_is_a_wrong_setting(monkeypatch):
    """The SDK's words say so, when the client is made."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    async with DynamoDBStore("claims") as store:
        with pytest.raises(ConfigurationError, match="region"):
            await claim(store)


@pytest.mark.parametrize("table", ["", None])
def test_a_table_is_needed(table):
    """Where the store is made."""
    with pytest.raises(ConfigurationError, match="table="):
        DynamoDBStore(table)


@real_time()
async def test_a_clock_that_is_wrong_is_logged_once(open_store, caplog):
    """Claims are judged by it; a right one is not mentioned."""
    with caplog.at_level(logging.WARNING, "messagequeue.sqs"):
        async with open_store(clock=lambda: datetime.now(UTC).timestamp()) as right:
            await right.create_table()
            await claim(right)
        assert caplog.records == []
        async with open_store(clock=lambda: datetime.now(UTC).timestamp() + 60) as wrong:
            await claim(wrong, "a")
            await claim(wrong, "b")

    assert len(caplog.records) == 1
    assert re.search("by about 6[01] s", caplog.text)


def client_error(code, status=400):
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutItem")


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (client_error("ProvisionedThroughputExceededException"), ErrorCode.THROTTLED, True),
        (client_error("ThrottlingException"), ErrorCode.THROTTLED, True),
        (client_error("RequestLimitExceeded"), ErrorCode.THROTTLED, True),
        (client_error("TransactionConflictException"), ErrorCode.OTHER, True),
        (client_error("InternalServerError", 500), ErrorCode.UNAVAILABLE, True),
        (client_error("ServiceUnavailable", 503), ErrorCode.UNAVAILABLE, True),
        (client_error("AccessDeniedException"), ErrorCode.ACCESS_DENIED, False),
        (client_error("UnrecognizedClientException"), ErrorCode.CREDENTIALS, False),
        (client_error("ExpiredTokenException"), ErrorCode.CREDENTIALS, True),
        (client_error("ValidationException"), ErrorCode.INVALID, False),
        (client_error("ResourceNotFoundException"), ErrorCode.NOT_FOUND, False),
        (NoCredentialsError(), ErrorCode.CREDENTIALS, False),
        (EndpointConnectionError(endpoint_url="http://x"), ErrorCode.CONNECTION, True),
    ],
)
def test_faults_mean_what_they_mean_everywhere(error, code, retryable):
    """The table for SQS holds; the text names the call and the table."""
    fault = translate(error, "put_item", "claims")

    assert (fault.code, fault.retryable) == (code, retryable)
    assert str(fault).startswith("put_item on table 'claims' of DynamoDB failed: ")
