"""The conformance kit: it passes a good provider, and notices each kind of broken one."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from messagequeue import ConsumeError, Message, PublishError, Receipt
from messagequeue.broker import Lease
from messagequeue.driver import Delivery, EncodedMessage
from messagequeue.testing import VirtualRunError
from messagequeue.testing.conformance import BaseHarness, Bench, ConformanceSuite, Features, fact, run_in_real_time
from tests.unit.testing.tiny_provider import TinyHarness, TinySender, TinySource, now


class TestTinyProvider(ConformanceSuite):
    """A right provider passes every fact."""

    @pytest.fixture
    def harness(self) -> TinyHarness:
        return TinyHarness()


# -- broken senders


class LosesSome(TinySender):
    """Confirms every tenth message without storing it."""

    count = 0

    def put(self, message: EncodedMessage) -> Receipt:
        self.count += 1
        return Receipt(f"lost-{self.count}") if self.count % 10 == 0 else super().put(message)


class SendsTwice(TinySender):
    """Stores every message a second time, under another id."""

    def put(self, message: EncodedMessage) -> Receipt:
        super().put(message)
        return super().put(replace(message, deduplication_key=None))


class MixesUpReceipts(TinySender):
    """Gives the receipts of a call in another order than its messages."""

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        return list(reversed(await super().send(messages)))


class ReversesBatches(TinySender):
    """Stores the messages of a call in another order."""

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        return list(reversed(await super().send(list(reversed(messages)))))


class DropsAttributes(TinySender):
    def put(self, message: EncodedMessage) -> Receipt:
        return super().put(replace(message, attributes=None))


class ForgetsDeduplication(TinySender):
    def put(self, message: EncodedMessage) -> Receipt:
        return super().put(replace(message, deduplication_key=None))


class ForgetsDelay(TinySender):
    def put(self, message: EncodedMessage) -> Receipt:
        return super().put(replace(message, delay=None))


class ChangesLineEnds(TinySender):
    def put(self, message: EncodedMessage) -> Receipt:
        body = message.body
        return super().put(replace(message, body=body.replace("\r\n", "\n") if isinstance(body, str) else body))


# -- broken sources


class DeletesEarly(TinySource):
    """Takes a message off the queue when it is received."""

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        received = await super().receive(max_messages, wait=wait)
        for delivery in received:
            assert isinstance(delivery.lease, Lease)
            self.queue.settle(now(), delivery.lease.handle)
        return received

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        return [None] * len(leases)

    settle = release = extend  # type: ignore[assignment]


class NeverDeletes(TinySource):
    async def settle(self, leases: Sequence[object], /) -> Sequence[ConsumeError | None]:
        return [None] * len(leases)


class NeverExtends(TinySource):
    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        return [None] * len(leases)


class NeverReleases(TinySource):
    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        return [None] * len(leases)


class ReleasesAtOnce(TinySource):
    """Forgets when a message was to come back."""

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        return await super().release(leases, after=0)


class RetriesWithACopy(TinySource):
    """Gives a message back as a new one (SHUT-05, CON-19)."""

    async def release(self, leases: Sequence[object], /, *, after: float) -> Sequence[ConsumeError | None]:
        for lease in leases:
            assert isinstance(lease, Lease)
            self.queue.settle(now(), lease.handle)
            stored = lease.message
            self.queue.put(now(), stored.body, key=stored.key, delay=after, attributes=stored.attributes)
        self.world.wake()
        return [None] * len(leases)


class TakesTooMuch(TinySource):
    """Receives ten, however many were asked for."""

    def take(self, most: int) -> list[Lease]:
        return super().take(10)


class DeliversTwice(TinySource):
    """Makes what it received visible again at once."""

    def take(self, most: int) -> list[Lease]:
        leases = super().take(most)
        for lease in leases:
            if lease.receives == 1:
                self.queue.release(now(), lease.handle)
        return leases


class LosesOrder(TinySource):
    """Gives a batch in another order."""

    def take(self, most: int) -> list[Lease]:
        return list(reversed(super().take(most)))


class HidesLostLeases(TinySource):
    """Says that a lease was prolonged when it was not."""

    async def extend(self, leases: Sequence[object], /, *, by: float) -> Sequence[ConsumeError | None]:
        await super().extend(leases, by=by)
        return [None] * len(leases)


class StrandsMessages(TinySource):
    """Is said to be cancellable and is not: what arrives for a cancelled receive belongs to nobody (SHUT-01)."""

    async def receive(self, max_messages: int, /, *, wait: float) -> Sequence[Delivery]:
        try:
            return await super().receive(max_messages, wait=wait)
        except asyncio.CancelledError:
            sleeper = asyncio.get_running_loop().create_future()
            sleeper.add_done_callback(lambda _: self.take(max_messages))
            self.world.sleepers.append(sleeper)
            raise


class MiscountsDeliveries(TinySource):
    def message(self, lease: Lease) -> Message:
        return replace(super().message(lease), delivery_attempt=1)


class RenamesMessages(TinySource):
    """Gives a message another id on each delivery."""

    def message(self, lease: Lease) -> Message:
        return replace(super().message(lease), id=lease.handle)


class LeavesATask(TinySource):
    async def close(self) -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(60), name="forgotten")


class CannotClose(TinySource):
    async def close(self) -> None:
        raise RuntimeError("broken close")


BROKEN: list[tuple[type[TinySender] | type[TinySource], str]] = [
    (LosesSome, "test_concurrent_publishes_all_arrive"),
    (SendsTwice, "test_a_handled_message_is_gone"),
    (MixesUpReceipts, "test_publish_many_gives_one_result_per_item"),
    (ReversesBatches, "test_a_large_publish_keeps_order"),
    (DropsAttributes, "test_attributes_arrive_with_their_types"),
    (ForgetsDeduplication, "test_a_repeated_deduplication_key_is_delivered_once"),
    (ForgetsDelay, "test_a_delay_is_honoured_or_refused"),
    (ChangesLineEnds, "test_text_arrives_as_it_was"),
    (DeletesEarly, "test_a_failed_message_comes_back_when_its_lease_ends"),
    (NeverDeletes, "test_a_handled_message_is_gone"),
    (NeverExtends, "test_a_slow_handler_outlives_its_lease"),
    (NeverExtends, "test_prefetched_messages_are_kept_too"),
    (NeverReleases, "test_retry_later_brings_the_same_message_back_later"),
    (NeverReleases, "test_prefetched_messages_are_handed_back_at_stop"),
    (ReleasesAtOnce, "test_retry_later_brings_the_same_message_back_later"),
    (RetriesWithACopy, "test_retry_later_brings_the_same_message_back_later"),
    (RetriesWithACopy, "test_restarts_in_the_middle_of_work_lose_and_copy_nothing"),
    (TakesTooMuch, "test_no_more_is_received_than_can_be_handled"),
    (DeliversTwice, "test_providers_are_independent"),
    (LosesOrder, "test_a_key_is_handled_in_order_one_at_a_time"),
    (HidesLostLeases, "test_a_lost_lease_cancels_its_handler"),
    (StrandsMessages, "test_what_arrives_around_stop_is_not_stranded"),
    (MiscountsDeliveries, "test_a_failed_message_comes_back_when_its_lease_ends"),
    (RenamesMessages, "test_publish_returns_the_receipt_of_the_message_that_arrives"),
    (LeavesATask, "test_a_handled_message_is_gone"),
    (CannotClose, "test_a_handled_message_is_gone"),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{part.__name__}-{name[5:]}" for part, name in BROKEN])
def test_the_kit_notices(broken: type[TinySender] | type[TinySource], name: str) -> None:
    """A provider with that fault fails that fact, and a provider without it passes."""
    check: Callable[..., None] = getattr(ConformanceSuite(), name)

    noticed = []
    for ordered in kinds(name):
        check(TinyHarness(), ordered)
        harness = TinyHarness(sender=broken) if issubclass(broken, TinySender) else TinyHarness(source=broken)
        try:
            check(harness, ordered)
        except (Exception, pytest.fail.Exception) as error:
            noticed.append(error)
    assert noticed


def kinds(name: str) -> list[bool]:
    """The kinds of topics that a fact is judged on."""
    (mark,) = getattr(ConformanceSuite, name).pytestmark
    values: list[bool] = mark.args[1]
    return list(values)


# -- what each fact is made into


class Small:
    """Facts of the tests' own."""

    @fact()
    async def test_true(self, bench: Bench) -> None:
        """A fact's docstring stays."""

    @fact("delays")
    async def test_needs_delays(self, bench: Bench) -> None:
        raise AssertionError("judged though the broker cannot delay")

    @fact()
    async def test_false(self, bench: Bench) -> None:
        assert bench.ordered is None

    @fact()
    async def test_leaves_a_task(self, bench: Bench) -> None:
        bench.task = asyncio.create_task(asyncio.sleep(60), name="forgotten")  # type: ignore[attr-defined]

    @fact()
    async def test_unexpected_fault(self, bench: Bench) -> None:
        topic = await bench.new_topic()
        worker = await bench.consume(topic)
        await bench.publish(topic, "a")
        await worker.until_done(1)
        worker.blame(ConsumeError("unexpected"))


