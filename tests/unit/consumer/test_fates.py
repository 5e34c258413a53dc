"""What becomes of messages that no retry helps, and of those behind them."""

from __future__ import annotations

import asyncio

import pytest

from messagequeue import (
    BatchHandler,
    ConsumeOptions,
    DeadLetter,
    DecodeError,
    Discard,
    ErrorCode,
    Message,
    PartialFailure,
    RetryLater,
    SettleError,
    UnroutedError,
    UnsupportedOptionError,
)
from messagequeue.runtime import RuntimeConsumerProvider
from messagequeue.runtime.outcome import Bury, GiveBack, Settle, breaks, outcome
from messagequeue.testing import deliver, run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


class OddError(ValueError):
    """Ours."""


def caused(signal: DeadLetter, cause: Exception) -> DeadLetter:
    signal.__cause__ = cause
    return signal


@pytest.mark.parametrize(
    ("raised", "options", "fate"),
    [
        (None, {}, Settle()),
        (Discard("old"), {}, Settle(discarded="old")),
        (RetryLater(3), {"retry_delay": 9}, GiveBack(3, failed=False)),
        (DeadLetter("no"), {}, Bury("no")),
        (caused(DeadLetter("no"), KeyError()), {}, Bury("no", "KeyError")),
        (ValueError(), {"retry_delay": 9}, GiveBack(9, failed=True)),
        (ValueError(), {"permanent": (KeyError,)}, GiveBack(None, failed=True)),
        (KeyError(), {"permanent": (LookupError,)}, Bury("KeyError is permanent", "KeyError")),
        (DecodeError("x"), {}, GiveBack(None, failed=True)),
        (DecodeError("x"), {"undecodable": "discard"}, Settle(discarded="it cannot be read")),
        (
            UnroutedError("x"),
            {"undecodable": "dead_letter"},
            Bury("it cannot be read", "messagequeue._errors.UnroutedError"),
        ),
        (asyncio.CancelledError(), {"permanent": (Exception,)}, GiveBack(None, failed=True)),
    ],
)
def test_outcome_is_decided_by_what_was_raised_and_the_options(raised, options, fate) -> None:
    """Pure: nothing else counts."""
    assert outcome(raised, ConsumeOptions(**options), attempt=1) == fate


def test_only_errors_that_may_be_an_outage_break() -> None:
    """Not signals, unreadable bodies, permanent ones."""
    options = ConsumeOptions(permanent=(KeyError,))

    assert [breaks(e, options) for e in (None, RetryLater(1), DecodeError("x"), KeyError(), OSError())] == [
        False,
        False,
        False,
        False,
        True,
    ]


def test_a_permanent_error_dead_letters_at_once_and_is_reported() -> None:
    """With the type of the exception, and no second try."""

    async def main():
        source = FakeSource(dead_letters=True)
        source.put("a")

        async def handler(message):
            raise OddError

        b = bench(source, handler, permanent=(ValueError,))
        b.start()
        await asyncio.sleep(1)

        assert source.buried == [("m1", "OddError is permanent")]
        assert source.bury_errors == [f"{__name__}.OddError"]
        assert b.kinds() == ["HandlerError"]
        assert b.consumer.stats.dead_lettered == 1
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize(
    ("policy", "left", "buried", "stats"),
    [("leave", 1, 0, (0, 0)), ("dead_letter", 0, 1, (1, 0)), ("discard", 0, 0, (0, 1))],
)
def test_undecodable_says_what_becomes_of_an_unreadable_body(policy, left, buried, stats) -> None:
    """By default it is left alone: what was not understood is not destroyed (CON-07)."""

    async def main():
        source = FakeSource(dead_letters=True)
        source.put("a", fault=True)
        b = bench(source, print, undecodable=policy)
        b.start()
        await asyncio.sleep(1)

        assert (len(source.stored), len(source.buried)) == (left, buried)
        assert (b.consumer.stats.dead_lettered, b.consumer.stats.discarded) == stats
        assert b.kinds() == ["DecodeError"]
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("known_before", [True, False], ids=["provider has none", "queue has none"])
@pytest.mark.parametrize("policy", ["leave", "discard"])
def test_nothing_is_deleted_for_want_of_a_dead_letter_queue_unless_asked(policy: str, known_before: bool) -> None:
    """A provider without dead letters, and a queue without one, are the same to the message."""

    async def main():
        source = FakeSource(dead_letters=not known_before)
        source.script["dead_letter"].append(lambda: SettleError("no queue", code=ErrorCode.CONFIGURATION))
        source.put("a")

        async def handler(message):
            raise DeadLetter("hopeless")

        b = bench(source, handler, no_dead_letter_queue=policy)
        b.start()
        await asyncio.sleep(1)

        assert len(source.stored) == (policy == "leave")
        assert b.consumer.stats.discarded == (policy == "discard")
        assert b.kinds() == (["SettleError"] if policy == "leave" else [])
        await b.stop()

    run_virtual(main())


