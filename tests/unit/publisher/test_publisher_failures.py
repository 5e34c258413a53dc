"""What callers get when a sender fails, answers oddly or says nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence

import pytest

from messagequeue import (
    ClosedError,
    ConfigurationError,
    EncodeError,
    ErrorCode,
    MessageTooLargeError,
    PublishError,
    Receipt,
    UnsupportedOptionError,
)
from messagequeue.driver import Capabilities, EncodedMessage
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import ScriptedSender
from tests.unit.publisher.publishing import bodies, busy, outcomes, run, times


def test_bad_entry_fails_its_own_caller_only() -> None:
    """Results go back by position, to each caller its own, however alike the bodies are (BAT-03, BAT-05)."""
    sender = ScriptedSender()
    sender.script("send", {1: busy(retryable=False), 3: busy()})

    async def test(publisher: RuntimePublisher) -> None:
        results = await outcomes(*(publisher.publish("same") for _ in range(5)))

        assert [type(result) for result in results] == [Receipt, PublishError, Receipt, Receipt, Receipt]
        assert [result.message_id for result in results if isinstance(result, Receipt)] == ["s1", "s2", "s4", "s3"]

    publisher = run(sender, test)

    assert [len(batch) for batch in bodies(sender)] == [5, 1]
    assert (publisher.stats.published, publisher.stats.failed, publisher.stats.batches) == (4, 1, 2)


def test_entry_is_resent_as_often_as_asked_with_growing_pauses() -> None:
    """0.1 s doubling, at least half of it; then the broker's own error is the caller's."""
    sender = ScriptedSender()
    sender.script("send", *({0: busy()} for _ in range(10)))

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(PublishError, match="busy"):
            await publisher.publish("a")

    publisher = run(sender, test, entry_retries=8)

    pauses = [after - before for before, after in zip(times(sender), times(sender)[1:], strict=False)]
    assert len(pauses) == publisher.stats.entries_retried == 8
    for pause, full in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], strict=True):
        assert full / 2 <= pause <= full + 1e-6


def test_no_entry_is_resent_where_none_was_asked() -> None:
    """`entry_retries=0` leaves it to the caller."""
    sender = ScriptedSender()
    sender.script("send", {0: busy()})

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(PublishError):
            await publisher.publish("a")

    run(sender, test, entry_retries=0)

    assert sender.count("send") == 1


def test_failed_call_fails_each_of_its_callers_with_an_error_of_its_own() -> None:
    """A call that fails as a whole is not repeated; its callers do not share one exception, and keep code and cause."""
    sender = ScriptedSender()
    fault = MessageTooLargeError("too large", size=2, limit=1)
    fault.retryable = True
    fault.__cause__ = OSError("reset")
    sender.script("send", fault)

    async def test(publisher: RuntimePublisher) -> None:
        results = await outcomes(*(publisher.publish("x") for _ in range(3)))

        assert len({id(result) for result in results}) == 3
        for result in results:
            assert isinstance(result, MessageTooLargeError)
            assert (str(result), result.size, result.topic, result.retryable) == ("too large", 2, "orders", True)
            assert result.__cause__ is fault.__cause__

    run(sender, test)

    assert sender.count("send") == 1


@pytest.mark.parametrize(
    ("fault", "code", "retryable"),
    [
        (ClosedError("gone"), ErrorCode.CLOSED, False),
        (ConfigurationError("no region"), ErrorCode.CONFIGURATION, False),
        (ZeroDivisionError("the body: hunter2"), ErrorCode.OTHER, False),
    ],
)
def test_whatever_a_sender_raises_is_a_publish_error(fault: Exception, code: ErrorCode, retryable: bool) -> None:
    """Callers catch one type; the origin is its cause, and a foreign text is not repeated."""
    sender = ScriptedSender()
    sender.script("send", fault)

    async def test(publisher: RuntimePublisher) -> None:
        for result in await outcomes(publisher.publish("x"), publisher.publish("y")):
            assert isinstance(result, PublishError)
            assert (result.code, result.retryable, result.topic) == (code, retryable, "orders")
            assert result.__cause__ is fault
            assert "hunter2" not in str(result)
        assert await publisher.publish("z") == Receipt("s1")

    run(sender, test)


class ShortSender(ScriptedSender):
    """Answers as it is told, right or wrong."""

    def __init__(self, answer: Sequence[object]) -> None:
        super().__init__()
        self.answer = answer

    async def send(self, messages: Sequence[EncodedMessage], /) -> Sequence[Receipt | PublishError]:
        return self.answer  # type: ignore[return-value]


def test_entry_without_an_answer_is_not_confirmed(caplog: pytest.LogCaptureFixture) -> None:
    """A message of which the broker said nothing is never taken for sent; the mismatch is logged (BAT-03)."""
    shared = busy(retryable=False)
    sender = ShortSender([Receipt("m1"), shared, None, shared])

    async def test(publisher: RuntimePublisher) -> None:
        ok, failed, odd, same, missing = await outcomes(*(publisher.publish(n) for n in range(5)))

        assert ok == Receipt("m1")
        assert failed is shared
        assert isinstance(same, PublishError)
        assert same is not shared
        for result in (odd, missing):
            assert isinstance(result, PublishError)
            assert result.code is ErrorCode.NOT_CONFIRMED
            assert not result.retryable

    publisher = run(sender, test)

    assert (publisher.stats.published, publisher.stats.failed, publisher.stats.pending) == (1, 4, 0)
    assert "gave 4 results for 5 messages" in caplog.text


def test_answers_beyond_the_messages_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """A result too many is logged and harms nobody (BAT-03)."""
    sender = ShortSender([Receipt("m1"), Receipt("m2")])

    async def test(publisher: RuntimePublisher) -> None:
        assert await publisher.publish("a") == Receipt("m1")

    run(sender, test)

    assert "gave 2 results for 1 messages" in caplog.text


def test_bad_message_is_refused_before_anything_is_sent() -> None:
    """Encoding, options and sizes are checked by the call itself."""
    sender = ScriptedSender(max_size=3, capabilities=Capabilities())

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(EncodeError):
            await publisher.publish({1, 2})
        with pytest.raises(MessageTooLargeError):
            publisher.publish_nowait("long")
        with pytest.raises(UnsupportedOptionError):
            await publisher.publish("a", ordering_key="a")
        with pytest.raises(TypeError, match="did you mean 'delay'"):
            await publisher.publish("a", dealy=1)  # type: ignore[call-arg]

    publisher = run(sender, test)

    assert sender.count("send") == 0
    assert publisher.stats.pending == 0


def test_failure_that_nobody_reads_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A dropped future's failure is an ERROR of `messagequeue.publisher`, and of nobody else."""
    sender = ScriptedSender()
    sender.script("send", busy(retryable=False))

    async def test(publisher: RuntimePublisher) -> None:
        publisher.publish_nowait("a")
        publisher.publish_nowait("b").add_done_callback(lambda future: None)
        await asyncio.sleep(1)
        gc.collect()

    run(sender, test)

    records = [(record.name, record.levelno) for record in caplog.records]
    assert records == [("messagequeue.publisher", logging.ERROR)] * 2
    assert "'orders' failed and nobody read its result: busy" in caplog.text


