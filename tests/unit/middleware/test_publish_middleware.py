"""The middleware for publishing that comes with the library: attributes, time limit, log lines, retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from messagequeue import (
    AttributeValue,
    ClosedError,
    ConfigurationError,
    ErrorCode,
    InvalidMessageError,
    Outgoing,
    Publisher,
    PublishError,
    PublishMiddleware,
    PublishOptions,
    Receipt,
    UnsupportedOptionError,
)
from messagequeue.driver import Capabilities
from messagequeue.middleware import (
    default_attributes,
    publish_logging,
    publish_retry,
    publish_timeout,
    with_middleware,
)
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import ScriptedSender, run_virtual

FIFO = Capabilities(ordering=True, ordering_key="accepted", deduplication=True)


def run(test: Callable[[Publisher], Awaitable[None]], sender: ScriptedSender, *middleware: PublishMiddleware) -> None:
    """Run *test* on a publisher with *middleware* over *sender*, and stop it.  Entries are not resent behind it."""

    async def main() -> None:
        publisher = RuntimePublisher("orders", sender, PublishOptions(entry_retries=0))
        wrapped = with_middleware(publisher, *middleware)
        try:
            await test(wrapped)
        finally:
            await wrapped.stop()

    run_virtual(main())


def error(code: ErrorCode, *, retryable: bool = True) -> PublishError:
    return PublishError(f"failed: {code}", code=code, retryable=retryable)


def bodies(sender: ScriptedSender) -> list[str | bytes]:
    return [item.body for item in sender.sent]


def calls(sender: ScriptedSender) -> list[float]:
    return [call.at for call in sender.calls if call.action == "send"]


# ---- attributes


@pytest.mark.parametrize(
    ("own", "arrives"),
    [
        (None, {"source": "shop", "version": 2}),
        ({"kind": "a"}, {"source": "shop", "version": 2, "kind": "a"}),
        ({"version": 3}, {"source": "shop", "version": 3}),
        ({"source": None}, {"version": 2}),
    ],
)
def test_default_attributes_are_added_and_give_way(
    own: Mapping[str, AttributeValue] | None, arrives: Mapping[str, AttributeValue]
) -> None:
    """A message's own win; None takes a default away."""
    sender = ScriptedSender()

    async def test(publisher: Publisher) -> None:
        if own is None:
            await publisher.publish("x")
        else:
            await publisher.publish("x", attributes=own)

    run(test, sender, default_attributes({"source": "shop", "version": 2}))

    assert sender.sent[0].attributes == arrives


def test_default_attributes_may_be_made_for_each_message() -> None:
    """By a function, which is called once per message; what the caller gave is not changed."""
    sender, given, numbers = ScriptedSender(), {"a": "1"}, iter(range(10))

    async def test(publisher: Publisher) -> None:
        await publisher.publish_many([Outgoing("x", attributes=given), "y"])

    run(test, sender, default_attributes(lambda: {"number": next(numbers)}))

    assert [item.attributes for item in sender.sent] == [{"number": 0, "a": "1"}, {"number": 1}]
    assert given == {"a": "1"}


def test_attributes_that_are_none_are_refused() -> None:
    """By the middleware where they are the defaults, by the publisher where they are a message's."""
    with pytest.raises(TypeError, match="got list: give a mapping"):
        default_attributes([("a", "b")])  # type: ignore[arg-type]

    async def test(publisher: Publisher) -> None:
        with pytest.raises(InvalidMessageError, match="attributes is of type list"):
            await publisher.publish("x", attributes=["a"])  # type: ignore[arg-type]

    run(test, ScriptedSender(), default_attributes({"a": "b"}))


# ---- time limit


def test_a_message_that_is_not_confirmed_in_time_may_be_stored() -> None:
    """The error says so, and by which limit; the message was on its way and is stored in the end."""
    sender = ScriptedSender()
    sender.takes("send", 10)

    async def test(publisher: Publisher) -> None:
        with pytest.raises(PublishError, match=r"topic 'orders' did not confirm .* publish_timeout\(2\)") as caught:
            await publisher.publish("x")
        assert asyncio.get_running_loop().time() == 2
        assert caught.value.code is ErrorCode.NOT_CONFIRMED
        assert caught.value.topic == "orders"
        assert not caught.value.retryable

    run(test, sender, publish_timeout(2))

    assert bodies(sender) == ["x"]


