"""Handlers of lists: how lists are made, what of one is settled, and order per key across lists."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from messagequeue import BatchHandler, ConfigurationError, DeadLetter, Discard, Message, PartialFailure, RetryLater
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


class Lists:
    """Records what it is called with; `script` says what a call does after it waited."""

    def __init__(self, *, takes=0.0):
        self.takes, self.calls, self.script = takes, [], []
        self.at = []

    async def __call__(self, messages):
        self.at.append(asyncio.get_running_loop().time())
        self.calls.append([message.text for message in messages])
        step = self.script.pop(0) if self.script else None
        await asyncio.sleep(self.takes)
        if step is not None:
            step(messages)


def failing(*texts, error=ValueError):
    def step(messages):
        raise PartialFailure({m.id: error() if isinstance(error, type) else error for m in messages if m.text in texts})

    return step


def raising(error):
    def step(messages):
        raise error

    return step


def lists_bench(source, handle, *, most=10, size=None, wait=0.0, **options):
    return bench(source, BatchHandler(handle, max_messages=most, max_bytes=size, max_wait=wait), **options)


def test_a_list_holds_what_one_receive_brought_in_its_order() -> None:
    """And all of it is settled by returning."""

    async def main():
        source, handle = FakeSource(), Lists()
        source.put(*"abcdefg")
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)

        assert handle.calls == [list("abcdefg")]
        assert source.settled_ids == [f"m{n}" for n in range(1, 8)]
        assert b.consumer.stats.handled == 7
        await b.stop()

    run_virtual(main())


def test_a_list_waits_for_company_until_it_is_full_or_time_is_up() -> None:
    """Full: at once.  Else *max_wait* seconds after its first message came."""

    async def main():
        source, handle = FakeSource(), Lists()
        b = lists_bench(source, handle, most=4, wait=5.0)
        b.start()
        source.put(*"ab")
        await asyncio.sleep(2)
        assert handle.calls == []
        source.put(*"cd")
        await asyncio.sleep(0.1)
        assert handle.calls == [list("abcd")]

        begun = asyncio.get_running_loop().time()
        source.put("e")
        await asyncio.sleep(1)
        source.put("f")
        await asyncio.sleep(10)

        assert handle.calls == [list("abcd"), ["e", "f"]]
        assert handle.at[1] - begun == pytest.approx(5.0, abs=0.01)
        await b.stop()

    run_virtual(main())


def test_messages_that_wait_for_company_keep_their_leases() -> None:
    """However long that is compared with a lease."""

    async def main():
        source, handle = FakeSource(lease=2), Lists()
        source.put("a")
        b = lists_bench(source, handle, most=4, wait=30.0)
        b.start()
        await asyncio.sleep(40)

        assert handle.calls == [["a"]]
        assert (b.errors, source.stored) == ([], [])
        await b.stop()

    run_virtual(main())


def test_a_list_is_bounded_by_bytes_and_a_large_message_comes_alone() -> None:
    """Nothing waits for ever because it is large."""

    async def main():
        source, handle = FakeSource(), Lists()
        source.put("aaa", "bbb", "c", "d" * 50, "e")
        b = lists_bench(source, handle, size=7, concurrency=1)
        b.start()
        await asyncio.sleep(1)

        assert handle.calls == [["aaa", "bbb", "c"], ["d" * 50], ["e"]]
        await b.stop()

    run_virtual(main())


def test_concurrency_counts_lists() -> None:
    """Two lists at once and no third, whatever is received."""

    async def main():
        source, handle = FakeSource(max_receives=3), Lists(takes=5)
        source.put(*(str(n) for n in range(30)))
        b = lists_bench(source, handle, most=5, concurrency=2)
        b.start()
        await asyncio.sleep(4)
        assert [len(call) for call in handle.calls] == [5, 5]

        await asyncio.sleep(20)

        assert sorted(text for call in handle.calls for text in call) == sorted(str(n) for n in range(30))
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_a_partial_failure_leaves_only_what_it_names() -> None:
    """The rest is settled; each failure is reported once and its message comes back."""

    async def main():
        source, handle = FakeSource(lease=3), Lists()
        handle.script = [failing("b", "d")]
        source.put(*"abcd")
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)
        assert source.settled_ids == ["m1", "m3"]
        assert b.kinds() == ["HandlerError"] * 2
        await asyncio.sleep(5)

        assert handle.calls == [list("abcd"), ["b", "d"]]
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_a_partial_failure_may_name_signals() -> None:
    """Each message meets the fate that its own handler could have asked for."""

    async def main():
        source, handle = FakeSource(lease=30, dead_letters=True), Lists()
        a, b_, c = source.put(*"abc")
        handle.script = [raising(PartialFailure({a: RetryLater(9), b_: Discard("old"), c: DeadLetter("hopeless")}))]
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(8)
        assert source.buried == [(c, "hopeless")]
        assert [item.id for item in source.stored] == [a]
        await asyncio.sleep(3)

        assert handle.calls == [list("abc"), ["a"]]
        assert b.errors == []
        await b.stop()

    run_virtual(main())


def test_an_exception_fails_the_whole_list() -> None:
    """Nothing of it is settled, each message is reported."""

    async def main():
        source, handle = FakeSource(lease=3), Lists()
        handle.script = [raising(ValueError())]
        source.put(*"ab")
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)
        assert (source.settled_ids, b.kinds()) == ([], ["HandlerError"] * 2)
        await asyncio.sleep(4)

        assert handle.calls == [["a", "b"], ["a", "b"]]
        await b.stop()

    run_virtual(main())


def test_an_id_that_is_not_in_the_list_settles_nothing() -> None:
    """What it was meant for is not known."""

    async def main():
        source, handle = FakeSource(lease=30), Lists()
        handle.script = [raising(PartialFailure({"no such id": ValueError()}))]
        source.put(*"ab")
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)

        assert source.settled_ids == []
        assert all("Message.id" in str(error.__cause__) for error in b.errors)
        await b.stop()

    run_virtual(main())


def test_a_body_that_cannot_be_read_fails_alone() -> None:
    """The handler gets the others."""

    async def main():
        source, handle = FakeSource(lease=30), Lists()
        source.put("a")
        source.put("bad", fault=True)
        source.put("c")
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)

        assert handle.calls == [["a", "c"]]
        assert b.kinds() == ["DecodeError"]
        assert source.settled_ids == ["m1", "m3"]
        await b.stop()

    run_virtual(main())


def test_a_lost_lease_cancels_the_list_and_hands_back_the_others() -> None:
    """Two consumers must not do the same work; the others are no failures."""

    async def main():
        source, handle = FakeSource(lease=6), Lists(takes=20)
        ids = source.put(*"abc")
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)
        source.steal(ids[1])
        await asyncio.sleep(3)

        assert b.kinds() == ["LeaseLostError"]
        assert handle.calls[:2] == [list("abc"), ["a", "c"]]
        await asyncio.sleep(100)
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_a_timeout_is_that_of_the_list() -> None:
    """Every message of it failed."""

    async def main():
        source, handle = FakeSource(lease=30), Lists(takes=20)
        source.put(*"ab")
        b = lists_bench(source, handle, handler_timeout=5.0)
        b.start()
        await asyncio.sleep(6)

        assert b.kinds() == ["HandlerError"] * 2
        assert b.consumer.stats.timed_out == 2
        handle.takes = 0
        await b.stop()

    run_virtual(main())


def test_a_stop_hands_back_what_waits_for_company_and_lets_a_list_end() -> None:
    """Nothing is started, nothing cut short within drain_timeout."""

    async def main():
        source, handle = FakeSource(cancellable=True), Lists(takes=3)
        source.put(*"abc")
        b = lists_bench(source, handle, most=2, wait=60.0)
        b.start()
        await asyncio.sleep(1)
        await b.stop()

        assert handle.calls == [["a", "b"]]
        assert source.settled_ids == ["m1", "m2"]
        assert source.hidden() == []

    run_virtual(main())


def test_a_shutdown_cancels_a_list_that_outlives_the_drain_and_hands_all_of_it_back() -> None:
    """No error: it is no fault of the handler."""

    async def main():
        source, handle = FakeSource(cancellable=True), Lists(takes=300)
        source.put(*"abc")
        b = lists_bench(source, handle, drain_timeout=2.0)
        b.start()
        await asyncio.sleep(1)
        await b.stop()

        assert (b.errors, source.hidden(), len(source.stored)) == ([], [], 3)

    run_virtual(main())


def test_a_list_holds_several_messages_of_a_key_and_no_other_list_has_its_next() -> None:
    """Four lists may run, but a key is in one at a time."""

    async def main():
        source, handle = FakeSource(ordered=True, max_receives=4), Lists(takes=2)
        source.put(*(f"a{n}" for n in range(12)), key="a")
        source.put(*(f"b{n}" for n in range(3)), key="b")
        b = lists_bench(source, handle, most=5, concurrency=4)
        b.start()
        await asyncio.sleep(1)
        assert handle.calls[0] == [f"a{n}" for n in range(5)]
        assert not any(text.startswith("a") for call in handle.calls[1:] for text in call)
        await asyncio.sleep(30)

        for key in "ab":
            texts = [text for call in handle.calls for text in call if text.startswith(key)]
            assert texts == sorted(texts, key=lambda text: int(text[1:]))
        assert source.stored == []
        await b.stop()

    run_virtual(main())


def test_the_later_ones_of_a_failed_key_come_back_after_it() -> None:
    """Also where they were done: a message never overtakes an earlier one of its key (FIFO-01)."""

    async def main():
        source, handle = FakeSource(lease=2, ordered=True), Lists()
        source.put(*(f"a{n}" for n in range(5)), key="a")
        source.put("b0", "b1", key="b")
        handle.script = [failing("a1")]
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)
        assert source.settled_ids == ["m1", "m6", "m7"]
        await asyncio.sleep(10)

        assert [text for call in handle.calls[1:] for text in call] == ["a1", "a2", "a3", "a4"]
        assert source.stored == []
        assert Counter(b.kinds()) == {"HandlerError": 1}
        await b.stop()

    run_virtual(main())


def test_a_dead_lettered_message_does_not_hold_up_its_key() -> None:
    """It is off the queue: those after it stay done."""

    async def main():
        source, handle = FakeSource(ordered=True, dead_letters=True), Lists()
        source.put(*"abc", key="k")
        handle.script = [failing("b", error=DeadLetter("hopeless"))]
        b = lists_bench(source, handle)
        b.start()
        await asyncio.sleep(1)

        assert source.settled_ids == ["m1", "m3"]
        assert source.buried == [("m2", "hopeless")]
        source.put("d", key="k")
        await asyncio.sleep(1)
        assert handle.calls[1:] == [["d"]]
        await b.stop()

    run_virtual(main())


@pytest.mark.parametrize("seed", range(12))
def test_keys_keep_their_order_under_random_failures(seed: int) -> None:
    """A message is done for good only after every earlier one of its key, and every message is."""

    async def main():
        dice = random.Random(seed)
        source = FakeSource(lease=3, ordered=True, max_receives=3)
        order = {key: source.put(*(f"{key}{n}" for n in range(20)), key=key) for key in "abc"}

        async def handle(messages):
            await asyncio.sleep(dice.random())
            if dice.random() < 0.2:
                raise ValueError
            failed = {m.id: ValueError() for m in messages if dice.random() < 0.1}
            if failed:
                raise PartialFailure(failed)

        b = lists_bench(source, handle, most=dice.randint(1, 8), wait=dice.choice([0.0, 0.5]), concurrency=3)
        b.start()
        await asyncio.sleep(1500)

        assert source.stored == []
        for ids in order.values():
            assert [each for each in source.settled_ids if each in ids] == ids
        await b.stop()

    run_virtual(main())


def test_a_batch_handler_handles_one_message_too() -> None:
    """A test of the handler gives it one, and sees what its failure is."""

    async def main():
        handle = Lists()
        handler = BatchHandler(handle)
        await handler(Message("t", "1", b"a"))
        assert handle.calls == [["a"]]

        handle.script = [failing("a")]
        with pytest.raises(ValueError):  # noqa: PT011 - the one that was named
            await handler(Message("t", "1", b"a"))

    run_virtual(main())


@pytest.mark.parametrize("wrong", [{"max_messages": 0}, {"max_bytes": 0}, {"max_wait": -1}, {"max_wait": float("inf")}])
def test_a_bound_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    """When the handler is declared, not when messages come."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        BatchHandler(Lists(), **wrong)  # type: ignore[arg-type]


def test_what_is_no_handler_or_no_exception_is_refused() -> None:
    """At once."""
    with pytest.raises(TypeError, match="async function"):
        BatchHandler("x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give an exception"):
        PartialFailure({"1": "x"})  # type: ignore[dict-item]


def test_timer_that_fires_a_little_early_starts_the_list_all_the_same() -> None:
    """As asyncio's may, by its clock's resolution: what is due then must not be found not quite due again and again."""

    async def main():
        source, handle = FakeSource(), Lists()
        loop = asyncio.get_running_loop()
        on_time = loop.call_at

        def early(when, callback, *arguments, **more):
            ours = "BatchSession" in getattr(callback, "__qualname__", "")
            return on_time(when - 1e-7 if ours else when, callback, *arguments, **more)

        loop.call_at = early
        source.put("x")
        b = lists_bench(source, handle, wait=0.5)
        b.start()
        await asyncio.sleep(2)
        await b.stop()

        assert handle.calls == [["x"]]

    run_virtual(main())