def test_unread_failure_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """No error keeps its future alive by a cycle: the report does not wait for the garbage collector."""
    sender = ScriptedSender()
    sender.script("send", ZeroDivisionError(), busy(retryable=False), {0: busy(retryable=False)})

    async def test(publisher: RuntimePublisher) -> None:
        for count in (1, 2, 3):
            publisher.publish_nowait("a")
            await asyncio.sleep(1)
            assert len(caplog.records) == count

    gc.disable()
    try:
        run(sender, test)
    finally:
        gc.enable()


async def _await(future: asyncio.Future[Receipt]) -> None:
    with pytest.raises(PublishError):
        await future


async def _gather(future: asyncio.Future[Receipt]) -> None:
    assert isinstance((await asyncio.gather(future, return_exceptions=True))[0], PublishError)


async def _wait_for(future: asyncio.Future[Receipt]) -> None:
    with pytest.raises(PublishError):
        await asyncio.wait_for(future, 5)


async def _shield(future: asyncio.Future[Receipt]) -> None:
    with pytest.raises(PublishError):
        await asyncio.shield(future)


async def _exception(future: asyncio.Future[Receipt]) -> None:
    await asyncio.wait([future])
    assert isinstance(future.exception(), PublishError)


async def _result(future: asyncio.Future[Receipt]) -> None:
    future.add_done_callback(lambda done: done.exception())
    await asyncio.wait([future])


async def _late(future: asyncio.Future[Receipt]) -> None:
    await asyncio.sleep(5)
    with pytest.raises(PublishError):
        await future


@pytest.mark.parametrize("read", [_await, _gather, _wait_for, _shield, _exception, _result, _late])
def test_failure_that_is_read_is_not_logged(
    read: Callable[[asyncio.Future[Receipt]], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    """However a future is read, its failure is the reader's alone."""
    sender = ScriptedSender()
    sender.script("send", busy(retryable=False))

    async def test(publisher: RuntimePublisher) -> None:
        await read(publisher.publish_nowait("a"))
        gc.collect()

    run(sender, test)

    assert not caplog.records


def test_failures_of_publish_and_publish_many_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Who waits has read the failure."""
    sender = ScriptedSender()
    sender.script("send", busy(retryable=False), busy(retryable=False), ZeroDivisionError())

    async def test(publisher: RuntimePublisher) -> None:
        with pytest.raises(PublishError):
            await publisher.publish("a")
        await publisher.publish_many(["a", "b"])
        await publisher.publish_many(["a", "b"])
        gc.collect()

    run(sender, test)

    assert not caplog.records
