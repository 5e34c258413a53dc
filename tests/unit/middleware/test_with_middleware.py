"""`with_middleware()`: messages go through, one by one, and everything that a publisher promises still holds."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from messagequeue import (
    ClosedError,
    ErrorCode,
    InvalidMessageError,
    MessageTooLargeError,
    Outgoing,
    Publish,
    Publisher,
    PublisherProvider,
    PublishError,
    PublishMiddleware,
    PublishOptions,
    Receipt,
    UnsupportedOptionError,
    open_publishers,
)
from messagequeue.driver import Capabilities, EncodedMessage
from messagequeue.middleware import compose_publish, current_topic, with_middleware
from messagequeue.middleware._publisher import MiddlewarePublisher
from messagequeue.runtime import RuntimePublisher
from messagequeue.testing import RecordingPublisherProvider, ScriptedSender, run_virtual

FIFO = Capabilities(ordering=True, ordering_key="accepted", deduplication=True)


def plain(publish: Publish) -> Publish:
    """Passes on."""

    async def passed(item: Outgoing) -> Receipt:
        return await publish(item)

    return passed


def waits(seconds: Callable[[Outgoing], float]) -> PublishMiddleware:
    """Waits before it passes on, for each message as long as *seconds* says."""

    def wrap(publish: Publish) -> Publish:
        async def waited(item: Outgoing) -> Receipt:
            await asyncio.sleep(seconds(item))
            return await publish(item)

        return waited

    return wrap


def fails(error: BaseException) -> PublishMiddleware:
    """Raises instead."""

    def wrap(_: Publish) -> Publish:
        async def failed(_: Outgoing) -> Receipt:
            raise error

        return failed

    return wrap


def run(
    test: Callable[[Publisher], Awaitable[None]],
    *middleware: PublishMiddleware,
    sender: ScriptedSender | None = None,
    max_pending: int = 10_000,
    **options: float,
) -> ScriptedSender:
    """Run *test* on a publisher with *middleware*, stop it, and return what its messages were sent with."""
    sender = sender or ScriptedSender(capabilities=FIFO)

    async def main() -> None:
        behind = RuntimePublisher("orders", sender, PublishOptions(**options))  # type: ignore[arg-type]
        publisher = with_middleware(behind, *middleware, max_pending=max_pending)
        try:
            await test(publisher)
        finally:
            await publisher.stop()
        assert behind.stopped
        if isinstance(publisher, MiddlewarePublisher):
            assert len(publisher._turns) == 0

    run_virtual(main())
    return sender


def sent(sender: ScriptedSender) -> list[str | bytes]:
    return [item.body for item in sender.sent]


def batches(sender: ScriptedSender) -> list[list[str | bytes]]:
    return [
        [item.body for item in call.items if isinstance(item, EncodedMessage)]
        for call in sender.calls
        if call.action == "send"
    ]


def test_the_first_middleware_is_outermost() -> None:
    """It sees a message first and its receipt last, whichever way the message was published."""
    lines: list[str] = []

    def logs(name: str) -> PublishMiddleware:
        def wrap(publish: Publish) -> Publish:
            async def logged(item: Outgoing) -> Receipt:
                lines.append(f"{name} {item.data}")
                receipt = await publish(item)
                lines.append(f"{name} {receipt.message_id}")
                return receipt

            return logged

        return wrap

    async def test(publisher: Publisher) -> None:
        assert await publisher.publish("x") == Receipt("s1", f"{1:020}")
        assert await publisher.publish_nowait("y") == Receipt("s2", f"{2:020}")
        assert await publisher.publish_many(["z"]) == [Receipt("s3", f"{3:020}")]

    run(test, logs("a"), logs("b"))

    assert lines == [
        *("a x", "b x", "b s1", "a s1"),
        *("a y", "b y", "b s2", "a s2"),
        *("a z", "b z", "b s3", "a s3"),
    ]


def test_a_message_arrives_with_all_its_options() -> None:
    """Those of the call and those of an `Outgoing`, which win; the middleware sees them and may change them."""
    seen: list[Outgoing] = []

    def shouts(publish: Publish) -> Publish:
        async def shouted(item: Outgoing) -> Receipt:
            seen.append(item)
            return await publish(replace(item, data=str(item.data).upper(), attributes={"loud": 1}))

        return shouted

    async def test(publisher: Publisher) -> None:
        await publisher.publish("a", ordering_key="k", deduplication_key="d", delay=5)
        await publisher.publish_many([Outgoing("b", ordering_key="own"), "c"], ordering_key="call", delay=1)
        await publisher.publish_nowait("d", attributes={"quiet": "yes"})

    able = replace(FIFO, max_delay=900.0)
    sender = run(test, shouts, sender=ScriptedSender(capabilities=able))

    assert seen == [
        Outgoing("a", "k", "d", 5),
        Outgoing("b", "own", delay=1),
        Outgoing("c", "call", delay=1),
        Outgoing("d", attributes={"quiet": "yes"}),
    ]
    assert sender.sent == [
        EncodedMessage("A", "k", "d", 5.0, {"loud": 1}),
        EncodedMessage("B", "own", None, 1.0, {"loud": 1}),
        EncodedMessage("C", "call", None, 1.0, {"loud": 1}),
        EncodedMessage("D", attributes={"loud": 1}),
    ]


def test_batches_form_behind_the_middleware() -> None:
    """Twenty-five messages leave in three calls, as without middleware; one per item and in order come the results."""
    results: list[Receipt | PublishError] = []

    async def test(publisher: Publisher) -> None:
        results.extend(await publisher.publish_many(map(str, range(25)), ordering_key="k"))

    with_it, without = run(test, plain, plain), run(test)

    assert batches(with_it) == batches(without)
    assert [len(batch) for batch in batches(with_it)] == [10, 10, 5]
    assert [result.message_id for result in results[:25] if isinstance(result, Receipt)] == [
        f"s{number}" for number in range(1, 26)
    ]


def test_concurrent_calls_share_batches() -> None:
    """`publish()` in ten tasks, and ten `publish_nowait()` in a row, are one request each."""

    async def test(publisher: Publisher) -> None:
        await asyncio.gather(*(publisher.publish(str(number)) for number in range(10)))
        await asyncio.gather(*[publisher.publish_nowait(str(number)) for number in range(10)])

    assert [len(batch) for batch in batches(run(test, plain))] == [10, 10]


@pytest.mark.parametrize("way", ["publish", "publish_nowait", "publish_many", "mixed"])
def test_messages_of_a_key_keep_their_order_whatever_the_middleware_waits_for(way: str) -> None:
    """The first waits longest, yet goes first; messages of other keys and without one pass it by."""

    async def test(publisher: Publisher) -> None:
        numbers = [str(number) for number in range(6)]
        calls: list[Awaitable[Any]] = []
        if way == "publish_many":
            calls = [publisher.publish_many(numbers, ordering_key="k")]
        elif way == "publish_nowait":
            calls = [publisher.publish_nowait(number, ordering_key="k") for number in numbers]
        elif way == "publish":
            calls = [asyncio.create_task(publisher.publish(number, ordering_key="k")) for number in numbers]  # type: ignore[arg-type]
        else:
            calls = [
                publisher.publish_nowait("0", ordering_key="k"),
                asyncio.create_task(publisher.publish_many(["1", "2", "3"], ordering_key="k")),  # type: ignore[arg-type]
            ]
            await asyncio.sleep(0)
            calls += [publisher.publish_nowait("4", ordering_key="k"), publisher.publish("5", ordering_key="k")]
        calls += [publisher.publish_nowait("9", ordering_key="other"), publisher.publish_nowait("8")]
        await asyncio.gather(*calls)

    slow = waits(lambda item: 10 - int(str(item.data)))
    order = sent(run(test, slow))

    assert [body for body in order if body not in ("8", "9")] == ["0", "1", "2", "3", "4", "5"]
    assert order[:2] == ["9", "8"]


def test_publish_nowait_is_not_overtaken_by_a_later_publish() -> None:
    """Although the later one's caller runs before the earlier one's task has begun."""

    async def test(publisher: Publisher) -> None:
        first = publisher.publish_nowait("first", ordering_key="k")
        await publisher.publish("second", ordering_key="k")
        await first

    assert sent(run(test, plain)) == ["first", "second"]


def test_a_message_that_fails_in_the_middleware_does_not_hold_up_its_key() -> None:
    """Whether it raises at once, is cancelled while it waits, or is cancelled before it began."""

    def picky(publish: Publish) -> Publish:
        async def picked(item: Outgoing) -> Receipt:
            if item.data == "bad":
                raise PublishError("no", topic="orders")
            if item.data == "slow":
                await asyncio.sleep(3600)
            return await publish(item)

        return picked

    async def test(publisher: Publisher) -> None:
        results = await publisher.publish_many(["a", "bad", "b"], ordering_key="k")
        assert [type(result) for result in results] == [Receipt, PublishError, Receipt]
        slow = publisher.publish_nowait("slow", ordering_key="k")
        unborn = publisher.publish_nowait("unborn", ordering_key="k")
        later = publisher.publish_nowait("later", ordering_key="k")
        unborn.cancel()  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        slow.cancel()  # type: ignore[attr-defined]
        await later

    assert sent(run(test, picky)) == ["a", "b", "later"]


def test_a_middleware_may_publish_by_itself() -> None:
    """To the same publisher, too, before it passes its own message on: it does not wait for itself."""

    async def test(publisher: Publisher) -> None:
        here.append(publisher)
        await publisher.publish("order", ordering_key="k")

    here: list[Publisher] = []

    def audits(publish: Publish) -> Publish:
        async def audited(item: Outgoing) -> Receipt:
            if not str(item.data).startswith("audit"):
                await here[0].publish(f"audit of {item.data}", ordering_key="k")
            return await publish(item)

        return audited

    assert sent(run(test, audits)) == ["audit of order", "order"]


def test_publish_raises_what_the_publisher_behind_raises() -> None:
    """Checks, a misspelt option, and what the middleware itself raises."""

    async def test(publisher: Publisher) -> None:
        with pytest.raises(MessageTooLargeError):
            await publisher.publish("x" * 100)
        with pytest.raises(UnsupportedOptionError, match="cannot delay"):
            await publisher.publish("x", delay=5)
        with pytest.raises(TypeError, match="did you mean 'delay'"):
            await publisher.publish("x", dealy=5)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="did you mean 'delay'"):
            publisher.publish_nowait("x", dealy=5)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="did you mean 'delay'"):
            await publisher.publish_many(["x"], dealy=5)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="use publish"):
            await publisher.publish_many("x")

    sender = run(test, plain, sender=ScriptedSender(capabilities=FIFO, max_size=50))

    assert sender.sent == []


def test_publish_many_gives_each_item_a_result_of_its_own() -> None:
    """What is raised for one item, by whom and of whatever type, is that item's `PublishError`, with its cause."""

    def odd(publish: Publish) -> Publish:
        async def oddly(item: Outgoing) -> Receipt:
            match item.data:
                case "bug":
                    raise KeyError("secret")
                case "cancelled":
                    raise asyncio.CancelledError
                case "nothing":
                    return None  # type: ignore[return-value]
            return await publish(item)

        return oddly

    async def test(publisher: Publisher) -> None:
        items = ["fine", "x" * 100, Outgoing("late", delay=5), "bug", "cancelled", "nothing", "fine"]
        results = await publisher.publish_many(items)

        assert [type(result) for result in results] == [
            Receipt,
            MessageTooLargeError,
            InvalidMessageError,
            PublishError,
            PublishError,
            PublishError,
            Receipt,
        ]
        large, late, bug, cancelled, nothing = (each for each in results if isinstance(each, PublishError))
        assert late.code is ErrorCode.UNSUPPORTED
        assert str(bug) == "publishing to 'orders' failed: its middleware raised KeyError"
        assert isinstance(bug.__cause__, KeyError)
        assert cancelled.code is ErrorCode.NOT_CONFIRMED
        assert "return the receipt" in str(nothing.__cause__)
        assert {error.topic for error in (large, late, bug, cancelled, nothing)} == {"orders"}

    run(test, odd, sender=ScriptedSender(capabilities=FIFO, max_size=50))


