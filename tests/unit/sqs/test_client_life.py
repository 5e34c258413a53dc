"""The life of the SDK's clients: each one that is opened is closed, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from messagequeue import ClosedError, ConfigurationError
from messagequeue.testing import run_virtual
from messagequeue_sqs import SQSConfig
from messagequeue_sqs._client import BotoApi, Clients
from messagequeue_sqs._queue import parse_topic

QUEUE = parse_topic("https://sqs.eu-west-1.amazonaws.com/123456789012/orders")
NOWHERE = parse_topic("http://my-sqs.example.com/123456789012/orders")


class SlowSession:
    """In place of the SDK's session: a client takes a second to open; the open ones are counted."""

    region_name = None

    def __init__(self) -> None:
        self.open = 0

    @asynccontextmanager
    async def client(self, service: str, **options: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(1)
        self.open += 1
        events = SimpleNamespace(register=lambda *_: None)
        try:
            yield SimpleNamespace(
                meta=SimpleNamespace(events=events, endpoint_url="https://sqs.us-east-1.amazonaws.com")
            )
        finally:
            self.open -= 1


@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 1.5])
def test_client_that_is_opened_while_its_provider_closes_is_closed(after: float) -> None:
    """As by a ping() that runs meanwhile."""
    session = SlowSession()

    async def main() -> None:
        clients = Clients(SQSConfig(), session)  # type: ignore[arg-type]
        opening = [asyncio.ensure_future(opened) for opened in (clients.calls(QUEUE), clients.receives(QUEUE))]
        await asyncio.sleep(after)
        await clients.close()
        await asyncio.wait(opening)
        assert {type(task.exception()) for task in opening} <= {type(None), ClosedError}

    run_virtual(main())

    assert session.open == 0


def test_sdk_that_is_not_known_makes_the_calls_itself(caplog: pytest.LogCaptureFixture) -> None:
    """The fake client has nothing of what the short path needs: calls are the SDK's, unless that is refused."""
    caplog.set_level("INFO")

    async def main() -> None:
        clients = Clients(SQSConfig(), SlowSession())  # type: ignore[arg-type]
        assert isinstance(await clients.calls(QUEUE), BotoApi)
        await clients.receives(QUEUE)
        await clients.close()
        strict = Clients(SQSConfig(transport="fast"), SlowSession())  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="transport='fast' does not know this version"):
            await strict.calls(QUEUE)
        await strict.close()

    run_virtual(main())

    assert len([record for record in caplog.records if "version of the AWS SDK" in record.getMessage()]) == 1


def test_clients_that_were_closed_open_no_more() -> None:
    """Nobody would close another one."""
    session = SlowSession()

    async def main() -> None:
        clients = Clients(SQSConfig(), session)  # type: ignore[arg-type]
        await clients.close()
        with pytest.raises(ClosedError):
            await clients.calls(QUEUE)

    run_virtual(main())

    assert session.open == 0


def test_client_that_is_refused_for_its_region_does_not_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is tried."""
    monkeypatch.delenv("AWS_REGION", raising=False)
    session = SlowSession()

    async def main() -> None:
        clients = Clients(SQSConfig(), session)  # type: ignore[arg-type]
        for _ in range(3):
            with pytest.raises(ConfigurationError, match="no region"):
                await clients.calls(NOWHERE)
        assert session.open == 0
        await clients.close()

    run_virtual(main())
