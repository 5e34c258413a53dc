"""Where the tests of this folder that need queues run: on LocalStack, and on this package's own server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.localstack import Queues


@pytest.fixture(params=["localstack", "server"])
def queues(request: pytest.FixtureRequest) -> Iterator[Queues]:
    """Queues at one target after the other, removed after the test."""
    made = Queues(request.getfixturevalue(f"{request.param}_endpoint"))
    yield made
    made.close()
