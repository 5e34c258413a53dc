"""The stores of claims that need a server, judged by the kit against real ones: Redis, and moto's DynamoDB."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from redis.asyncio import Redis

from messagequeue.idempotency import IdempotencyStore
from messagequeue.idempotency.redis import RedisStore
from messagequeue.testing.conformance import IdempotencyStoreConformance, Main, run_in_real_time
from messagequeue_sqs.idempotency import DynamoDBStore

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


class RedisHarness:
    """Two clients of one server, whose clock nobody can move."""

    unit = 0.1

    def __init__(self, url: str, *, decodes: bool = False) -> None:
        self._url = url
        self._decodes = decodes
        self._prefix = f"test:{uuid.uuid4()}:"
        self._clients: list[Redis] = []

    def run(self, main: Main, /) -> None:
        run_in_real_time(main)

    async def open(self) -> IdempotencyStore:
        client = Redis.from_url(self._url, decode_responses=self._decodes)
        self._clients.append(client)
        return RedisStore(client, prefix=self._prefix)

    async def advance(self, seconds: float, /) -> None:
        await asyncio.sleep(seconds)

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()


@pytest.mark.xdist_group("redis")
class TestRedisStore(IdempotencyStoreConformance):
    @pytest.fixture
    def harness(self, redis_url: str) -> RedisHarness:
        return RedisHarness(redis_url)


@pytest.mark.xdist_group("redis")
class TestRedisStoreWithDecodedResponses:
    """Where the application's client turns every answer into text: what depends on that."""

    test_results = IdempotencyStoreConformance.test_results_are_kept_as_they_are
    test_in_flight = IdempotencyStoreConformance.test_a_claimed_key_is_in_flight_for_others
    test_keys = IdempotencyStoreConformance.test_different_keys_do_not_hinder_each_other

    @pytest.fixture
    def harness(self, redis_url: str) -> RedisHarness:
        return RedisHarness(redis_url, decodes=True)


class DynamoDBHarness:
    """Two clients of one table, with a clock that the test moves."""

    unit = 6.0

    def __init__(self, url: str) -> None:
        self._url = url
        self._table = f"claims-{uuid.uuid4()}"
        self._now = 1_800_000_000.0
        self._stores: list[DynamoDBStore] = []

    def run(self, main: Main, /) -> None:
        run_in_real_time(main)

    async def open(self) -> IdempotencyStore:
        store = DynamoDBStore(self._table, endpoint_url=self._url, region="us-east-1", clock=lambda: self._now)
        self._stores.append(store)
        await store.create_table()
        return store

    async def advance(self, seconds: float, /) -> None:
        self._now += seconds

    async def aclose(self) -> None:
        for store in self._stores:
            await store.close()


@pytest.mark.xdist_group("dynamodb")
class TestDynamoDBStore(IdempotencyStoreConformance):
    @pytest.fixture
    def harness(self, dynamodb_url: str) -> DynamoDBHarness:
        return DynamoDBHarness(dynamodb_url)
