"""The server of a test, and a client of it in each protocol."""

from __future__ import annotations

import pytest

from tests.server.sqs_driving import CLIENTS, Client, Driven, JsonClient


@pytest.fixture
def server() -> Driven:
    return Driven()


@pytest.fixture(params=sorted(CLIENTS))
def sqs(request: pytest.FixtureRequest, server: Driven) -> Client:
    """A client of *server*, once in each protocol."""
    return CLIENTS[request.param](server)


@pytest.fixture
def json_client(server: Driven) -> JsonClient:
    return JsonClient(server)
