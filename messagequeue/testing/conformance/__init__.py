"""
Judges a provider through the public protocols alone: pytest classes to subclass, and a harness to write.

    from messagequeue.testing.conformance import BaseHarness, ConformanceSuite, Features, run_in_real_time

    class MyHarness(BaseHarness):
        features = Features(unit=2.0, ordered_topics=True)

        def run(self, main): run_in_real_time(main)
        async def publisher_provider(self): return MyPublisherProvider(...)
        async def consumer_provider(self): return MyConsumerProvider(...)
        async def new_topic(self, *, ordered, visibility_timeout, max_receives): ...

    class TestMyProvider(ConformanceSuite):
        @pytest.fixture
        def harness(self):
            return MyHarness()

Every fact has a topic, providers and an event loop of its own, and ends strictly: a task left running, an error that
nobody looked at, or a fault that the fact did not expect fails it.  A fact about what `Features` does not name
is skipped, and says why.  Needs pytest.

`IdempotencyStoreConformance` judges a store of `messagequeue.idempotency` in the same way, with a `StoreHarness`.
"""

import pytest

_EXPLAINED = (
    "_bench",
    "_claims",
    "_facts",
    "_publishing",
    "_carrying",
    "_registering",
    "_handling",
    "_leases",
    "_ordering",
    "_stopping",
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _EXPLAINED))

from ._bench import Bench, Worker  # noqa: E402 (after asserts are made to explain)
from ._carrying import CarryingFacts  # noqa: E402
from ._claims import IdempotencyStoreConformance  # noqa: E402
from ._facts import fact, ordered_fact, standard_fact  # noqa: E402
from ._handling import HandlingFacts  # noqa: E402
from ._harness import BaseHarness, Features, Harness, Main, run_in_real_time, run_in_virtual_time  # noqa: E402
from ._leases import LeaseFacts  # noqa: E402
from ._ordering import OrderingFacts  # noqa: E402
from ._publishing import PublishingFacts  # noqa: E402
from ._registering import RegisteringFacts  # noqa: E402
from ._stopping import StoppingFacts  # noqa: E402
from ._stores import StoreHarness  # noqa: E402


class ConformanceSuite(
    PublishingFacts, CarryingFacts, RegisteringFacts, HandlingFacts, LeaseFacts, OrderingFacts, StoppingFacts
):
    """Every fact.  Subclass it as `TestSomething` and give it a fixture `harness`."""


__all__ = [
    "BaseHarness",
    "Bench",
    "CarryingFacts",
    "ConformanceSuite",
    "Features",
    "HandlingFacts",
    "Harness",
    "IdempotencyStoreConformance",
    "LeaseFacts",
    "Main",
    "OrderingFacts",
    "PublishingFacts",
    "RegisteringFacts",
    "StoppingFacts",
    "StoreHarness",
    "Worker",
    "fact",
    "ordered_fact",
    "run_in_real_time",
    "run_in_virtual_time",
    "standard_fact",
]