class LesserHarness(TinyHarness):
    features = Features(unit=2.0, patience=300.0)


def test_a_fact_is_a_plain_test() -> None:
    """pytest sees a function of `harness` and `ordered`, with the fact's own name and docstring."""
    test = Small.test_true
    assert list(inspect.signature(test).parameters) == ["self", "harness", "ordered"]
    assert (test.__name__, test.__doc__) == ("test_true", "A fact's docstring stays.")
    test(Small(), TinyHarness(), False)


def test_a_fact_about_a_missing_feature_is_skipped_by_name() -> None:
    """The reason says what the broker lacks."""
    with pytest.raises(pytest.skip.Exception, match="no delays"):
        Small().test_needs_delays(LesserHarness(), False)
    with pytest.raises(pytest.skip.Exception, match="no ordered topics"):
        Small().test_true(LesserHarness(), True)


def test_a_fact_fails_for_what_it_leaves_behind() -> None:
    """Wrong assertions, tasks left running, faults that were not expected."""
    with pytest.raises(AssertionError):
        Small().test_false(TinyHarness(), False)
    with pytest.raises(AssertionError, match="forgotten"):
        Small().test_leaves_a_task(TinyHarness(), False)
    with pytest.raises(AssertionError, match="unexpected"):
        Small().test_unexpected_fault(TinyHarness(), False)


def test_run_in_real_time_is_as_strict() -> None:
    """A task or an error left behind fails a run with sockets too."""

    async def leave() -> None:
        leave.task = asyncio.create_task(asyncio.sleep(60), name="forgotten")  # type: ignore[attr-defined]

    async def fault() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with pytest.raises(VirtualRunError, match="forgotten"):
        run_in_real_time(leave)
    with pytest.raises(VirtualRunError, match="ZeroDivisionError"):
        run_in_real_time(fault)


def test_a_harness_needs_little() -> None:
    """What a broker need not have is answered by the base."""

    async def main() -> None:
        base = BaseHarness()
        assert await base.dead_letters("t") == []
        assert await base.counts("t") is None
        assert await base.steal("t", Message("t", "i", b"")) is False
        await base.aclose()

    run_in_real_time(main)


def test_only_the_kit_needs_pytest() -> None:
    """`messagequeue.testing` can be imported where pytest is not installed."""
    code = "import sys, messagequeue.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