def test_a_message_that_has_not_left_in_time_is_withdrawn() -> None:
    """It waits for the call before it; nothing of it is ever sent."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.takes("send", 10)

    async def test(publisher: Publisher) -> None:
        first = publisher.publish_nowait("a", ordering_key="k")
        await asyncio.sleep(1)
        second = publisher.publish_nowait("b", ordering_key="k")
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(result) for result in results] == [PublishError, PublishError]

    run(test, sender, publish_timeout(5))

    assert bodies(sender) == ["a"]


# ---- log lines


def extras(record: logging.LogRecord) -> dict[str, object]:
    usual = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
    return {name: value for name, value in vars(record).items() if name not in usual}


def test_a_line_tells_of_every_message(caplog: pytest.LogCaptureFixture) -> None:
    """Confirmed ones at DEBUG, failed ones at WARNING, with stable keys and neither data nor attributes."""
    caplog.set_level(logging.DEBUG, "messagequeue.publisher")
    sender = ScriptedSender(capabilities=FIFO)
    sender.takes("send", 0.5)

    async def test(publisher: Publisher) -> None:
        await publisher.publish("secret", ordering_key="k", attributes={"token": "secret"})
        sender.script("send", error(ErrorCode.THROTTLED))
        with pytest.raises(PublishError):
            await publisher.publish("secret")

    run(test, sender, publish_logging())

    done, failed = caplog.records
    assert extras(done) == {
        "event": "publish.end",
        "topic": "orders",
        "ordering_key": "k",
        "duration": 0.5,
        "message_id": "s1",
        "sequence_number": f"{1:020}",
    }
    assert extras(failed) == {
        "event": "publish.failed",
        "topic": "orders",
        "ordering_key": None,
        "duration": 0.5,
        "error_type": "PublishError",
        "error_code": "throttled",
    }
    assert [record.levelno for record in (done, failed)] == [logging.DEBUG, logging.WARNING]
    assert done.getMessage() == "message s1 published to orders in 0.500 s"
    assert "secret" not in str([vars(record) for record in caplog.records])


def test_texts_of_foreign_exceptions_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """They may hold anything; logger and levels can be chosen."""

    def bug(_: Any) -> Any:
        async def broken(_: Outgoing) -> Receipt:
            raise KeyError("secret")

        return broken

    async def test(publisher: Publisher) -> None:
        with pytest.raises(KeyError):
            await publisher.publish("x")

    own = publish_logging(logging.getLogger("shop"), failed_level=logging.ERROR)
    run(test, ScriptedSender(), own, bug)

    [record] = caplog.records
    assert (record.name, record.levelname) == ("shop", "ERROR")
    assert record.getMessage() == "a message was not published to orders after 0.000 s: KeyError"


# ---- retries


@pytest.mark.parametrize(
    ("code", "retryable", "deduplication_key", "duplicates", "again"),
    [
        (ErrorCode.THROTTLED, True, None, False, True),
        (ErrorCode.CREDENTIALS, True, None, False, True),
        (ErrorCode.CREDENTIALS, False, "d", True, False),
        (ErrorCode.CONNECTION, True, None, False, False),
        (ErrorCode.CONNECTION, True, "d", False, True),
        (ErrorCode.CONNECTION, True, None, True, True),
        (ErrorCode.UNAVAILABLE, True, None, False, False),
        (ErrorCode.UNAVAILABLE, True, "d", False, True),
        (ErrorCode.NOT_CONFIRMED, False, None, False, False),
        (ErrorCode.NOT_CONFIRMED, False, "d", False, True),
        (ErrorCode.NOT_CONFIRMED, False, None, True, True),
        (ErrorCode.CHECKSUM, False, "d", True, False),
        (ErrorCode.ACCESS_DENIED, False, "d", True, False),
        (ErrorCode.INVALID, False, "d", True, False),
        (ErrorCode.OTHER, False, "d", True, False),
    ],
)
def test_retry_publishes_again_where_no_second_message_can_come_of_it(
    code: ErrorCode, retryable: bool, deduplication_key: str | None, duplicates: bool, again: bool
) -> None:
    """What may be stored already needs a deduplication key, or leave to double; what cannot heal is never retried."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.script("send", error(code, retryable=retryable))
    item = Outgoing("x", deduplication_key=deduplication_key)

    async def test(publisher: Publisher) -> None:
        [result] = await publisher.publish_many([item])
        assert isinstance(result, Receipt) is again

    run(test, sender, publish_retry(duplicates=duplicates))

    assert len(calls(sender)) == (2 if again else 1)


def test_retry_ends_after_its_attempts_and_after_its_time() -> None:
    """With pauses that double, at least half of each; the last error is raised."""
    sender = ScriptedSender()
    faults = [error(ErrorCode.THROTTLED) for _ in range(20)]
    sender.script("send", *faults)

    async def test(publisher: Publisher) -> None:
        with pytest.raises(PublishError) as caught:
            await publisher.publish("x")
        assert caught.value is faults[3]

    run(test, sender, publish_retry(attempts=4, first=1, longest=60))

    pauses = [after - before for before, after in zip(calls(sender), calls(sender)[1:], strict=False)]
    assert len(pauses) == 3
    for number, seconds in enumerate(pauses):
        assert 2**number / 2 <= seconds <= 2**number

    timed = ScriptedSender()
    timed.script("send", *(error(ErrorCode.THROTTLED) for _ in range(100)))

    async def until_time_is_up(publisher: Publisher) -> None:
        with pytest.raises(PublishError):
            await publisher.publish("x")

    run(until_time_is_up, timed, publish_retry(attempts=100, first=2, longest=2, within=10))

    assert 5 <= len(calls(timed)) <= 11
    assert calls(timed)[-1] <= 10