def test_publish_many_reads_its_items_as_room_comes() -> None:
    """Never more than *max_pending* are in the middleware's hands, of however many."""
    at_once, most = 0, 0

    def counts(publish: Publish) -> Publish:
        async def counted(item: Outgoing) -> Receipt:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(1)
            at_once -= 1
            return await publish(item)

        return counted

    def numbers() -> Iterator[str]:
        for number in range(1000):
            read.append(number)
            yield str(number)

    read: list[int] = []

    async def test(publisher: Publisher) -> None:
        task = asyncio.create_task(publisher.publish_many(numbers()))  # type: ignore[arg-type]
        await asyncio.sleep(0.5)
        assert len(read) <= 51
        assert len(await task) == 1000

    run(test, counts, max_pending=50)

    assert most == 50


def test_publish_many_that_is_cancelled_cancels_what_is_under_way() -> None:
    """And an iterable that raises does, too; both leave no task behind."""

    def breaks() -> Iterator[str]:
        yield "a"
        raise KeyError("of the iterable")

    async def test(publisher: Publisher) -> None:
        task = asyncio.create_task(publisher.publish_many(["a", "b"], ordering_key="k"))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        with pytest.raises(KeyError, match="of the iterable"):
            await publisher.publish_many(breaks())

    assert run(test, waits(lambda _: 60)).sent == []


