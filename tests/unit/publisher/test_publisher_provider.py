"""What the base of publisher providers promises, whatever the broker."""

from __future__ import annotations

import asyncio
import gc

import pytest

from messagequeue import (
    ClosedError,
    ConfigurationError,
    ErrEmptyTopicName,
    PublisherProvider,
    PublishError,
    PublishOptions,
    Receipt,
)
from messagequeue.driver import Sender
from messagequeue.runtime import RuntimePublisher, RuntimePublisherProvider
from messagequeue.testing import ScriptedSender, run_virtual


class Provider(RuntimePublisherProvider):
    """Opens scripted senders; opening takes a second, and topics are the same in any case of letters."""

    def __init__(self, options: PublishOptions | None = None) -> None:
        super().__init__("scripted", options)
        self.senders: list[ScriptedSender] = []
        self.log: list[str] = []
        self.broken = False

    def _topic_key(self, topic: str) -> str:
        if topic == "bad":
            raise ConfigurationError("not a topic")
        return topic.lower()

    async def _open_sender(self, topic: str) -> Sender:
        await asyncio.sleep(1)
        if self.broken:
            raise ConfigurationError("no such broker")
        sender = ScriptedSender(topic)
        sender.takes("send", 1.0)
        self.senders.append(sender)
        return sender

    async def _ping(self) -> None:
        self.log.append("ping")

    async def _release(self) -> None:
        self.log.append(f"release after {sum(sender.closed for sender in self.senders)} closed")


def test_same_topic_is_the_same_publisher() -> None:
    """Two callers at once, and one later, share a publisher; another topic has its own."""

    async def main() -> None:
        async with Provider() as provider:
            assert isinstance(provider, PublisherProvider)
            first, second = await asyncio.gather(provider.new_publisher("a"), provider.new_publisher("A"))
            other = await provider.new_publisher("b")

            assert first is second is await provider.new_publisher("a")
            assert other is not first
            assert (first.topic, other.topic) == ("a", "b")
            assert len(provider.senders) == 2

    run_virtual(main())


@pytest.mark.parametrize("topic", ["", " ", "\t\n"])
def test_empty_topic_is_refused(topic: str) -> None:
    """An empty or blank topic is ErrEmptyTopicName, before anything is opened."""

    async def main() -> None:
        async with Provider() as provider:
            with pytest.raises(ErrEmptyTopicName):
                await provider.new_publisher(topic)
            assert not provider.senders

    run_virtual(main())


def test_topic_that_is_no_text_or_no_topic_is_refused() -> None:
    """A wrong type is a TypeError; what the provider does not understand is its ConfigurationError."""

    async def main() -> None:
        async with Provider() as provider:
            with pytest.raises(TypeError, match="topic is bytes"):
                await provider.new_publisher(b"a")  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="not a topic"):
                await provider.new_publisher("bad")

    run_virtual(main())


def test_failed_opening_fails_its_callers_and_can_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """An error of opening is the callers', is not logged besides, and is not remembered."""

    async def main() -> None:
        async with Provider() as provider:
            provider.broken = True
            calls = provider.new_publisher("a"), provider.new_publisher("a")
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, ConfigurationError)
            provider.broken = False
            assert (await provider.new_publisher("a")).topic == "a"

    run_virtual(main())

    assert not caplog.records


def test_cancelled_caller_does_not_spoil_the_opening_for_others() -> None:
    """Who gives up while a publisher is opened takes only himself away."""

    async def main() -> None:
        async with Provider() as provider:
            first, second = (asyncio.ensure_future(provider.new_publisher("a")) for _ in range(2))
            await asyncio.sleep(0.5)
            first.cancel()
            assert (await second).topic == "a"
            assert first.cancelled()

    run_virtual(main())


def test_failed_opening_that_nobody_waits_for_is_nobodys_error(caplog: pytest.LogCaptureFixture) -> None:
    """Where every caller gave up, the failure is dropped, without a report from asyncio."""

    async def main() -> None:
        async with Provider() as provider:
            provider.broken = True
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(provider.new_publisher("a"), 0.5)
            await asyncio.sleep(1)
            gc.collect()

    run_virtual(main())

    assert not caplog.records


def test_stopped_publisher_is_replaced_after_its_last_message() -> None:
    """The next call opens a new one, but not before the old one has sent all it had: nothing is overtaken."""

    async def main() -> list[tuple[str, float]]:
        async with Provider() as provider:
            old = await provider.new_publisher("a")
            receipt = old.publish_nowait("x")
            stopping = asyncio.ensure_future(old.stop())
            await asyncio.sleep(0)
            new = await provider.new_publisher("a")
            assert new is not old
            assert receipt.done()
            await new.publish("y")
            await stopping
        return [(call.action, call.at) for sender in provider.senders for call in sender.calls]

    assert run_virtual(main()) == [("send", 1.0), ("close", 2.0), ("send", 3.0), ("close", 4.0)]


def test_close_flushes_every_publisher_at_the_same_time_and_then_releases() -> None:
    """What was taken is sent, senders are closed, and only then the connection is freed; all of it once."""

    async def main() -> None:
        provider = Provider(PublishOptions(linger=30))
        publishers = [await provider.new_publisher(name) for name in "abc"]
        started = asyncio.get_running_loop().time()
        receipts = [publisher.publish_nowait("x") for publisher in publishers]
        await asyncio.gather(provider.close(), provider.close())
        await provider.close()

        assert asyncio.get_running_loop().time() == started + 1
        assert [receipt.result() for receipt in receipts] == [Receipt("s1")] * 3
        assert provider.log == ["release after 3 closed"]

    run_virtual(main())


def test_closed_provider_refuses() -> None:
    """After close() there is no publisher, no ping, and no publishing through the old ones."""

    async def main() -> None:
        async with Provider() as provider:
            publisher = await provider.new_publisher("a")
            await provider.ping()
        for late in (provider.new_publisher("a"), provider.ping(), publisher.publish("x")):
            with pytest.raises(ClosedError):
                await late
        assert provider.log == ["ping", "release after 1 closed"]

    run_virtual(main())


def test_close_while_a_publisher_is_being_opened_stops_it_too() -> None:
    """A publisher that comes into being during close() is closed with the others, and its caller has a stopped one."""

    async def main() -> RuntimePublisher:
        provider = Provider()
        opening = asyncio.ensure_future(provider.new_publisher("a"))
        await asyncio.sleep(0.5)
        await provider.close()
        assert [sender.closed for sender in provider.senders] == [1]
        return await opening

    assert run_virtual(main()).stopped


def test_close_goes_on_where_one_publisher_cannot_be_stopped() -> None:
    """The others are stopped and the connection is freed all the same; then the fault is raised."""

    async def main() -> None:
        provider = Provider()
        for name in "ab":
            await provider.new_publisher(name)
        provider.senders[0].script("close", PublishError("stuck"))
        with pytest.raises(PublishError, match="stuck"):
            await provider.close()
        assert [sender.closed for sender in provider.senders] == [1, 1]
        assert provider.log == ["release after 2 closed"]

    run_virtual(main())
