"""`idempotent()`: each message is handled once, and what stands in the way is said by its own error or signal."""

from __future__ import annotations

import asyncio
import logging
import math

import pytest

from messagequeue import (
    ConfigurationError,
    DeadLetter,
    Discard,
    ErrorCode,
    HandlerError,
    MessageQueueError,
    RetryLater,
    open_consumers,
    open_publishers,
)
from messagequeue.idempotency import (
    FingerprintMismatchError,
    IdempotencyStoreError,
    InFlight,
    InvalidKeyError,
    MemoryStore,
    idempotent,
    json_fingerprint,
)
from messagequeue.testing import deliver, message, run_virtual
from tests.unit.idempotency.faulty_store import FaultyStore


class Counting:
    """A handler that counts, and does what it is told on each call."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.runs = 0

    async def __call__(self, message):
        self.runs += 1
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, BaseException):
            raise step
        if step is not None:
            await step()


def wait(seconds):
    return lambda: asyncio.sleep(seconds)


def test_a_second_delivery_is_settled_and_not_handled():
    """What is done is not done again, whichever consumer gets it."""

    async def main():
        store, handler = MemoryStore(), Counting()

        first = await deliver(handler, "x", id="1", middleware=[idempotent(store)])
        again = await deliver(handler, "x", id="1", middleware=[idempotent(store)])

        assert first.settled
        assert again.settled
        assert handler.runs == 1

    run_virtual(main())


@pytest.mark.parametrize("raised", [RuntimeError("x"), RetryLater(5), Discard("useless"), DeadLetter("hopeless")])
def test_what_a_handler_raises_passes_and_frees_the_key(raised):
    """An error, or a signal: the work is not done, so the next delivery does it."""

    async def main():
        handler, guarded = Counting(raised), [idempotent(MemoryStore())]

        failed = await deliver(handler, "x", id="1", middleware=guarded)
        again = await deliver(handler, "x", id="1", middleware=guarded)

        assert failed.error is raised
        assert again.settled
        assert handler.runs == 2

    run_virtual(main())


def test_a_message_in_work_elsewhere_is_left_on_the_queue():
    """It comes back when the claim ends, and is not deleted, because the one who works may fail (CON-26)."""

    async def main():
        handler, guarded = Counting(wait(10)), [idempotent(MemoryStore(), lease=60)]
        first = asyncio.create_task(deliver(handler, "x", id="1", middleware=guarded))
        await asyncio.sleep(5)

        second = await deliver(handler, "x", id="1", middleware=guarded)

        assert second.retried
        assert second.after == pytest.approx(55)
        assert not second.failed
        assert (await first).settled
        assert (await deliver(handler, "x", id="1", middleware=guarded)).settled
        assert handler.runs == 1

    run_virtual(main())


def test_a_crash_is_retried_after_the_claim_ends():
    """A marker of work in progress that nobody ended lets the retry run; none lasts for ever (CON-26)."""

    async def main():
        store, handler = MemoryStore(), Counting()
        guarded = [idempotent(store, lease=30)]
        await store.claim('["orders","id:1"]', owner="crashed", fingerprint="", lease=30)

        early = await deliver(handler, "x", topic="orders", id="1", middleware=guarded)
        await asyncio.sleep(early.after)
        late = await deliver(handler, "x", topic="orders", id="1", middleware=guarded)

        assert early.retried
        assert early.after == 30
        assert late.settled
        assert handler.runs == 1

    run_virtual(main())


@pytest.mark.parametrize("lease", [0, -1, None, math.nan, math.inf, True, "60"])
def test_a_claim_must_end(lease):
    """No length of a claim means "for ever", and 0 does not mean "not given" (CON-26)."""
    with pytest.raises(ConfigurationError, match="lease"):
        idempotent(MemoryStore(), lease=lease)


@pytest.mark.parametrize(("told", "after"), [(0.0, 1.0), (0.2, 1.0), (30.0, 30.0), (86_400.0, 60.0)])
def test_the_time_until_a_retry_has_bounds(told, after):
    """No storm of receives because a claim is about to end, and no wait longer than a claim (CON-26)."""

    class Busy(MemoryStore):
        async def claim(self, key, /, *, owner, fingerprint, lease):
            return InFlight(told, "")

    outcome = run_virtual(deliver(Counting(), "x", middleware=[idempotent(Busy(), lease=60)]))

    assert outcome.after == after


def test_other_data_under_the_same_key_is_an_error():
    """While it is worked on and when it is done; the handler does not run, and the record stays as it was."""

    async def main():
        handler = Counting(wait(10))
        guarded = [idempotent(MemoryStore())]
        first = asyncio.create_task(deliver(handler, "a", id="1", middleware=guarded))
        await asyncio.sleep(1)

        during = await deliver(handler, "b", id="1", middleware=guarded)
        await first
        after = await deliver(handler, "b", id="1", middleware=guarded)

        for outcome in (during, after):
            assert outcome.failed
            assert isinstance(outcome.error, FingerprintMismatchError)
            assert not outcome.error.retryable
            assert outcome.error.key == '["test","id:1"]'
        assert (await deliver(handler, "a", id="1", middleware=guarded)).settled
        assert handler.runs == 1

    run_virtual(main())


def test_what_is_compared_is_the_users_choice():
    """Nothing; or the meaning of JSON, whose keys come in any order."""

    async def main():
        handler = Counting()
        nothing, meaning = MemoryStore(), MemoryStore()
        for body in ('{"a": 1, "b": 2}', '{"b":2,"a":1}'):
            await deliver(handler, body, id="1", middleware=[idempotent(nothing, fingerprint=None)])
            await deliver(handler, body, id="1", middleware=[idempotent(meaning, fingerprint=json_fingerprint)])
        differs = await deliver(
            handler, '{"a": 1}', id="1", middleware=[idempotent(meaning, fingerprint=json_fingerprint)]
        )

        assert handler.runs == 2
        assert isinstance(differs.error, FingerprintMismatchError)

    run_virtual(main())


def test_json_fingerprint_takes_what_is_not_json():
    """Such a body is compared as it is."""
    assert json_fingerprint(message(b"\xff")) == b"\xff"
    assert json_fingerprint(message('{"b":1,"a":[2]}')) == b'{"a":[2],"b":1}'


def test_the_key_is_the_deduplication_key_or_the_id():
    """A producer that publishes twice makes two ids, so its own key counts where it gives one."""

    async def main():
        handler, guarded = Counting(), [idempotent(MemoryStore())]
        for id_, key in (("1", "k"), ("2", "k"), ("3", None), ("4", None), ("k", None)):
            await deliver(handler, "x", id=id_, deduplication_key=key, middleware=guarded)

        assert handler.runs == 4

    run_virtual(main())


def test_keys_are_of_their_topic_unless_said_otherwise():
    """Two topics whose messages have the same key do not meet; one queue with two names may share a namespace."""

    async def main():
        apart, together, store = Counting(), Counting(), MemoryStore()
        for topic in ("a", "b"):
            await deliver(apart, "x", topic=topic, id="1", middleware=[idempotent(store)])
            await deliver(together, "x", topic=topic, id="1", middleware=[idempotent(store, namespace="orders")])

        assert apart.runs == 2
        assert together.runs == 1

    run_virtual(main())


def test_a_mismatch_can_be_dead_lettered_at_once():
    """It is one of the errors that a consumer can be told to be permanent."""

    async def main():
        handled, buried = [], []

        async def handle(message):
            handled.append(message.text)

        async def bury(message):
            buried.append(message.text)

        once = idempotent(MemoryStore(), key=lambda message: "k")
        async with open_publishers("memory://?name=mismatch") as publishers:
            await (await publishers.new_publisher("orders")).publish_many(["a", "b"], ordering_key="x")
        async with open_consumers("memory://?name=mismatch") as consumers:
            orders = await consumers.new_consumer(
                "orders", handle, middleware=[once], permanent=(FingerprintMismatchError,)
            )
            dead = await consumers.new_consumer("orders.dead", bury)
            async with asyncio.TaskGroup() as tasks:
                for consumer in (orders, dead):
                    tasks.create_task(consumer.consume())
                await asyncio.sleep(100)
                orders.stop()
                dead.stop()

        assert (handled, buried) == (["a"], ["b"])

    run_virtual(main())


@pytest.mark.parametrize("key", [None, "", 17, b"k"])
def test_without_a_key_nothing_is_handled(key):
    """All messages whose key is missing would share one record: the first would be handled, the others dropped."""

    async def main():
        handler, store = Counting(), MemoryStore()

        outcome = await deliver(handler, "x", middleware=[idempotent(store, key=lambda message: key)])

        assert outcome.failed
        assert isinstance(outcome.error, InvalidKeyError)
        assert handler.runs == len(store) == 0

    run_virtual(main())


def test_an_unreachable_store_keeps_the_handler_from_running():
    """The message comes back; what the store's client said, which may hold a password, is not in the error's text."""

    async def main():
        store, handler = FaultyStore(), Counting()
        store.plan("claim", ConnectionError("redis://:secret@host"))

        outcome = await deliver(handler, "x", middleware=[idempotent(store)])

        assert outcome.failed
        assert isinstance(outcome.error, IdempotencyStoreError)
        assert outcome.error.retryable
        assert isinstance(outcome.error.__cause__, ConnectionError)
        assert "secret" not in str(outcome.error)
        assert handler.runs == 0
        assert (await deliver(handler, "x", middleware=[idempotent(store)])).settled

    run_virtual(main())


def test_fail_open_handles_without_a_claim(caplog):
    """By choice, and with a warning each time."""

    async def main():
        store, handler = FaultyStore(), Counting()
        store.down = True

        assert (await deliver(handler, "x", middleware=[idempotent(store, fail_open=True)])).settled
        assert handler.runs == 1

    run_virtual(main())
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    "error",
    [
        IdempotencyStoreError("no such table", code=ErrorCode.NOT_FOUND, retryable=False),
        ConfigurationError("another program's file"),
    ],
)
def test_fail_open_does_not_hide_a_wrong_set_up(error):
    """An outage ends; a table that does not exist would switch idempotency off for ever."""

    async def main():
        store, handler = FaultyStore(), Counting()
        store.plan("claim", error)

        outcome = await deliver(handler, "x", middleware=[idempotent(store, fail_open=True)])

        assert outcome.error is error
        assert handler.runs == 0

    run_virtual(main())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: idempotent(MemoryStore), TypeError, "the class MemoryStore: give an IdempotencyStore"),
        (lambda: idempotent("redis://"), TypeError, "a str: give an IdempotencyStore"),
        (lambda: idempotent(MemoryStore(), ttl=10, lease=60), ConfigurationError, "ttl=10 is below lease=60"),
        (lambda: idempotent(MemoryStore(), ttl=math.inf), ConfigurationError, "ttl"),
        (lambda: idempotent(MemoryStore(), tll=10), TypeError, "did you mean 'ttl'"),
        (lambda: idempotent(MemoryStore(), key="order"), TypeError, "key is a str: give a function"),
        (lambda: idempotent(MemoryStore(), fingerprint=b""), TypeError, "fingerprint is a bytes: give a function"),
        (lambda: idempotent(MemoryStore(), namespace=""), ConfigurationError, "namespace=''"),
        (lambda: idempotent(MemoryStore(), max_result=2_000_000), ConfigurationError, "max_result=2000000 is above"),
        (lambda: idempotent(MemoryStore(), fail_open="no"), ConfigurationError, "fail_open"),
    ],
)
def test_wrong_options_are_refused_at_once(call, error, text):
    """When the middleware is made, not with the first message."""
    with pytest.raises(error, match=text):
        call()


def test_a_consumer_handles_each_order_once():
    """Over a broker: published twice, by two consumers at once, with a failure in between."""

    async def main():
        begun, handled, faults = [], [], []
        store = MemoryStore()

        async def handle(message):
            begun.append(message.text)
            fails = len(begun) == 1
            await asyncio.sleep(45)  # longer than the lease of claim and message
            if fails:
                raise RuntimeError("the first one fails")
            handled.append(message.text)

        once = idempotent(store, key=lambda message: message.text, namespace="orders", lease=20)
        async with open_publishers("memory://?name=once") as publishers:
            publisher = await publishers.new_publisher("orders")
            await publisher.publish_many(["a", "b", "c"] * 2)
        async with open_consumers("memory://?name=once") as one, open_consumers("memory://?name=once") as two:
            consumers = [
                await half.new_consumer(
                    "orders", handle, middleware=[once], on_error=faults.append, concurrency=2, retry_delay=1
                )
                for half in (one, two)
            ]
            async with asyncio.TaskGroup() as tasks:
                for consumer in consumers:
                    tasks.create_task(consumer.consume())
                await asyncio.sleep(3600)
                for consumer in consumers:
                    consumer.stop()

        assert sorted(handled) == ["a", "b", "c"]
        assert len(begun) == 4
        assert [type(fault) for fault in faults] == [HandlerError]

    run_virtual(main(), timeout=10_000)


def test_skipping_is_said_at_debug_and_taking_over_at_info(caplog):
    """An operator sees crashes; the rest is for whoever looks closely."""

    async def main():
        store = MemoryStore()
        guarded = [idempotent(store, namespace="n", lease=5)]
        await store.claim('["n","id:1"]', owner="crashed", fingerprint="", lease=5)
        await asyncio.sleep(6)
        await deliver(Counting(), "x", id="1", middleware=guarded)
        await deliver(Counting(), "x", id="1", middleware=guarded)

    with caplog.at_level(logging.DEBUG, "messagequeue.idempotency"):
        run_virtual(main())

    assert [(record.levelname, record.key) for record in caplog.records] == [
        ("INFO", '["n","id:1"]'),
        ("DEBUG", '["n","id:1"]'),
    ]


def test_errors_are_of_the_librarys_tree():
    """Code may branch on their codes."""
    assert issubclass(FingerprintMismatchError, MessageQueueError)
    assert FingerprintMismatchError().code is ErrorCode.INVALID
