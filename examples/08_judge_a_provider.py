"""
Judge a provider by the conformance kit: here the one of 07_write_a_provider.py.

A provider's author writes a harness, which makes providers and topics and says what the broker can do.  The facts come
with the kit; those about what the broker cannot do are skipped.  In a project, the two classes below are a test module
and `pytest` runs them; this file calls pytest on itself.

`run_in_virtual_time` serves brokers without sockets: hours of waiting cost nothing.  A broker that is reached over the
network is judged with `run_in_real_time`.

Prints:

    ... passed, ... skipped in ...
"""

import sys
from importlib import util
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import pytest

from messagequeue import ConsumerProvider, PublisherProvider
from messagequeue.testing.conformance import BaseHarness, ConformanceSuite, Features, Main, run_in_virtual_time


def load_example(name: str) -> ModuleType:
    """Import a file whose name is no module's."""
    spec = util.spec_from_file_location(name.removesuffix(".py"), Path(__file__).with_name(name))
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


shelf = load_example("07_write_a_provider.py")


class ShelfHarness(BaseHarness):
    features = Features(unit=1.0)

    def __init__(self) -> None:
        self._lease = 30.0

    def run(self, main: Main, /) -> None:
        run_in_virtual_time(main)

    async def publisher_provider(self) -> PublisherProvider:
        made: PublisherProvider = shelf.ShelfPublishers(shelf.ShelfConfig())
        return made

    async def consumer_provider(self) -> ConsumerProvider:
        made: ConsumerProvider = shelf.ShelfConsumers(shelf.ShelfConfig(lease=self._lease))
        return made

    async def new_topic(self, *, ordered: bool, visibility_timeout: float, max_receives: int | None) -> str:
        self._lease = visibility_timeout  # a shelf's lease is the provider's, not the topic's
        return f"topic-{uuid4().hex}"


class TestShelf(ConformanceSuite):
    @pytest.fixture
    def harness(self) -> ShelfHarness:
        return ShelfHarness()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]))
