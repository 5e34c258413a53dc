"""Receiving ahead of free slots: how far, and in a consumer when."""

import asyncio

from messagequeue.runtime.ahead import FEW, WINDOW, Ahead
from messagequeue.testing import run_virtual
from tests.unit.consumer.fake_source import FakeSource, bench


def test_ahead_grows_while_handlers_wait_for_receives():
    """One receive's worth for each full receive through half of which or more nothing was to do; up to the most."""
    ahead, grown = Ahead(10, 25), []
    for turn in range(4):
        ahead.note(turn, 0, 0)
        ahead.received(turn + 0.5, full=True, flight=1.0)
        grown.append(ahead.messages)

    assert grown == [10, 20, 25, 25]


def test_ahead_does_not_grow_while_handlers_are_busy():
    """Nor where a receive took no time, which says nothing, nor twice for one idle time."""
    ahead = Ahead(10, 100)
    ahead.note(0.0, 3, 0)
    ahead.received(1.0, full=True, flight=1.0)
    ahead.note(1.0, 0, 0)
    ahead.received(1.0, full=True, flight=0.0)
    ahead.received(1.4, full=True, flight=1.0)

    assert ahead.messages == 0
    ahead.received(1.5, full=True, flight=1.0)
    ahead.received(1.5, full=True, flight=1.0)
    assert ahead.messages == 10


def test_ahead_does_not_grow_before_it_is_known_how_long_handlers_take():
    """A first receive finds nothing running, whatever the handlers; nor after handlers that took longer than it."""
    ahead = Ahead(10, 100)
    ahead.received(1.0, full=True, flight=1.0)
    first = ahead.messages
    ahead.note(1.0, 10, 0)
    ahead.note(3.0, 0, 0)
    ahead.received(4.0, full=True, flight=1.0)

    assert (first, ahead.messages) == (0, 0)


def test_ahead_shrinks_by_half_when_messages_wait_and_to_nothing_on_a_quiet_topic():
    """What cannot start at once is left to others soon; what is not there needs no second receive."""
    ahead = Ahead(10, 100)
    for turn in range(4):
        ahead.note(turn, 0, 0)
        ahead.received(turn + 1, full=True, flight=1.0)
    ahead.note(4.0, 10, 5)
    ahead.received(4.4, full=True, flight=1.0)
    kept = ahead.messages
    ahead.received(4.5, full=True, flight=1.0)
    halved = ahead.messages
    ahead.received(4.5, full=False, flight=1.0)

    assert (kept, halved, ahead.messages) == (40, 20, 0)


class Bursts:
    """Full receives of 100 ms, of which some part is spent computing."""

    def __init__(self, ahead):
        self.ahead, self.now, self.cpu = ahead, 0.0, 0.0

    def come(self, count, *, share):
        for _ in range(count):
            self.now, self.cpu = self.now + 0.1, self.cpu + 0.1 * share
            self.ahead.computed(self.now, self.cpu)
            self.ahead.note(self.now, 0, 0)
            self.ahead.received(self.now + 0.09, full=True, flight=0.1)
        return self.ahead.messages


def test_ahead_is_a_few_receives_while_the_cpu_is_busy():
    """More of them would not be handled sooner; what there are already may stay."""
    bursts = Bursts(Ahead(10, 1000))

    assert bursts.come(30, share=0.9) == 10 * FEW
    grown = bursts.come(10, share=0.1)
    assert grown > 10 * FEW
    assert bursts.come(10, share=0.9) == grown


def test_ahead_falls_back_to_a_few_receives_when_the_cpu_has_no_time_left():
    """Step by step, and never below: what comes together costs less."""
    bursts = Bursts(Ahead(10, 1000))
    most = bursts.come(20, share=0.1)

    assert most > bursts.come(2, share=1.0) > 10 * FEW
    assert bursts.come(20, share=1.0) == 10 * FEW


def test_short_times_say_nothing_of_the_cpu():
    """A burst is followed by a wait: only a longer time shows which is the rule."""
    bursts = Bursts(Ahead(10, 1000))
    most = bursts.come(20, share=0.1)
    for turn in range(1, 20):
        bursts.ahead.computed(bursts.now + turn * 0.001, bursts.cpu + turn * 0.001)

    assert bursts.ahead.messages == most


def test_the_cpu_is_asked_for_once_a_window_only():
    """And never where nothing is received ahead, whatever it says."""
    ahead = Ahead(10, 1000)
    assert ahead.wants_to_know(5.0)
    ahead.computed(5.0, 1.0)
    assert not ahead.wants_to_know(5.0 + WINDOW / 2)
    assert ahead.wants_to_know(5.0 + 2 * WINDOW)
    assert not Ahead(10, 0).wants_to_know(5.0)


def run(seconds, **options):
    """Return the most receives at once and the most messages held, by a consumer whose receives take 10 ms."""

    async def main():
        source = FakeSource(lease=60, max_receives=20)
        source.put(*["x"] * 3000)
        receive, under_way, most, held = source.receive, 0, 0, 0

        async def slow(count, *, wait):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.01)
            try:
                return await receive(count, wait=wait)
            finally:
                under_way -= 1

        async def handler(message):
            nonlocal held
            held = max(held, len(source.hidden()))
            if seconds:
                await asyncio.sleep(seconds)

        source.receive = slow
        b = bench(source, handler, concurrency=10, **options)
        b.start()
        await asyncio.sleep(1)
        await b.stop()
        return most, held

    return run_virtual(main())


def test_consumer_with_quick_handlers_has_many_receives_under_way():
    """Otherwise the latency of one receive would bound its throughput."""
    most, _ = run(0)

    assert most == 20


def test_consumer_with_slow_handlers_holds_what_it_can_start():
    """Messages that wait in one consumer could run in another (CON-09)."""
    most, held = run(0.1)

    assert most == 1
    assert held <= 20


def test_consumer_that_is_not_adaptive_keeps_to_its_slots():
    """`adaptive=False`: as many messages as can start, whatever the handlers."""
    most, _ = run(0, adaptive=False)

    assert most == 1