def test_a_dead_lettering_that_fails_for_another_reason_discards_nothing() -> None:
    """An outage of the dead-letter queue is not its absence."""

    async def main():
        source = FakeSource(dead_letters=True)
        source.script["dead_letter"].append(lambda: SettleError("down", code=ErrorCode.UNAVAILABLE, retryable=True))
        source.put("a")

        async def handler(message):
            raise DeadLetter("hopeless")

        b = bench(source, handler, no_dead_letter_queue="discard")
        b.start()
        await asyncio.sleep(1)
        assert len(source.stored) == 1
        await asyncio.sleep(40)

        assert source.buried == [("m1", "hopeless")]
        await b.stop()

    run_virtual(main())


def ordered_run(on_failure, *, skip_time=300.0, more=(), handler_fails=("a2",), wait=5.0, **source_options):
    """Consume a1 to a4 and b1 to b3, in which *handler_fails* fail always; return what was handled and the source."""

    async def main():
        source = FakeSource(lease=2, ordered=True, dead_letters=True, **source_options)
        source.put("a1", "a2", "a3", "a4", key="a")
        source.put("b1", "b2", "b3", key="b")
        seen = []

        async def handler(message):
            seen.append(message.text)
            if message.text in handler_fails:
                raise ValueError

        b = bench(source, handler, on_failure=on_failure, skip_time=skip_time)
        b.start()
        await asyncio.sleep(wait)
        for pause, text in more:
            await asyncio.sleep(pause)
            source.put(text, key="a")
        await asyncio.sleep(wait)
        await b.stop()
        return seen, source

    return run_virtual(main())


def test_block_lets_a_key_wait_for_its_failed_message() -> None:
    """Nothing later of it is handled; other keys go on (FIFO-01)."""
    seen, source = ordered_run("block")

    assert [text for text in seen if text[0] == "a" and text != "a2"] == ["a1"]
    assert [text for text in seen if text[0] == "b"] == ["b1", "b2", "b3"]
    assert [item.body for item in source.stored] == [b"a2", b"a3", b"a4"]


def test_park_puts_the_failed_message_aside_and_its_key_goes_on() -> None:
    """It is in the dead-letter queue before the next of its key starts."""
    seen, source = ordered_run("park")

    assert [text for text in seen if text[0] == "a"] == ["a1", "a2", "a3", "a4"]
    assert source.buried == [("m2", "it failed, and its key goes on")]
    assert source.stored == []


def test_skip_group_puts_aside_all_that_follow_unhandled_and_in_order() -> None:
    """What depends on the failed one is with it; the other key is handled."""
    seen, source = ordered_run("skip_group")

    assert [text for text in seen if text[0] == "a"] == ["a1", "a2"]
    assert [text for text in seen if text[0] == "b"] == ["b1", "b2", "b3"]
    assert [each for each, _ in source.buried] == ["m2", "m3", "m4"]
    assert source.stored == []


def test_skip_group_ends_when_the_key_was_quiet_for_its_time() -> None:
    """A message within it is skipped and renews it; one after it is handled."""
    seen, source = ordered_run("skip_group", skip_time=60, more=[(40, "a5"), (40, "a6"), (100, "a7")])

    assert [text for text in seen if text[0] == "a"] == ["a1", "a2", "a7"]
    assert len(source.buried) == 5


