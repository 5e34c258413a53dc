"""What becomes of each message of a list: of those the function never got, and of those behind one that failed."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest

from messagequeue import BatchHandler, DeadLetter, DecodeError, Discard, PartialFailure, RetryLater, SettleError
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


class Lists:
    """Records what it is called with; `script` is what the calls raise, None for nothing."""

    def __init__(self, *script):
        self.calls, self.script = [], list(script)

    async def __call__(self, messages):
        self.calls.append([message.text for message in messages])
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            raise step
        if step is not None:
            raise PartialFailure({m.id: step[m.text] for m in messages if m.text in step})


class OpeningFake(FakeSource):
    """Opens messages; `faults` says what it raises for which body."""

    faults: dict[str, BaseException]

    def opening(self, handler):
        async def open_message(message):
            if (fault := self.faults.get(message.text)) is not None:
                await asyncio.sleep(0)
                raise fault
            await handler(message)

        return open_message


async def consumed(source, handle, seconds=5.0, **options):
    b = bench(source, BatchHandler(handle), **options)
    b.start()
    await asyncio.sleep(seconds)
    await b.stop()
    return b


@pytest.mark.parametrize("raised", [Discard("all of it"), DeadLetter("all of it"), ValueError(), RetryLater(9)])
def test_what_the_function_raises_is_not_the_fate_of_what_it_never_got(raised: Exception) -> None:
    """A message that cannot be read fails alone, by its own policy, also beside a list that fails as a whole."""

    async def main():
        source = FakeSource(lease=30, dead_letters=True)
        source.put("a")
        (bad,) = source.put("bad", fault=True)
        b = await consumed(source, Lists(raised))

        assert bad not in source.settled_ids
        assert bad not in [each for each, _ in source.buried]
        assert "DecodeError" in b.kinds()
        assert b.consumer.stats.undecodable == 1

    run_virtual(main())


@pytest.mark.parametrize("fault", [asyncio.CancelledError(), DecodeError("gone"), OSError()])
def test_a_message_whose_opening_fails_in_whatever_way_is_not_settled(fault: BaseException) -> None:
    """What opens it may fail because something that it shared was cancelled: that is no success."""

    async def main():
        source = OpeningFake(lease=30)
        source.faults = {"b": fault}
        source.put(*"abc")
        handle = Lists()
        b = await consumed(source, handle)

        assert handle.calls == [["a", "c"]]
        assert source.settled_ids == ["m1", "m3"]
        assert len(b.errors) == 1

    run_virtual(main())


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ValueError(), {"on_failure": "park"}),
        (KeyError(), {"permanent": (KeyError,)}),
        (DecodeError("x"), {"undecodable": "discard"}),
        (DecodeError("x"), {"undecodable": "dead_letter"}),
    ],
)
def test_the_later_ones_of_a_failed_key_come_back_whatever_becomes_of_it(error, options) -> None:
    """The function stops at a key's first failure: what it never tried must not count as done (FIFO-01)."""

    async def main():
        source, handle = FakeSource(lease=30, ordered=True, dead_letters=True), Lists({"a1": error})
        source.put("a0", "a1", "a2", "a3", key="a")
        source.put("b0", key="b")
        await consumed(source, handle, **options)

        assert [text for call in handle.calls[1:] for text in call] == ["a2", "a3"]
        assert source.stored == []

    run_virtual(main())


def test_skip_group_puts_aside_what_stood_behind_the_failed_one_in_its_list() -> None:
    """Whatever the function says of it: nothing of the key is handled after the failure."""

    async def main():
        source = FakeSource(lease=30, ordered=True, dead_letters=True)
        handle = Lists({"a1": ValueError()})
        source.put("a0", "a1", "a2", "a3", key="a")
        source.put("b0", key="b")
        await consumed(source, handle, on_failure="skip_group")

        assert handle.calls == [["a0", "a1", "a2", "a3", "b0"]]
        assert [each for each, _ in source.buried] == ["m2", "m3", "m4"]
        assert source.stored == []

    run_virtual(main())


def test_messages_of_a_key_are_dead_lettered_in_their_order() -> None:
    """Also where a list has several: the dead-letter queue has them as this one had."""

    async def main():
        source = FakeSource(lease=30, ordered=True, dead_letters=True)
        delays = iter([0.5, 0.1, 0.4, 0.0, 0.3, 0.2, 0.0])

        async def slow():
            await asyncio.sleep(next(delays))

        source.script["dead_letter"].extend([slow] * 7)
        source.put(*"abcdefg", key="k")
        await consumed(source, Lists(ValueError()), on_failure="skip_group")

        assert [each for each, _ in source.buried] == [f"m{n}" for n in range(1, 8)]
        assert source.stored == []

    run_virtual(main())


def test_nothing_of_a_key_is_dead_lettered_before_one_that_cannot_be() -> None:
    """It stays and blocks; those behind it come back after it."""

    async def main():
        source = FakeSource(lease=8, ordered=True, dead_letters=True)
        source.script["dead_letter"].extend([lambda: None, SettleError("full")])
        source.put(*"abcd", key="k")
        await consumed(source, Lists(ValueError(), ValueError()), 3, on_failure="skip_group")
        assert [each for each, _ in source.buried] == ["m1"]

        await consumed(source, Lists(*[ValueError()] * 4), 30, on_failure="skip_group")
        assert [each for each, _ in source.buried] == ["m1", "m2", "m3", "m4"]

    run_virtual(main())


def test_a_partial_failure_survives_pickling_and_copying() -> None:
    """It may come out of another process, or be kept by a log."""
    error = PartialFailure({"1": RetryLater(3), "2": Discard("old")})
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert isinstance(copied, PartialFailure)
        assert str(copied) == str(error)
        assert {key: repr(value) for key, value in copied.failures.items()} == {
            key: repr(value) for key, value in error.failures.items()
        }


def test_a_message_alone_whose_opening_was_cancelled_is_not_settled_either() -> None:
    """The same fault outside a list is reported, not settled."""

    async def main():
        source = OpeningFake(lease=30)
        source.faults = {"b": asyncio.CancelledError()}
        source.put(*"ab")
        seen = []

        async def handler(message):
            seen.append(message.text)

        b = bench(source, handler)
        b.start()
        await asyncio.sleep(1)
        await b.stop()

        assert (seen, source.settled_ids, b.kinds()) == (["a"], ["m1"], ["HandlerError"])

    run_virtual(main())