def test_publish_nowait_refuses_when_the_middleware_has_its_hands_full() -> None:
    """As a publisher does that is full."""

    async def test(publisher: Publisher) -> None:
        taken = [publisher.publish_nowait("x") for _ in range(3)]
        with pytest.raises(PublishError, match="await publish"):
            publisher.publish_nowait("x")
        await asyncio.gather(*taken)
        await publisher.publish_nowait("x")

    assert len(run(test, plain, max_pending=3).sent) == 4


def test_a_failure_that_nobody_reads_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Once; one that somebody reads is not; a foreign exception by its type only."""

    async def test(publisher: Publisher) -> None:
        for data in ("unread", "read", "bug"):
            future = publisher.publish_nowait(data)
            if data == "read":
                with pytest.raises(PublishError):
                    await future
        del future
        await asyncio.sleep(1)
        gc.collect()

    def refuses(_: Publish) -> Publish:
        async def refused(item: Outgoing) -> Receipt:
            if item.data == "bug":
                raise KeyError("secret")
            raise PublishError(f"no {item.data}", topic="orders", code=ErrorCode.FULL)

        return refused

    with caplog.at_level(logging.ERROR, "messagequeue.publisher"):
        run(test, refuses)

    assert [record.getMessage() for record in caplog.records] == [
        "a message published to 'orders' failed and nobody read its result: no unread",
        "a message published to 'orders' failed and nobody read its result: KeyError",
    ]
    assert [record.error_code for record in caplog.records] == ["full", "other"]  # type: ignore[attr-defined]


def test_stop_waits_for_what_the_middleware_has_and_then_refuses() -> None:
    """A message taken before is published; every way to publish is closed afterwards."""

    async def test(publisher: Publisher) -> None:
        publisher.publish_nowait("before")
        await asyncio.gather(publisher.stop(), publisher.stop())
        with pytest.raises(ClosedError):
            await publisher.publish("after")
        with pytest.raises(ClosedError):
            publisher.publish_nowait("after")
        with pytest.raises(ClosedError):
            await publisher.publish_many(["after"])

    assert sent(run(test, waits(lambda _: 60))) == ["before"]


def test_publish_many_that_stop_cuts_short_says_so_for_the_rest() -> None:
    """What is first read after `stop()` is not sent."""

    async def test(publisher: Publisher) -> None:
        task = asyncio.create_task(publisher.publish_many(["a", "b", "c"]))  # type: ignore[arg-type]
        await asyncio.sleep(0.5)
        await publisher.stop()
        a, b, c = await task
        assert isinstance(a, Receipt)
        assert [error.code for error in (b, c) if isinstance(error, PublishError)] == [ErrorCode.CLOSED] * 2

    run(test, waits(lambda _: 1), max_pending=1)


def test_a_publisher_behind_that_was_stopped_is_told_per_item() -> None:
    """Somebody stopped the one behind: `publish_many()` still has a result for each."""

    async def test(publisher: Publisher) -> None:
        assert isinstance(publisher, MiddlewarePublisher)
        await publisher.publisher.stop()
        [result] = await publisher.publish_many(["a"])
        assert isinstance(result, PublishError)
        assert result.code is ErrorCode.CLOSED
        with pytest.raises(ClosedError):
            await publisher.publish("a")

    run(test, plain)


def test_without_middleware_nothing_is_wrapped() -> None:
    """Who uses none pays nothing."""

    async def main() -> None:
        async with open_publishers("noop://") as publishers:
            assert with_middleware(publishers) is publishers
            publisher = await publishers.new_publisher("t")
            assert with_middleware(publisher) is publisher

    run_virtual(main())


def test_the_topic_is_known_inside_only() -> None:
    """`current_topic()` is that of the message in hand; each of several publishers has its own."""
    seen: list[str | None] = []

    def looks(publish: Publish) -> Publish:
        async def looked(item: Outgoing) -> Receipt:
            seen.append(current_topic())
            return await publish(item)

        return looked

    async def main() -> None:
        provider = RecordingPublisherProvider()
        async with with_middleware(provider, looks) as publishers:
            for topic in ("orders", "payments"):
                publisher = await publishers.new_publisher(topic)
                await publisher.publish("x")
                await publisher.publish_nowait("x")
                assert current_topic() is None

    run_virtual(main())

    assert seen == ["orders", "orders", "payments", "payments"]


def test_what_is_no_middleware_is_refused_when_it_is_given() -> None:
    """Not when the first message is published."""

    async def main() -> None:
        async with open_publishers("noop://") as publishers:
            publisher = await publishers.new_publisher("t")
            with pytest.raises(TypeError, match="a publish middleware is str"):
                with_middleware(publisher, "log")  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="a publish middleware is str"):
                with_middleware(publishers, "log")  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="returned NoneType: it must return a Publish"):
                with_middleware(publisher, lambda publish: None)  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="got int: give a publisher or a provider"):
                with_middleware(5, plain)  # type: ignore[call-overload]
            with pytest.raises(ValueError, match="max_pending=0"):
                with_middleware(publisher, plain, max_pending=0)

    run_virtual(main())


def test_compose_publish_without_middleware_is_the_function_itself() -> None:
    """Nothing is put around it."""

    async def publish(_: Outgoing) -> Receipt:
        raise NotImplementedError

    assert compose_publish(publish) is publish


def test_a_provider_gives_the_same_publisher_for_the_same_topic() -> None:
    """As without middleware; a stopped one is replaced, once it has sent what it had."""

    async def main() -> None:
        async with open_publishers("memory://?name=with-middleware") as behind:
            publishers = with_middleware(behind, waits(lambda _: 5))
            assert isinstance(publishers, PublisherProvider)
            first = await publishers.new_publisher("t")
            assert await publishers.new_publisher("t") is first
            assert await publishers.new_publisher("u") is not first
            await publishers.ping()

            last = first.publish_nowait("last words")
            stopping = asyncio.create_task(first.stop())
            await asyncio.sleep(0)
            second = await publishers.new_publisher("t")
            assert second is not first
            assert isinstance(await last, Receipt)
            await stopping
            await second.publish("x")
            assert len(publishers._publishers) == 2  # type: ignore[attr-defined]
            await publishers.close()

    run_virtual(main())


def test_leaving_a_provider_flushes_what_the_middleware_has() -> None:
    """And closes the provider behind; later calls are refused."""
    provider = RecordingPublisherProvider()

    async def main() -> None:
        async with with_middleware(provider, waits(lambda _: 5)) as publishers:
            publisher = await publishers.new_publisher("t")
            publisher.publish_nowait("a")
        assert [item.data for item in provider.published] == ["a"]
        assert provider.closed
        await publishers.close()
        for refused in (publishers.new_publisher("t"), publishers.ping(), publisher.publish("b")):
            with pytest.raises(ClosedError):
                await refused

    run_virtual(main())


def test_middleware_around_middleware_keeps_order_too() -> None:
    """That of the provider outside... of the publisher inside: each has its own turns."""
    provider = RecordingPublisherProvider(capabilities=FIFO)

    async def main() -> None:
        slow = waits(lambda item: 10 - int(str(item.data)))
        async with with_middleware(provider, slow) as publishers:
            publisher = with_middleware(await publishers.new_publisher("t"), slow)
            await publisher.publish_many(["0", "1", "2", "3"], ordering_key="k")
            await publisher.stop()

    run_virtual(main())

    assert [item.data for item in provider.published] == ["0", "1", "2", "3"]


def test_an_order_of_one_key_is_that_of_publishing_under_failures_and_waits() -> None:
    """Two hundred messages of three keys, random waits, every seventh refused: each key's rest is in order."""
    import random

    dice = random.Random(5)
    delays = {str(number): dice.choice([0.0, 0.0, 0.001, 1.0]) for number in range(200)}

    def rough(publish: Publish) -> Publish:
        async def roughly(item: Outgoing) -> Receipt:
            await asyncio.sleep(delays[str(item.data)])
            if int(str(item.data)) % 7 == 0:
                raise PublishError("no", topic="orders")
            return await publish(item)

        return roughly

    async def test(publisher: Publisher) -> None:
        calls = []
        for number in range(200):
            calls.append(publisher.publish_nowait(str(number), ordering_key=f"k{number % 3}"))
            if dice.random() < 0.2:
                await asyncio.sleep(0.3)
        await asyncio.gather(*calls, return_exceptions=True)

    sender = run(test, rough)

    for key in ("k0", "k1", "k2"):
        numbers = [int(item.body) for item in sender.sent if item.ordering_key == key]
        assert numbers == sorted(numbers)
        assert len(numbers) > 50