def test_park_blocks_where_there_is_nowhere_to_park() -> None:
    """A message that cannot be put aside is not deleted, and nothing overtakes it."""

    async def main():
        source = FakeSource(lease=2, ordered=True, dead_letters=True)
        for _ in range(50):
            source.script["dead_letter"].append(lambda: SettleError("no queue", code=ErrorCode.CONFIGURATION))
        source.put("a1", "a2", key="a")
        seen = []

        async def handler(message):
            seen.append(message.text)
            raise ValueError

        b = bench(source, handler, on_failure="park")
        b.start()
        await asyncio.sleep(9)

        assert set(seen) == {"a1"}
        assert len(source.stored) == 2
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("queue", ["none", "unconfigured", "down"])
def test_skip_group_skips_nothing_before_the_failed_message_is_put_aside(queue: str) -> None:
    """One that cannot be put aside blocks, and is handled again: else it would never be handled nor dead-lettered."""

    async def main():
        source = FakeSource(lease=2, ordered=True, dead_letters=queue != "none")
        fault = SettleError("x", code=ErrorCode.CONFIGURATION if queue == "unconfigured" else ErrorCode.UNAVAILABLE)
        source.script["dead_letter"].extend([lambda: fault] * 2)
        source.put("a1", "a2", key="a")
        seen = []

        async def handler(message):
            seen.append(message.text)
            if len(seen) < 3:
                raise ValueError

        b = bench(source, handler, on_failure="skip_group")
        b.start()
        await asyncio.sleep(20)

        assert (seen, source.stored) == (["a1", "a1", "a1", "a2"], [])
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("dead_letters", [True, False])
def test_skip_group_that_discards_skips_as_well(dead_letters: bool) -> None:
    """Without a dead-letter queue, where that is asked for: nothing of the key is handled out of order."""

    async def main():
        source = FakeSource(lease=20, ordered=True, dead_letters=dead_letters)
        fault = SettleError("x", code=ErrorCode.CONFIGURATION)
        source.script["dead_letter"].extend([lambda: fault] * 9)
        source.put("a1", "a2", key="a")
        seen = []

        async def handler(message):
            seen.append(message.text)
            raise ValueError

        b = bench(source, handler, on_failure="skip_group", no_dead_letter_queue="discard")
        b.start()
        await asyncio.sleep(5)

        assert (seen, source.stored, source.settled_ids) == (["a1"], [], ["m1", "m2"])
        assert b.consumer.stats.discarded == 2
        await b.stop()

    run_virtual(main())


def test_park_holds_for_lists_too() -> None:
    """The failed one is put aside; those behind it come again, for the function may have stopped at it."""

    async def main():
        source = FakeSource(lease=2, ordered=True, dead_letters=True)
        source.put("a1", "a2", "a3", key="a")

        async def handle(messages):
            raise PartialFailure({m.id: ValueError() for m in messages if m.text == "a2"})

        b = bench(source, BatchHandler(handle), on_failure="park")
        b.start()
        await asyncio.sleep(5)

        assert b.consumer.stats.received == 4
        assert (source.settled_ids, [each for each, _ in source.buried]) == (["m1", "m3"], ["m2"])
        await b.stop()

    run_virtual(main())


class OneSource(RuntimeConsumerProvider):
    """A provider with one source for every topic."""

    def __init__(self, source):
        super().__init__("one")
        self.source = source

    async def _open_source(self, topic, options):
        return self.source

    async def _ping(self): ...

    async def _release(self): ...


@pytest.mark.parametrize("policy", ["park", "skip_group"])
def test_on_failure_is_refused_where_no_order_is_kept(policy: str) -> None:
    """It would promise what has no meaning there; the topic stays free."""

    async def main():
        source = FakeSource()
        async with OneSource(source) as provider:
            with pytest.raises(UnsupportedOptionError, match="keeps order"):
                await provider.new_consumer("plain", print, on_failure=policy)  # type: ignore[arg-type]
            assert source.closed == 1
            await provider.new_consumer("plain", print)  # type: ignore[arg-type]

    run_virtual(main())


def test_deliver_knows_permanent_errors_and_unreadable_bodies() -> None:
    """A test of a handler sees the fate that the consumer's options give."""

    async def handler(message: Message) -> None:
        raise OddError

    async def unreadable(message: Message) -> None:
        raise DecodeError("no")

    outcome_of = run_virtual(deliver(handler, "a", permanent=(ValueError,)))
    assert outcome_of.dead_lettered
    assert outcome_of.failed
    assert run_virtual(deliver(unreadable, "a", undecodable="discard")).discarded
