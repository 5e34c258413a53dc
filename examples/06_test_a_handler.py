"""
Test handlers and publishing code without a broker, without waiting, and without mocks.

`messagequeue.testing` needs no pytest; its functions fit into tests of any framework.  Here the tests are plain
functions, which pytest would collect as they are.

Prints:

    a paid order is settled, and a receipt is published: passed
    an unknown currency is dead-lettered: passed
    a gateway that does not answer brings the order back in a minute: passed
    an outage of the broker reaches whoever publishes: passed
    an hour of retries takes no time: passed
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from messagequeue import (
    DeadLetter,
    Message,
    Publisher,
    PublishError,
    RetryLater,
    open_consumers,
    open_publishers,
)
from messagequeue.testing import RecordingPublisherProvider, deliver, run_virtual

# ---- the application's code


class Gateway(Protocol):
    async def charge(self, amount: int, currency: str) -> None: ...


@dataclass
class Cashier:
    """Charges orders and publishes receipts."""

    gateway: Gateway
    receipts: Publisher

    async def handle(self, message: Message) -> None:
        order = message.json()
        if order["currency"] not in ("EUR", "USD"):
            raise DeadLetter(f"currency {order['currency']} is not accepted")
        try:
            await self.gateway.charge(order["amount"], order["currency"])
        except TimeoutError:
            raise RetryLater(60, "the gateway does not answer") from None
        await self.receipts.publish({"order": order["order"], "paid": order["amount"]}, ordering_key=order["customer"])


# ---- its tests


@dataclass
class FakeGateway:
    answers: bool = True
    charged: int = 0

    async def charge(self, amount: int, currency: str) -> None:
        if not self.answers:
            raise TimeoutError
        self.charged += amount


ORDER = {"order": "o-1", "customer": "ada", "amount": 1250, "currency": "EUR"}


async def cashier(gateway: Gateway, provider: RecordingPublisherProvider) -> Cashier:
    return Cashier(gateway, await provider.new_publisher("receipts"))


def test_paid() -> None:
    """a paid order is settled, and a receipt is published"""

    async def scenario() -> None:
        gateway, provider = FakeGateway(), RecordingPublisherProvider()
        subject = await cashier(gateway, provider)

        outcome = await deliver(subject.handle, ORDER)

        assert outcome.settled
        assert gateway.charged == 1250
        [receipt] = provider.to("receipts")
        assert receipt.data == {"order": "o-1", "paid": 1250}
        assert receipt.options == {"ordering_key": "ada"}

    run_virtual(scenario())


def test_unknown_currency() -> None:
    """an unknown currency is dead-lettered"""

    async def scenario() -> None:
        subject = await cashier(FakeGateway(), RecordingPublisherProvider())

        outcome = await deliver(subject.handle, ORDER | {"currency": "XTS"})

        assert outcome.dead_lettered
        assert outcome.reason == "currency XTS is not accepted"

    run_virtual(scenario())


def test_gateway_does_not_answer() -> None:
    """a gateway that does not answer brings the order back in a minute"""

    async def scenario() -> None:
        subject = await cashier(FakeGateway(answers=False), RecordingPublisherProvider())

        outcome = await deliver(subject.handle, ORDER)

        assert outcome.retried
        assert outcome.after == 60

    run_virtual(scenario())


def test_broker_outage() -> None:
    """an outage of the broker reaches whoever publishes"""

    async def scenario() -> None:
        provider = RecordingPublisherProvider()
        subject = await cashier(FakeGateway(), provider)
        provider.fail_next()

        outcome = await deliver(subject.handle, ORDER)

        assert outcome.failed  # so the order comes back, and its handler runs a second time
        assert isinstance(outcome.error, PublishError)
        assert outcome.error.retryable

    run_virtual(scenario())


def test_hour_of_retries() -> None:
    """an hour of retries takes no time"""
    attempts: list[float] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        async def handle(message: Message) -> None:
            attempts.append(loop.time())
            if loop.time() < 3600:
                raise RetryLater(600)
            consumer.stop()

        # The real runtime and the memory provider; only the loop's clock is not real.
        async with open_publishers("memory://") as publishers, open_consumers("memory://") as consumers:
            await (await publishers.new_publisher("orders")).publish("one")
            consumer = await consumers.new_consumer("orders", handle)
            await consumer.consume()

    began = time.monotonic()
    run_virtual(scenario(), timeout=2 * 3600)

    assert [round(at) for at in attempts] == [0, 600, 1200, 1800, 2400, 3000, 3600]
    assert time.monotonic() - began < 5


TESTS: list[Callable[[], None]] = [
    test_paid,
    test_unknown_currency,
    test_gateway_does_not_answer,
    test_broker_outage,
    test_hour_of_retries,
]

if __name__ == "__main__":
    for test in TESTS:
        test()
        print(f"{test.__doc__}: passed")