def test_later_messages_of_a_key_wait_for_the_end_of_its_retries() -> None:
    """So they do not overtake; other keys, and messages without one, go on."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.script("send", error(ErrorCode.THROTTLED))

    async def test(publisher: Publisher) -> None:
        first = publisher.publish_nowait("1", ordering_key="k")
        await asyncio.sleep(0.01)
        later = [publisher.publish_nowait(body, ordering_key="k") for body in ("2", "3")]
        others = [publisher.publish_nowait("o", ordering_key="other"), publisher.publish_nowait("n")]
        await asyncio.gather(first, *later, *others)

    run(test, sender, publish_retry(first=5))

    assert set(bodies(sender)[:2]) == {"o", "n"}
    assert bodies(sender)[2:] == ["1", "2", "3"]


def test_later_messages_of_a_key_go_on_when_its_retries_fail() -> None:
    """Nothing of the key is left in the middleware, and the next failure is retried again."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.script("send", *(error(ErrorCode.THROTTLED) for _ in range(4)))

    async def test(publisher: Publisher) -> None:
        first = publisher.publish_nowait("1", ordering_key="k")
        await asyncio.sleep(0.01)
        second = publisher.publish_nowait("2", ordering_key="k")
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(result) for result in results] == [PublishError, Receipt]

    run(test, sender, publish_retry(first=5))

    assert len(calls(sender)) == 5
    assert bodies(sender) == ["2"]


def test_messages_of_a_key_that_were_under_way_together_are_not_retried() -> None:
    """One of them could be sent after a later one; the caller, who knows all results, decides."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.script("send", error(ErrorCode.THROTTLED))

    async def test(publisher: Publisher) -> None:
        results = await publisher.publish_many(["1", "2", Outgoing("o", ordering_key="other")], ordering_key="k")
        assert [type(result) for result in results] == [PublishError, PublishError, Receipt]
        assert isinstance(await publisher.publish("3", ordering_key="k"), Receipt)
        sender.script("send", error(ErrorCode.THROTTLED))
        assert isinstance(await publisher.publish("4", ordering_key="k"), Receipt)  # alone again: retried

    run(test, sender, publish_retry())

    assert bodies(sender) == ["o", "3", "4"]


def test_a_caller_that_gives_up_frees_its_key() -> None:
    """Cancelled in the pause, and cancelled while it waits for the retries of another."""
    sender = ScriptedSender(capabilities=FIFO)
    sender.script("send", error(ErrorCode.THROTTLED))

    async def test(publisher: Publisher) -> None:
        first = asyncio.create_task(publisher.publish("1", ordering_key="k"))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        second = asyncio.create_task(publisher.publish("2", ordering_key="k"))  # type: ignore[arg-type]
        third = asyncio.create_task(publisher.publish("3", ordering_key="k"))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.sleep(0.01)
        first.cancel()
        assert isinstance(await third, Receipt)
        assert asyncio.get_running_loop().time() < 1
        assert first.cancelled()
        assert second.cancelled()

    run(test, sender, publish_retry(first=60))

    assert bodies(sender) == ["3"]


def test_retry_with_a_time_limit_inside() -> None:
    """An answer that does not come counts as not confirmed, so it takes a deduplication key."""
    sender = ScriptedSender(capabilities=FIFO)

    async def test(publisher: Publisher) -> None:
        sender.takes("send", 60)
        task = asyncio.create_task(publisher.publish("x", deduplication_key="d"))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        sender.takes("send", 0)
        assert isinstance(await task, Receipt)

    run(test, sender, publish_retry(), publish_timeout(5))

    assert len(calls(sender)) == 2


def test_retry_leaves_alone_what_is_no_publish_error() -> None:
    """An option that cannot be honoured, a closed publisher, a bug."""
    sender = ScriptedSender(capabilities=FIFO)

    async def test(publisher: Publisher) -> None:
        with pytest.raises(UnsupportedOptionError):
            await publisher.publish("x", delay=5)
        await publisher.publisher.stop()  # type: ignore[attr-defined]
        with pytest.raises(ClosedError):
            await publisher.publish("x")

    run(test, sender, publish_retry(duplicates=True))

    assert calls(sender) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: publish_retry(attempts=0),
        lambda: publish_retry(first=0),
        lambda: publish_retry(longest=-1),
        lambda: publish_retry(within=float("inf")),
        lambda: publish_retry(within=301),
        lambda: publish_timeout(0),
    ],
)
def test_numbers_out_of_range_are_refused(make: Callable[[], Any]) -> None:
    """When the middleware is made."""
    with pytest.raises(ConfigurationError):
        make()
