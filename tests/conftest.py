"""Fixtures that tests of any area may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from messagequeue_sqs.server import ServerThread
from tests.support.localstack import Queues, isolate_environment
from tests.support.moto import moto_running
from tests.support.redis import redis_running
from tools.localstack import running


def pytest_configure() -> None:
    isolate_environment()


@pytest.fixture(scope="session")
def localstack_endpoint() -> Iterator[str]:
    """
    The address of a LocalStack with SQS: `LOCALSTACK_ENDPOINT` where set, else one started on first use.

    A LocalStack that cannot be installed or started is an error of the test that asks for it, never a skip.
    """
    with running() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def server_endpoint() -> Iterator[str]:
    """The address of this package's own server, in a thread of the test process."""
    with ServerThread() as server:
        yield server.endpoint_url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL, with its password, of a Redis started on first use; that it cannot be had is an error, never a skip."""
    with redis_running() as url:
        yield url


@pytest.fixture(scope="session")
def dynamodb_url() -> Iterator[str]:
    """The address of moto's DynamoDB, started on first use."""
    with moto_running() as url:
        yield url


@pytest.fixture
def queues(localstack_endpoint: str) -> Iterator[Queues]:
    """Queues on LocalStack, removed after the test."""
    made = Queues(localstack_endpoint)
    yield made
    made.close()
